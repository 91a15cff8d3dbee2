"""Logs of the applications: JSON lines, each written at once."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A record that a cluster acknowledged."""

    cluster: str
    partition: int
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A record with an unknown result."""

    cluster: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Aborted:
    """A record of a transaction that was not committed."""

    cluster: str
    value: str


@dataclass(frozen=True, slots=True)
class Processed:
    """A record that a group processed.

    Attributes:
        stay: number of the group's stay on a cluster, from 0; each move begins another.
    """

    stay: int
    cluster: str
    partition: int
    offset: int
    value: str


class What(StrEnum):
    """The result of a commit; unknown if nothing follows SENT."""

    SENT = "sent"
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Committed:
    """A commit of a group, or the cluster's response.

    Attributes:
        offset: offset of the next record.
    """

    stay: int
    cluster: str
    partition: int
    offset: int
    what: What


Line = Acknowledged | Failed | Aborted | Processed | Committed
_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Acknowledged, Failed, Aborted, Processed, Committed)
}


class Log:
    """A file that one application appends to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO = path.open("a", buffering=1, encoding="ascii")

    def write(self, line: Line) -> None:
        """Append a line durably; ignored after `close`."""
        if self._file.closed:
            return
        self._file.write(json.dumps({"is": type(line).__name__, **asdict(line)}) + "\n")

    def close(self) -> None:
        """Ignore later lines."""
        self._file.close()


def read_log(path: Path) -> Iterator[Line]:
    """Return the lines of a file without an incomplete one."""
    with path.open(encoding="ascii") as file:
        for line in file:
            if line.endswith("\n"):
                found = json.loads(line)
                if "what" in found:
                    found["what"] = What(found["what"])
                yield _KINDS[found.pop("is")](**found)
