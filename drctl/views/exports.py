"""Export directories: one file per partition, `manifest.json` last, readable only by the owner."""

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
from drctl.model.text import plural
from drctl.model.topology import TopicPartition
from drctl.reconcile.export import FORMAT, MANIFEST, line_of, record_set_of, record_set_row
from drctl.reconcile.gap_result import Exported, ExportedSet
from drctl.reconcile.progress import RecordSet

_CLASSES = ["unreplicated"]
_ELSEWHERE = "drctl reconcile --out, drctl gap --export, or state_dir in drctl.yaml"


@dataclass(frozen=True, slots=True)
class _Manifest:
    """The manifest of an export.

    Attributes:
        files: name, number of records and SHA-256, by partition.
        record_sets: None if the manifest does not list them.
    """

    result: str
    classes: Sequence[str]
    files: Mapping[TopicPartition, tuple[str, int, str]]
    record_sets: tuple[ExportedSet, ...] | None


def folders_of(first: Path) -> Iterator[Path]:
    """Yield the directories for exports of one result: `DIR`, `DIR-2`, `DIR-3` and so on."""
    yield first
    yield from (first.with_name(f"{first.name}-{number}") for number in count(2))


def exports_of(state_dir: Path, result: str) -> Path:
    """Return the first of these directories."""
    return state_dir / "reconcile" / "exports" / result


def results_exported(state_dir: Path) -> frozenset[str]:
    """Return the gap results that have a complete export, even if it was moved since."""
    found = state_dir.glob(f"reconcile/exports/*/{MANIFEST}")
    return frozenset(each.parent.name.partition("-")[0] for each in found)


def saved_record_sets(state_dir: Path, result: str) -> Mapping[RecordSet, tuple[ExportedSet, ...]]:
    """Return the record sets in exports of a result whose files are present and unchanged.

    Reads the files to check their digests.
    """
    found: dict[RecordSet, tuple[ExportedSet, ...]] = {}
    for folder in folders_of(exports_of(state_dir, result)):
        if not folder.exists():
            return found
        manifest = _read(folder)
        if manifest is None or (manifest.result, manifest.classes) != (result, _CLASSES):
            continue
        for record_set in _there(folder, manifest):
            found[record_set.record_set] = (*found.get(record_set.record_set, ()), record_set)
    raise AssertionError("folders have no end")


def replacement_blocker(
    folder: Path, about: Mapping[str, Any], parts: Sequence[ExportedSet]
) -> str:
    """Return why an export in this directory must not be replaced; empty if it may be.

    Args:
        about: the manifest of the new export without its files.
        parts: the record sets of the new export.
    """
    if not (folder / MANIFEST).exists():
        return ""
    manifest = _read(folder)
    if manifest is None or manifest.record_sets is None:
        return "its manifest does not list its records"
    if (manifest.result, manifest.classes) != (about.get("result"), about.get("classes")):
        return f"it holds {' and '.join(manifest.classes)} records of gap result {manifest.result}"
    new = {part.record_set: part for part in parts}
    for old in manifest.record_sets:
        name = f"{old.record_set.order.value} records of {old.record_set.place}"
        now = new.get(old.record_set)
        if now is None or now.after > old.after:
            return f"it holds {name} that are not part of this export"
        if now.records < old.records:
            return f"it holds {old.records:,} {name}; the source now has only {now.records:,}"
    return ""


def _there(folder: Path, manifest: _Manifest) -> Iterator[ExportedSet]:
    """Yield the record sets whose files are complete."""
    wanted: Counter[TopicPartition] = Counter()
    for record_set in manifest.record_sets or ():
        wanted[record_set.record_set.place] += record_set.records
    whole = {
        place for place, number in wanted.items() if _is_whole(folder, manifest, place, number)
    }
    yield from (
        record_set
        for record_set in manifest.record_sets or ()
        if record_set.record_set.place in whole
    )


def _is_whole(folder: Path, manifest: _Manifest, place: TopicPartition, records: int) -> bool:
    if not records:
        return True
    name, number, digest = manifest.files.get(place, ("", 0, ""))
    if number != records:
        return False
    found, lines = hashlib.sha256(), 0
    try:
        with (folder / name).open("rb") as file:
            while part := file.read(1 << 20):
                found.update(part)
                lines += part.count(b"\n")
            return lines == number and found.hexdigest() == digest
    except (OSError, ValueError):  # ValueError: no name of a file
        return False


def _read(folder: Path) -> _Manifest | None:
    """Read the manifest; None if it is missing or has an unknown format."""
    try:
        data = read_json((folder / MANIFEST).read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            return None
        files = dict(map(_file, data["files"]))
        record_sets = (
            tuple(map(record_set_of, data["record_sets"])) if "record_sets" in data else None
        )
        result, classes = data["result"], data["classes"]
        if not all(isinstance(each, str) for each in (result, *classes)):
            return None
        return _Manifest(result, list(classes), files, record_sets)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _file(row: Mapping[str, Any]) -> tuple[TopicPartition, tuple[str, int, str]]:
    """Parse a manifest entry.

    Raises:
        KeyError, TypeError: it is not one.
    """
    place = TopicPartition(row["topic"], row["partition"])
    file = row["file"], row["records"], row["sha256"]
    if [*map(type, (*place, *file))] != [str, int, str, int, str]:
        raise TypeError(f"no file of an export: {row}")
    return place, file


_PARTIAL = ".partial"
_APPENDED = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_MOST_OPEN = 32


class _Part:
    """The file of one partition; can be closed and reopened for appending."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.records = 0
        self.sum = hashlib.sha256()
        self._handle: IO[bytes] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the file is open: a process can have only a limited number of open files."""
        return self._handle is not None

    def add(self, line: bytes) -> None:
        """Append a line."""
        if self._handle is None:
            self._handle = os.fdopen(os.open(self.file, _APPENDED, 0o600), "ab", 1 << 20)
        self.records += 1
        self.sum.update(line + b"\n")
        self._handle.write(line + b"\n")

    def close(self) -> None:
        """Flush to disk and close the file."""
        if self._handle is not None:
            self._handle.flush()
            os.fsync(self._handle.fileno())
            self._handle.close()
            self._handle = None


class ExportFolder:
    """Implements `drctl.reconcile.gap_result.Exporter`; never loses an earlier export.

    An export of the same records is replaced when the new one is on disk and holds no fewer.

    Args:
        about: the content of `manifest.json` without the files.
        beside: whether to use another directory (`DIR-2` and so on) if this one holds an export of
            other records; else that is refused.
    """

    def __init__(self, folder: Path, about: dict[str, Any], *, beside: bool = False) -> None:
        self._given = self._folder = folder
        self._about, self._beside = about, beside
        self._parts: dict[TopicPartition, _Part] = {}

    @property
    def _work(self) -> Path:
        return self._folder / _PARTIAL

    def begin(self, parts: Sequence[ExportedSet]) -> None:
        """Create the work directory; an interrupted export is started again from scratch.

        Raises:
            Refused: the directory is not writable, or holds other files or other records.
        """
        self._folder = self._place_for(parts)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_folder()
            shutil.rmtree(self._work, ignore_errors=True)
            self._work.mkdir(mode=0o700)
        except OSError as error:
            raise Refused(
                f"cannot write the export to {self._folder}: {error.strerror}",
                f"nothing was written; choose another directory: {_ELSEWHERE}",
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
        """Move all files to the export directory; `manifest.json` appears last.

        Raises:
            Refused: an earlier export of the same records holds more of them.
            Unknown: it cannot be written, or a file does not hold what was read.
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
        """Replace an earlier export file by file: the new one is complete on disk by now."""
        to.mkdir(mode=0o700, exist_ok=True)
        (to / MANIFEST).unlink(missing_ok=True)
        for part in self._parts.values():
            part.file.rename(to / part.file.name)
        manifest.rename(to / MANIFEST)
        self._work.rmdir()

    def _check_counts(self, parts: Sequence[ExportedSet]) -> None:
        expected: Counter[TopicPartition] = Counter()
        for each in parts:
            expected[each.record_set.place] += each.records
        for place in expected.keys() | self._parts.keys():
            written = self._parts[place].records if place in self._parts else 0
            if written != expected[place]:
                raise Unknown(
                    f"incomplete export in {self._folder}: {place}:"
                    f" {plural(written, 'record was', 'records were')} written,"
                    f" {expected[place]} were read",
                    "run the export again",
                )

    def _place_for(self, parts: Sequence[ExportedSet]) -> Path:
        """Choose the directory for this export.

        Raises:
            Refused: it holds an earlier export with records that this one does not have.
        """
        for folder in self._places():
            blocker = replacement_blocker(folder, self._about, parts)
            if not blocker:
                return folder
            if not self._beside:
                raise Refused(
                    f"{folder} holds an earlier export that must not be overwritten: {blocker}",
                    "choose an empty directory with --out",
                )
        raise AssertionError("directory names are unlimited")

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
                f"{self._folder} contains {min(foreign)!r}, which is not part of an export",
                "choose an empty directory with --out",
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
            f"cannot write the export to {self._folder}: {error.strerror}",
            "the export there is incomplete: free disk space, or choose another directory:"
            f" {_ELSEWHERE}",
        )
