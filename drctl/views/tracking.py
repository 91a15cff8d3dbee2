"""A pass of `drctl offsets track` in a few lines of text, and all passes as metrics."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from drctl.model.document import Count, Document, From, Moment, Name, Seconds, rounded
from drctl.model.moments import iso
from drctl.offsets.anchor_log import ANCHORS_TOPIC
from drctl.offsets.tracking import Problem, Tracked, TrackingPass
from drctl.views.command_documents import ErrorBody
from drctl.views.metrics import Metric, exposition
from drctl.views.text import duration, number, plain, plural, sentence, utc

_SHOWN = 20
_PREFIX = "drctl_offsets_track_"


def pass_line(result: Tracked) -> str:
    """One line, where many passes follow each other."""
    look = result.look
    at = utc(result.began_ms)
    if look is None or result.failed is not None:
        return f"{at}  failed; {known(result)}"
    line = f"{at}  {_seen(look)}: {_done(look)}; {result.seconds:.2f} s"
    return line if result.complete else f"{line}; {plural(len(look.problems), 'problem')}"


def pass_lines(result: Tracked, look: TrackingPass, target: str, command: str) -> Iterator[str]:
    """What a single pass found, and did or would do.

    Args:
        command: that does it.
    """
    yield f"{_seen(look)}, looked at in {result.seconds:.2f} s"
    if result.executed:
        yield f"{_done(look)}; in topic {ANCHORS_TOPIC} of {plain(target)}, and read back"
    else:
        if not result.topic_existed:
            yield f"topic {ANCHORS_TOPIC} of {plain(target)} would be made"
        yield f"{number(look.moved)} moved: {plural(look.noted, 'anchor')} would be written, " + (
            f"{number(len(look.forgotten))} deleted"
        )
    if look.without_records:
        held = (
            "has no consumed record left"
            if look.without_records == 1
            else "have no consumed record left"
        )
        yield f"{plural(look.without_records, 'position')} {held} to know it by on another cluster"
    if look.unverified:
        yield f"{plural(look.unverified, 'anchor')} could not be verified: kept"
    yield from problem_lines(look)
    if not result.executed:
        yield known(result)
        yield f"to write them: {command}"


def problem_lines(look: TrackingPass) -> Iterator[str]:
    """What could not be looked at."""
    for problem in look.problems[:_SHOWN]:
        yield f"{_where(problem)}: {sentence(problem.reason)}"
    if len(look.problems) > _SHOWN:
        yield f"and {number(len(look.problems) - _SHOWN)} more; --output json has all"


def known(result: Tracked) -> str:
    """How old it is what is noted."""
    if result.known_ms is None or result.age_seconds is None:
        return "nothing is noted yet"
    age = duration(result.age_seconds)
    return f"what is noted is true as of {utc(result.known_ms)} UTC, {age} ago"


def _seen(look: TrackingPass) -> str:
    return f"{plural(look.groups, 'group')} with {plural(look.positions, 'position')}"


def _done(look: TrackingPass) -> str:
    return (
        f"{number(look.moved)} moved, {number(look.noted)} noted, "
        f"{number(len(look.forgotten))} forgotten"
    )


def _where(problem: Problem) -> str:
    group = f"group {plain(problem.group)}"
    return f"{group} in {plain(problem.topic)}-{problem.partition}" if problem.topic else group


class PassTotals(Document):
    """Sums of a pass.

    Attributes:
        groups: of the link.
        positions: of these, in topics of the link.
        moved: positions that were not as they were noted.
        without_records: of these, how many had no consumed record left.
        noted: anchors written.
        forgotten: anchors deleted.
        unverified: anchors of positions that were not seen.
    """

    read = From(TrackingPass)
    groups: Count
    positions: Count
    moved: Count
    without_records: Count = read(lambda look: look.without_records)
    noted: Count
    forgotten: Count = read(lambda look: len(look.forgotten))
    unverified: Count


class ProblemDocument(Document):
    """What could not be looked at.

    Attributes:
        topic: null, as partition, where the whole group is meant.
    """

    read = From(Problem)
    group: Name
    topic: str | None = read(lambda problem: problem.topic or None)
    partition: Count | None = read(lambda p: p.partition if p.topic else None)
    reason: str


def _noted(result: Tracked) -> TrackingPass | None:
    """What a failed pass has seen was not noted."""
    return result.look if result.failed is None else None


class TrackedDocument(Document):
    """A pass over the positions of a link.

    Attributes:
        from_: the source, as drctl.yaml calls it.
        to: the target, which keeps the anchors.
        topic: that holds them.
        topic_existed: whether it was there before.
        executed: whether anything was written; false: what would be is told.
        complete: whether all positions were seen.
        failed: why the pass came to nothing, where others follow it.
        totals: null where the source was not seen.
        problems: what could not be looked at.
        known_until: start of the last pass that was noted; null where none ever was.
        age_seconds: from then to the end of this pass.
    """

    SCHEMA = "drctl/offsets-track/1"
    read = From(Tracked)
    link: Name
    from_: Name
    to: Name
    topic: Name = ANCHORS_TOPIC
    topic_existed: bool
    executed: bool
    started: Moment = read(lambda r: iso(r.began_ms))
    seconds: Seconds = read(lambda r: round(r.seconds, 3))
    complete: bool
    failed: ErrorBody | None
    totals: PassTotals | None = read(lambda r: PassTotals.of(look) if (look := _noted(r)) else None)
    problems: tuple[ProblemDocument, ...] = read(
        lambda r: ProblemDocument.each(look.problems) if (look := _noted(r)) else ()
    )
    known_until: Moment | None = read(lambda r: None if r.known_ms is None else iso(r.known_ms))
    age_seconds: Seconds | None = read(lambda r: rounded(r.age_seconds))


@dataclass(frozen=True, slots=True)
class TrackMetrics:
    """Sums since the start, and the last pass.

    Attributes:
        labels: of every number.
        complete_ms: when the last pass began in which all positions were seen.
        last: the last pass.
    """

    labels: Mapping[str, str]
    complete_ms: int | None = None
    passes: int = 0
    failures: int = 0
    moved: int = 0
    written: int = 0
    last: Tracked | None = None

    def after(self, result: Tracked) -> "TrackMetrics":
        """These numbers and one pass more."""
        look = result.look if result.failed is None else None
        return replace(
            self,
            complete_ms=result.began_ms if result.complete else self.complete_ms,
            passes=self.passes + 1,
            failures=self.failures + (result.failed is not None),
            moved=self.moved + (look.moved if look else 0),
            written=self.written + (look.noted + len(look.forgotten) if look else 0),
            last=result,
        )

    def text(self) -> str:
        """As Prometheus reads it."""
        last = self.last
        look = last.look if last else None
        return exposition(
            (
                _gauge(
                    "last_complete_pass_timestamp_seconds",
                    "Start of the last pass in which all positions were seen.",
                    _seconds(self.complete_ms),
                ),
                _gauge(
                    "known_timestamp_seconds",
                    "Start of the last pass that was noted: anchors are true as of then.",
                    _seconds(last.known_ms if last else None),
                ),
                _gauge(
                    "pass_duration_seconds",
                    "How long the last pass took.",
                    last.seconds if last else None,
                ),
                _gauge("groups", "Groups of the link, last seen.", look.groups if look else None),
                _gauge(
                    "positions", "Their positions, last seen.", look.positions if look else None
                ),
                _gauge(
                    "unverified",
                    "Anchors of positions that could not be seen, last time.",
                    look.unverified if look else None,
                ),
                _gauge(
                    "problems",
                    "What could not be looked at, last time.",
                    len(look.problems) if look else None,
                ),
                _total("passes", "Passes.", self.passes),
                _total("failures", "Passes that failed.", self.failures),
                _total("moved", "Positions that were not as they were noted.", self.moved),
                _total("written", "Anchors written and deleted.", self.written),
            ),
            self.labels,
        )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _gauge(name: str, about: str, value: float | None) -> Metric:
    return Metric(_PREFIX + name, "gauge", about, [] if value is None else [({}, value)])


def _total(name: str, about: str, value: int) -> Metric:
    return Metric(f"{_PREFIX}{name}_total", "counter", about, [({}, value)])
