"""The journal of a run: where it is kept, and both places: the topic first, then the file.

It is kept in topic `__drctl_journal` on the surviving cluster, or, of a run inside one cluster, on
that one. Where that one cannot take it now, a file of this machine has to do: `begun` decides.
"""

import getpass
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app import run_adapters
from drctl.app.notices import notices
from drctl.config.link import INSIDE
from drctl.host.processes import this_machine
from drctl.model.errors import ConfigError, DrctlError, Refused, Unknown, UsageError
from drctl.model.journal import Entry, Holder, folder_of

if TYPE_CHECKING:
    from drctl.app.run_adapters import HeldRun, JournalTopic, JournalTopicReader, RunFile
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.journal import HeldJournal


@dataclass(frozen=True, slots=True)
class BothPlaces:
    """Implements `drctl.model.journal.HeldJournal`."""

    topic: "HeldRun"
    file: "RunFile"

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
        self.file.copy(self.topic.append(entries))

    def check(self) -> None:
        """See that the run holds its link still, as of the last beat.

        Raises:
            Fenced: another run has taken it.
        """
        self.topic.check()


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
            f"link {link.name} is locked by run {alive.run}: {alive}",
            "wait until it ends, or stop its process and resume it",
        )


def scope(
    config: "Config",
    run: str | None,
    link: str | None,
    cluster: str | None = None,
    connect: str | None = None,
) -> "Link":
    """What a run is of: what is named, or what this machine knows of it.

    Args:
        connect: workers as typed.

    Raises:
        UsageError: there is no such link or cluster, or several are named.
    """
    from drctl.app import connect_adapters

    if connect is not None:
        if link is not None or cluster is not None:
            raise UsageError("--connect excludes --link and --cluster")
        return connect_adapters.link_of(config, connect_adapters.typed_workers(connect, config))
    if run is not None and link is None and cluster is None:
        with suppress(DrctlError, KeyError, TypeError):
            name = str(run_adapters.run_files(config).entries(run)[0]["plan"]["link"])
            if name.startswith(INSIDE):
                return config.inside(name.removeprefix(INSIDE))
            if name.startswith(connect_adapters.WORKERS):
                return connect_adapters.link_named(config, name)
            return config.link(name)
    return config.over(link, cluster)


def reading(
    config: "Config", link: "Link", run: str | None = None
) -> "JournalTopicReader | run_adapters.LocalRuns":
    """What reads the journal of a run, or of the newest.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    if link.is_inside:
        local = run_adapters.local_runs(config, link)
        if run in local.runs() or (run is None and local.unfinished):
            return local
    return run_adapters.journal_reader(link)


@contextmanager
def begun(
    config: "Config", link: "Link", held: Holder, topic: "JournalTopic | None" = None
) -> "Iterator[HeldJournal]":
    """The journal of a new run, which holds the link meanwhile. Here it is decided where it is.

    Args:
        topic: the link's; what was read of it is not read again.

    Raises:
        Refused: somebody else holds it, or a run stopped part-way.
        ConfigError: the topic may not be made or written.
        Unknown: it cannot be written.
    """
    with ExitStack() as opened:
        yield _taken(config, link, held, topic or run_adapters.journal_topic(link), opened)


def _taken(
    config: "Config", link: "Link", held: Holder, topic: "JournalTopic", opened: ExitStack
) -> "HeldJournal":
    files, local = run_adapters.run_files(config), run_adapters.local_runs(config, link)
    if link.is_inside and local.unfinished:
        return opened.enter_context(local.take(held))
    try:
        taken = opened.enter_context(topic.acquire(held))
    except (ConfigError, Unknown) as why:
        if not link.is_inside:
            raise
        notices().warn(
            f"{topic.where} cannot keep the journal, it is in {local.where}: no other machine can"
            f" go on with the run: {why.message}"
        )
        return opened.enter_context(local.take(held))
    return BothPlaces(taken, opened.enter_context(files.anew(held.run)))


@contextmanager
def gone_on(
    config: "Config", link: "Link", held: Holder
) -> "Iterator[tuple[HeldJournal, Sequence[Entry]]]":
    """The journal of a run that somebody goes on with, and what it says so far.

    Raises:
        Refused: somebody is carrying it out.
        UsageError: there is no such run.
        Unknown: it cannot be read or written.
    """
    from drctl.engine import run_state

    found = reading(config, link, held.run)
    if isinstance(found, run_adapters.LocalRuns):
        with found.resume(held) as file:
            yield file, found.entries(held.run)
        return
    files = run_adapters.run_files(config)
    topic = run_adapters.journal_topic(link)
    with topic.resume(held) as taken, files.reopen(held.run, taken.lines) as file:
        entries = run_state.entries_in(held.run, taken.lines, taken.where)
        yield BothPlaces(taken, file), entries


@contextmanager
def left(config: "Config", link: "Link", held: Holder) -> "Iterator[HeldJournal]":
    """The journal of a run that is damaged, and that nobody goes on with from here on.

    Raises:
        Refused: somebody is carrying it out.
        UsageError: there is no such run.
        Unknown: it cannot be read or written.
    """
    found = reading(config, link, held.run)
    if isinstance(found, run_adapters.LocalRuns):
        with found.resume(held) as file:
            yield file
        return
    with run_adapters.journal_topic(link).abandon(held) as taken:
        yield taken
