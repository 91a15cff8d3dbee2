"""One deadline a call: everything a call waits for counts against it."""

from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic

# A broker that just died may be the one asked first; a first try that waits for all of the
# deadline would leave nothing for its successor.
_SHARES = (0.2, 0.3, 0.5)
_LEAST_S = 0.5


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of the monotonic clock.

    Attributes:
        total: how many seconds were given, for messages.
    """

    at: float
    total: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        """The deadline that many seconds from now."""
        return cls(monotonic() + seconds, seconds)

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - monotonic())

    @property
    def expired(self) -> bool:
        """Whether no time is left."""
        return self.remaining == 0.0

    def sooner(self, seconds: float) -> "Deadline":
        """This one, or the one that many seconds from now, whichever comes first."""
        return Deadline(min(self.at, monotonic() + seconds), self.total)

    def attempts(self) -> Iterator[float]:
        """Timeouts for one try after another, growing, until the time is up."""
        shares = iter(_SHARES)
        while not self.expired:
            share = self.total * next(shares, 1.0)
            yield min(self.remaining, max(share, _LEAST_S))
