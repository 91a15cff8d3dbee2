"""Which records earlier exports hold: by their manifests, and by the files as they are now."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from drctl.model.strict_json import read_json
from drctl.model.topology import TopicPartition
from drctl.reconcile.export import FORMAT, MANIFEST, lane_of
from drctl.reconcile.progress import Lane
from drctl.reconcile.rows import ExportedLane

_CLASSES = ["unreplicated"]


@dataclass(frozen=True, slots=True)
class _Manifest:
    """What an export says of itself.

    Attributes:
        files: name, number of records and SHA-256, by partition.
        lanes: None where a drctl made it that did not tell them.
    """

    result: str
    classes: Sequence[str]
    files: Mapping[TopicPartition, tuple[str, int, str]]
    lanes: tuple[ExportedLane, ...] | None


def folders_of(first: Path) -> Iterator[Path]:
    """The folders that exports of one result go to, as many as are asked for."""
    yield first
    yield from (first.with_name(f"{first.name}-{number}") for number in count(2))


def exports_of(state_dir: Path, result: str) -> Path:
    """The first of these folders."""
    return state_dir / "reconcile" / "exports" / result


def results_exported(state_dir: Path) -> frozenset[str]:
    """The results of which something was exported to its end, whatever became of it since."""
    found = state_dir.glob(f"reconcile/exports/*/{MANIFEST}")
    return frozenset(each.parent.name.partition("-")[0] for each in found)


def saved_lanes(state_dir: Path, result: str) -> Mapping[Lane, tuple[ExportedLane, ...]]:
    """What exports of a result hold, as far as their files are there and are what was written.

    An export of before manifests told their lanes counts as none. Reads the files.
    """
    found: dict[Lane, tuple[ExportedLane, ...]] = {}
    for folder in folders_of(exports_of(state_dir, result)):
        if not folder.exists():
            return found
        told = _read(folder)
        if told is None or (told.result, told.classes) != (result, _CLASSES):
            continue
        for lane in _there(folder, told):
            found[lane.lane] = (*found.get(lane.lane, ()), lane)
    raise AssertionError("folders have no end")


def standing_against(folder: Path, about: Mapping[str, Any], parts: Sequence[ExportedLane]) -> str:
    """Why an export in this folder must not be replaced by one of these; empty where it may be.

    Args:
        about: what the manifest of the new one says beside its files.
    """
    if not (folder / MANIFEST).exists():
        return ""
    told = _read(folder)
    if told is None or told.lanes is None:
        return "it does not say which records it holds"
    if (told.result, told.classes) != (about.get("result"), about.get("classes")):
        return f"it is of gap result {told.result}, {' and '.join(told.classes)} records"
    new = {part.lane: part for part in parts}
    for old in told.lanes:
        name = f"{old.lane.order.value} records of {old.lane.place}"
        now = new.get(old.lane)
        if now is None or now.after > old.after:
            return f"it holds {name} that are not exported now"
        if now.records < old.records:
            return f"it holds {old.records} {name}, of which the source still has {now.records}"
    return ""


def _there(folder: Path, told: _Manifest) -> Iterator[ExportedLane]:
    """The lanes whose files are whole."""
    wanted: Counter[TopicPartition] = Counter()
    for lane in told.lanes or ():
        wanted[lane.lane.place] += lane.records
    whole = {place for place, number in wanted.items() if _is_whole(folder, told, place, number)}
    yield from (lane for lane in told.lanes or () if lane.lane.place in whole)


def _is_whole(folder: Path, told: _Manifest, place: TopicPartition, records: int) -> bool:
    if not records:
        return True
    name, number, digest = told.files.get(place, ("", 0, ""))
    if number != records:
        return False
    try:
        with (folder / name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == digest
    except OSError:
        return False


def _read(folder: Path) -> _Manifest | None:
    """None where there is none that this drctl understands."""
    try:
        data = read_json((folder / MANIFEST).read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            return None
        files = {
            TopicPartition(row["topic"], row["partition"]): (
                row["file"],
                row["records"],
                row["sha256"],
            )
            for row in data["files"]
        }
        lanes = tuple(map(lane_of, data["lanes"])) if "lanes" in data else None
        return _Manifest(data["result"], data["classes"], files, lanes)
    except (OSError, ValueError, KeyError, TypeError):
        return None
