"""Policies for unreplicated records: by topic, and for conflicting ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from drctl.model.errors import UsageError
from drctl.model.gap import OrderVerdict

QUARANTINE = "__drctl_quarantine."
"""Prefix of quarantine topics: replicators do not copy `__` topics by default."""


class Action(StrEnum):
    """What is done with a record."""

    COPY = "copy"
    QUARANTINE = "quarantine"
    EXPORT = "export"
    DISCARD = "discard"
    REFUSE = "refuse"
    """Nothing: an engineer has to decide."""


SENDS = frozenset({Action.COPY, Action.QUARANTINE})
"""Actions that append records to a topic."""

RECORDED = frozenset({*SENDS, Action.DISCARD})
"""Actions stored in the progress topic; an export changes nothing and can be repeated."""

LEFT_MISSING = frozenset({Action.QUARANTINE, Action.DISCARD})
"""Final actions whose records are still listed as missing by the next gap analysis."""

POLICIES = tuple(action for action in Action if action is not Action.REFUSE)


@dataclass(frozen=True, slots=True)
class Policies:
    """The action for the records of each topic.

    Attributes:
        everywhere: for topics that are not named; None if only named topics are selected.
        conflicting: for records whose key (or partition) has newer records on the target.
        per_partition: whether order matters within a whole partition, not only within a key.
    """

    everywhere: Action | None = None
    by_topic: Mapping[str, Action] = field(default_factory=dict)
    conflicting: Action = Action.REFUSE
    per_partition: bool = False

    def chooses(self, topic: str) -> bool:
        """Whether this topic is selected."""
        return self.everywhere is not None or topic in self.by_topic

    def out_of_order(self, order: OrderVerdict, newer_on_target: bool) -> bool:
        """Whether copying would break the order: the target holds newer records.

        Args:
            newer_on_target: whether the target's partition holds any newer record.
        """
        return order is OrderVerdict.CONFLICTING or (self.per_partition and newer_on_target)

    def of(self, topic: str, out_of_order: bool) -> Action:
        """Return the action for a record of a selected topic.

        Args:
            out_of_order: whether the target holds newer records.
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
    """Parse `--policy`, `--topic TOPIC[=POLICY]` and `--conflicting`.

    Raises:
        UsageError: they exclude each other, or records of an unnamed topic would be discarded.
    """
    by_topic = dict(_named(text, policy) for text in topics)
    if policy is None and not by_topic:
        raise UsageError(
            "no policy given", f"add --policy {'|'.join(POLICIES)}, or --topic TOPIC=POLICY"
        )
    if not by_topic and Action.DISCARD in (policy, conflicting):
        which = "--policy" if policy is Action.DISCARD else "--conflicting"
        raise UsageError(
            f"{which} discard requires --topic: records are lost only where a topic is named",
            "name each topic: --topic orders=discard, or --topic orders --conflicting discard;"
            " then list every other topic too, for example: --topic audit=copy",
        )
    everywhere = None if by_topic else policy
    return Policies(everywhere, by_topic, conflicting, per_partition)


def check_names(policies: Policies, known: Iterable[str]) -> None:
    """Check that every named topic is part of the gap result.

    Raises:
        UsageError: a topic is not.
    """
    names = frozenset(known)
    for topic in policies.by_topic:
        if topic not in names:
            raise UsageError(
                f"topic {topic!r} is not part of the gap result",
                f"choose from: {', '.join(sorted(names))}",
            )


def destination(action: Action, target_topic: str) -> str:
    """Return the topic that records are appended to; empty if none."""
    if action is Action.COPY:
        return target_topic
    return QUARANTINE + target_topic if action is Action.QUARANTINE else ""


def _named(text: str, policy: Action | None) -> tuple[str, Action]:
    topic, given, name = text.partition("=")
    if not given and policy is not None:
        return topic, policy
    if name not in list(POLICIES):
        raise UsageError(
            f"--topic {text!r}: no policy", f"use --topic {topic}={'|'.join(POLICIES)}"
        )
    return topic, Action(name)
