"""The two remedies for a resume point that is gone, and what each of them costs."""

from enum import StrEnum

from drctl.model.replication import SINK, Connector

_NO_ROWS = frozenset({"never", "no_data", "schema_only", "recovery", "schema_only_recovery"})


class Remedy(StrEnum):
    """What is done about a connector that cannot resume from its position."""

    RESET = "reset"
    """It forgets its positions, and starts from scratch."""
    RECREATE = "recreate"
    """Another one of the same configuration starts from scratch; the old one stays stopped."""


def consequence(connector: Connector) -> str:
    """What becomes of the data when it starts from scratch."""
    if connector.kind == SINK:
        reset = connector.config.get("consumer.override.auto.offset.reset", "the worker's setting")
        return f"it reads its topics from where auto.offset.reset says ({reset})"
    if connector.plugin.startswith("io.debezium."):
        mode = connector.config.get("snapshot.mode", "initial")
        if mode in _NO_ROWS:
            return (
                f"snapshot.mode {mode} reads no rows: whatever changed since the position that is"
                " lost is missing in Kafka for good"
            )
        return (
            f"a new snapshot (snapshot.mode {mode}): every row is sent again; of rows that changed"
            " since, only the last state is seen, and nobody tells which were deleted"
        )
    if connector.plugin.endswith("MirrorSourceConnector"):
        return "it copies its topics from their beginning: what was copied is there twice then"
    return "it begins as if it had never run: what it sent before it may send again"


def steps(remedy: Remedy, connector: Connector, name: str) -> tuple[str, ...]:
    """What is done, a line each."""
    stop = f"stop {connector.name}, and keep its positions in a file"
    if remedy is Remedy.RESET:
        return (stop, f"have {connector.name} forget them", f"let {connector.name} go on")
    return (stop, f"make {name} with the same configuration", f"{connector.name} stays stopped")
