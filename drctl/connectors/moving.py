"""What source connectors do after a failover: resume, send events again, or stay stopped, and why.

Their positions come from the workers on which they were stopped, or, if those are lost, from the
last export of `drctl offsets track`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from drctl.connectors.applying import (
    MONGODB_HOSTS,
    Action,
    Export,
    Kept,
    Line,
    Precheck,
    build_plan,
    identity,
    kept,
    taken_at,
)
from drctl.formats.tracked_positions import TrackedPositions
from drctl.model.document import Document, From, Name, Seconds, rounded
from drctl.model.errors import DrctlError
from drctl.model.replication import Connector, Position, Workers
from drctl.model.source_connectors import POSTGRES, if_purged, in_snapshot, position_words
from drctl.model.topology import Unavailable

_STOPPED = "its position is read after it stopped, so no event is lost or sent twice"
_LISTED = "it is listed in source_connectors of drctl.yaml"
_DATABASE = ("database.dbname",)
_SERVER = ("database.hostname", "database.port", "mongodb.hosts", MONGODB_HOSTS)


class Prospect(StrEnum):
    """What a source connector does on the other cluster."""

    RESUMES = "resumes"
    """At the position where it was stopped: no event is lost or sent twice."""
    REPEATS = "resumes-with-duplicates"
    """At an older position: events since then are sent again."""
    SNAPSHOTS = "takes-snapshot"
    """Its snapshot was not complete: the snapshot begins again, and every row is sent again."""
    STAYS_STOPPED = "stays-stopped"
    """No position can be set: its owner must decide what it does."""


@dataclass(frozen=True, slots=True)
class MovedConnector:
    """A source connector, and what it does after a failover.

    Attributes:
        connector: its name on the target's workers.
        position: where it resumes, as text; empty if that is not known.
        age_seconds: how old the position is; None if it was read after the connector stopped.
        reason: why.
        if_purged: what happens if the position, or the database's log at that position, is lost.
    """

    connector: str
    plugin: str
    prospect: Prospect
    position: str
    age_seconds: float | None
    reason: str
    if_purged: str

    @property
    def words(self) -> str:
        """What it does, in one sentence."""
        return f"{self.connector} {self.does}: {self.reason}"

    @property
    def does(self) -> str:
        """What it does, without the reason."""
        return {
            Prospect.RESUMES: f"resumes at {self.position}",
            Prospect.REPEATS: f"resumes at {self.position}, with duplicates",
            Prospect.SNAPSHOTS: "takes its snapshot again",
            Prospect.STAYS_STOPPED: "stays stopped",
        }[self.prospect]


class MovedConnectorDocument(Document):
    """A source connector, and what it does after a failover.

    Attributes:
        position: where it resumes, as text; empty if that is not known.
        age_seconds: how old the position is; null if it was read after the connector stopped.
        if_purged: what happens if the position, or the database's log at that position, is lost.
    """

    read = From(MovedConnector)
    connector: Name
    plugin: str
    prospect: Prospect
    position: str
    age_seconds: Seconds | None = read(lambda each: rounded(each.age_seconds, 1))
    reason: str
    if_purged: str


@dataclass(frozen=True, slots=True)
class Moving:
    """The positions to set on the target's workers, and what each connector then does."""

    lines: tuple[Line, ...]
    connectors: tuple[MovedConnector, ...]

    @property
    def left(self) -> tuple[MovedConnector, ...]:
        """Connectors that stay stopped."""
        return tuple(e for e in self.connectors if e.prospect is Prospect.STAYS_STOPPED)


def plan_moving(
    exported: Mapping[str, Export],
    names: Mapping[str, str],
    workers: Workers,
    now: datetime,
    *,
    stopped: bool,
) -> Moving:
    """Compare exported positions with the target's workers.

    Args:
        exported: by connector, an export with its positions; connectors without one are absent.
        names: the name of each connector on the source's workers, and that on the target's.
        stopped: whether the exports were made after the connectors had stopped.

    Raises:
        Unreachable: no worker of the target answered.
    """
    there = workers.all()
    lines: list[Line] = []
    found = []
    for name, new in names.items():
        export = exported.get(name)
        one = next((e for e in export.connectors if e.name == name), None) if export else None
        if export is None or one is None:
            found.append(_left(new, there.get(new), "its position was not exported"))
            continue
        renamed = {name: new}
        overrides = {Precheck.UNKNOWN: _LISTED}
        planned = build_plan(export, (name,), renamed, workers, "", overrides)
        refused = next((line for line in planned.lines if line.action is Action.REFUSE), None)
        if refused is not None or not one.offsets:
            reason = refused.reason if refused else "it had stored no position yet"
            found.append(_left(new, there.get(new), reason))
            continue
        age = None if stopped else max(0.0, (now - taken_at(export)).total_seconds())
        lines += planned.lines
        found.append(_moved(one, new, there[new], age))
    return Moving(tuple(lines), tuple(found))


def _left(name: str, there: Connector | None, reason: str) -> MovedConnector:
    plugin = there.plugin if there else ""
    lost = if_purged(there) if there else ""
    return MovedConnector(name, plugin, Prospect.STAYS_STOPPED, "", None, reason, lost)


def _moved(one: Kept, name: str, to: Connector, age: float | None) -> MovedConnector:
    at = "; ".join(position_words(each.offset or {}) for each in one.offsets[:3])
    more = len(one.offsets) - 3
    at += f"; and {more} more" if more > 0 else ""
    reasons = [_STOPPED if age is None else _tracked_reason(one.plugin, age)]
    reasons += _another_database(one.about, identity(to.config))
    unfinished = any(map(in_snapshot, one.offsets))
    if unfinished:
        again = "the snapshot begins again and sends every row again"
        reasons = [f"its snapshot was not complete: {again}"]
    prospect = Prospect.RESUMES if age is None else Prospect.REPEATS
    if unfinished:
        prospect = Prospect.SNAPSHOTS
    return MovedConnector(name, one.plugin, prospect, at, age, "; ".join(reasons), if_purged(to))


def _tracked_reason(plugin: str, age: float) -> str:
    text = (
        f"exported {age:,.0f} s earlier by drctl offsets track; events that it sent since then are"
        " sent again"
    )
    if plugin == POSTGRES:
        text += (
            "; if it has confirmed a newer position to its replication slot, its task fails"
            " instead, and the events in between exist only where the replicator copied them"
        )
    return text


def _another_database(about: Mapping[str, str], there: Mapping[str, str]) -> Iterator[str]:
    """Differences between the database of the position and that of the connector."""
    for keys, what in ((_SERVER, "server"), (_DATABASE, "database")):
        pairs = [(about[key], there[key]) for key in keys if key in about and key in there]
        if any(old != new for old, new in pairs):
            old, new = (":".join(each) for each in zip(*pairs, strict=True))
            yield (
                f"the position is from {what} {old}, but the connector reads from {new}: verify"
                " that their logs have the same positions"
            )


def read_positions(
    names: Iterable[str], workers: Workers, place: str, at_ms: int
) -> Mapping[str, TrackedPositions | Unavailable]:
    """The positions of connectors, for `drctl offsets track`; what cannot be read, with the reason.

    Args:
        place: host and port of the first worker.
    """
    found: dict[str, TrackedPositions | Unavailable] = {}
    try:
        there, cluster_id = workers.all(), workers.kafka_cluster_id()
    except DrctlError as error:
        return dict.fromkeys(names, Unavailable(error.message))
    for name in names:
        if name not in there:
            found[name] = Unavailable(f"connector {name} does not exist on the workers at {place}")
            continue
        try:
            one = kept(there[name], workers.positions(name))
        except DrctlError as error:
            found[name] = Unavailable(error.message)
            continue
        positions = tuple((each.partition, each.offset) for each in one.offsets)
        known = place, cluster_id, one.plugin, one.state
        found[name] = TrackedPositions(at_ms, *known, one.about, positions)
    return found


def export_of(name: str, tracked: TrackedPositions) -> Export:
    """The export that `drctl offsets track` made of a connector."""
    positions = tuple(Position(partition, offset) for partition, offset in tracked.positions)
    one = Kept(name, "source", tracked.plugin, tracked.state, None, tracked.about, positions)
    taken = datetime.fromtimestamp(tracked.at_ms / 1000, UTC).isoformat()
    return Export(tracked.workers, tracked.workers_cluster_id, taken, (one,))
