"""Completes the report of a run by what `drctl gap` found once the source was back.

The first complete comparison after the run counts: later ones may find less because somebody has
reconciled, or more because the source took writes again.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from drctl.model.gap import GapResult
from drctl.model.gap_document import read_document
from drctl.model.loss import Figure, LossRange
from drctl.model.strict_json import read_json
from drctl.model.topology import TopicPartition
from drctl.views.gap_text import DOCUMENT
from drctl.views.run_data import ReportData, Rpo, Writes
from drctl.views.run_words import length
from drctl.views.text import plain, plural


@dataclass(frozen=True, slots=True)
class GapFound:
    """What of a result a run wants to know.

    Attributes:
        ids: of the clusters, by their names.
        started: when the offsets were frozen, UTC.
        doubtful: records that are not on the target, and of which nobody can tell whether they
            were: superseded by newer ones, or expired.
        ends: of the source's partitions then; these were compared.
        oldest_ms: time of the oldest unreplicated record; None where there is none, or where one of
            them has no time. Likewise the newest.
    """

    file: Path
    link: str
    source: str
    target: str
    ids: Mapping[str, str]
    scope: str
    started: datetime
    complete: bool
    unreplicated: int
    doubtful: int
    ends: Mapping[TopicPartition, int]
    oldest_ms: int | None
    newest_ms: int | None

    @property
    def seconds(self) -> float | None:
        """Between the oldest and the newest unreplicated record, by their own timestamps.

        None where one of them has none: of a span of the others nobody could say what it is of.
        """
        if not self.unreplicated:
            return 0.0
        if self.oldest_ms is None or self.newest_ms is None:
            return None
        return (self.newest_ms - self.oldest_ms) / 1000


def gap_results(state_dir: Path, since: datetime | None = None) -> Iterator[GapFound]:
    """Those that are there, the last written first; also those of runs with `--every`.

    Args:
        since: older files are not opened: a result may be large.
    """
    written = {file: _written(file) for file in (state_dir / "gap").rglob(DOCUMENT)}
    least = since.timestamp() if since else 0
    for file in sorted(written, key=lambda each: -written[each]):
        if written[file] < least:
            return
        try:
            kept = read_document(read_json(file.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            continue
        yield _found(file, kept.result)


def _written(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0


def _found(file: Path, result: GapResult) -> GapFound:
    gaps = [(topic.topic, each) for topic in result.topics for each in topic.partitions]
    spans = [(g.oldest_timestamp, g.newest_timestamp) for _, g in gaps if g.counts.unreplicated]
    known = [(old, new) for old, new in spans if old is not None and new is not None and old >= 0]
    timed = known if len(known) == len(spans) else []
    totals = result.totals
    return GapFound(
        file=file,
        link=result.link,
        source=result.source,
        target=result.target,
        ids={result.source: result.source_id, result.target: result.target_id},
        scope=result.scope,
        started=result.started,
        complete=result.complete,
        unreplicated=totals.unreplicated,
        doubtful=totals.superseded + totals.expired,
        ends={TopicPartition(topic, gap.partition): gap.source_range.end for topic, gap in gaps},
        oldest_ms=min((old for old, _ in timed), default=None),
        newest_ms=max((new for _, new in timed), default=None),
    )


def completed(data: ReportData, results: Iterable[GapFound]) -> ReportData:
    """The same with its exact RPO, where one of the results tells it."""
    if data.rpo.exact or data.writes is not Writes.TARGET:
        return data
    fitting = sorted((r for r in results if fits(data, r)), key=lambda each: each.started)
    return replace(data, rpo=_compared(data.rpo, fitting[0])) if fitting else data


def fits(data: ReportData, found: GapFound) -> bool:
    """Whether it compared what the run moved, after the run."""
    plan = data.plan
    same = (found.link, found.source, found.target) == (plan.link, plan.source, plan.target)
    ids = all(found.ids.get(name, seen) == seen for name, seen in data.ids.items())
    covered = data.topics and {*data.topics} <= {place.topic for place in found.ends}
    return bool(same and ids and covered and found.complete and found.started > data.until)


def _compared(estimate: Rpo, found: GapFound) -> Rpo:
    how = "a comparison by content"
    counted = Figure(found.unreplicated, how)
    # Of those that nobody can tell all, or none, may have been copied.
    most = Figure(found.unreplicated + found.doubtful, how)
    return Rpo(
        lost=LossRange(counted, counted, most),
        seconds=found.seconds,
        exact=not found.doubtful,
        how="; ".join(_how(estimate, found)),
        compared=True,
    )


def _how(estimate: Rpo, found: GapFound) -> Iterator[str]:
    when = f"{found.started.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    scope = "everything" if found.scope == "full" else f"the {plain(found.scope)}"
    yield f"drctl gap compared {scope} by content at {when}: {plain(str(found.file.parent))}"
    if found.seconds:
        yield f"by their own timestamps the missing records are of {length(found.seconds)}"
    if found.doubtful:
        told = plural(found.doubtful, "more record")
        yield f"of {told}, superseded or expired since, nobody can tell whether they were copied"
    if estimate.lost.known:
        yield f"the run had estimated {estimate.lost.words}"
