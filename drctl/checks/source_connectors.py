"""Source connectors that import data into Kafka, such as Debezium: positions, snapshots, retries.

drctl has no connection to their databases. It compares what the connectors store and state with how
long the databases keep their logs, as drctl.yaml states it.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial

from drctl.checks.check import BOTH, Family, Prechecks, check, duration, several
from drctl.checks.connector_settings import Settings, settings_of
from drctl.checks.observed import Observed, ObservedSourceConnector
from drctl.checks.verdict import Verdict, fail, not_checked, ok, require, separately, warn
from drctl.config.mirrors import simple_class
from drctl.model.finding import Status
from drctl.model.replication import RUNNING, Connector
from drctl.model.source_connectors import (
    DEBEZIUM,
    NO_ROWS,
    POSTGRES,
    if_purged,
    imports,
    in_snapshot,
    position_time,
    position_words,
)
from drctl.model.text import plural, put, quote
from drctl.model.topology import Unavailable

_FAMILY = Family.SOURCE_CONNECTORS
_LIST = "list the connectors: drctl connect status"
_KEPT = (
    ("mysql", "binlog_expire_logs_seconds"),
    ("mariadb", "binlog_expire_logs_seconds"),
    ("mongodb", "the oplog window, rs.printReplicationInfo()"),
    ("oracle", "the retention of archived redo logs"),
    ("sqlserver", "the retention of its cleanup job, sys.sp_cdc_help_jobs"),
)
"""What determines how long a database keeps its log, by a part of the connector's class."""

_LEAST_RETRIED_MS = 300_000
"""A database that fails over may need minutes."""


@check("source-connectors", _FAMILY, Status.WARN, prechecks=Prechecks(BOTH))
def listed(observed: Observed) -> Verdict | None:
    """The failover moves every connector of the link's workers that imports data into Kafka."""
    if not observed.link.settings.replicator.connect:
        return None
    subject = "source connectors"
    known = require(observed.connectors, subject, "the connectors are", _LIST)
    moving = observed.link.settings.source_connectors
    names = {name for pair in moving.pairs.items() for name in pair} if moving else set()
    others = [c for name, c in sorted(known.items()) if imports(c) and name not in names]
    if not others:
        return ok(
            subject,
            "the failover moves every connector of the link's workers that imports data",
            plural(len(known), "connector"),
        )
    return warn(
        subject,
        f"{plural(len(others), 'connector imports', 'connectors import')} data into Kafka and"
        f" {'is' if len(others) == 1 else 'are'} not moved by the failover",
        several(f"{c.name} ({simple_class(c.config)})" for c in others),
        "they keep writing to the cluster that their workers use, which also stores their"
        " positions; if that cluster is lost, the positions are lost too, and a connector that is"
        " created elsewhere begins with a snapshot",
        "add those that write to the source to `source_connectors` of the link in drctl.yaml, or"
        " move their positions yourself: drctl connect offsets export",
    )


@check("source-connector-positions", _FAMILY, Status.WARN, Status.FAIL)
def positions(observed: Observed) -> Iterator[Verdict]:
    """The stored position of each source connector is still in the log of its database."""
    moving = observed.link.settings.source_connectors
    kept: Mapping[str, float] = moving.log_retention_hours if moving else {}
    yield from separately(
        partial(_position, seen, kept.get(name), observed.now_ms) for name, seen in _seen(observed)
    )


def _seen(observed: Observed) -> Iterator[tuple[str, ObservedSourceConnector]]:
    found = observed.survey.source_connectors
    yield from sorted(require(found, "source connectors", "they are", _LIST).items())


def _debezium(observed: Observed) -> Iterator[Connector]:
    found = (each.connector for _, each in _seen(observed))
    return (each for each in found if each.plugin.startswith(DEBEZIUM))


def _position(seen: ObservedSourceConnector, hours: float | None, now_ms: int) -> Verdict:
    connector = seen.connector
    subject = _subject(connector)
    look = f"look at its position: drctl connect offsets export --connector {quote(connector.name)}"
    if isinstance(seen.positions, Unavailable):
        reason = f"its stored position is not known: {seen.positions.reason}"
        return not_checked(subject, reason, look)
    stored = [each for each in seen.positions if each.offset]
    if not stored:
        return warn(
            subject,
            "it has no stored position",
            f"it is {connector.state}",
            f"if it is moved or restarted now, {_from_scratch(connector)}",
            "wait until it has stored a position; if there are no new events, heartbeat.interval.ms"
            " makes Debezium store one",
        )
    if any(map(in_snapshot, stored)):
        return warn(
            subject,
            "its snapshot is not complete",
            several(position_words(each.offset or {}) for each in stored),
            "if it is moved or restarted now, the snapshot begins again and sends every row again",
            "fail over after the snapshot, or expect the duplicates",
        )
    times = [time for each in stored if (time := position_time(each.offset or {})) is not None]
    evidence = several(position_words(each.offset or {}) for each in stored)
    if not times:
        return not_checked(subject, "drctl finds no time in its position", look, evidence)
    return _age(connector, min(times), hours, now_ms, evidence)


def _from_scratch(connector: Connector) -> str:
    if not connector.plugin.startswith(DEBEZIUM):
        return "it begins from scratch"
    if connector.config.get("snapshot.mode", "initial") in NO_ROWS:
        return "it begins at the end of the database's log: changes until then are missing"
    return "it begins with a snapshot, which sends every row"


def _age(
    connector: Connector, oldest: datetime, hours: float | None, now_ms: int, evidence: str
) -> Verdict:
    subject = _subject(connector)
    age_ms = max(0, now_ms - round(oldest.timestamp() * 1000))
    old = f"its position is {duration(age_ms)} old"
    if connector.plugin == POSTGRES and (slot := _slot(connector, old, evidence)):
        return slot
    if hours is None:
        known = next((what for part, what in _KEPT if part in connector.plugin), "its settings")
        return not_checked(
            subject,
            f"{old}; how long its database keeps its log is not stated",
            f"ask the database's owner ({known}), and set `log_retention_hours:"
            f" {{{connector.name}: HOURS}}` in `source_connectors` of the link in drctl.yaml",
            evidence,
        )
    kept = f"its database keeps its log for {hours:g} h"
    impact = if_purged(connector) or "its task fails, or it begins from scratch"
    remedy = (
        "find out whether it is stuck (drctl connect status, the worker's log) or its tables are"
        " idle; heartbeat.interval.ms, with heartbeat.action.query if the connector has that"
        " setting, keeps the position of an idle database current"
    )
    if age_ms >= hours * 3_600_000:
        return fail(subject, f"{old}, and {kept}", evidence, impact, remedy)
    if age_ms >= hours * 1_800_000:
        return warn(subject, f"{old}, and {kept}", evidence, impact, remedy)
    return ok(subject, f"{old}, and {kept}", evidence)


def _slot(connector: Connector, old: str, evidence: str) -> Verdict | None:
    """Whether PostgreSQL's replication slot keeps the log from a stored position on."""
    subject, settings = _subject(connector), settings_of(connector)
    slot = settings.text("slot.name", "debezium")
    if settings.flag("slot.drop.on.stop", False).value:
        return fail(
            subject,
            "its replication slot is dropped when it stops",
            "slot.drop.on.stop=true",
            "a failover stops it: the database then no longer keeps the log at its position;"
            f" {if_purged(connector)}",
            "set slot.drop.on.stop=false, its default",
        )
    if not connector.all_in(RUNNING):
        return warn(
            subject,
            f"it does not run, and {old}",
            f"{evidence}; {slot.evidence}; {connector.name} is {connector.state}",
            "its replication slot keeps the log from that position on: the database's disk fills,"
            " or, with max_slot_wal_keep_size, the slot and the position are lost",
            f"resume it ({put('', connector.name, 'resume')}), or drop the slot",
        )
    return ok(
        subject,
        f"{old}, and its replication slot keeps the log from that position on",
        f"{evidence}; {slot.evidence}",
        "max_slot_wal_keep_size of the database may limit how much the slot keeps; a slot does not"
        " move to a replica of the database unless it is synchronized there",
    )


@check("source-connector-snapshots", _FAMILY, Status.WARN)
def snapshots(observed: Observed) -> Iterator[Verdict]:
    """No Debezium connector sends every row again, or misses changes, because of snapshot.mode."""
    yield from separately(partial(_snapshot, each) for each in _debezium(observed))


def _snapshot(connector: Connector) -> Verdict:
    mode = settings_of(connector).text("snapshot.mode", "initial")
    subject, lost = _subject(connector), f"if the position is lost, {if_purged(connector)}"
    if mode.value in ("always", "initial_only"):
        reason, impact = {
            "always": (
                "it takes a snapshot whenever it starts",
                "a failover, a restart and a rebalance each send every row again",
            ),
            "initial_only": (
                "it stops after its snapshot",
                "changes are never sent: not before a failover, and not after it",
            ),
        }[mode.value]
        remedy = "set snapshot.mode=initial: a stored position then needs no snapshot"
        return warn(subject, reason, mode.evidence, impact, remedy)
    if mode.value in NO_ROWS:
        return warn(
            subject,
            "it never reads existing rows",
            mode.evidence,
            lost,
            "set snapshot.mode=when_needed or initial, or make sure that its position is never"
            " lost: `drctl offsets track` exports it",
        )
    if mode.value in ("initial", "when_needed"):
        return ok(subject, "with a stored position it takes no snapshot", mode.evidence, lost)
    return not_checked(
        subject,
        "whether it takes a snapshot depends on other settings or on its own code",
        "look at its snapshot.* settings",
        mode.evidence,
    )


@check("source-connector-retries", _FAMILY, Status.WARN)
def retries(observed: Observed) -> Iterator[Verdict]:
    """The tasks of Debezium connectors survive a restart or failover of their database."""
    yield from separately(partial(_retries, settings_of(each)) for each in _debezium(observed))


def _retries(settings: Settings) -> Verdict:
    most = settings.integer("errors.max.retries", -1)
    pause = settings.integer("retriable.restart.connector.wait.ms", 10_000)
    if most.value < 0:
        return most.ok("it retries without a limit")
    waited_ms = most.value * pause.value
    evidence = f"{most.evidence}; {pause.evidence}"
    reason = f"it retries {plural(most.value, 'time')}, for at least {duration(waited_ms)}"
    if waited_ms >= _LEAST_RETRIED_MS:
        return ok(settings.subject, reason, evidence)
    return warn(
        settings.subject,
        "it gives up at the first error of its database" if most.value == 0 else reason,
        evidence,
        "a longer outage of the database fails its task; it sends nothing until it is restarted",
        "remove errors.max.retries, so that it retries without a limit; or restart the failed task:"
        " drctl connect recover",
    )


def _subject(connector: Connector) -> str:
    return f"connector {connector.name}"
