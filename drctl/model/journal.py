"""The journal of a run: what is kept of it, and who holds the link meanwhile."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from drctl.model.errors import DamagedJournal


class JournalPlace(Protocol):
    """Looked at before a run; nothing is written."""

    @property
    def where(self) -> str:
        """The file or topic, for messages."""

    def check(self) -> None:
        """See whether a run could write here, as far as that can be told without writing.

        Raises:
            ConfigError: it is not as it must be, or may not be written.
            Unreachable: it did not answer.
            Unknown: it could not be looked at.
        """


_NAME = re.compile(r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*")
_LONGEST = 100


def is_run(name: object) -> bool:
    """Whether a run can be called so: letters and digits, joined by single dots, `-` and `_`."""
    return isinstance(name, str) and len(name) <= _LONGEST and bool(_NAME.fullmatch(name))


def folder_of(folder: Path, run: str) -> Path:
    """The folder of a run.

    Raises:
        DamagedJournal: no run is called so: the name was read somewhere, and leads elsewhere.
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
    """Who carries out a run, and where.

    Attributes:
        who: the user.
        pid: of the process on that host.
        since: when this process began with it; with a time zone.
        machine: which processes `pid` is one of; empty where nobody can say.
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
        """As it stands in journals."""
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
        """From what `to_json` made.

        Raises:
            ValueError: it did not.
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
    """Keeps the entries of one run."""

    @property
    def run(self) -> str:
        """The name of the run."""

    @property
    def where(self) -> str:
        """The file or topic, for messages."""

    def append(self, entries: Sequence[Entry]) -> object:
        """Write them down, all or none; durable when this returns.

        Raises:
            Fenced: another run has taken the link; this one may not go on.
            Unknown: they could not be written, or nobody can say whether they were.
        """


class HeldJournal(RunJournal, Protocol):
    """The same of a run that holds its link, for as long as nobody else takes it."""

    def check(self) -> None:
        """See that it does still, as far as is known by now; asks nobody.

        Raises:
            Fenced: another run has taken the link; this one may not go on.
        """


class JournalReader(Protocol):
    """Looks at the journals of a link's runs; writes nothing."""

    def runs(self) -> Sequence[str]:
        """All runs that are kept, the newest first.

        Raises:
            Unknown: they cannot be read.
        """

    def entries(self, run: str) -> Sequence[Entry]:
        """What a run wrote down.

        Raises:
            UsageError: there is no such run.
            Unknown: it cannot be read, or is damaged.
        """

    def sound(self, run: str) -> int:
        """How many of its lines, from the first on, are as they were written.

        Raises:
            UsageError: there is no such run.
            Unknown: it cannot be read.
        """

    def set_aside(self, run: str) -> bool:
        """Whether somebody said that nobody goes on with it, whatever its journal says."""

    def lines(self, run: str) -> Sequence[bytes]:
        """The same, sealed as it is kept: `run_state.verify` tells whether it is whole.

        Raises:
            UsageError: there is no such run.
            Unknown: it cannot be read.
        """
