"""`drctl dump-consumer-timestamps`: decodes the topic that Replicator uses to translate offsets."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.app import adapters
from drctl.app.notices import SilentTask
from drctl.cli.console import console
from drctl.cli.options import Output, options
from drctl.cli.settings import configuration
from drctl.cli.terminal import is_terminal
from drctl.formats.consumer_timestamps import TOPIC
from drctl.gap.comparison import ScanFailed
from drctl.model.errors import ExitCode, Unknown, UsageError
from drctl.model.text import lines as meant
from drctl.model.text import plural
from drctl.model.topology import Chunk
from drctl.offsets.consumer_timestamps import (
    Extent,
    NewestTimestamps,
    RowDecoder,
    TimestampRow,
    Wanted,
    freeze,
    read_frozen,
    row_json,
)
from drctl.views.timestamps import Columns, undecodable

if TYPE_CHECKING:
    from drctl.app.notices import Task
    from drctl.config.configuration import Config
    from drctl.config.schema import ClusterConfig


def dump_consumer_timestamps(
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER", help="Cluster in drctl.yaml.", show_default="the only source cluster"
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP",
            help="Only this group, by its exact name. Repeatable.",
            show_default="all groups",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC",
            help="Only this topic, by its exact name. Repeatable.",
            show_default="all topics",
        ),
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Show every record, not only the newest of each partition."),
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep printing new records until interrupted.")
    ] = False,
) -> int:
    """Decode Confluent Replicator's __consumer_timestamps topic.

    Shows the timestamp of the record that each group consumed last. Read-only: joins no consumer
    group, and needs no Confluent JAR.

    Examples:
        drctl dump-consumer-timestamps
        drctl dump-consumer-timestamps --group billing --all
        drctl dump-consumer-timestamps --follow --output json

    Exit codes:
        0: everything was read
        1: a record could not be decoded
        5: the topic does not exist, or could not be read completely
        130: interrupted; always with --follow
    """
    config = configuration()
    name = cluster or _source(config)
    wanted = Wanted(frozenset(group or ()), frozenset(topic or ()))
    dump = Dump(name, config.cluster(name), wanted, everything)
    try:
        return int(dump.run(follow))
    except BrokenPipeError:
        return ExitCode.INTERRUPTED  # the reader of stdout is gone


def _source(config: "Config") -> str:
    """The source of all links, or the only cluster.

    Raises:
        UsageError: there are several.
    """
    from drctl.config.problems import to_add

    sources = {link.source for link in config.file.links.values()} or set(config.clusters)
    if len(sources) != 1:
        raise UsageError(
            f"{config.path} has {len(sources)} source clusters: choose one",
            to_add("--cluster", tuple(sorted(sources))),
        )
    return sources.pop()


_BATCH = 1000
_ERRORS_SHOWN = 20


class DumpOutput:
    """Prints rows in batches, as JSON lines or as a table.

    Attributes:
        undecodable: number of records that could not be decoded.
    """

    def __init__(self, cluster: str, everything: bool) -> None:
        self._cluster = cluster
        self._everything = everything
        self._json = options().output is Output.JSON
        self._columns = Columns()
        self._waiting: list[TimestampRow] = []
        self._errors: list[TimestampRow] = []
        self._shown = 0
        self._silent_errors = 0
        self.undecodable = 0

    def task(self, description: str, total: int) -> "AbstractContextManager[Task]":
        """Show progress, unless rows are printed to the same terminal."""
        if self._everything and sys.stdout and is_terminal(sys.stdout):
            return nullcontext(SilentTask())
        return console().task(description, total)

    def rows(self, rows: Iterable[TimestampRow]) -> None:
        """Queue rows for printing."""
        for row in rows:
            self.undecodable += bool(row.error)
            self._shown += not row.error
            if row.error and not self._json:
                self._keep(row)
            else:
                self._waiting.append(row)
                if len(self._waiting) >= _BATCH:
                    self._print()

    def flush(self) -> None:
        """Print queued rows."""
        self._print()
        lines = [undecodable(row) for row in self._errors]
        if self._silent_errors:
            more = plural(self._silent_errors, "more undecodable record")
            lines.append(f"and {more}; --output json lists all")
        if lines:
            console().result(meant(lines), {})
        self._errors, self._silent_errors = [], 0

    def end(self) -> None:
        """Print a summary."""
        what = plural(self._shown, "record" if self._everything else "partition")
        console().note(f"{what} in topic {TOPIC} of {self._cluster}")
        if self.undecodable:
            console().warn(f"{plural(self.undecodable, 'record')} could not be decoded")

    def _keep(self, row: TimestampRow) -> None:
        if len(self._errors) < _ERRORS_SHOWN:
            self._errors.append(row)
        else:
            self._silent_errors += 1

    def _print(self) -> None:
        if not self._waiting:
            return
        rows, self._waiting = self._waiting, []
        if self._json:
            console().stream(*map(row_json, rows))
            return
        self._columns.fit(rows)
        lines = [self._columns.heading()] if self._shown == len(rows) else []
        lines += map(self._columns.line, rows)
        console().result(meant(lines), {})


@dataclass(frozen=True, slots=True)
class Dump:
    """What to print.

    Attributes:
        everything: every record, instead of the newest of each key.
    """

    name: str
    cluster: "ClusterConfig"
    wanted: Wanted
    everything: bool

    def run(self, follow: bool) -> ExitCode:
        """Print the records; with `follow`, until interrupted.

        Raises:
            Unknown: the topic could not be read completely.
            Unreachable: the cluster did not answer.
        """
        decoder = RowDecoder(self.wanted)
        output = DumpOutput(self.name, self.everything)
        with adapters.reader(self.name, self.cluster).topics as reader:
            extent = freeze(reader)
            for reason in extent.incomplete:
                console().warn(f"topic {TOPIC} of {self.name}: {reason}")
            self._show(extent, decoder, output)
            output.end()
            if follow:
                tail = adapters.topic_tail(reader, self.cluster, extent.topic)
                for chunk in tail.chunks(extent.ends):
                    output.rows(decoder.rows(chunk))
                    output.flush()
        if extent.incomplete:
            return ExitCode.UNKNOWN
        return ExitCode.FOUND if output.undecodable else ExitCode.DONE

    def _show(self, extent: Extent, decoder: RowDecoder, output: DumpOutput) -> None:
        with output.task(f"reading {TOPIC} of {self.name}", extent.offsets) as task:
            chunks = self._chunks(extent, task)
            if self.everything:
                for chunk in chunks:
                    output.rows(decoder.rows(chunk))
            else:
                newest = NewestTimestamps(decoder, adapters.temporary_entries)
                for chunk in chunks:
                    output.rows(newest.take(chunk))
        if not self.everything:
            output.rows(newest.rows())
        output.flush()

    def _chunks(self, extent: Extent, task: "Task") -> Iterator[Chunk]:
        reader = adapters.frugal_range_reader(self.name, self.cluster)
        try:
            yield from read_frozen(reader, extent, task.update)
        except ScanFailed as failed:
            raise Unknown(
                f"topic {TOPIC} could not be read completely: {failed.cause}",
                "check that all brokers are running, then retry",
            ) from failed
