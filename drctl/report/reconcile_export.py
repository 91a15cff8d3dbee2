"""The folder of an export: a file for each partition, `manifest.json` last, for its owner alone."""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import IO, Any

from drctl.model.errors import Refused, Unknown
from drctl.model.topology import TopicPartition
from drctl.reconcile.export import FORMAT, MANIFEST, line_of
from drctl.reconcile.rows import Exported

_PARTIAL = ".partial"
_APPENDED = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_MOST_OPEN = 32


def whole_exports(state_dir: Path) -> frozenset[str]:
    """The results of which everything was exported; one that was interrupted has no manifest."""
    found = state_dir.glob(f"reconcile/exports/*/{MANIFEST}")
    return frozenset(each.parent.name for each in found)


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
    """Implements `drctl.reconcile.rows.Exporter`; makes nothing before the first record.

    Args:
        about: what `manifest.json` says beside the files.
    """

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self._folder = folder
        self._about = about
        self._parts: dict[TopicPartition, _Part] = {}

    @property
    def _work(self) -> Path:
        return self._folder / _PARTIAL

    def add(self, to: Exported) -> None:
        """Write a record.

        Raises:
            Refused: the folder holds something else.
            Unknown: it cannot be written.
        """
        try:
            part = self._parts.get(to.place)
            if part is None:
                if not self._parts:
                    self._begin()
                part = self._parts[to.place] = _Part(self._work / f"{to.place}.jsonl")
            if not part.is_open:
                self._make_room()
            part.add(line_of(to))
        except OSError as error:
            raise self._unwritable(error) from error

    def finish(self) -> str:
        """Move everything to its place; `manifest.json` appears last.

        Raises:
            Unknown: it cannot be written.
        """
        try:
            if not self._parts:
                self._begin()
            for part in self._parts.values():
                part.close()
                part.file.rename(self._folder / part.file.name)
            manifest = _Part(self._work / MANIFEST)
            manifest.add(json.dumps(self._manifest(), indent=2).encode())
            manifest.close()
            manifest.file.rename(self._folder / MANIFEST)
            self._work.rmdir()
        except OSError as error:
            raise self._unwritable(error) from error
        return str(self._folder)

    def _make_room(self) -> None:
        opened = [part for part in self._parts.values() if part.is_open]
        if len(opened) >= _MOST_OPEN:
            for part in opened:
                part.close()

    def _begin(self) -> None:
        """Start anew where an earlier export was made, or was interrupted."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ours = {MANIFEST, _PARTIAL}
        strangers = [
            p.name
            for p in self._folder.iterdir()
            if p.name not in ours and not p.name.endswith(".jsonl")
        ]
        if strangers:
            raise Refused(
                f"{self._folder} holds {min(strangers)!r}, which is not of an export",
                "choose an empty folder with --out",
            )
        (self._folder / MANIFEST).unlink(missing_ok=True)
        for file in self._folder.glob("*.jsonl"):
            file.unlink()
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir(mode=0o700)

    def _manifest(self) -> dict[str, Any]:
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
        return {"format": FORMAT, **self._about, "files": files}

    def _unwritable(self, error: OSError) -> Unknown:
        return Unknown(
            f"the export cannot be written to {self._folder}: {error.strerror}",
            "nothing there is a whole export; free space or choose another --out, and run again",
        )
