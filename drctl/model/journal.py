"""The journal of a run, and the holder of its link."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from drctl.model.errors import DamagedJournal


class JournalPlace(Protocol):
    """Where journals are stored; read-only."""

    @property
    def where(self) -> str:
        """The file or topic, for messages."""

    def check(self) -> None:
        """Check whether a run could write here, without writing.

        Raises:
            ConfigError: wrong configuration, or no write permission.
            Unreachable: it did not answer.
            Unknown: it could not be checked.
        """


_NAME = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*")
_LONGEST = 100


def is_run(name: object) -> bool:
    """Whether a run name is valid: letters and digits, joined by single dots, `-` and `_`."""
    return isinstance(name, str) and len(name) <= _LONGEST and bool(_NAME.fullmatch(name))


def folder_of(folder: Path, run: str) -> Path:
    """The folder of a run.

    Raises:
        DamagedJournal: the name is invalid.
    """
    if not is_run(run):
        raise DamagedJournal(
            f"invalid run name {run!r}: not written by drctl",
            "list all runs: drctl journal; check who else may write to topic __drctl_journal",
        )
    return folder / run


Entry = Mapping[str, Any]
"""What JSON can hold; `entry` names its kind. One of kind `ended` is the last of its run."""

ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that executes a run.

    Attributes:
        who: the user.
        pid: process id on that host.
        since: when this process started; with a time zone.
        machine: identifies the boot and pid namespace of `pid`; empty if unknown.
    """

    run: str
    who: str
    host: str
    pid: int
    since: datetime
    machine: str = ""

    def __str__(self) -> str:
        since = self.since.astimezone(UTC)
        return (
            f"{self.who} on {self.host} (process {self.pid}), since {since:%Y-%m-%d %H:%M:%S} UTC"
        )

    def to_json(self) -> dict[str, Any]:
        """The JSON form in journals."""
        return {
            "run": self.run,
            "who": self.who,
            "host": self.host,
            "pid": self.pid,
            "since": self.since.isoformat(),
            **({"machine": self.machine} if self.machine else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Holder":
        """Read the result of `to_json`.

        Raises:
            ValueError: the data does not have that form.
        """
        match data:
            case {
                "run": str() as run,
                "who": str() as who,
                "host": str() as host,
                "pid": int() as pid,
                "since": str() as since,
            }:
                machine = str(data.get("machine", ""))
                found = cls(run, who, host, pid, datetime.fromisoformat(since), machine)
                if found.since.tzinfo is not None and found.to_json() == dict(data):
                    return found
        raise ValueError(f"not a holder: {dict(data)}")


class RunJournal(Protocol):
    """Writes the entries of one run."""

    @property
    def run(self) -> str:
        """The name of the run."""

    @property
    def where(self) -> str:
        """The file or topic, for messages."""

    def append(self, entries: Sequence[Entry]) -> object:
        """Write the entries atomically and durably.

        Raises:
            Fenced: another run has acquired the link; this one must stop.
            Unknown: the write failed, or its outcome is unknown.
        """


class HeldJournal(RunJournal, Protocol):
    """The journal of a run that holds its link."""

    def check(self) -> None:
        """Check that the run still holds its link, from the last known state.

        Raises:
            Fenced: another run has acquired the link; this one must stop.
        """


class JournalReader(Protocol):
    """Reads the journals of a link's runs."""

    def runs(self) -> Sequence[str]:
        """All runs, newest first.

        Raises:
            Unknown: they cannot be read.
        """

    def entries(self, run: str) -> Sequence[Entry]:
        """The entries of a run.

        Raises:
            UsageError: there is no such run.
            Unknown: it cannot be read, or is damaged.
        """

    def intact_lines(self, run: str) -> int:
        """Number of leading lines that are intact.

        Raises:
            UsageError: there is no such run.
            Unknown: it cannot be read.
        """

    def is_abandoned(self, run: str) -> bool:
        """Whether the run was abandoned."""

    def lines(self, run: str) -> Sequence[bytes]:
        """The stored lines with their checksums, for `run_state.verify`.

        Raises:
            UsageError: there is no such run.
            Unknown: it cannot be read.
        """
