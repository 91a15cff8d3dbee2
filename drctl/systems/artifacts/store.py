"""Artifacts on disk: where they are kept, and that they are what was committed."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from drctl.model.errors import Unknown
from drctl.model.strict_json import read_json


class CorruptArtifact(Unknown):
    """A jar differs from the one drctl was built for."""


def cache_dir() -> Path:
    """$DRCTL_CACHE, else the user's cache folder."""
    if own := os.environ.get("DRCTL_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "drctl"


def sha256(path: Path) -> str:
    """The sum of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Shelf:
    """The folder that holds one set.

    Attributes:
        sums: jar name to the SHA-256 that it must have.
    """

    name: str
    folder: Path
    sums: Mapping[str, str]

    @property
    def paths(self) -> tuple[Path, ...]:
        """Where the jars are, or would be."""
        return tuple(self.folder / jar for jar in sorted(self.sums))

    def missing(self) -> bool:
        """Whether a jar is not there."""
        return not all(path.is_file() for path in self.paths)

    def check(self) -> None:
        """Compare sizes and times with the last full check, and bytes where they differ.

        Raises:
            CorruptArtifact: a jar is unexpected or not what was committed.
        """
        if self._stamp() != self._read_stamp():
            self.check_bytes()
            self._write_stamp()
        self._check_names()

    def check_bytes(self) -> None:
        """Compare every byte.

        Raises:
            CorruptArtifact: a jar is missing, unexpected or not what was committed.
        """
        self._check_names()
        for path in self.paths:
            if not path.is_file():
                raise CorruptArtifact(
                    f"{path.name} is missing among the {self.name} jars that were fetched",
                    "The repository gave another set than drctl was built for; "
                    "check the Ivy settings.",
                )
            if (seen := sha256(path)) != self.sums[path.name]:
                raise CorruptArtifact(
                    f"{path} is corrupt: its SHA-256 is {seen}, not {self.sums[path.name]}",
                    f"Delete it and retry: rm '{path}'",
                )

    def _check_names(self) -> None:
        for path in sorted(self.folder.glob("*.jar")):
            if path.name not in self.sums:
                raise CorruptArtifact(
                    f"{path} does not belong to the {self.name} jars that drctl was built for",
                    f"Delete it and retry: rm '{path}'",
                )

    def _stamp(self) -> dict[str, list[int]]:
        found = {path.name: path.stat() for path in self.paths if path.is_file()}
        return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in found.items()}

    def _read_stamp(self) -> object:
        try:
            return read_json((self.folder / "checked.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def _write_stamp(self) -> None:
        partial = self.folder / f"checked.json.{os.getpid()}"
        partial.write_text(json.dumps(self._stamp()), encoding="utf-8")
        partial.replace(self.folder / "checked.json")
