"""Results of a benchmark: rows with a value, possibly a ratio to another row, and a target."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    """What a ratio should be: at most, or at least, `limit`."""

    limit: float
    at_least: bool = False

    def reached_by(self, ratio: float) -> bool:
        """Whether the ratio meets the target."""
        return ratio >= self.limit if self.at_least else ratio <= self.limit

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Ratio:
    """A measurement of one row divided by that of another.

    Attributes:
        meaning: description of the ratio.
        target: None if there is none.
    """

    value: float
    meaning: str
    target: Target | None = None

    @property
    def reached(self) -> bool | None:
        """Whether the target was met; None if there is none."""
        return self.target.reached_by(self.value) if self.target else None


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement.

    Attributes:
        samples: in the order they were taken; the value is their median.
        records: read in each sample; 0 if not applicable.
    """

    part: str
    name: str
    samples: tuple[float, ...]
    unit: str = "s"
    records: int = 0
    ratio: Ratio | None = None

    @property
    def value(self) -> float:
        """Median of the samples."""
        return median(self.samples)

    @property
    def records_per_second(self) -> float | None:
        """Records read per second; None if not measured."""
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
    """Median of the ratios by round, so that a slow round does not count."""
    return median(mine / other for mine, other in zip(ours, theirs, strict=True))
