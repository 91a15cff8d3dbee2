"""`drctl duplicates`: finds change events that a topic holds more than once."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drctl.app import adapters
from drctl.cli.console import console
from drctl.cli.grammar import LinkName, takes_request
from drctl.cli.options import options
from drctl.cli.settings import configuration

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.schema import ClusterConfig
    from drctl.gap.event_duplicates import EventCounter
    from drctl.model.event_duplicates import EventDuplicates, EventFormat


class Identity(StrEnum):
    """What identifies an event."""

    DEBEZIUM = "debezium"


SPARK_OFFSETS = 1_000_000
"""With this many offsets or more Spark counts the events, unless `spark.from_offsets` is set."""


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """Arguments and options."""

    topic: Annotated[
        tuple[str, ...],
        typer.Option(metavar="TOPIC", help="Topic to read, by its exact name. Repeatable."),
    ]
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER", help="Cluster in drctl.yaml.", show_default="the source of the link"
        ),
    ] = None
    link: LinkName = None
    identity: Annotated[
        Identity,
        typer.Option(
            help="What identifies an event. debezium: the source position in the database log."
        ),
    ] = Identity.DEBEZIUM


@takes_request
def duplicates(given: Duplicates) -> int:
    """Find duplicate change events in a topic.

    Read-only. Reads topics of one cluster.

    Examples:
        drctl duplicates --topic shop.orders
        drctl duplicates --topic shop.orders --cluster secondary --identity debezium

    Exit codes:
        0: no duplicates
        1: duplicates were found
        5: not everything could be read
    """
    from drctl.model.event_duplicates import EventFormat
    from drctl.views.estimate_text import event_table

    config = configuration()
    name = given.cluster or config.link(given.link).source
    result = _look(config, name, config.cluster(name), given.topic, EventFormat(given.identity))
    return console().result(event_table(result), result.to_json(), result.exit_code)


def _look(
    config: "Config",
    name: str,
    cluster: "ClusterConfig",
    topics: Sequence[str],
    events: "EventFormat",
) -> "EventDuplicates":
    from drctl.gap.event_duplicates import EventAnalysis

    with (
        adapters.reader(name, cluster).topics as reader,
        ExitStack() as opened,
        console().task("reading the topics") as task,
    ):

        def progress(phase: str, done: int = 0, total: int = 0) -> None:
            task.update(done=done, total=total or None, description=phase)

        def open_counter(offsets: int) -> "EventCounter":
            from drctl.gap.event_duplicates import DirectEventCounter

            from_offsets = config.spark.from_offsets
            if offsets < (SPARK_OFFSETS if from_offsets is None else from_offsets):
                return DirectEventCounter(adapters.range_reader(name, cluster).read)
            log = opened.enter_context(_log())
            counter = adapters.spark_events(config, cluster, log, progress, offsets)
            return opened.enter_context(counter)

        analysis = EventAnalysis(events, reader, open_counter, progress, lambda: datetime.now(UTC))
        return analysis.run(tuple(dict.fromkeys(topics)))


@contextmanager
def _log() -> "Iterator[Path | None]":
    """A file for the output of the JVM; None if it goes to the terminal."""
    if options().verbose:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="drctl-") as folder:
        yield Path(folder) / "spark.log"
