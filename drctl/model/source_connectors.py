"""Source connectors, such as Debezium: what their positions and their configuration state."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from drctl.model.replication import SINK, Connector, Position

DEBEZIUM = "io.debezium.connector."
POSTGRES = f"{DEBEZIUM}postgresql.PostgresConnector"
MONGODB = f"{DEBEZIUM}mongodb.MongoDbConnector"

NO_ROWS = frozenset({"never", "no_data", "schema_only", "recovery", "schema_only_recovery"})
"""Values of `snapshot.mode` with which Debezium never reads existing rows."""


def imports(connector: Connector) -> bool:
    """Whether a connector imports data: a source connector that replicates no Kafka topics."""
    return connector.kind != SINK and not re.search(r"Mirror|Replicator", connector.plugin)


def if_purged(connector: Connector) -> str:
    """What happens if the database no longer has the log at a connector's position."""
    if not connector.plugin.startswith(DEBEZIUM):
        return ""
    mode = connector.config.get("snapshot.mode", "initial")
    if mode == "when_needed":
        return (
            "it takes a new snapshot by itself (snapshot.mode when_needed): every row is sent"
            " again, but changes and deletes between the position and the snapshot are missing"
        )
    if mode in NO_ROWS:
        return (
            f"its task fails (snapshot.mode {mode}); after a reset, changes since the position are"
            " missing"
        )
    return (
        f"its task fails (snapshot.mode {mode}); a reset takes a new snapshot: every row is sent"
        " again, but changes and deletes between the position and the snapshot are missing"
    )


def in_snapshot(position: Position) -> bool:
    """Whether Debezium stored a position before its snapshot was complete."""
    offset = position.offset or {}
    if offset.get("initsync"):  # of MongoDB
        return True
    return bool(offset.get("snapshot")) and not offset.get("snapshot_completed")


def position_words(offset: Mapping[str, Any]) -> str:
    """A source position in words: what its database calls it, and its time if it has one."""
    parts = []
    if (lsn := offset.get("lsn")) is not None and isinstance(lsn, int):
        parts.append(f"LSN {lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}")
    elif "file" in offset and "pos" in offset:
        parts.append(f"{offset['file']}:{offset['pos']}")
    elif "resume_token" in offset:
        parts.append("its resume token")
    elif "scn" in offset:
        parts.append(f"SCN {offset['scn']}")
    elif "commit_lsn" in offset:
        parts.append(f"LSN {offset['commit_lsn']}")
    else:
        parts.append(" ".join(f"{k}={v}" for k, v in sorted(offset.items()))[:80] or "no offset")
    if (at := position_time(offset)) is not None:
        parts.append(f"of {at:%Y-%m-%d %H:%M:%S} UTC")
    return " ".join(parts)


def position_time(offset: Mapping[str, Any]) -> datetime | None:
    """When the event at a position happened, by the database's clock; None if it has no time."""
    for key, factor in (("ts_usec", 1_000_000), ("ts_ms", 1_000), ("ts_sec", 1), ("sec", 1)):
        found = offset.get(key)
        if isinstance(found, int) and found > 0:
            try:
                return datetime.fromtimestamp(found / factor, UTC)
            except (ValueError, OverflowError, OSError):
                return None
    return None
