"""A time axis in equal bins, with round ticks. All times are UTC."""

from dataclasses import dataclass
from math import gcd

from drctl.views.text import moment

_TICKS = 5
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_STEPS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 30, 90, 365, 3650, 36_500, 365_000)),
)


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on the axis, `x` in percent of its length."""

    x: float
    text: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Axis:
    """Time from left to right; milliseconds UTC."""

    start: int
    width: int
    bins: int

    def edge(self, number: int) -> str:
        """Return the start of a bin, as precise as the bin width requires."""
        return f"{self._date(number)} {self._time(number)}".strip()

    def span(self, number: int) -> str:
        """Return the start and end of a bin."""
        right = self.edge(number + 1)
        if self._date(number) == self._date(number + 1):
            right = self._time(number + 1)
        return f"from {self.edge(number)} to {right} UTC"

    def bin_width(self) -> str:
        """Return the length of a bin."""
        for unit, name in ((_DAY, "days"), (_HOUR, "h"), (_MINUTE, "min"), (_SECOND, "s")):
            if self.width >= unit:
                return f"{self.width / unit:.3g} {name}"
        return f"{self.width} ms"

    def ticks(self) -> tuple[Tick, ...]:
        """Return a few round times."""
        length = self.width * self.bins
        step = next((s for s in _STEPS if length / s <= _TICKS), length)
        first = -(-self.start // step) * step
        return tuple(self._tick(at, step) for at in range(first, self.start + length + 1, step))

    def _tick(self, at: int, step: int) -> Tick:
        x = percent(at - self.start, self.width * self.bins)
        anchor = "start" if x < 6 else "end" if x > 94 else "middle"
        return Tick(x, _clock(at, step) if at % _DAY else _date(at), anchor)

    def _date(self, number: int) -> str:
        return _date(self.start + number * self.width)

    def _time(self, number: int) -> str:
        precision = gcd(self.start, self.width)
        if self.width >= 10 * _SECOND and precision % _SECOND:
            precision = _SECOND
        return _clock(self.start + number * self.width, precision)


def percent(part: int, whole: int) -> float:
    """Return a share in percent, precise enough for any screen."""
    return round(100 * part / whole, 3)


def _date(at_ms: int) -> str:
    at = moment(at_ms)
    return f"{at:%Y-%m-%d}" if at else f"{at_ms} ms"


def _clock(at_ms: int, precision_ms: int) -> str:
    at = moment(at_ms)
    if at is None:
        return ""
    if precision_ms % _SECOND:
        return f"{at:%H:%M:%S}.{at.microsecond // 1000:03}"
    return f"{at:%H:%M}" if precision_ms % _MINUTE == 0 else f"{at:%H:%M:%S}"
