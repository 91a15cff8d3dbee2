"""The two remedies for a lost resume point, and their consequences."""

from enum import StrEnum

from drctl.model.replication import SINK, Connector
from drctl.model.source_connectors import NO_ROWS


class Remedy(StrEnum):
    """A remedy for a connector that cannot resume from its source offset."""

    RESET = "reset"
    """Delete its source offsets; it starts from scratch."""
    RECREATE = "recreate"
    """Create a new connector with the same configuration; the old one stays stopped."""


def consequence(connector: Connector) -> str:
    """The consequence for the data if it starts from scratch."""
    if connector.kind == SINK:
        reset = connector.config.get("consumer.override.auto.offset.reset", "the worker's setting")
        return f"it starts at its auto.offset.reset ({reset})"
    if connector.plugin.startswith("io.debezium."):
        mode = connector.config.get("snapshot.mode", "initial")
        if mode in NO_ROWS:
            return (
                f"snapshot.mode {mode} reads no rows: changes since the lost offset are missing in"
                " Kafka"
            )
        return (
            f"a new snapshot (snapshot.mode {mode}): every row is sent again; intermediate changes"
            " and deletes since the lost offset are missing"
        )
    if connector.plugin.endswith("MirrorSourceConnector"):
        return "it replicates its topics from the beginning: existing copies are duplicated"
    return "it starts as if it had never run: it may send data again"


def steps(remedy: Remedy, connector: Connector, name: str) -> tuple[str, ...]:
    """The steps of a remedy, one per line."""
    stop = f"stop {connector.name} and save its source offsets to a file"
    if remedy is Remedy.RESET:
        return (stop, "delete its source offsets", f"resume {connector.name}")
    return (stop, f"create {name} with the same configuration", f"{connector.name} stays stopped")
