"""All drills as one HTML file for people: no script, no network, nothing beside it."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from drctl.drill.result import Past, Verdict
from drctl.resources import shipped
from drctl.views import drill_text, run_words, text
from drctl.views.drill_text import VERDICTS
from drctl.views.run_words import length
from drctl.views.text import plain

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


ROWS = 200
_TONES = {Verdict.PASSED: "fine", Verdict.WORSE: "found"}


def render(drills: Sequence[Past]) -> str:
    """The page; reads nothing but the template.

    Args:
        drills: the oldest first; at least one.
    """
    folder = shipped("templates")
    # The frame is that of the gap page: one look for everything that drctl hands over.
    style = "".join(
        (folder / name).read_text(encoding="utf-8") for name in ("gap.css", "drill.css")
    )
    newest = drills[-1]
    return (
        _environment(str(folder))
        .get_template("drill.html.j2")
        .render(
            newest=newest,
            tone=_TONES.get(newest.verdict, "incomplete"),
            verdict=drill_text.VERDICTS[newest.verdict],
            passed=sum(past.verdict is Verdict.PASSED for past in drills),
            total=len(drills),
            trend=trend(comparable(drills)),
            columns=drill_text.COLUMNS,
            rows=[(past.verdict.value, drill_text.past_row(past)) for past in drills[::-1][:ROWS]],
            row_limit=ROWS,
            style=style,
            style_hash=b64encode(sha256(style.encode()).digest()).decode(),
            version=version("drctl"),
        )
    )


def _environment(folder: str) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        finalize=text.without_secrets,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("number", "plain", "sentence", "plural"):
        environment.filters[name] = getattr(text, name)
    environment.filters["lasting"] = run_words.length
    environment.filters["when"] = run_words.when
    return environment
