"""Duplicate change events in topics, found by the identity that each event carries.

`to_json` is the document `drctl/duplicates/1`.
"""

from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from drctl.model.document import Count, Document, From, Moment, Name, Seconds
from drctl.model.errors import ExitCode
from drctl.model.gap import NotCompared, SideDocument
from drctl.model.topology import OffsetRange


class EventFormat(StrEnum):
    """The source of the events, which determines their identity."""

    DEBEZIUM = "debezium"


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Numbers of records.

    Attributes:
        events: records with an identity, including repeated ones.
        repeated: second and further occurrences of events.
        tombstones: records without a value; they follow a deletion, and do not count as events.
        unidentified: all other records; whether they are duplicates is not known.
    """

    records: Count = 0
    events: Count = 0
    repeated: Count = 0
    tombstones: Count = 0
    unidentified: Count = 0

    def __add__(self, other: "EventCounts") -> "EventCounts":
        return EventCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


class Repeat(NamedTuple):
    """A repeated event, and its first occurrence."""

    offset: int
    first_partition: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class PartitionEvents:
    """One partition.

    Attributes:
        range: the offsets that were read.
        first: its first repeated event; None if there is none.
        last: offset of the last repeated event.
        identity: identity of the first repeated event, as text.
    """

    topic: str
    partition: int
    range: OffsetRange
    counts: EventCounts
    first: Repeat | None = None
    last: int | None = None
    identity: str = ""


@dataclass(frozen=True, slots=True)
class EventDuplicates:
    """Duplicates in topics of one cluster.

    Attributes:
        started: when the offsets were frozen, UTC.
    """

    format: EventFormat
    cluster: str
    cluster_id: str
    started: datetime
    seconds: float
    partitions: tuple[PartitionEvents, ...]
    not_compared: tuple[NotCompared, ...] = ()

    @property
    def totals(self) -> EventCounts:
        """The sums over all partitions."""
        return sum((each.counts for each in self.partitions), EventCounts())

    @property
    def complete(self) -> bool:
        """Whether every record was read, and has an identity or needs none."""
        return not self.not_compared and not self.totals.unidentified

    @property
    def exit_code(self) -> ExitCode:
        """5 if incomplete, else 1 if an event is repeated, else 0."""
        if not self.complete:
            return ExitCode.UNKNOWN
        return ExitCode.FOUND if self.totals.repeated else ExitCode.DONE

    def to_json(self) -> dict[str, Any]:
        """The document `drctl/duplicates/1`."""
        return EventDuplicatesDocument.of(self).to_json()


class RepeatDocument(Document):
    """A repeated event, and its first occurrence.

    Attributes:
        first_offset: offset of its first occurrence.
        identity: its position in the database's log, as text.
    """

    offset: Count
    first_partition: Count
    first_offset: Count
    identity: str


class PartitionDocument(Document):
    """One partition.

    Attributes:
        range: offsets that were read: [log start, last stable).
        events: records with an identity, including repeated ones.
        repeated: second and further occurrences of events.
        tombstones: records without a value; they do not count as events.
        unidentified: all other records; whether they are duplicates is not known.
        last_repeated: offset of the last repeated event.
    """

    read = From(PartitionEvents)
    topic: Name
    partition: Count
    range: tuple[Count, Count]
    records: Count = read(lambda p: p.counts.records)
    events: Count = read(lambda p: p.counts.events)
    repeated: Count = read(lambda p: p.counts.repeated)
    tombstones: Count = read(lambda p: p.counts.tombstones)
    unidentified: Count = read(lambda p: p.counts.unidentified)
    first_repeated: RepeatDocument | None = read(
        lambda p: RepeatDocument.of(p.first, identity=p.identity) if p.first else None
    )
    last_repeated: Count | None = read(lambda p: p.last)


class EventDuplicatesDocument(Document):
    """Duplicate change events in topics, found by the identity that each event carries.

    Attributes:
        identity: who writes the events.
    """

    SCHEMA = "drctl/duplicates/1"
    read = From(EventDuplicates)
    identity: EventFormat = read(lambda e: e.format)
    cluster: SideDocument = read(lambda e: SideDocument(cluster=e.cluster, id=e.cluster_id))
    complete: bool
    started: Moment = read(lambda e: e.started.isoformat(timespec="milliseconds"))
    seconds: Seconds = read(lambda e: round(e.seconds, 3))
    totals: EventCounts
    partitions: tuple[PartitionDocument, ...]
    not_compared: tuple[NotCompared, ...]
