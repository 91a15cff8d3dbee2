"""Opens the journal of a run, which is written to a topic and then copied to a file.

The topic `__drctl_journal` is on the surviving cluster. A run inside one cluster has it on that
cluster; if the cluster cannot store it, the journal is only in a file on this host: see `begun`.
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
        """Both places, for messages."""
        return f"{self.topic.where} and {self.file.where}"

    def append(self, entries: Sequence[Entry]) -> None:
        """Append entries; they are durable in both places when this returns.

        Raises:
            Fenced: another run has locked the link.
            Unknown: they could not be written, or it is unknown whether they were.
        """
        self.file.copy(self.topic.append(entries))

    def check(self) -> None:
        """Check that the run still holds its link, as of the last heartbeat.

        Raises:
            Fenced: another run has locked it.
        """
        self.topic.check()


def folder(config: "Config", run: str) -> Path:
    """The folder of a run on this host."""
    return folder_of(config.state_dir / "runs", run)


def holder(run: str) -> Holder:
    """This process as the holder of a run."""
    user, host, now = getpass.getuser(), socket.gethostname(), datetime.now(UTC)
    return Holder(run, user, host, os.getpid(), now, this_machine())


def with_command_time(held: Holder) -> Mapping[str, str]:
    """A holder as in journal entries, with the start time of its process, to measure an outage."""
    import psutil

    began = datetime.fromtimestamp(psutil.Process().create_time(), UTC)
    return {**who(held), "commanded": began.isoformat()}


def who(held: Holder) -> Mapping[str, str]:
    """A holder as in journal entries."""
    return {"user": held.who, "host": held.host, "process": str(held.pid)}


def refuse_while_held(
    link: "Link", reader: "JournalTopicReader | None" = None, *, rehearsal: bool = False
) -> None:
    """Refuse if another run holds the link; checked first, as that run changes what checks read.

    Args:
        reader: the reader of the journal, if there is one already.
        rehearsal: whether to ignore a run in which no step changes anything, such as a run of the
            runbook `drill`.

    Raises:
        Refused: a live process holds the link.
        Unreachable: the cluster of the journal did not answer.
        Unknown: the journal of that run is damaged.
    """
    from drctl.engine.active_cluster import changes
    from drctl.engine.run_state import read_run
    from drctl.steps.registry import KINDS

    reader = reader or run_adapters.journal_reader(link)
    alive = reader.alive()
    if alive is None:
        return
    if not rehearsal or changes(read_run(reader.entries(alive.run)).plan, KINDS):
        raise Refused(
            f"link {link.name} is held by run {alive.run}: {alive}",
            "wait until it ends, or stop its process and resume it",
        )


def scope(
    config: "Config",
    run: str | None,
    link: str | None,
    cluster: str | None = None,
    connect: str | None = None,
) -> "Link":
    """The link of a run, from the options, otherwise from the copy of its journal on this host.

    Args:
        connect: addresses of workers as typed.

    Raises:
        UsageError: there is no such link or cluster, or several are named.
    """
    from drctl.app import connect_adapters

    if connect is not None:
        if link is not None or cluster is not None:
            raise UsageError("--connect cannot be combined with --link or --cluster")
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
    """A reader of the journal of a run, or of the newest run.

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
    """Begin the journal of a new run, which locks the link; decides where the journal is.

    Args:
        topic: the link's journal topic, if it is open already.

    Raises:
        Refused: another run holds the link, or a run stopped part-way.
        ConfigError: drctl has no permission to create or write the topic.
        Unknown: it cannot be written.
    """
    topic = topic or run_adapters.journal_topic(link)
    files, local = run_adapters.run_files(config), run_adapters.local_runs(config, link)
    with ExitStack() as opened:
        if link.is_inside and local.unfinished:
            yield opened.enter_context(local.take(held))
            return
        try:
            taken = opened.enter_context(topic.acquire(held))
        except (ConfigError, Unknown) as error:
            if not link.is_inside:
                raise
            notices().warn(
                f"{topic.where} cannot store the journal; it is only in {local.where}, so only"
                f" this host can resume the run: {error.message}"
            )
            journal: HeldJournal = opened.enter_context(local.take(held))
        else:
            journal = BothPlaces(taken, opened.enter_context(files.create(held.run)))
        yield journal


@contextmanager
def resumed(
    config: "Config", link: "Link", held: Holder
) -> "Iterator[tuple[HeldJournal, Sequence[Entry]]]":
    """Open the journal of a run that is resumed, with its entries.

    Raises:
        Refused: another process is executing the run.
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
def abandoned(config: "Config", link: "Link", held: Holder) -> "Iterator[HeldJournal]":
    """Open the damaged journal of a run that is abandoned.

    Raises:
        Refused: another process is executing the run.
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
