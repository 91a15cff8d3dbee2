"""Verifies that clients connect to the target, consume there, and leave the source."""

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from drctl.engine.kind import BothClusters, Description, Facts, Polling, Readback, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import DrctlError, Unreachable
from drctl.model.groups import Committed, Group
from drctl.model.health import Silent
from drctl.model.text import plural
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable
from drctl.steps.enable_writes import PROBE_TOPIC
from drctl.steps.prechecks import SnapshotState

Progress = Mapping[str, int]
"""By group, the sum of its committed offsets, which grows while the group consumes."""

_SHOWN = 3


class Remaining(NamedTuple):
    """Groups that have not left a cluster.

    Attributes:
        stayed: groups that are active, or may be, described.
        unseen: why the state of other groups is unknown; empty if all were observed.
    """

    stayed: tuple[str, ...]
    unseen: tuple[str, ...]


def inactive_groups(cluster: str, names: Collection[str], reader: LinkReader) -> Mapping[str, str]:
    """Groups that are not active on a cluster, described."""
    described = reader.groups(cluster).described(names) if names else {}
    found = {}
    for name in names:
        group = described[name]
        if isinstance(group, Unavailable):
            found[name] = f"{name} cannot be described: {group.reason}"
        elif not group.active:
            found[name] = name
    return found


def progress_of(cluster: str, names: Collection[str], reader: LinkReader) -> Progress:
    """The progress of groups on a cluster; leaves out groups whose offsets cannot be read."""
    committed = reader.groups(cluster).committed(names) if names else {}
    return {
        name: sum(position.offset for position in positions.values())
        for name, positions in committed.items()
        if not isinstance(positions, Unavailable)
    }


def not_consuming(
    cluster: str, now: Progress, before: Progress, reader: LinkReader
) -> tuple[str, ...]:
    """Groups that have records to consume but do not, described."""
    names = [name for name, total in now.items() if total == before.get(name)]
    if not names:
        return ()
    committed = reader.groups(cluster).committed(names)
    known = {n: p for n, p in committed.items() if not isinstance(p, Unavailable)}
    places = sorted({place for positions in known.values() for place in positions})
    ends = reader.cluster_reader(cluster).offsets(places)
    waiting = {name: _unread(positions, ends) for name, positions in known.items()}
    return tuple(
        f"{name} does not consume: {rows[0]}" for name, rows in sorted(waiting.items()) if rows
    )


def open_transactions(cluster: str, reader: LinkReader) -> Mapping[str, int]:
    """Partitions of the link's topics with an open transaction, and its first offset.

    Raises:
        Unreachable: the cluster did not respond.
    """
    cluster_reader = reader.cluster_reader(cluster)
    there = cluster_reader.overview().partitions
    topics = sorted({reader.target_topic(topic) for topic in reader.topics()})
    places = [TopicPartition(topic, n) for topic in topics for n in there.get(topic, ())]
    return {
        str(place): log.last_stable
        for place, log in cluster_reader.offsets(places).items()
        if not isinstance(log, Unavailable) and log.last_stable < log.end
    }


def blocked_by_transactions(
    cluster: str, before: Mapping[str, int], reader: LinkReader
) -> tuple[str, ...]:
    """Partitions in which the same transaction is still open, described."""
    if not before:
        return ()
    now = open_transactions(cluster, reader)
    same = [place for place, offset in before.items() if now.get(place) == offset]
    return tuple(
        f"{place} blocks read_committed consumers: a transaction has been open since offset"
        f" {before[place]}"
        for place in sorted(same)
    )


def remaining_groups(cluster: str, known: Collection[str], reader: LinkReader) -> Remaining:
    """The link's groups that are still active on a cluster, each with its members.

    If only some brokers respond, groups whose coordinator is down are reported as unknown.

    Args:
        known: groups that were active there; no broker lists a group whose coordinator is down.

    Raises:
        Unreachable: the cluster did not respond.
    """
    unseen = []
    try:
        names = {*known, *reader.link_groups(cluster, incomplete=True)}
    except Unreachable as silent:
        names = set(known)
        if not names:
            raise
        unseen.append(f"whether there are groups besides {_listed(names)}: {silent.message}")
    described = reader.groups(cluster).described(sorted(names))
    mute = {name: each for name, each in described.items() if isinstance(each, Silent)}
    unseen = [f"group {name}: {each.reason}" for name, each in sorted(mute.items())] + unseen
    stayed = tuple(
        _stayed(name, group, cluster)
        for name, group in sorted(described.items())
        if name not in mute and (isinstance(group, Unavailable) or group.active)
    )
    return Remaining(stayed, tuple(unseen))


def _unread(
    positions: Mapping[TopicPartition, Committed],
    ends: Mapping[TopicPartition, PartitionOffsets | Unavailable],
) -> list[str]:
    rows = []
    for place, position in sorted(positions.items()):
        log = ends.get(place)
        if isinstance(log, PartitionOffsets) and position.offset < log.last_stable:
            rows.append(f"it is at offset {position.offset} of {log.last_stable} in {place}")
    return rows


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(sorted(names)[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def _stayed(name: str, group: Group | Unavailable, cluster: str) -> str:
    if isinstance(group, Unavailable):
        return f"it is unknown whether {name} is active on {cluster}: {group.reason}"
    members = [f"{member.client_id}@{member.host}" for member in group.members]
    who = f" ({_listed(members)})" if members else ""
    return (
        f"{name} is still active on {cluster}{who}: restart its members, or cut their connections"
    )


_STAYED = (
    "if a group is still active on {source} when time is up, its members are listed with client id"
    " and host, and the run ends with exit code 5: restart them, cut their connections, or close"
    " the listener of {source}; then run drctl resume. drctl cannot observe producers; if the"
    " fence is in place, it rejects their writes until they move"
)
_NO_GROUPS = "no group was active before: there is none to wait for"


@dataclass(frozen=True, slots=True)
class ClientsSettings(BothClusters):
    """Settings from the plan.

    Attributes:
        probed_endpoints: numbers of the endpoints through which drctl can connect.
    """

    probed_endpoints: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientsIntent:
    """The groups to wait for.

    Attributes:
        groups: groups that were active on the source.
        stood: their progress on the target before; None if unknown.
        undecided: partitions with an open transaction, and its first offset.
        probed_endpoints: endpoints through which probe records are written.
        text: the prefix of the probe records.
    """

    source: str = ""
    target: str
    groups: tuple[str, ...]
    stood: Progress | None = None
    undecided: Mapping[str, int] = field(default_factory=dict)
    probed_endpoints: tuple[int, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class ClientsFacts:
    """The result of the verification.

    Attributes:
        groups: how many groups are active on the target.
        moved: how many of them have consumed records.
        probed_endpoints: through how many endpoints a probe record arrived.
        unknown: why it is unknown which groups stayed on the source; empty if it is known.
    """

    groups: int
    moved: int
    probed_endpoints: int
    unknown: str


class VerifyClients(Polling[ClientsSettings, ClientsIntent, ClientsFacts]):
    """Verifies that groups that were active on the source are active only on the target.

    They must consume if there are records to consume, no open transaction may block them, and probe
    records written through the endpoints must arrive on the target.
    """

    name = "verify-clients"
    traits = Trait.VERIFIES

    def describe(self, settings: ClientsSettings) -> Description:
        """Describe the step for plans and reports."""
        title = f"verify that clients use {settings.target}"
        proof = (
            f"every group that was active before is active on {settings.target}, consumes"
            " there, and has left"
        )
        stayed = _STAYED.format(source=settings.source)
        return Description(title, f"{proof} {settings.source}", clients=stayed)

    def check(self, settings: ClientsSettings, facts: Facts, reader: LinkReader) -> ClientsIntent:
        """Find the groups to wait for, and read their progress.

        Raises:
            Unreachable: the target did not respond.
        """
        source, target, stock = settings.source, settings.target, facts.of(SnapshotState())
        names = stock.active_groups.get(source, ()) if stock else ()
        return ClientsIntent(
            source=source,
            target=target,
            groups=names,
            stood=progress_of(target, names, reader),
            undecided=open_transactions(target, reader),
            probed_endpoints=settings.probed_endpoints,
            text=uuid.uuid4().hex,
        )

    def apply(self, intent: ClientsIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Write a probe record through each endpoint, as a client would."""
        errors = []
        for number in intent.probed_endpoints:
            try:
                probe_record = writer.probe_record(intent.target, number)
                probe_record.write_probe(PROBE_TOPIC, probe_text(intent, number))
            except DrctlError as error:
                errors.append(f"endpoint {number + 1}: {error.message}")
        return tuple(errors)

    def verify(self, intent: ClientsIntent, reader: LinkReader) -> Readback[ClientsFacts]:
        """Verify that groups have moved, consume, and have left; and that probe records arrived."""
        target, names = intent.target, intent.groups
        late = inactive_groups(target, names, reader)
        active = tuple(name for name in names if name not in late)
        now = progress_of(target, active, reader)
        stood = now if intent.stood is None else intent.stood
        slow = () if intent.stood is None else not_consuming(target, now, stood, reader)
        held = blocked_by_transactions(target, intent.undecided, reader)
        unread = tuple(
            number
            for number in intent.probed_endpoints
            if not reader.probe_readable(target, PROBE_TOPIC, probe_text(intent, number))
        )
        left = _remaining(intent, reader)
        silent = (
            f"the probe record written through endpoint {n + 1} is not on {target}" for n in unread
        )
        missing = (*silent, *late.values(), *slow, *held, *left.stayed)
        moved = sum(now[name] != stood.get(name) for name in now)
        unknown = _unknown(intent.source, left)
        facts = ClientsFacts(len(names), moved, len(intent.probed_endpoints), unknown)
        if missing:
            message = _waiting_for(len(late), len(names), missing)
            return Readback(State.WAITING, message, facts, missing)
        return Readback(State.DONE, _done(intent, facts), facts)


def probe_text(intent: ClientsIntent, number: int) -> str:
    """The text of the probe record written through an endpoint."""
    return f"{intent.text}-{number + 1}"


def _remaining(intent: ClientsIntent, reader: LinkReader) -> Remaining:
    if not intent.source:
        return Remaining((), ())
    try:
        return remaining_groups(intent.source, intent.groups, reader)
    except Unreachable as silent:
        return Remaining((), (silent.message,))


def _unknown(source: str, left: Remaining) -> str:
    """Why it is unknown which groups have stayed; empty if it is known."""
    if not left.unseen:
        return ""
    more = f"; and {len(left.unseen) - _SHOWN} more" if len(left.unseen) > _SHOWN else ""
    return f"which groups stayed on {source}: {'; '.join(left.unseen[:_SHOWN])}{more}"


def _waiting_for(late: int, groups: int, missing: tuple[str, ...]) -> str:
    if late:
        return f"{late} of {groups} groups not active yet: {'; '.join(missing[:_SHOWN])}"
    return f"{plural(len(missing), 'problem')}: {'; '.join(missing[:_SHOWN])}"


def _done(intent: ClientsIntent, facts: ClientsFacts) -> str:
    message = _NO_GROUPS
    if facts.groups:
        message = f"every group ({facts.groups}) is active on {intent.target}"
        message += f", and {facts.moved} consumed" if intent.stood is not None else ""
    if facts.probed_endpoints:
        endpoints = plural(facts.probed_endpoints, "endpoint")
        message += f"; probe records written through {endpoints} have arrived"
    if facts.unknown:
        return f"{message}; unknown: {facts.unknown}"
    return f"{message}; no group is active on {intent.source}" if intent.source else message
