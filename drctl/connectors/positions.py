"""How far connectors got, as a file that another Connect cluster can be given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from drctl.connectors.connector import Connector, Position
from drctl.model.errors import ConfigError

SCHEMA = "drctl/connect-offsets/1"


@dataclass(frozen=True, slots=True)
class Kept:
    """The positions of one connector.

    Attributes:
        kind: `source` or `sink`.
        group: in which a sink's positions stand; None for a source.
        about: named keys of its configuration that tell what it reads; never a password.
        unread: why its positions could not be read; empty where they were.
    """

    name: str
    kind: str
    plugin: str
    state: str
    group: str | None
    about: Mapping[str, str]
    positions: tuple[Position, ...]
    unread: str = ""


@dataclass(frozen=True, slots=True)
class Export:
    """The positions of some connectors of one Connect cluster."""

    workers: str
    cluster_id: str
    taken: str
    connectors: tuple[Kept, ...]


ABOUT = (
    "topic.prefix",
    "database.hostname",
    "database.port",
    "database.dbname",
    "mongodb.connection.host",
    "slot.name",
    "snapshot.mode",
    "source.cluster.alias",
    "source.cluster.bootstrap.servers",
    "topics",
    "topics.regex",
)
"""Keys of configurations that tell what a connector reads and hold no secret."""


def kept(connector: Connector, positions: Sequence[Position], unread: str = "") -> Kept:
    """What is kept of a connector."""
    about = {key: connector.config[key] for key in ABOUT if key in connector.config}
    return Kept(
        connector.name,
        connector.kind,
        connector.plugin,
        connector.state,
        connector.group,
        about,
        tuple(positions),
        unread,
    )


def export_document(export: Export, out: str) -> dict[str, Any]:
    """As JSON; `read_export` takes it."""
    return {
        "schema": SCHEMA,
        "out": out,
        "workers": export.workers,
        "kafka_cluster_id": export.cluster_id,
        "taken": export.taken,
        "connectors": [_connector(each) for each in export.connectors],
    }


def read_export(data: Any, file: str) -> Export:
    """From what `export_document` made.

    Raises:
        ConfigError: it did not.
    """
    try:
        if data["schema"] != SCHEMA:
            raise ValueError(f"its schema is {data['schema']!r}")
        datetime.fromisoformat(data["taken"])
        return Export(
            str(data["workers"]),
            str(data["kafka_cluster_id"]),
            data["taken"],
            tuple(_read(each) for each in data["connectors"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise ConfigError(
            f"{file} holds no positions of connectors: {wrong}",
            "give what `drctl connect offsets export` wrote",
        ) from wrong


def _connector(each: Kept) -> dict[str, Any]:
    return {
        "name": each.name,
        "kind": each.kind,
        "plugin": each.plugin,
        "state": each.state,
        "group": each.group,
        "about": dict(each.about),
        "unread": each.unread,
        "offsets": [
            {"partition": dict(p.partition), "offset": None if p.offset is None else dict(p.offset)}
            for p in each.positions
        ],
    }


def _read(data: Mapping[str, Any]) -> Kept:
    positions = tuple(
        Position(dict(each["partition"]), None if each["offset"] is None else dict(each["offset"]))
        for each in data["offsets"]
    )
    return Kept(
        str(data["name"]),
        str(data["kind"]),
        str(data["plugin"]),
        str(data["state"]),
        data["group"],
        {str(key): str(value) for key, value in data["about"].items()},
        positions,
        str(data["unread"]),
    )
