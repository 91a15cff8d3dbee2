"""Passes of `drctl offsets track` as text and as metrics."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from drctl.model.document import Count, Document, From, Moment, Name, Seconds, rounded
from drctl.model.moments import iso
from drctl.model.text import plural
from drctl.offsets.tracking import PassResult, Problem, TrackingPass
from drctl.offsets.tracking_log import TRACKED_OFFSETS_TOPIC
from drctl.views.command_documents import ErrorBody
from drctl.views.metrics import Metric, exposition
from drctl.views.text import duration, number, plain, sentence, utc

_SHOWN = 20
_PREFIX = "drctl_offsets_track_"


def pass_line(result: PassResult) -> str:
    """Summarize a pass in one line, for a loop of passes."""
    look = result.look
    at = utc(result.began_ms)
    if look is None or result.failed is not None:
        return f"{at}  failed. {known(result)}"
    line = f"{at}  {_seen(look)}: {_done(look)}; {result.seconds:.2f} s"
    return line if result.complete else f"{line}; {plural(len(look.problems), 'problem')}"


def pass_lines(result: PassResult, look: TrackingPass, target: str, command: str) -> Iterator[str]:
    """Describe what a single pass found, and wrote or would write.

    Args:
        command: executes it.
    """
    yield f"{_seen(look)}, read in {result.seconds:.2f} s"
    if result.executed:
        topic = f"topic {TRACKED_OFFSETS_TOPIC} on {plain(target)}"
        yield f"{_done(look)}; written to {topic} and read back"
    else:
        if not result.topic_existed:
            yield f"Would create topic {TRACKED_OFFSETS_TOPIC} on {plain(target)}"
        yield (
            f"{number(look.moved)} changed: would write {plural(look.noted, 'tracked offset')},"
            f" delete {number(len(look.forgotten))}"
        )
    if look.without_records:
        verb = "has" if look.without_records == 1 else "have"
        yield (
            f"{plural(look.without_records, 'committed offset')} {verb} no consumed record left in"
            " the log of the source"
        )
    if look.unverified:
        yield f"{plural(look.unverified, 'tracked offset')} not verified: kept unchanged"
    yield from problem_lines(look)
    if not result.executed:
        yield known(result)
        yield f"To write: {command}"


def problem_lines(look: TrackingPass) -> Iterator[str]:
    """List what could not be read."""
    for problem in look.problems[:_SHOWN]:
        yield f"{_where(problem)}: {sentence(problem.reason)}"
    if len(look.problems) > _SHOWN:
        yield f"and {number(len(look.problems) - _SHOWN)} more; --output json lists all"


def known(result: PassResult) -> str:
    """Describe the age of the tracked offsets."""
    if result.known_ms is None or result.age_seconds is None:
        return "No tracked offsets yet"
    age = duration(result.age_seconds)
    return f"Tracked offsets are as of {utc(result.known_ms)} UTC, {age} ago"


def _seen(look: TrackingPass) -> str:
    seen = f"{plural(look.groups, 'group')}, {plural(look.committed_offsets, 'committed offset')}"
    if look.positions:
        return f"{seen}, {plural(len(look.positions), 'source connector')}"
    return seen


def _done(look: TrackingPass) -> str:
    return (
        f"{number(look.moved)} changed, {number(look.noted)} written, "
        f"{number(len(look.forgotten))} deleted"
    )


def _where(problem: Problem) -> str:
    if problem.connector:
        return f"source connector {plain(problem.connector)}"
    group = f"group {plain(problem.group)}"
    return f"{group}, {plain(problem.topic)}-{problem.partition}" if problem.topic else group


class PassTotals(Document):
    """Totals of a pass.

    Attributes:
        groups: groups of the link.
        committed_offsets: their committed offsets in topics of the link.
        moved: committed offsets that differ from their tracked offset.
        without_records: how many of these have no consumed record left in the log.
        written: tracked offsets written.
        deleted: tracked offsets deleted.
        unverified: tracked offsets whose committed offset was not found on the source.
        source_connectors: connectors whose positions were exported.
    """

    read = From(TrackingPass)
    groups: Count
    committed_offsets: Count
    moved: Count
    without_records: Count = read(lambda look: look.without_records)
    written: Count = read(lambda look: look.noted)
    deleted: Count = read(lambda look: len(look.forgotten))
    unverified: Count
    source_connectors: Count = read(lambda look: len(look.positions))


class ProblemDocument(Document):
    """Something that could not be read.

    Attributes:
        group: null if it concerns a source connector.
        topic: null (as is the partition) if it concerns the whole group.
        connector: null if it concerns a group.
    """

    read = From(Problem)
    group: Name | None = read(lambda problem: problem.group or None)
    topic: str | None = read(lambda problem: problem.topic or None)
    partition: Count | None = read(lambda p: p.partition if p.topic else None)
    connector: Name | None = read(lambda problem: problem.connector or None)
    reason: str


def _noted(result: PassResult) -> TrackingPass | None:
    """Return the outcome of a pass that did not fail."""
    return result.look if result.failed is None else None


class PassDocument(Document):
    """One pass of reading the committed offsets of a link's groups.

    Attributes:
        from_: the source, as named in drctl.yaml.
        to: the target, which stores the tracked offsets.
        topic: the topic that stores them.
        topic_existed: whether the topic existed before.
        executed: whether anything was written; if false, this is what would be written.
        complete: whether all committed offsets were read.
        failed: why the pass failed, when running in a loop.
        totals: null if the source could not be read.
        problems: what could not be read.
        known_until: start of the last pass that was written; null if there was none.
        age_seconds: seconds from `known_until` to the end of this pass.
    """

    SCHEMA = "drctl/offsets-track/1"
    read = From(PassResult)
    link: Name
    from_: Name
    to: Name
    topic: Name = TRACKED_OFFSETS_TOPIC
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
    """Totals since the start, and the last pass.

    Attributes:
        labels: labels of every metric.
        complete_ms: start of the last complete pass.
        last: the last pass.
    """

    labels: Mapping[str, str]
    complete_ms: int | None = None
    passes: int = 0
    failures: int = 0
    moved: int = 0
    written: int = 0
    last: PassResult | None = None

    def after(self, result: PassResult) -> "TrackMetrics":
        """Return the metrics after one more pass."""
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
        """Return the metrics in Prometheus text format."""
        last, look = self.last, self.last and self.last.look
        return exposition(
            (
                _gauge(
                    "last_complete_pass_timestamp_seconds",
                    "Start of the last pass that read all committed offsets.",
                    _seconds(self.complete_ms),
                ),
                _gauge(
                    "known_timestamp_seconds",
                    "Start of the last pass that was written: tracked offsets are as of then.",
                    _seconds(last.known_ms if last else None),
                ),
                _gauge(
                    "pass_duration_seconds",
                    "Duration of the last pass.",
                    last.seconds if last else None,
                ),
                _gauge(
                    "groups", "Consumer groups in the last pass.", look.groups if look else None
                ),
                _gauge(
                    "committed_offsets",
                    "Committed offsets of the consumer groups in the last pass.",
                    look.committed_offsets if look else None,
                ),
                _gauge(
                    "unverified",
                    "Tracked offsets that the last pass could not verify.",
                    look.unverified if look else None,
                ),
                _gauge(
                    "source_connectors",
                    "Source connectors whose positions the last pass exported.",
                    len(look.positions) if look else None,
                ),
                _gauge(
                    "problems",
                    "Groups, partitions and source connectors that the last pass could not read.",
                    len(look.problems) if look else None,
                ),
                _total("passes", "Passes.", self.passes),
                _total("failures", "Failed passes.", self.failures),
                _total("moved", "Committed offsets that changed.", self.moved),
                _total("written", "Tracked offsets written or deleted.", self.written),
            ),
            self.labels,
        )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _gauge(name: str, about: str, value: float | None) -> Metric:
    return Metric(_PREFIX + name, "gauge", about, [] if value is None else [({}, value)])


def _total(name: str, about: str, value: int) -> Metric:
    return Metric(f"{_PREFIX}{name}_total", "counter", about, [({}, value)])
