"""The history of drills as a self-contained HTML page."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from drctl.drill.result import Past, Verdict
from drctl.model.text import quote
from drctl.views.drill_text import COLUMNS, VERDICTS, kind, past_row
from drctl.views.page import render_page
from drctl.views.run_lines import NextStep
from drctl.views.text import collected, length, number, plain, sentence

MOST = 60
ROWS = 200
_ROOM = 8.0


@dataclass(frozen=True, slots=True)
class Point:
    """A drill in a chart, in percent of width and height; y from the top."""

    x: float
    y: float
    tone: str
    title: str


@dataclass(frozen=True, slots=True)
class Missing:
    """A drill without this measure."""

    x: float
    tone: str
    title: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line between two neighboring points; coordinates in percent."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True)
class Chart:
    """The chart of one measure.

    Attributes:
        top: value of the highest point, as text.
        newest: value of the newest drill, as text.
        lines: between neighboring drills that both have the measure.
    """

    name: str
    top: str
    newest: str
    points: tuple[Point, ...]
    missing: tuple[Missing, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Trend:
    """All charts of the same drills.

    Attributes:
        hidden: older drills that are not drawn.
    """

    charts: tuple[Chart, ...]
    first: str
    last: str
    hidden: int


def trend(drills: Sequence[Past]) -> Trend | None:
    """Build the charts; None without drills."""
    shown = tuple(drills)[-MOST:]
    if not shown:
        return None
    charts = (
        _chart("RTO", shown, lambda past: past.rto_s, length),
        _chart("Lost records", shown, lambda past: past.missing, _whole),
        _chart("Re-read records", shown, lambda past: past.reread, _whole),
        _chart("Skipped records", shown, lambda past: past.skipped, _whole),
    )
    first, last = (f"{past.began:%Y-%m-%d %H:%M}" for past in (shown[0], shown[-1]))
    return Trend(charts, first, last, len(drills) - len(shown))


def comparable(drills: Sequence[Past]) -> tuple[Past, ...]:
    """Return the drills with the same link and fault as the newest drill."""
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
        label = f"{past.began:%Y-%m-%d %H:%M} UTC, {plain(past.link)}: {VERDICTS[past.verdict]}"
        tone = _tone(past.verdict)
        if value is None:
            missing.append(Missing(x, tone, label))
            before = None
            continue
        here = Point(x, _height(value, top), tone, f"{label}, {words(value)}")
        points.append(here)
        if before is not None:
            lines.append(Line(before.x, before.y, here.x, here.y))
        before = here
    highest, newest = (
        "not measured" if value is None else words(value)
        for value in (max(known, default=None), values[-1])
    )
    return Chart(name, highest, newest, tuple(points), tuple(missing), tuple(lines))


def _height(value: float, top: float) -> float:
    """Return the distance from the top; zero is at the bottom."""
    share = value / top if top > 0 else 0.0
    return round(100 - _ROOM - share * (100 - 2 * _ROOM), 3)


def _whole(value: float) -> str:
    return number(int(value))


def _tone(verdict: Verdict) -> str:
    return {Verdict.PASSED: "fine", Verdict.NOT_PASSED: "found"}.get(verdict, "incomplete")


def _headline(past: Past) -> str:
    reason = f": {sentence(past.reasons[0])}" if past.reasons else ""
    match past.verdict:
        case Verdict.PASSED:
            return "The drill passed."
        case Verdict.NOT_PASSED:
            return f"The drill did not pass{reason}."
        case Verdict.FAILED:
            return f"The drill failed{reason}."
        case Verdict.UNKNOWN:
            return f"The drill has no verdict{reason}."
        case Verdict.INTERRUPTED:
            return "The drill was interrupted: its process died."


@collected
def next_steps(past: Past) -> Iterator[NextStep]:
    """List what to do after this drill."""
    link = f"--link {quote(plain(past.link))}"
    match past.verdict:
        case Verdict.PASSED:
            yield NextStep("Nothing to do.", "Repeat the drill regularly and before a switchover.")
            return
        case Verdict.NOT_PASSED:
            yield NextStep(
                "Find out why.",
                "Each check of `doctor` that is not ok states its consequence and a fix.",
                f"drctl doctor {link}",
            )
        case Verdict.UNKNOWN:
            yield NextStep(
                "Provide the missing evidence.",
                "Without it, it is unknown whether a failover works.",
            )
        case _:
            yield NextStep(
                "Delete what the drill created.",
                "This lists what is left; add `--execute` to delete it.",
                f"drctl drill clean {link}",
            )
    yield NextStep(
        "Then repeat the drill.", "This prints its plan and changes nothing.", f"drctl drill {link}"
    )


def render(drills: Sequence[Past]) -> str:
    """Render the page.

    Args:
        drills: oldest first; at least one.
    """
    newest = drills[-1]
    return render_page(
        "drill.html.j2",
        newest=newest,
        tone=_tone(newest.verdict),
        verdict=VERDICTS[newest.verdict],
        how=kind(newest),
        headline=_headline(newest),
        steps=next_steps(newest),
        passed=sum(past.verdict is Verdict.PASSED for past in drills),
        total=len(drills),
        trend=trend(comparable(drills)),
        columns=COLUMNS,
        rows=[(past.verdict.value, past_row(past)) for past in drills[::-1][:ROWS]],
        row_limit=ROWS,
    )
