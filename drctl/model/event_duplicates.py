"""Change events that are in a topic more than once, by the event's own identity.

`to_json` is the document `drctl/gap-identity/1`.
"""

from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from drctl.model.errors import ExitCode
from drctl.model.gap import NotCompared
from drctl.model.topology import OffsetRange

SCHEMA = "drctl/gap-identity/1"


class EventFormat(StrEnum):
    """Who writes the events, and with them their identity."""

    DEBEZIUM = "debezium"


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Numbers of records.

    Attributes:
        events: that have an identity, the repeated ones among them.
        repeated: that are there a second or further time.
        tombstones: records without a value; they follow a deletion, and are no events.
        unidentified: all others: nobody can tell whether they are there twice.
    """

    records: int = 0
    events: int = 0
    repeated: int = 0
    tombstones: int = 0
    unidentified: int = 0

    def __add__(self, other: "EventCounts") -> "EventCounts":
        return EventCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


class Repeat(NamedTuple):
    """An event that is there again, and where it was first."""

    offset: int
    first_partition: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class PartitionEvents:
    """One partition.

    Attributes:
        range: the offsets that were read.
        first: its first repeated event; None where it has none.
        last: the offset of its last one.
        identity: of the first one, in words.
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
    """What was found in some topics of one cluster.

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
        """Of all partitions."""
        return sum((each.counts for each in self.partitions), EventCounts())

    @property
    def complete(self) -> bool:
        """Whether every record was read and had an identity, or needs none."""
        return not self.not_compared and not self.totals.unidentified

    @property
    def exit_code(self) -> ExitCode:
        """5 where not complete, else 1 where any event is repeated, else 0."""
        if not self.complete:
            return ExitCode.UNKNOWN
        return ExitCode.FOUND if self.totals.repeated else ExitCode.DONE

    def to_json(self) -> dict[str, Any]:
        """The document `drctl/gap-identity/1`."""
        return {
            "schema": SCHEMA,
            "identity": self.format.value,
            "cluster": {"cluster": self.cluster, "id": self.cluster_id},
            "complete": self.complete,
            "started": self.started.isoformat(timespec="milliseconds"),
            "seconds": round(self.seconds, 3),
            "totals": asdict(self.totals),
            "partitions": [_partition_json(each) for each in self.partitions],
            "not_compared": [asdict(each) for each in self.not_compared],
        }


def _partition_json(each: PartitionEvents) -> dict[str, Any]:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "range": list(each.range),
        **asdict(each.counts),
        "first_repeated": {**each.first._asdict(), "identity": each.identity}
        if each.first
        else None,
        "last_repeated": each.last,
    }
