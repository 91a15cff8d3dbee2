"""Where a group goes on reading on the target, and how sure that is."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from drctl.model.topology import TopicPartition


class Method(StrEnum):
    """How a position was found; see docs/explanation/offsets.md."""

    IDENTITY = "identity"
    TRACKED_OFFSET = "tracked-offset"
    RECORD_MATCH = "record-match"
    MAPPING = "mapping"
    OFFSET_SYNC = "offset-sync"
    CHECKPOINT = "checkpoint"
    CONSUMER_TIMESTAMP = "consumer-timestamp"
    TARGET_OFFSET = "target-offset"
    TIMESTAMP = "timestamp"


class GroupPartition(NamedTuple):
    """What a translation is asked for: a group's position in a partition of the source."""

    group: str
    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class Answer:
    """What one method says of one row.

    Attributes:
        target_offset: the first record that the group would read on the target.
        rereads_at_most: records that it has consumed and would read again; None where no bound
            is known.
        skips_at_most: records that it has not consumed and would never read; None where no bound
            is known.
        evidence: what the answer rests on, in words for a person.
        age_seconds: how old the evidence is; None where that cannot be said.
        rereads_likely: while the source is silent, what is read again if the group consumed nothing
            after the evidence; None where that is not known, or the source answers.
        skips_only_if: the one condition under which it skips more than `skips_at_most` says, in
            words for a person; empty where the source answers, or where no condition is known.
    """

    method: Method
    target_offset: int
    rereads_at_most: int | None
    skips_at_most: int | None
    evidence: str
    age_seconds: float | None = None
    rereads_likely: int | None = None
    skips_only_if: str = ""


@dataclass(frozen=True, slots=True)
class Translation:
    """What is said of one group and partition.

    Attributes:
        source_offset: what the group has committed; None where only evidence of a cluster that
            cannot be asked tells of the group.
        target: the partition on the target; None where there is none.
        answer: the best one; None where the row is blocked without one.
        others: what the other methods said.
        contradictions: what does not go together, in words for a person.
        blocked: why the row must not be applied; empty where it may be.
    """

    place: GroupPartition
    source_offset: int | None
    target: TopicPartition | None
    answer: Answer | None
    others: tuple[Answer, ...] = ()
    contradictions: tuple[str, ...] = ()
    blocked: str = ""
