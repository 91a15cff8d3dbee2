"""Translated offsets: where a group resumes on the target, and how certain that is."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from drctl.model.topology import TopicPartition


class Method(StrEnum):
    """The method that found an offset; see docs/explanation/offsets.md."""

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
    """The input of a translation: a group's committed offset in a source partition."""

    group: str
    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one method for one group and partition.

    Attributes:
        target_offset: first offset that the group would read on the target.
        rereads_at_most: upper bound of consumed records that it would read again; None if
            unknown.
        skips_at_most: upper bound of unconsumed records that it would never read; None if
            unknown.
        evidence: what the result is based on, as text.
        age_seconds: age of the evidence; None if unknown.
        rereads_likely: with an unreachable source, records that are read again if the group
            consumed nothing after the evidence; None if unknown, or if the source is reachable.
        skips_only_if: the only condition under which it skips more than `skips_at_most`, as text;
            empty if the source is reachable, or no condition is known.
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
    """The translation of one group and partition.

    Attributes:
        source_offset: the committed offset; None if the source is unreachable and only evidence
            of the group exists.
        target: the partition on the target; None if there is none.
        answer: the best answer; None if the row is blocked without one.
        others: answers of the other methods.
        contradictions: contradictions between methods, as text.
        blocked: why the row must not be applied; empty if it may be.
    """

    place: GroupPartition
    source_offset: int | None
    target: TopicPartition | None
    answer: Answer | None
    others: tuple[Answer, ...] = ()
    contradictions: tuple[str, ...] = ()
    blocked: str = ""
