"""All drills as one HTML file for people: no script, no network, nothing beside it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drctl.drill.result import Past, Verdict
from drctl.views.drill_text import COLUMNS, VERDICTS, past_row
from drctl.views.page import render_page
from drctl.views.run_words import length
from drctl.views.text import number, plain

MOST = 60
ROWS = 200
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
        _chart("Lost records", shown, lambda past: past.missing, _whole),
        _chart("Records read again", shown, lambda past: past.reread, _whole),
        _chart("Records skipped", shown, lambda past: past.skipped, _whole),
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


def _whole(value: float) -> str:
    return number(int(value))


def _tone(verdict: Verdict) -> str:
    return {Verdict.PASSED: "fine", Verdict.WORSE: "found"}.get(verdict, "incomplete")


def render(drills: Sequence[Past]) -> str:
    """The page; reads nothing but the template.

    Args:
        drills: the oldest first; at least one.
    """
    newest = drills[-1]
    return render_page(
        "drill.html.j2",
        newest=newest,
        tone=_tone(newest.verdict),
        verdict=VERDICTS[newest.verdict],
        passed=sum(past.verdict is Verdict.PASSED for past in drills),
        total=len(drills),
        trend=trend(comparable(drills)),
        columns=COLUMNS,
        rows=[(past.verdict.value, past_row(past)) for past in drills[::-1][:ROWS]],
        row_limit=ROWS,
    )
