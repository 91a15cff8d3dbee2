"""What a source would lose for good, if its topics were cut back or made anew from the target."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DoomedPartition:
    """A partition of the source that holds what the target has not.

    Attributes:
        cut_from: the first offset that is not on the target: truncate-and-restore cuts here; None
            where only records before what the target still holds are not there.
        end: the end of the partition when it was looked at.
        records: that are nowhere but here.
        others: superseded or expired ones, which the target has not either.
    """

    topic: str
    partition: int
    cut_from: int | None
    end: int
    records: int
    bytes: int
    others: int
    other_bytes: int

    @property
    def offsets_cut(self) -> int:
        """How many offsets a cut takes; those of them that the target holds come back from it."""
        return 0 if self.cut_from is None else self.end - self.cut_from


@dataclass(frozen=True, slots=True)
class Export:
    """Where the records are kept that are nowhere else.

    Attributes:
        gone: how many of them were gone from the source before they could be exported.
        others: superseded and expired ones, in a folder within; None where nobody asked for them.
        others_gone: likewise.
        appended: offsets that were appended to the source since the comparison: what they hold was
            neither compared nor exported.
    """

    folder: str
    records: int
    gone: int
    others: int | None = None
    others_gone: int = 0
    appended: int = 0


@dataclass(frozen=True, slots=True)
class Truncation:
    """All partitions that would lose anything, by topic and number.

    Attributes:
        export: None where nobody asked for any.
    """

    partitions: tuple[DoomedPartition, ...]
    export: Export | None = None

    @property
    def totals(self) -> Mapping[str, int]:
        """Of all partitions."""
        names = ("offsets_cut", "records", "bytes", "others", "other_bytes")
        return {name: sum(getattr(each, name) for each in self.partitions) for name in names}

    def to_json(self) -> dict[str, Any]:
        """`truncation` of the document `drctl/gap/1`."""
        return {
            **self.totals,
            "export": asdict(self.export) if self.export else None,
            "partitions": [
                {**asdict(each), "offsets_cut": each.offsets_cut} for each in self.partitions
            ],
        }
