"""`drctl dump-consumer-timestamps`: what Replicator translates offsets with, decoded."""

from typing import TYPE_CHECKING, Annotated

import typer

from drctl.cli.settings import configuration

if TYPE_CHECKING:
    from drctl.config.configuration import Config


def dump_consumer_timestamps(
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="CLUSTER", help="A cluster of drctl.yaml; else the source of its links."
        ),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(metavar="GROUP", help="Only this group; may be repeated.")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC", help="Only this topic; may be repeated.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every record, not only the newest of each partition.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Then show what comes, until interrupted.")
    ] = False,
) -> int:
    """Show when each group consumed last, from Replicator's __consumer_timestamps.

    Needs no JAR, joins no group and writes nothing. Exit codes: 0 all was read, 1 a record could
    not be decoded, 5 the topic is not there or not all of it could be read, 130 interrupted, as
    --follow always ends.
    """
    from drctl.cli.dump.run import Dump
    from drctl.model.errors import ExitCode
    from drctl.offsets.timestamp_rows import Wanted

    config = configuration()
    name = cluster or _source(config)
    wanted = Wanted(frozenset(group or ()), frozenset(topic or ()))
    dump = Dump(name, config.cluster(name), wanted, everything)
    try:
        return int(dump.run(follow))
    except BrokenPipeError:
        return ExitCode.INTERRUPTED  # whoever reads stdout has seen enough


def _source(config: "Config") -> str:
    """Where the consumers of all links run; else the only cluster.

    Raises:
        UsageError: there are several.
    """
    from drctl.config.problems import one_of
    from drctl.model.errors import UsageError

    sources = {link.source for link in config.file.links.values()} or set(config.clusters)
    if len(sources) != 1:
        raise UsageError(
            f"{config.path} has {len(sources)} clusters on which consumers may run",
            f"--cluster: {one_of(tuple(sorted(sources)))}",
        )
    return sources.pop()
