"""What applications write down about themselves: lines of JSON, each as soon as it is so."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A record that a cluster says it has."""

    cluster: str
    partition: int
    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A record of which nobody knows whether the cluster has it."""

    cluster: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class Processed:
    """A record that a group has dealt with.

    Attributes:
        stay: the group's stay on a cluster: 0 is the first, and each move begins another.
    """

    stay: int
    cluster: str
    partition: int
    offset: int
    value: str


class What(StrEnum):
    """What became of a commit; where nothing follows SENT, nobody knows."""

    SENT = "sent"
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Committed:
    """A position that a group sent, or what the cluster said of it.

    Attributes:
        offset: of the next record.
    """

    stay: int
    cluster: str
    partition: int
    offset: int
    what: What


Line = Acknowledged | Failed | Processed | Committed
_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (Acknowledged, Failed, Processed, Committed)
}


class Log:
    """A file that one application appends to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO = path.open("a", buffering=1, encoding="ascii")

    def write(self, line: Line) -> None:
        """Append; it is with the system when this returns. Who is late is not heard any more."""
        if self._file.closed:
            return
        self._file.write(json.dumps({"is": type(line).__name__, **asdict(line)}) + "\n")

    def close(self) -> None:
        """No more."""
        self._file.close()


def read_log(path: Path) -> Iterator[Line]:
    """What stands in such a file; a line that was not finished is left out."""
    with path.open(encoding="ascii") as file:
        for line in file:
            if line.endswith("\n"):
                found = json.loads(line)
                if "what" in found:
                    found["what"] = What(found["what"])
                yield _KINDS[found.pop("is")](**found)
