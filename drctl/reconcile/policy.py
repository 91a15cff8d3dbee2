"""The engineer's decision about unreplicated records: by topic, and for conflicting ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from drctl.model.errors import UsageError
from drctl.model.gap import OrderVerdict

QUARANTINE = "__drctl_quarantine."
"""What the name of a quarantine topic begins with: no replicator copies `__` topics by itself."""


class Action(StrEnum):
    """What is done with a record."""

    COPY = "copy"
    QUARANTINE = "quarantine"
    EXPORT = "export"
    DISCARD = "discard"
    REFUSE = "refuse"
    """Nothing: a person has to decide."""


SENDS = frozenset({Action.COPY, Action.QUARANTINE})
"""What appends records to a topic."""

RECORDED = frozenset({*SENDS, Action.DISCARD})
"""What is noted in the topic of progress; an export changes nothing and may be made again."""

LEFT_MISSING = frozenset({Action.QUARANTINE, Action.DISCARD})
"""What is decided for good, and listed as missing by the next gap result all the same."""

POLICIES = tuple(action for action in Action if action is not Action.REFUSE)


@dataclass(frozen=True, slots=True)
class Policies:
    """What is to become of the records of each topic.

    Attributes:
        everywhere: of topics that are not named; None where only named ones are acted upon.
        conflicting: of records whose key (or partition) has something newer on the target.
        per_partition: whether the order of a whole partition counts, not only that of a key.
    """

    everywhere: Action | None = None
    by_topic: Mapping[str, Action] = field(default_factory=dict)
    conflicting: Action = Action.REFUSE
    per_partition: bool = False

    def chooses(self, topic: str) -> bool:
        """Whether anything is to become of this topic's records."""
        return self.everywhere is not None or topic in self.by_topic

    def out_of_order(self, order: OrderVerdict, newer_on_target: bool) -> bool:
        """Whether something newer is on the target, as far as order counts.

        Args:
            newer_on_target: whether the target's partition holds anything newer.
        """
        return order is OrderVerdict.CONFLICTING or (self.per_partition and newer_on_target)

    def of(self, topic: str, out_of_order: bool) -> Action:
        """What is to become of a record of a topic that is chosen.

        Args:
            out_of_order: whether something newer is on the target.
        """
        if out_of_order:
            return self.conflicting
        return self.by_topic.get(topic) or self.everywhere or Action.REFUSE


def parse_policies(
    policy: Action | None,
    topics: Sequence[str],
    conflicting: Action,
    *,
    per_partition: bool = False,
) -> Policies:
    """`--policy`, `--topic TOPIC[=POLICY]` and `--conflicting` as typed.

    Raises:
        UsageError: they do not go together, or records of an unnamed topic would be discarded.
    """
    by_topic = dict(_named(text, policy) for text in topics)
    if policy is None and not by_topic:
        raise UsageError(
            "what is to become of the records?",
            f"give --policy {'|'.join(POLICIES)}, or --topic TOPIC=POLICY",
        )
    if not by_topic and Action.DISCARD in (policy, conflicting):
        raise UsageError(
            "records are discarded only of topics that are named",
            "name each one: --topic TOPIC=discard",
        )
    everywhere = None if by_topic else policy
    return Policies(everywhere, by_topic, conflicting, per_partition)


def check_names(policies: Policies, known: Iterable[str]) -> None:
    """See that every named topic is one of the result.

    Raises:
        UsageError: one is not.
    """
    names = frozenset(known)
    for topic in policies.by_topic:
        if topic not in names:
            raise UsageError(
                f"the gap result knows no topic {topic!r}", f"it has: {', '.join(sorted(names))}"
            )


def destination(action: Action, target_topic: str) -> str:
    """The topic that records go to; empty where they go to none."""
    if action is Action.COPY:
        return target_topic
    return QUARANTINE + target_topic if action is Action.QUARANTINE else ""


def _named(text: str, policy: Action | None) -> tuple[str, Action]:
    topic, given, name = text.partition("=")
    if not given and policy is not None:
        return topic, policy
    if name not in list(POLICIES):
        raise UsageError(
            f"--topic {text!r} says no policy", f"write --topic {topic}={'|'.join(POLICIES)}"
        )
    return topic, Action(name)
