"""When to try again: each pause twice the one before, up to a longest one, so many times."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from drctl.model.errors import UsageError


class Row(NamedTuple):
    """An attempt.

    Attributes:
        delay_s: the pause before it.
        total_s: all pauses up to it.
    """

    attempt: int
    delay_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class Backoff:
    """The law of Debezium's reconnects, with its defaults."""

    initial_s: float = 1.0
    maximum_s: float = 120.0
    attempts: int = 16

    def __post_init__(self) -> None:
        """Refuse what has no end or no beginning.

        Raises:
            UsageError: a value is out of range.
        """
        if not 0 < self.initial_s <= self.maximum_s or self.attempts < 1:
            raise UsageError(
                f"{self.attempts} attempts with pauses of {self.initial_s:g} s to"
                f" {self.maximum_s:g} s are not possible",
                "one attempt at least, and a first pause that is no longer than the longest",
            )

    def rows(self) -> Iterator[Row]:
        """All attempts."""
        delay, total = self.initial_s, 0.0
        for attempt in range(1, self.attempts + 1):
            total += delay
            yield Row(attempt, delay, total)
            delay = min(2 * delay, self.maximum_s)

    def delay(self, attempt: int) -> float:
        """The pause before an attempt, counted from 1."""
        return next(row.delay_s for row in self.rows() if row.attempt == attempt)
