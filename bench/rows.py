"""What a benchmark reports: rows of a value, perhaps a ratio to another row, perhaps a target."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    """What a ratio has to be: at most `limit`, or at least it."""

    limit: float
    at_least: bool = False

    def reached_by(self, ratio: float) -> bool:
        """Whether the ratio is good enough."""
        return ratio >= self.limit if self.at_least else ratio <= self.limit

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Ratio:
    """One row's measurement as a multiple of another's.

    Attributes:
        meaning: of what to what.
        target: None where nobody promised anything.
    """

    value: float
    meaning: str
    target: Target | None = None

    @property
    def reached(self) -> bool | None:
        """Whether the target was met; None where there is none."""
        return self.target.reached_by(self.value) if self.target else None


@dataclass(frozen=True, slots=True)
class Row:
    """One measured thing.

    Attributes:
        samples: single measurements, in the order they were taken; the value is their median.
        records: how many records each of them read; 0 where that means nothing.
    """

    part: str
    name: str
    samples: tuple[float, ...]
    unit: str = "s"
    records: int = 0
    ratio: Ratio | None = None

    @property
    def value(self) -> float:
        """The median of the samples."""
        return median(self.samples)

    @property
    def records_per_second(self) -> float | None:
        """How fast records were read; None where that was not measured."""
        return self.records / self.value if self.records and self.unit == "s" else None

    def to_json(self) -> dict[str, Any]:
        """The row of the results file."""
        rate, ratio = self.records_per_second, self.ratio
        target = ratio.target if ratio else None
        return {
            "part": self.part,
            "name": self.name,
            "value": round(self.value, 4),
            "unit": self.unit,
            "records": self.records or None,
            "records_per_second": round(rate) if rate else None,
            "ratio": round(ratio.value, 3) if ratio else None,
            "ratio_of": ratio.meaning if ratio else None,
            "target": str(target) if target else None,
            "reached": ratio.reached if ratio else None,
            "samples": [round(sample, 4) for sample in self.samples],
        }


def paired(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median of the ratios round by round: what slows a whole round does not count."""
    return median(mine / other for mine, other in zip(ours, theirs, strict=True))
