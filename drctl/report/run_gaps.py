"""Results of `drctl gap` that lie in the state folder: they complete the report of a run.

A folder that is no whole result, or of another version, is passed over.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from drctl.model.gap import SCHEMA
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
        oldest_ms: time of the oldest unreplicated record; None where there is none.
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
        """Between the oldest and the newest unreplicated record, by their own timestamps."""
        if not self.unreplicated:
            return 0.0
        if self.oldest_ms is None or self.newest_ms is None or self.oldest_ms < 0:
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
            found = _read(file, json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        if found is not None:
            yield found


def _written(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0


def _read(file: Path, document: Mapping[str, Any]) -> GapFound | None:
    if document["schema"] != SCHEMA:
        return None
    source, target = document["source"], document["target"]
    partitions = [
        (TopicPartition(str(topic["topic"]), int(each["partition"])), each)
        for topic in document["topics"]
        for each in topic["partitions"]
    ]
    totals = document["totals"]
    started = datetime.fromisoformat(document["started"])
    if started.tzinfo is None:
        return None
    return GapFound(
        file=file,
        link=str(document["link"]),
        source=str(source["cluster"]),
        target=str(target["cluster"]),
        ids={str(each["cluster"]): str(each["id"]) for each in (source, target)},
        scope=str(document["scope"]),
        started=started,
        complete=document["complete"] is True,
        unreplicated=int(totals["unreplicated"]),
        doubtful=int(totals["superseded"]) + int(totals["expired"]),
        ends={place: int(each["source_range"][1]) for place, each in partitions},
        oldest_ms=min(_times(partitions, "oldest_timestamp"), default=None),
        newest_ms=max(_times(partitions, "newest_timestamp"), default=None),
    )


def _times(partitions: list[tuple[TopicPartition, Any]], name: str) -> Iterator[int]:
    return (int(each[name]) for _, each in partitions if each[name] is not None)
