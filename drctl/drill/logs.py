"""What the drill's own applications saw: each acknowledged and each read record, by its id.

These logs are independent of the engine: whatever it says is held against them. Times are of a
clock that never goes back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

SOURCE, TARGET = "s", "t"


@dataclass(slots=True)
class Written:
    """What one cluster was asked to take; grows while a writer is at work.

    Attributes:
        acknowledged: id to the time of the acknowledgement, in their order.
        refused_at: when the first record was refused by a rule; None where none was.
        refused: records that were not acknowledged: of some nobody knows whether they are there.
    """

    acknowledged: dict[str, float] = field(default_factory=dict)
    refused_at: float | None = None
    refused: int = 0

    @property
    def first_at(self) -> float | None:
        """When the first was acknowledged."""
        return next(iter(self.acknowledged.values()), None)

    @property
    def last_at(self) -> float | None:
        """When the last was."""
        return max(self.acknowledged.values(), default=None)


@dataclass(slots=True)
class Consumed:
    """What the drill's group read on one cluster; grows while a reader is at work.

    Attributes:
        read: id to the time when it was first read there.
        finished: ids of records behind which a position was committed.
        times: how often records were read there, those read twice counted twice.
    """

    read: dict[str, float] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    times: int = 0

    @property
    def first_at(self) -> float | None:
        """When the first was read."""
        return next(iter(self.read.values()), None)


@dataclass(frozen=True, slots=True)
class Logs:
    """All that was seen from outside the engine.

    Attributes:
        held: how often each id is on the target, as a plain consumer found it.
    """

    source: Written
    target: Written
    before: Consumed
    after: Consumed
    held: Mapping[str, int]


def identity(side: str, number: int) -> str:
    """The id of a record, which is its value, too."""
    return f"{side}{number}"
