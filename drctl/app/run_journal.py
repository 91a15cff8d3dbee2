"""The journal of a run in both places: the topic on the surviving cluster first, then the file."""

import getpass
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app import run_adapters
from drctl.host.processes import this_machine
from drctl.model.errors import Refused
from drctl.model.journal import Entry, Holder, folder_of

if TYPE_CHECKING:
    from drctl.app.run_adapters import JournalTopic, JournalTopicReader
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.journal import HeldJournal, RunJournal


@dataclass(frozen=True, slots=True)
class BothPlaces:
    """Implements `drctl.model.journal.HeldJournal`."""

    topic: "HeldJournal"
    file: "RunJournal"

    @property
    def run(self) -> str:
        """The name of the run."""
        return self.topic.run

    @property
    def where(self) -> str:
        """Both, for messages."""
        return f"{self.topic.where} and {self.file.where}"

    def append(self, entries: Sequence[Entry]) -> None:
        """Write them down; durable in both places when this returns.

        Raises:
            Fenced: another run has taken the link.
            Unknown: they could not be written, or nobody can say whether they were.
        """
        self.topic.append(entries)
        self.file.append(entries)

    def check(self) -> None:
        """See that the run holds its link still, as of the last beat.

        Raises:
            Fenced: another run has taken it.
        """
        self.topic.check()


def new_run() -> str:
    """A name that sorts by time."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def folder(config: "Config", run: str) -> Path:
    """What this machine keeps of a run."""
    return folder_of(config.state_dir / "runs", run)


def holder(run: str) -> Holder:
    """This process."""
    user, host, now = getpass.getuser(), socket.gethostname(), datetime.now(UTC)
    return Holder(run, user, host, os.getpid(), now, this_machine())


def commanded(held: Holder) -> Mapping[str, str]:
    """This process as above, and when it was started: from then on an outage is counted."""
    import psutil

    began = datetime.fromtimestamp(psutil.Process().create_time(), UTC)
    return {**who(held), "commanded": began.isoformat()}


def who(held: Holder) -> Mapping[str, str]:
    """As it stands in entries."""
    return {"user": held.who, "host": held.host, "process": str(held.pid)}


def refuse_while_held(link: "Link", reader: "JournalTopicReader | None" = None) -> None:
    """Who carries out a run is told before anything else: all else changes meanwhile.

    Args:
        reader: what goes on from there, and need not read it all again.

    Raises:
        Refused: somebody who is alive holds the link.
        Unreachable: the cluster that keeps the journal did not answer.
    """
    alive = (reader or run_adapters.journal_reader(link)).alive()
    if alive is not None:
        raise Refused(
            f"link {link.name} is held by run {alive.run}: {alive}",
            "wait until it ends, or stop it there: a run whose process is gone can be resumed",
        )


@contextmanager
def begun(config: "Config", topic: "JournalTopic", held: Holder) -> Iterator[BothPlaces]:
    """The journal of a new run, which holds the link meanwhile.

    Args:
        topic: the link's; what was read of it is not read again.

    Raises:
        Refused: somebody else holds it, or a run stopped part-way.
        ConfigError: the topic may not be made or written.
        Unknown: it cannot be written.
    """
    files = run_adapters.run_files(config)
    with (
        topic.take(held) as taken,
        files.anew(held.run) as file,
    ):
        yield BothPlaces(taken, file)


@contextmanager
def gone_on(
    config: "Config", link: "Link", held: Holder
) -> Iterator[tuple[BothPlaces, Sequence[Entry]]]:
    """The journal of a run that somebody goes on with, and what it says so far.

    Raises:
        Refused: somebody is carrying it out.
        UsageError: there is no such run.
        Unknown: it cannot be read or written.
    """
    from drctl.engine import run_state

    files = run_adapters.run_files(config)
    topic = run_adapters.journal_topic(link)
    with (
        topic.go_on(held) as taken,
        files.go_on(held.run, taken.lines) as file,
    ):
        entries = run_state.entries_in(held.run, taken.lines, taken.where)
        yield BothPlaces(taken, file), entries
