"""The part of `wiring` that moves positions and tracks them."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from drctl.cli import wiring

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.schema import ClusterConfig
    from drctl.offsets.journal import Entry
    from drctl.systems.journal.files import JournalFile
    from drctl.systems.kafka.anchors_topic import AnchorsTopic, AnchorsTopicReader
    from drctl.systems.metrics.server import MetricsServer


def offsets_journal(config: "Config", run: str) -> "JournalFile":
    """The journal of a new run that moves positions."""
    from drctl.systems.journal.files import JournalFile

    return JournalFile(
        config.state_dir / "offsets",
        run,
        "nothing that is not in the journal was sent; free space, or set state_dir, and"
        " look with `drctl offsets undo` what was written",
    )


def offsets_runs(config: "Config") -> Iterator[str]:
    """All runs that moved positions, the newest first."""
    from drctl.systems.journal.files import runs

    return runs(config.state_dir / "offsets")


def offsets_entries(config: "Config", run: str) -> "Sequence[Entry]":
    """The journal of a run that moved positions.

    Raises:
        UsageError: there is no such run.
        Unknown: its journal cannot be read, or is damaged.
    """
    from drctl.systems.journal.files import entries

    return entries(config.state_dir / "offsets", run)


def anchors_reader(name: str, cluster: "ClusterConfig") -> "AnchorsTopicReader":
    """What follows the anchors that one cluster keeps; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.anchors_topic import AnchorsTopicReader

    return AnchorsTopicReader(name, wiring.revealed(cluster), timeout_s=wiring.PATIENCE_S)


def anchors_topic(name: str, cluster: "ClusterConfig") -> "AnchorsTopic":
    """What keeps anchors on one cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.anchors_topic import AnchorsTopic

    return AnchorsTopic(name, wiring.revealed(cluster), timeout_s=wiring.PATIENCE_S)


def metrics_server(address: str, page: Callable[[], str]) -> "MetricsServer":
    """What serves metrics at `HOST:PORT`, once it is entered.

    Raises:
        UsageError: that is no address.
    """
    from drctl.report.exposition import CONTENT_TYPE
    from drctl.systems.metrics.server import MetricsServer

    return MetricsServer(address, page, CONTENT_TYPE)
