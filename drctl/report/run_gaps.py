"""Results of `drctl gap` that lie in the state folder: they complete the report of a run.

A folder that is no whole result, or of another version, is passed over.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from drctl.model.gap import GapResult
from drctl.model.gap_document import read_document
from drctl.model.strict_json import read_json
from drctl.model.topology import TopicPartition
from drctl.report.gap_steps import DOCUMENT

FOLDER = "gap"


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
    written = {file: _written(file) for file in (state_dir / FOLDER).rglob(DOCUMENT)}
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
