"""`drctl gap --identity`: change events that are in a topic twice, in one cluster."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.console import console
from drctl.cli.options import options

if TYPE_CHECKING:
    from rich.console import RenderableType

    from drctl.config.configuration import Config
    from drctl.config.schema import ClusterConfig
    from drctl.gap.event_duplicates import EventCounter
    from drctl.model.event_duplicates import EventDuplicates, EventFormat


def find_repeated(
    config: "Config",
    link: str | None,
    cluster: str | None,
    topics: Sequence[str],
    events: "EventFormat",
) -> int:
    """Show which events are there more than once.

    Args:
        link: a link's name; else the only one.
        cluster: a cluster's name; else the link's source.

    Raises:
        UsageError: there is no such cluster or topic.
        Unreachable: the cluster did not answer.
        ScanFailed: something could not be read to its end.
    """
    name = cluster or config.link(link).source
    result = _look(config, name, config.cluster(name), topics, events)

    def table() -> "RenderableType":
        from drctl.cli.gap.event_table import event_table

        return event_table(result)

    console().result(table, result.to_json())
    return int(result.exit_code)


def _look(
    config: "Config",
    name: str,
    cluster: "ClusterConfig",
    topics: Sequence[str],
    events: "EventFormat",
) -> "EventDuplicates":
    from drctl.gap.event_duplicates import EventAnalysis

    with (
        wiring.open_reader(name, cluster) as reader,
        ExitStack() as opened,
        console().task("looking at the cluster") as task,
    ):

        def progress(phase: str, done: int = 0, total: int = 0) -> None:
            task.update(done=done, total=total or None, description=phase)

        def open_counter(offsets: int) -> "EventCounter":
            from drctl.gap.event_duplicates import DirectEventCounter

            if offsets < config.spark.from_offsets:
                return DirectEventCounter(wiring.range_reader(name, cluster).read)
            log = opened.enter_context(_log())
            counter = wiring.spark_events(config, cluster, log, progress, offsets)
            return opened.enter_context(counter)

        analysis = EventAnalysis(events, reader, open_counter, progress, lambda: datetime.now(UTC))
        return analysis.run(tuple(dict.fromkeys(topics)))


@contextmanager
def _log() -> "Iterator[Path | None]":
    """A file for what the JVM prints; None where it may be seen."""
    if options().verbose:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="drctl-") as folder:
        yield Path(folder) / "spark.log"
