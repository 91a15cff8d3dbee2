"""The link's topics, each beside its copy on the target."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from drctl.checks.check import NotObserved
from drctl.checks.observed import NOT_LOOKED_AT, Observed
from drctl.model.topology import TopicState, Unavailable

DESCRIBE = "compare the topics of both clusters with `kafka-topics --describe`"


class Pair(NamedTuple):
    """A topic of the source, and its copy."""

    topic: TopicState
    copy: TopicState


@dataclass(frozen=True, slots=True)
class Compared:
    """All topics that the link carries.

    Attributes:
        missing: names that copies should have, and that the target has not.
        unread: by name of a copy why it, or its topic, could not be looked at.
    """

    subject: str
    pairs: tuple[Pair, ...]
    missing: tuple[str, ...]
    unread: Mapping[str, Unavailable]


def compared(observed: Observed) -> Compared:
    """Put together what belongs together.

    Raises:
        NotObserved: the topics of one side are not known.
    """
    link, subject = observed.link, f"topics of cluster {observed.link.target}"
    source, target = observed.source_topics, observed.target_topics
    if isinstance(source, Unavailable):
        reason = f"those of cluster {link.source} are not known: {source.reason}"
        raise NotObserved(subject, reason, DESCRIBE)
    if isinstance(target, Unavailable):
        raise NotObserved(subject, f"they are not known: {target.reason}", DESCRIBE)
    pairs: list[Pair] = []
    missing: list[str] = []
    unread: dict[str, Unavailable] = {}
    for name in link.topics_of(name for name, state in source.items() if state is not None):
        topic, copy = source[name], target.get(link.target_topic(name), NOT_LOOKED_AT)
        if copy is None:
            missing.append(link.target_topic(name))
        elif isinstance(topic, TopicState) and isinstance(copy, TopicState):
            pairs.append(Pair(topic, copy))
        else:
            why = next(each for each in (topic, copy) if isinstance(each, Unavailable))
            unread[link.target_topic(name)] = why
    return Compared(subject, tuple(pairs), tuple(missing), unread)
