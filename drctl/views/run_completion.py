"""Completes the report of a run with what `drctl gap` found once the source was back.

The first complete comparison after the run counts: later ones may find fewer records because some
were reconciled, or more because the source accepted writes again.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from drctl.model.gap import GapResult
from drctl.model.gap_document import read_document
from drctl.model.loss import Figure, LossRange
from drctl.model.strict_json import read_json
from drctl.model.text import plural
from drctl.model.topology import TopicPartition
from drctl.views.gap_text import DOCUMENT, newest, oldest, times
from drctl.views.run_data import ReportData, Rpo, Writes
from drctl.views.text import plain


@dataclass(frozen=True, slots=True)
class GapFound:
    """A gap result and its file."""

    file: Path
    result: GapResult

    @property
    def ends(self) -> Mapping[TopicPartition, int]:
        """End offsets of the source's partitions that were compared."""
        return {
            TopicPartition(topic.topic, gap.partition): gap.source_range.end
            for topic in self.result.topics
            for gap in topic.partitions
        }

    @property
    def seconds(self) -> float | None:
        """Seconds between the oldest and newest unreplicated record; None without timestamps."""
        gaps = [gap for gap in self.result.partitions if gap.counts.unreplicated]
        spans = [(gap.oldest_timestamp, gap.newest_timestamp) for gap in gaps]
        known = [(a, b) for a, b in spans if a is not None and b is not None and a >= 0]
        if len(known) < len(spans):
            return None
        return (max(b for _, b in known) - min(a for a, _ in known)) / 1000 if known else 0.0


def gap_results(state_dir: Path, since: datetime | None = None) -> Iterator[GapFound]:
    """Yield the gap results on this machine, the newest first, including those of `--every`.

    Args:
        since: older files are not opened, because results may be large.
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
        yield GapFound(file, kept.result)


def _written(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0


def completed(data: ReportData, results: Iterable[GapFound]) -> ReportData:
    """Return the report with the RPO of the first result that fits, if there is one."""
    if data.rpo.exact or data.writes is not Writes.TARGET:
        return data
    fitting = sorted((r for r in results if fits(data, r)), key=lambda each: each.result.started)
    return replace(data, rpo=_compared(data.rpo, fitting[0])) if fitting else data


def fits(data: ReportData, found: GapFound) -> bool:
    """Return whether a result compares what the run moved, after the run."""
    plan, result = data.plan, found.result
    same = (result.link, result.source, result.target) == (plan.link, plan.source, plan.target)
    known = {result.source: result.source_id, result.target: result.target_id}
    ids = all(known.get(name, seen) == seen for name, seen in data.ids.items())
    covered = data.topics and {*data.topics} <= {place.topic for place in found.ends}
    return bool(same and ids and covered and result.complete and result.started > data.until)


def _compared(estimate: Rpo, found: GapFound) -> Rpo:
    how, totals = "a comparison by content", found.result.totals
    counted = Figure(totals.unreplicated, how)
    # Any of the superseded and expired records may have been copied.
    doubtful = totals.superseded + totals.expired
    return Rpo(
        lost=LossRange(counted, counted, Figure(totals.unreplicated + doubtful, how)),
        seconds=found.seconds,
        exact=not doubtful,
        how="; ".join(_how(estimate, found, doubtful)),
        compared=True,
    )


def _how(estimate: Rpo, found: GapFound, doubtful: int) -> Iterator[str]:
    when = f"{found.result.started.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    scope = found.result.scope
    scope = "everything" if scope == "full" else f"the {plain(scope)}"
    yield f"drctl gap compared {scope} by content at {when}: {plain(str(found.file.parent))}"
    first, last = oldest(found.result), newest(found.result)
    if first is not None and last is not None:
        yield f"record timestamps {times(first, last)} UTC"
    if doubtful:
        yield (
            f"{plural(doubtful, 'more record')} may not have been replicated: they were"
            " superseded or expired in the meantime"
        )
    if estimate.lost.known:
        yield f"the run had estimated {estimate.lost.message}"
