"""The report of a run as one self-contained HTML file: no scripts, no network access."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from drctl.views import run_words
from drctl.views.page import render_page
from drctl.views.run_data import Doing, ReportData, Span, StepReport, StepStatus, Writes
from drctl.views.run_report import report
from drctl.views.run_words import STEP_STATUS
from drctl.views.text import length, plain, when
from drctl.views.time_axis import Axis, Tick

ITEMS = 20
GROUPS = 25
NOTES = 50

_CUT = 6.0
"""Percent of the width for a period in which drctl was not running, however long."""
_CUTS_TOGETHER = 30.0
_THINNEST = 0.5
_BETWEEN_TICKS = 22.0

LEGEND = (
    (Doing.CHECKING, "checking before any change"),
    (Doing.EFFECT, "changing and verifying"),
    (Doing.WAITING, "waiting"),
    (Doing.ROLLING_BACK, "rolling back"),
    (Doing.NOT_RUNNING, "not running, not to scale"),
)


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle, in percent of the width."""

    x: float
    width: float
    doing: str
    title: str


@dataclass(frozen=True, slots=True)
class PictureRow:
    """The row of a step."""

    number: int
    id: str
    status: StepStatus
    state: str
    bars: tuple[Bar, ...]
    seconds: str
    title: str


@dataclass(frozen=True, slots=True)
class Picture:
    """The timeline of a run.

    Attributes:
        refused: the period in which writes were refused; None if there was none or it is unknown.
        refused_for: its length in words.
        cuts: periods in which drctl was not running, which the axis shortens.
        legend: each kind of period that is drawn, and its meaning.
    """

    rows: tuple[PictureRow, ...]
    refused: Bar | None
    refused_for: str
    cuts: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    legend: tuple[tuple[str, str], ...]


def picture(data: ReportData) -> Picture | None:
    """Build the timeline; None if no time passed."""
    spans = data.spans
    places = _places(spans)
    if not places:
        return None
    bars = [_bar(span, place) for span, place in zip(spans, places, strict=True)]
    refused = _refused(data, places)
    seen = {span.doing for span in spans}
    return Picture(
        rows=tuple(_row(step, spans, bars) for step in data.steps),
        refused=refused,
        refused_for=_refused_for(data) if refused else "",
        cuts=tuple(
            bar for span, bar in zip(spans, bars, strict=True) if span.doing is Doing.NOT_RUNNING
        ),
        ticks=_ticks(spans, places),
        legend=tuple((doing.value, meaning) for doing, meaning in LEGEND if doing in seen),
    )


Place = tuple[float, float]


def _places(spans: Sequence[Span]) -> list[Place]:
    """Return the start and width of each span, in percent; spans follow each other."""
    running = sum(span.seconds for span in spans if span.doing is not Doing.NOT_RUNNING)
    pauses = [span for span in spans if span.doing is Doing.NOT_RUNNING]
    if running <= 0:
        return []
    cut = min(_CUT, _CUTS_TOGETHER / len(pauses)) if pauses else 0.0
    # A short pause is drawn to scale: it needs no cut.
    widest = running * cut / (100 - cut * len(pauses))
    lengths = [
        min(span.seconds, widest) if span.doing is Doing.NOT_RUNNING else span.seconds
        for span in spans
    ]
    whole, at, places = sum(lengths), 0.0, []
    for each in lengths:
        places.append((100 * at / whole, 100 * each / whole))
        at += each
    return places


def _bar(span: Span, place: Place) -> Bar:
    width = max(place[1], _THINNEST)
    x = min(place[0], 100 - width)
    what = dict(LEGEND)[span.doing]
    title = f"{what}: {length(span.seconds)}, from {when(span.start)} UTC"
    return Bar(round(x, 3), round(width, 3), span.doing.value, title)


def _row(step: StepReport, spans: Sequence[Span], bars: Sequence[Bar]) -> PictureRow:
    mine = tuple(bar for span, bar in zip(spans, bars, strict=True) if span.step == step.id)
    took = "" if step.seconds is None else length(step.seconds)
    return PictureRow(
        step.number,
        plain(step.id),
        step.status,
        STEP_STATUS[step.status],
        mine,
        took,
        ", ".join(filter(None, (f"{plain(step.id)}: {STEP_STATUS[step.status]}", took))),
    )


def _refused(data: ReportData, places: Sequence[Place]) -> Bar | None:
    """Draw the period from the fence until writes were possible again."""
    if data.rto.start is None or data.writes is Writes.UNKNOWN:
        return None
    first = _x(data.rto.start, data.spans, places)
    last = _x(_writes_again(data), data.spans, places, newest=True)
    if first is None or last is None or last <= first:
        return None
    return Bar(round(first, 3), round(last - first, 3), "refused", _refused_for(data))


def _writes_again(data: ReportData) -> datetime:
    back = [span.end for span in data.spans if span.doing is Doing.ROLLING_BACK]
    if data.writes is Writes.AS_BEFORE and back:
        return back[-1]
    return data.rto.end or data.spans[-1].end


def _x(
    at: datetime, spans: Sequence[Span], places: Sequence[Place], *, newest: bool = False
) -> float | None:
    """Return the position of a moment on the axis."""
    found = None
    for span, (x, width) in zip(spans, places, strict=True):
        if span.start <= at <= span.end and span.seconds:
            share = (at - span.start).total_seconds() / span.seconds
            found = x + width * share
            if not newest:
                break
    return found


def _refused_for(data: ReportData) -> str:
    start = data.rto.start
    assert start is not None
    if data.rto.seconds is not None:
        return length(data.rto.seconds)
    seconds = max(0.0, (_writes_again(data) - start).total_seconds())
    return f"{length(seconds)}{'' if data.writes is Writes.AS_BEFORE else ' so far'}"


def _ticks(spans: Sequence[Span], places: Sequence[Place]) -> tuple[Tick, ...]:
    """Return round times; if the axis is cut, the start of each attempt."""
    if not any(span.doing is Doing.NOT_RUNNING for span in spans):
        start = int(spans[0].start.timestamp() * 1000)
        whole = int(1000 * sum(span.seconds for span in spans))
        return _apart(Axis(start, max(whole, 1), 1).ticks())
    begins = [(0.0, spans[0].start)]
    for number, span in enumerate(spans[1:], 1):
        if spans[number - 1].doing is Doing.NOT_RUNNING:
            begins.append((places[number][0], span.start))
    ticks: list[Tick] = []
    for x, at in begins:
        if not ticks or x - ticks[-1].x >= _BETWEEN_TICKS:
            anchor = "start" if x < 6 else "end" if x > 94 else "middle"
            ticks.append(Tick(round(x, 3), f"{at.astimezone(UTC):%H:%M:%S}", anchor))
    return tuple(ticks)


def _apart(ticks: Sequence[Tick]) -> tuple[Tick, ...]:
    """Drop the last tick if its text would touch the one before."""
    crowded = len(ticks) > 1 and ticks[-1].anchor == "end" and ticks[-1].x - ticks[-2].x < 30
    return tuple(ticks[:-1] if crowded else ticks)


def render(data: ReportData) -> str:
    """Render the page."""
    return render_page(
        "run.html.j2",
        data=data,
        report=report(data),
        journal=run_words.journal_in_words(data),
        picture=picture(data),
        item_limit=ITEMS,
        row_limit=GROUPS,
        note_limit=NOTES,
    )
