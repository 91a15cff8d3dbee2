"""What is left of a source that is gone, as values: `drctl.gap.loss` makes an estimate of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from drctl.model.topology import TopicPartition


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
    """The source was alive then.

    Attributes:
        copying: whether it is of something that was written to the source then, and copied: what
            replication keeps up with is complete until then, too.
        by_record: whether it is only a record's own timestamp, which any producer may set.
    """

    evidence: str
    at_ms: int
    copying: bool = False
    by_record: bool = False


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How a partition was written to, by what was copied of it.

    Attributes:
        newest_ms: when the newest copied record was written to the source.
        since: moments, the newest first, and how many copied records were written since each.
        begins_ms: when the first record was written, where all of them are of after the oldest of
            these moments; else None.
        lag_ms: by how much the copies were behind the source when replication last noted it, at
            least; None where it never did.
        noted_ms: when that was.
        own: whether all this is by the records' own timestamps; else by replication's notes.
    """

    newest_ms: int
    since: tuple[tuple[int, int], ...]
    begins_ms: int | None = None
    lag_ms: int | None = None
    noted_ms: int = 0
    own: bool = True


@dataclass(frozen=True, slots=True)
class Traces:
    """All that is left.

    Attributes:
        places: the source's partitions that the link carries.
        arrivals: of those that have copies, where something tells when these were written.
        empty: partitions that have no copy at all.
        halted: why replication may have ended before the source did; empty where nothing says so.
        failed: whether that is so of a part of it: the other partitions were copied longer.
        silent: who might have told more and did not, with the reason.
    """

    source: str
    places: Sequence[TopicPartition]
    ends: Sequence[Ends] = ()
    copied: Sequence[Copied] = ()
    signs: Sequence[Sign] = ()
    arrivals: Mapping[TopicPartition, Arrivals] = field(default_factory=dict)
    empty: frozenset[TopicPartition] = frozenset()
    halted: str = ""
    failed: bool = False
    silent: Sequence[str] = ()
