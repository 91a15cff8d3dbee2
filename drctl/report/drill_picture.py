"""How RTO, loss and re-reads went from drill to drill: points in, per cent out.

Drills stand side by side in their order, whatever time passed between them: a gap of a week is no
trend. The page draws them without scaling any text.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drctl.drill.history import Past, Verdict
from drctl.report.drill_lines import VERDICTS
from drctl.report.printable import plain
from drctl.report.run_words import length

MOST = 60
_ROOM = 8.0


@dataclass(frozen=True, slots=True)
class Point:
    """A drill in a chart, in per cent of its width and height; y from the top."""

    x: float
    y: float
    tone: str
    title: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A drill without that measure."""

    x: float
    tone: str
    title: str


@dataclass(frozen=True, slots=True)
class Line:
    """Between two neighbours, in per cent."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True)
class Chart:
    """One measure.

    Attributes:
        top: what the highest point stands for, in words.
        newest: the newest value, in words.
        lines: between points of neighbouring drills; none where one between lacks the measure.
    """

    name: str
    top: str
    newest: str
    points: tuple[Point, ...]
    missing: tuple[Missing, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Trend:
    """All charts over the same drills.

    Attributes:
        hidden: older drills that are not drawn.
    """

    charts: tuple[Chart, ...]
    first: str
    last: str
    hidden: int


def trend(drills: Sequence[Past]) -> Trend | None:
    """The picture; None where there is nothing to compare."""
    shown = tuple(drills)[-MOST:]
    if not shown:
        return None
    charts = (
        _chart("RTO", shown, lambda past: past.rto_s, length),
        _chart("Lost records", shown, lambda past: past.missing, _count),
        _chart("Records read again", shown, lambda past: past.reread, _count),
        _chart("Records skipped", shown, lambda past: past.skipped, _count),
    )
    first, last = (f"{past.began:%Y-%m-%d %H:%M}" for past in (shown[0], shown[-1]))
    return Trend(charts, first, last, len(drills) - len(shown))


def comparable(drills: Sequence[Past]) -> tuple[Past, ...]:
    """Those like the newest: over its link, with its fault; only they make a trend."""
    newest = drills[-1]
    like = (newest.link, newest.inject)
    return tuple(past for past in drills if (past.link, past.inject) == like)


def _chart(
    name: str,
    drills: Sequence[Past],
    value_of: Callable[[Past], float | None],
    words: Callable[[float], str],
) -> Chart:
    values = [value_of(past) for past in drills]
    known = [value for value in values if value is not None]
    top = max(known, default=0)
    places = [round(100 * (number + 0.5) / len(drills), 3) for number in range(len(drills))]
    points: list[Point] = []
    missing: list[Missing] = []
    lines: list[Line] = []
    before: Point | None = None
    for past, value, x in zip(drills, values, places, strict=True):
        told = f"{past.began:%Y-%m-%d %H:%M} UTC, {plain(past.link)}: {VERDICTS[past.verdict]}"
        tone = _tone(past.verdict)
        if value is None:
            missing.append(Missing(x, tone, told))
            before = None
            continue
        here = Point(x, _height(value, top), tone, f"{told}, {words(value)}")
        points.append(here)
        if before is not None:
            lines.append(Line(before.x, before.y, here.x, here.y))
        before = here
    newest = words(known[-1]) if known else "not measured"
    return Chart(name, words(top), newest, tuple(points), tuple(missing), tuple(lines))


def _height(value: float, top: float) -> float:
    """From the top; nothing at all lies at the bottom, and never looks like something."""
    share = value / top if top > 0 else 0.0
    return round(100 - _ROOM - share * (100 - 2 * _ROOM), 3)


def _tone(verdict: Verdict) -> str:
    return {Verdict.PASSED: "fine", Verdict.WORSE: "found"}.get(verdict, "incomplete")


def _count(value: float) -> str:
    return f"{int(value):,}"
