"""The folder of an export: a file for each partition, `manifest.json` last, for its owner alone."""

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import IO, Any

from drctl.model.errors import Refused, Unknown
from drctl.model.strict_json import read_json
from drctl.model.topology import TopicPartition
from drctl.reconcile.export import FORMAT, MANIFEST, line_of, record_set_of, record_set_row
from drctl.reconcile.gap_result import Exported, ExportedSet
from drctl.reconcile.progress import RecordSet

_CLASSES = ["unreplicated"]


@dataclass(frozen=True, slots=True)
class _Manifest:
    """What an export says of itself.

    Attributes:
        files: name, number of records and SHA-256, by partition.
        record_sets: None where a drctl made it that did not tell them.
    """

    result: str
    classes: Sequence[str]
    files: Mapping[TopicPartition, tuple[str, int, str]]
    record_sets: tuple[ExportedSet, ...] | None


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


def saved_record_sets(state_dir: Path, result: str) -> Mapping[RecordSet, tuple[ExportedSet, ...]]:
    """What exports of a result hold, as far as their files are there and are what was written.

    An export of before manifests told their record sets counts as none. Reads the files.
    """
    found: dict[RecordSet, tuple[ExportedSet, ...]] = {}
    for folder in folders_of(exports_of(state_dir, result)):
        if not folder.exists():
            return found
        told = _read(folder)
        if told is None or (told.result, told.classes) != (result, _CLASSES):
            continue
        for record_set in _there(folder, told):
            found[record_set.record_set] = (*found.get(record_set.record_set, ()), record_set)
    raise AssertionError("folders have no end")


def replacement_blocker(
    folder: Path, about: Mapping[str, Any], parts: Sequence[ExportedSet]
) -> str:
    """Why an export in this folder must not be replaced by one of these; empty where it may be.

    Args:
        about: what the manifest of the new one says beside its files.
    """
    if not (folder / MANIFEST).exists():
        return ""
    told = _read(folder)
    if told is None or told.record_sets is None:
        return "it does not say which records it holds"
    if (told.result, told.classes) != (about.get("result"), about.get("classes")):
        return f"it is of gap result {told.result}, {' and '.join(told.classes)} records"
    new = {part.record_set: part for part in parts}
    for old in told.record_sets:
        name = f"{old.record_set.order.value} records of {old.record_set.place}"
        now = new.get(old.record_set)
        if now is None or now.after > old.after:
            return f"it holds {name} that are not exported now"
        if now.records < old.records:
            return f"it holds {old.records} {name}, of which the source still has {now.records}"
    return ""


def _there(folder: Path, told: _Manifest) -> Iterator[ExportedSet]:
    """The record sets whose files are whole."""
    wanted: Counter[TopicPartition] = Counter()
    for record_set in told.record_sets or ():
        wanted[record_set.record_set.place] += record_set.records
    whole = {place for place, number in wanted.items() if _is_whole(folder, told, place, number)}
    yield from (
        record_set for record_set in told.record_sets or () if record_set.record_set.place in whole
    )


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
        record_sets = (
            tuple(map(record_set_of, data["record_sets"])) if "record_sets" in data else None
        )
        return _Manifest(data["result"], data["classes"], files, record_sets)
    except (OSError, ValueError, KeyError, TypeError):
        return None


_PARTIAL = ".partial"
_APPENDED = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_MOST_OPEN = 32


class _Part:
    """The file of one partition; may be closed and written on."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.records = 0
        self.sum = hashlib.sha256()
        self._handle: IO[bytes] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it takes one of the few files that a process may have open."""
        return self._handle is not None

    def add(self, line: bytes) -> None:
        """Write a line."""
        if self._handle is None:
            self._handle = os.fdopen(os.open(self.file, _APPENDED, 0o600), "ab", 1 << 20)
        self.records += 1
        self.sum.update(line + b"\n")
        self._handle.write(line + b"\n")

    def close(self) -> None:
        """Have what was written on disk."""
        if self._handle is not None:
            self._handle.flush()
            os.fsync(self._handle.fileno())
            self._handle.close()
            self._handle = None


class ExportFolder:
    """Implements `drctl.reconcile.gap_result.Exporter`; of an earlier export nothing is lost.

    One of the same records is replaced once the new one is on disk, and holds no fewer.

    Args:
        about: what `manifest.json` says beside the files.
        beside: whether another folder is taken, named `FOLDER-2` and so on, where this one holds an
            export of other records; else that is refused.
    """

    def __init__(self, folder: Path, about: dict[str, Any], *, beside: bool = False) -> None:
        self._given = self._folder = folder
        self._about, self._beside = about, beside
        self._parts: dict[TopicPartition, _Part] = {}

    @property
    def _work(self) -> Path:
        return self._folder / _PARTIAL

    def begin(self, parts: Sequence[ExportedSet]) -> None:
        """Start anew where an earlier export was interrupted.

        Raises:
            Refused: the folder cannot be written, or holds something else, or an export of other
                records.
        """
        self._folder = self._place_for(parts)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_folder()
            shutil.rmtree(self._work, ignore_errors=True)
            self._work.mkdir(mode=0o700)
        except OSError as error:
            raise Refused(
                f"the export cannot be written to {self._folder}: {error.strerror}",
                "nothing was written; choose another folder with --out",
            ) from error

    def add(self, to: Exported) -> None:
        """Write a record.

        Raises:
            Unknown: it cannot be written.
        """
        try:
            part = self._parts.get(to.place)
            if part is None:
                part = self._parts[to.place] = _Part(self._work / f"{to.place}.jsonl")
            if not part.is_open:
                self._make_room()
            part.add(line_of(to))
        except OSError as error:
            raise self._unwritable(error) from error

    def finish(self, parts: Sequence[ExportedSet]) -> str:
        """Move everything to its place; `manifest.json` appears last.

        Raises:
            Refused: an earlier export of the same records holds more of them.
            Unknown: it cannot be written, or is not what was to be exported.
        """
        try:
            for part in self._parts.values():
                part.close()
        except OSError as error:
            raise self._unwritable(error) from error
        self._check_counts(parts)
        place = self._place_for(parts)
        try:
            manifest = _Part(self._work / MANIFEST)
            manifest.add(json.dumps(self._manifest(parts), indent=2).encode())
            manifest.close()
            self._move(place, manifest.file)
        except OSError as error:
            raise self._unwritable(error) from error
        return str(place)

    def _move(self, to: Path, manifest: Path) -> None:
        """All of it is on disk by now: what it replaces, file by file, may go."""
        to.mkdir(mode=0o700, exist_ok=True)
        (to / MANIFEST).unlink(missing_ok=True)
        for part in self._parts.values():
            part.file.rename(to / part.file.name)
        manifest.rename(to / MANIFEST)
        self._work.rmdir()

    def _check_counts(self, parts: Sequence[ExportedSet]) -> None:
        told: Counter[TopicPartition] = Counter()
        for each in parts:
            told[each.record_set.place] += each.records
        for place in told.keys() | self._parts.keys():
            written = self._parts[place].records if place in self._parts else 0
            if written != told[place]:
                raise Unknown(
                    f"{written} records of {place} were written to {self._folder},"
                    f" {told[place]} were read: nothing there is a whole export",
                    "run it again",
                )

    def _place_for(self, parts: Sequence[ExportedSet]) -> Path:
        """The folder that this goes to.

        Raises:
            Refused: an export is there that holds what this one does not.
        """
        for folder in self._places():
            against = replacement_blocker(folder, self._about, parts)
            if not against:
                return folder
            if not self._beside:
                raise Refused(
                    f"{folder} holds an earlier export, which stays as it is: {against}",
                    "choose an empty folder with --out",
                )
        raise AssertionError("there is always another name")

    def _places(self) -> Iterator[Path]:
        return folders_of(self._given) if self._beside else iter((self._given,))

    def _make_room(self) -> None:
        opened = [part for part in self._parts.values() if part.is_open]
        if len(opened) >= _MOST_OPEN:
            for part in opened:
                part.close()

    def _check_folder(self) -> None:
        ours = {MANIFEST, _PARTIAL}
        foreign = [
            p.name
            for p in self._folder.iterdir()
            if p.name not in ours and not p.name.endswith(".jsonl")
        ]
        if foreign:
            raise Refused(
                f"{self._folder} holds {min(foreign)!r}, which is not of an export",
                "choose an empty folder with --out",
            )

    def _manifest(self, parts: Sequence[ExportedSet]) -> dict[str, Any]:
        files = [
            {
                "file": part.file.name,
                "topic": place.topic,
                "partition": place.partition,
                "records": part.records,
                "sha256": part.sum.hexdigest(),
            }
            for place, part in sorted(self._parts.items())
        ]
        record_sets = [record_set_row(part) for part in parts]
        return {"format": FORMAT, **self._about, "files": files, "record_sets": record_sets}

    def _unwritable(self, error: OSError) -> Unknown:
        return Unknown(
            f"the export cannot be written to {self._folder}: {error.strerror}",
            "nothing there is a whole export; free space or choose another --out, and run again",
        )
