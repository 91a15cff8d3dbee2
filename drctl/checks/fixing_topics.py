"""Topics that are missing on the target, and those that have fewer partitions there."""

from collections.abc import Iterator, Mapping

from drctl.checks.copies import compared
from drctl.checks.fixing import (
    NOT_OURS,
    Extension,
    Fix,
    Fixes,
    Left,
    Seen,
    keeps_its_topics,
)
from drctl.checks.fixing_settings import JUDGED, MIN_ISR
from drctl.checks.fixing_settings import replicas as in_words
from drctl.checks.observed import Observed
from drctl.model.repairs import TopicShape, WantedTopic
from drctl.model.topology import Unavailable

_MISSING, _FEWER = "topics-missing-on-target", "fewer-partitions-on-target"
_NOT_TAKEN_ALONG = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
)


def topics_to_make(observed: Observed, seen: Seen) -> Fixes:
    """Copies that are not there.

    Raises:
        NotObserved: the topics are not known.
    """
    link, brokers = observed.link, _brokers(observed)
    fixes: list[Fix[WantedTopic]] = []
    left: list[Left] = []
    for copy in compared(observed).missing:
        ours = seen.ours.get(link.source_topic(copy) or "")
        what = f"topic {copy} is not there"
        if keeps_its_topics(observed):
            left.append(Left(_MISSING, what, NOT_OURS, "", "see why it is not mirrored"))
        elif not isinstance(ours, TopicShape) or brokers is None:
            why = _unknown(ours, f"how many brokers {link.target} has")
            left.append(Left(_MISSING, what, why, "", "kafka-topics --create"))
        elif copy in seen.names:
            why = f"drctl's user may not describe it on {link.target}"
            left.append(Left(_MISSING, what, why, "", "grant DESCRIBE on it"))
        else:
            fixes.append(_made(copy, ours, brokers))
    return Fixes(topics=tuple(fixes), left=tuple(left))


def partitions_to_add(observed: Observed) -> Fixes:
    """Copies that have fewer partitions than their topics.

    A record keeps the number of its partition when it is copied: more of them on the target move
    no key, and what is in the others of the source finds its place.

    Raises:
        NotObserved: the topics are not known.
    """
    fixes: list[Fix[Extension]] = []
    left: list[Left] = []
    for pair in compared(observed).pairs:
        now, wanted = len(pair.copy.partitions), len(pair.topic.partitions)
        if now >= wanted:
            continue
        what = f"topic {pair.copy.name}: partitions"
        if keeps_its_topics(observed):
            told = f"{what}: {now} of {wanted}"
            left.append(Left(_FEWER, told, NOT_OURS, "", "see why the mirror does not add them"))
            continue
        why = (
            "what is in the others is not copied, keys come to other partitions than before, and"
            " groups have no place to go on"
        )
        change = Extension(pair.copy.name, wanted)
        note = "partitions are never taken away again"
        fixes.append(Fix(what, str(now), str(wanted), why, change, note))
    return Fixes(partitions=tuple(fixes), left=tuple(left))


def _made(copy: str, ours: TopicShape, brokers: int) -> Fix[WantedTopic]:
    replicas = min(ours.replicas, brokers)
    config = dict(_config(ours, replicas))
    change = WantedTopic(copy, ours.partitions, replicas, config)
    after = f"{ours.partitions} partitions, {in_words(replicas)}"
    if config:
        after += f", {', '.join(f'{key}={value}' for key, value in config.items())}"
    return Fix(
        f"topic {copy}",
        "not there",
        after,
        "clients that want it fail, or make one of their own; records come with the replicator,"
        " where it carries the topic",
        change,
        _note(ours, replicas, config),
    )


def _config(ours: TopicShape, replicas: int) -> Iterator[tuple[str, str]]:
    """What the topic itself has, and what is judged and was set for it by somebody."""
    for key, setting in sorted(ours.settings.items()):
        wanted = setting.own or (key in JUDGED and not setting.default)
        if wanted and key not in _NOT_TAKEN_ALONG:
            fits = key != MIN_ISR or int(setting.value) <= replicas
            yield key, setting.value if fits else str(replicas)


def _note(ours: TopicShape, replicas: int, config: Mapping[str, str]) -> str:
    told = []
    if replicas < ours.replicas:
        told.append(f"the source has {ours.replicas} replicas, the target only {replicas} brokers")
    asked = ours.settings.get(MIN_ISR)
    if asked is not None and MIN_ISR in config and config[MIN_ISR] != asked.value:
        told.append(f"{MIN_ISR} is {asked.value} on the source: more than there are replicas")
    return "; ".join(told)


def _brokers(observed: Observed) -> int | None:
    layout = observed.survey.target.layout
    return None if isinstance(layout, Unavailable) else len(layout.brokers)


def _unknown(shape: object, else_: str) -> str:
    if isinstance(shape, Unavailable):
        return f"its topic could not be looked at: {shape.reason}"
    return "its topic is gone meanwhile" if shape is None else f"it is not known {else_}"
