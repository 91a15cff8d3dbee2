"""What is left of a source that is gone, as values: `drctl.gap.loss` makes an estimate of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from drctl.model.topology import TopicPartition

LONG_S = 60.0
"""A pace over less than this may be that of a burst."""


class EndSeen(NamedTuple):
    """Up to where a partition of the source held records, and when somebody saw that."""

    offset: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Ends:
    """Ends of the source's partitions, as somebody saw them.

    Attributes:
        evidence: who, in words.
        exact: whether they are the ends of then; else records lay at least up to there.
    """

    evidence: str
    exact: bool
    seen: Mapping[TopicPartition, EndSeen]


@dataclass(frozen=True, slots=True)
class Copied:
    """Up to which offset of the source partitions are on the target, at least."""

    evidence: str
    upto: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Sign:
    """Replication was alive then.

    Attributes:
        by_record: whether it is only a record's own timestamp, which any producer may set.
    """

    evidence: str
    at_ms: int
    by_record: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the source was written to.

    Attributes:
        until_ms: when that was seen last.
        span_s: for how long.
        by_record: whether only records' own timestamps tell.
    """

    evidence: str
    per_second: float
    until_ms: int = 0
    span_s: float = LONG_S
    by_record: bool = False


@dataclass(frozen=True, slots=True)
class Traces:
    """All that is left.

    Attributes:
        places: the source's partitions that the link carries.
        silent: who might have told more and did not, with the reason.
    """

    source: str
    places: Sequence[TopicPartition]
    ends: Sequence[Ends] = ()
    copied: Sequence[Copied] = ()
    signs: Sequence[Sign] = ()
    paces: Sequence[Pace] = ()
    silent: Sequence[str] = ()
