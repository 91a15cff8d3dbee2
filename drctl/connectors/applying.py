"""Moves source offsets of connectors to another Connect cluster: the export and the plan.

An export contains the source offsets of connectors. Their partitions are renamed for the connectors
of the other workers, if drctl knows the naming of their plugins.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from drctl.model.document import Moment, Name
from drctl.model.errors import ConfigError, UsageError
from drctl.model.replication import SINK, STOPPED, Connector, Partition, Position, Workers
from drctl.model.text import put
from drctl.model.typed_json import read_as


@dataclass(frozen=True, slots=True)
class Kept:
    """The source offsets of one connector.

    Attributes:
        kind: `source` or `sink`.
        group: for a sink, the consumer group with its offsets.
        about: configuration keys that identify what it reads and contain no secrets.
        unread: why its offsets could not be read; empty if they were.
    """

    name: Name
    kind: str
    plugin: str
    state: str
    group: str | None
    about: Mapping[str, str]
    offsets: tuple[Position, ...]
    unread: str = ""


@dataclass(frozen=True, slots=True)
class Export:
    """The source offsets of the connectors of one Connect cluster.

    Attributes:
        out: file that the export is saved in.
    """

    SCHEMA: ClassVar[str] = "drctl/connect-offsets/1"
    workers: Name
    kafka_cluster_id: str
    taken: Moment
    connectors: tuple[Kept, ...]
    out: str = ""


def taken_at(export: Export) -> datetime:
    """When the offsets were exported, in UTC."""
    found = datetime.fromisoformat(export.taken)
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


ABOUT = (
    *("topic.prefix", "database.hostname", "database.port", "database.dbname"),
    *("mongodb.hosts", "slot.name", "snapshot.mode", "source.cluster.alias"),
    *("source.cluster.bootstrap.servers", "topics", "topics.regex"),
)
"""Configuration keys that identify the source of a connector and contain no secrets."""

MONGODB_HOSTS = "mongodb.connection.string"
"""Debezium 2.2 and newer; it replaces `mongodb.hosts`. It may contain a password."""

_HOSTS = re.compile(r"mongodb(?:\+srv)?://(?:[^@/?]*@)?([\w.:,\[\]-]+)(?:[/?][^@]*)?")


def identity(config: Mapping[str, str]) -> dict[str, str]:
    """The settings that identify the source of a connector; only hosts of connection strings."""
    about = {key: config[key] for key in ABOUT if key in config}
    # References to secrets can contain slashes, which end the hosts.
    hosts = _HOSTS.fullmatch(re.sub(r"\$\{[^}]*\}", "", config.get(MONGODB_HOSTS, "")))
    return {**about, **({MONGODB_HOSTS: hosts[1]} if hosts else {})}


def kept(connector: Connector, positions: Sequence[Position], unread: str = "") -> Kept:
    """A connector's source offsets, with the settings that identify its source."""
    one, about = connector, identity(connector.config)
    known = one.name, one.kind, one.plugin, one.state, one.group
    return Kept(*known, about, tuple(positions), unread)


def read_export(data: Any, file: str) -> Export:
    """Read an export from JSON.

    Raises:
        ConfigError: it is not an export.
    """
    try:
        if data["schema"] != Export.SCHEMA:
            raise ValueError(f"its schema is {data['schema']!r}")
        datetime.fromisoformat(data["taken"])
        return read_as(Export, data)
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise ConfigError(
            f"{file} is not an export of source offsets: {wrong}",
            "pass a file of `drctl connect offsets export`",
        ) from wrong


class Translated(NamedTuple):
    """A source partition, renamed for the other connector.

    Attributes:
        doubt: why the other connector may be unable to use it; empty if it can.
        unknown: whether the only doubt is that drctl does not know the format.
    """

    partition: Partition
    doubt: str = ""
    unknown: bool = False


def translate(kept: Kept, partition: Partition, to: Connector) -> Translated:
    """The partition as `to` would write it."""
    if to.plugin and kept.plugin and to.plugin != kept.plugin:
        return Translated(partition, f"it is a {to.plugin}, not a {kept.plugin}")
    name = kept.plugin.rpartition(".")[2]
    if name == "MirrorSourceConnector":
        return _mirrored(kept, partition, to)
    if name == "MongoDbConnector":
        return _prefixed("server_id", partition, to)
    if kept.plugin.startswith("io.debezium.connector."):
        return _prefixed("server", partition, to)
    return Translated(
        partition, f"source partitions of {kept.plugin} are not supported", unknown=True
    )


def _mirrored(kept: Kept, partition: Partition, to: Connector) -> Translated:
    if partition.keys() != {"cluster", "topic", "partition"}:
        return Translated(partition, "it is not a source partition of MirrorMaker 2")
    alias = to.config.get("source.cluster.alias", "")
    ours, theirs = (
        {part.strip() for part in servers.split(",") if part.strip()}
        for servers in (
            each.get("source.cluster.bootstrap.servers", "") for each in (kept.about, to.config)
        )
    )
    other = "it reads from other brokers: the offsets belong to another cluster"
    doubt = other if ours.isdisjoint(theirs) else ""
    return Translated({**partition, "cluster": alias}, doubt)


def _prefixed(key: str, partition: Partition, to: Connector) -> Translated:
    if key not in partition:
        return Translated(partition, f"it has no {key}: it is not a source partition of Debezium")
    prefix = to.config.get("topic.prefix", "")
    if not prefix:
        return Translated(partition, "the connector has no topic.prefix")
    return Translated({**partition, key: prefix})


class Precheck(StrEnum):
    """Why a source offset is not written."""

    NO_CONNECTOR = "no-connector"
    NOT_STOPPED = "not-stopped"
    MISMATCH = "mismatch"
    UNKNOWN = "unknown-partition"
    UNREAD = "unread"
    SINK = "sink"

    @property
    def overridable(self) -> bool:
        """Whether an engineer may override it."""
        return self in OVERRIDABLE


OVERRIDABLE = (Precheck.MISMATCH, Precheck.UNKNOWN)


class Action(StrEnum):
    """The planned action for a source offset."""

    WRITE = "write"
    KEEP = "keep"
    """It is already set."""
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Line:
    """One source offset.

    Attributes:
        connector: name of the connector on the other workers.
        came_from: name of the exported connector.
        before: current offset there; None if there is none.
        to: None removes it.
    """

    connector: str
    came_from: str
    partition: Partition
    action: Action
    before: Mapping[str, Any] | None = None
    to: Mapping[str, Any] | None = None
    precheck: Precheck | None = None
    reason: str = ""
    overridden: bool = False


@dataclass(frozen=True, slots=True)
class OffsetsPlan:
    """A plan of source offsets.

    Attributes:
        workers: the workers to write to.
        origin: where the offsets come from, as text.
    """

    workers: str
    origin: str
    lines: tuple[Line, ...]
    overrides: Mapping[Precheck, str]

    @property
    def writes(self) -> tuple[Line, ...]:
        """Offsets that would be written."""
        return tuple(line for line in self.lines if line.action is Action.WRITE)

    @property
    def refused(self) -> tuple[Line, ...]:
        """Offsets that are blocked."""
        return tuple(line for line in self.lines if line.action is Action.REFUSE)


def build_plan(
    export: Export,
    names: Collection[str],
    renamed: Mapping[str, str],
    workers: Workers,
    where: str,
    overrides: Mapping[Precheck, str],
) -> OffsetsPlan:
    """Compare with the other workers, and plan what to write.

    Args:
        names: connectors of the export; empty for all.
        renamed: new names of connectors on the other workers.

    Raises:
        UsageError: the export has no such connector.
        Unreachable: no worker answered.
    """
    known = {each.name: each for each in export.connectors}
    if missing := sorted({*names, *renamed} - known.keys()):
        raise UsageError(
            f"the export has no connector {missing[0]!r}", f"it has: {', '.join(known)}"
        )
    chosen = [each for each in export.connectors if not names or each.name in names]
    there = workers.all()
    lines: list[Line] = []
    for each in chosen:
        to = renamed.get(each.name, each.name)
        lines += _lines(each, to, there.get(to), workers, overrides)
    origin = f"{export.workers}, {taken_at(export):%Y-%m-%d %H:%M:%S} UTC"
    return OffsetsPlan(where, origin, tuple(lines), dict(overrides))


def _lines(
    kept: Kept, name: str, to: Connector | None, workers: Workers, overrides: Mapping[Precheck, str]
) -> Iterator[Line]:
    blocker = _blocker(kept, name, to)
    if blocker or to is None:
        precheck, reason = blocker or (Precheck.NO_CONNECTOR, "")
        for each in kept.offsets or (Position({}, None),):
            yield Line(name, kept.name, each.partition, Action.REFUSE, None, None, precheck, reason)
        return
    now = workers.positions(name)
    for each in kept.offsets:
        found = translate(kept, each.partition, to)
        before = next((p.offset for p in now if p.partition == found.partition), None)
        precheck = Precheck.UNKNOWN if found.unknown else Precheck.MISMATCH
        overridden = bool(found.doubt) and precheck in overrides
        action = Action.KEEP if before == each.offset else Action.WRITE
        yield Line(
            name,
            kept.name,
            found.partition,
            Action.REFUSE if found.doubt and not overridden else action,
            before,
            each.offset,
            precheck if found.doubt else None,
            found.doubt,
            overridden,
        )


def _blocker(kept: Kept, name: str, to: Connector | None) -> tuple[Precheck, str] | None:
    """Why no offset of a connector can be written, if that cannot be overridden."""
    if kept.unread:
        return Precheck.UNREAD, f"its source offsets could not be read: {kept.unread}"
    if kept.kind == SINK:
        return Precheck.SINK, (
            f"its offsets are those of group {kept.group}: translate and commit them with drctl"
            " offsets apply"
        )
    if to is None:
        return Precheck.NO_CONNECTOR, (
            f"connector {name} does not exist on these workers: create it with initial_state"
            " STOPPED, or pass --rename"
        )
    if to.state != STOPPED:
        return Precheck.NOT_STOPPED, (
            f"connector {name} is {to.state}; offsets can be written only while it is STOPPED:"
            f" {put('', name, 'stop')}"
        )
    return None
