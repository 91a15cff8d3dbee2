"""Watches the clients connect to the target, consume there, and leave the source."""

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from drctl.engine.kind import BothClusters, Description, Facts, Polling, Readback, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import DrctlError, Unreachable
from drctl.model.groups import Committed, Group
from drctl.model.health import Silent
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable
from drctl.steps.enable_writes import PROBE_TOPIC
from drctl.steps.prechecks import SnapshotState

Standing = Mapping[str, int]
"""By group the sum of its committed offsets; it grows while the group consumes."""

_SHOWN = 3


class Left(NamedTuple):
    """Groups that have not left a cluster.

    Attributes:
        stayed: groups that are active, or may be, each in words.
        unseen: why others are not known, in words; empty where all were observed.
    """

    stayed: tuple[str, ...]
    unseen: tuple[str, ...]


def absent(cluster: str, names: Collection[str], reader: LinkReader) -> Mapping[str, str]:
    """Groups that are not active on a cluster, each in words."""
    described = reader.groups(cluster).described(names) if names else {}
    found = {}
    for name in names:
        group = described[name]
        if isinstance(group, Unavailable):
            found[name] = f"{name} cannot be looked at: {group.reason}"
        elif not group.active:
            found[name] = name
    return found


def standing(cluster: str, names: Collection[str], reader: LinkReader) -> Standing:
    """How far groups are on a cluster; one whose offsets cannot be read is left out."""
    committed = reader.groups(cluster).committed(names) if names else {}
    return {
        name: sum(position.offset for position in positions.values())
        for name, positions in committed.items()
        if not isinstance(positions, Unavailable)
    }


def still_standing(
    cluster: str, now: Standing, before: Standing, reader: LinkReader
) -> tuple[str, ...]:
    """Groups that have records to read and do not move; each in words."""
    names = [name for name, total in now.items() if total == before.get(name)]
    if not names:
        return ()
    committed = reader.groups(cluster).committed(names)
    known = {n: p for n, p in committed.items() if not isinstance(p, Unavailable)}
    places = sorted({place for positions in known.values() for place in positions})
    ends = reader.cluster_reader(cluster).offsets(places)
    waiting = {name: _unread(positions, ends) for name, positions in known.items()}
    return tuple(
        f"{name} does not go on: {rows[0]}" for name, rows in sorted(waiting.items()) if rows
    )


def undecided(cluster: str, reader: LinkReader) -> Mapping[str, int]:
    """Partitions of the link's topics with records behind an open transaction: its first offset.

    Raises:
        Unreachable: the cluster did not respond.
    """
    site = reader.cluster_reader(cluster)
    there = site.overview().partitions
    topics = sorted({reader.target_topic(topic) for topic in reader.topics()})
    places = [TopicPartition(topic, n) for topic in topics for n in there.get(topic, ())]
    return {
        str(place): log.last_stable
        for place, log in site.offsets(places).items()
        if not isinstance(log, Unavailable) and log.last_stable < log.end
    }


def held_back(cluster: str, before: Mapping[str, int], reader: LinkReader) -> tuple[str, ...]:
    """Those that the same transaction still holds back, each in words."""
    if not before:
        return ()
    now = undecided(cluster, reader)
    same = [place for place, offset in before.items() if now.get(place) == offset]
    return tuple(
        f"{place} does not go on for readers of committed records: a transaction has been open"
        f" since offset {before[place]}"
        for place in sorted(same)
    )


def left_behind(cluster: str, known: Collection[str], reader: LinkReader) -> Left:
    """The link's groups that are still active on a cluster, each with its members.

    Of a cluster that is half dead this says what its living brokers tell: a group whose coordinator
    is silent is not known to have stayed, nor to have left.

    Args:
        known: groups that were active there; where a coordinator is gone no broker lists them.

    Raises:
        Unreachable: the cluster did not respond.
    """
    unseen = []
    try:
        names = {*known, *reader.link_groups(cluster)}
    except Unreachable as silent:
        names = set(known)
        if not names:
            raise
        unseen.append(f"which groups there are beside {_listed(names)}: {silent.message}")
    described = reader.groups(cluster).described(sorted(names))
    mute = {name: each for name, each in described.items() if isinstance(each, Silent)}
    unseen = [f"group {name}: {each.reason}" for name, each in sorted(mute.items())] + unseen
    stayed = tuple(
        _stayed(name, group, cluster)
        for name, group in sorted(described.items())
        if name not in mute and (isinstance(group, Unavailable) or group.active)
    )
    return Left(stayed, tuple(unseen))


def _unread(
    positions: Mapping[TopicPartition, Committed],
    ends: Mapping[TopicPartition, PartitionOffsets | Unavailable],
) -> list[str]:
    rows = []
    for place, position in sorted(positions.items()):
        log = ends.get(place)
        if isinstance(log, PartitionOffsets) and position.offset < log.last_stable:
            rows.append(f"it stands at {position.offset} of {log.last_stable} in {place}")
    return rows


def _listed(names: Collection[str]) -> str:
    shown = ", ".join(sorted(names)[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def _stayed(name: str, group: Group | Unavailable, cluster: str) -> str:
    if isinstance(group, Unavailable):
        return f"whether somebody reads in {name} on {cluster} is not known: {group.reason}"
    members = [f"{member.client_id}@{member.host}" for member in group.members]
    who = f" by {_listed(members)}" if members else ""
    return f"{name} is still read in on {cluster}{who}: restart them, or cut their connections"


_STAYED = (
    "a group in which somebody still reads on {source} is waited for, then named with client id"
    " and host, and the run ends with exit code 5: restart them, cut their connections, or close"
    " the listener of {source}; drctl resume looks again. Producers without a group are not seen;"
    " a fence that holds refuses them until they are moved"
)
_NOBODY = "no group was seen to be read in before: there is none to wait for"


@dataclass(frozen=True, slots=True)
class ClientsSettings(BothClusters):
    """Settings from the plan.

    Attributes:
        probed_endpoints: numbers of the endpoints by which drctl knows how to connect.
    """

    probed_endpoints: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientsIntent:
    """Whom to wait for; journals of drctl before 0.7 know the target and the groups only.

    Attributes:
        groups: that were active on the source.
        stood: how far they were on the target; None where that is not known.
        undecided: partitions with an open transaction, and its first offset.
        text: that the probe records begin with.
    """

    source: str = ""
    target: str
    groups: tuple[str, ...]
    stood: Standing | None = None
    undecided: Mapping[str, int] = field(default_factory=dict)
    probed_endpoints: tuple[int, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class ClientsFacts:
    """What was seen.

    Attributes:
        groups: how many are active on the target.
        moved: how many of them have read on.
        probed_endpoints: endpoints by which a probe record came.
        not_seen: whether who has stayed on the source is not known, and why; empty where it is.
    """

    groups: int
    moved: int
    probed_endpoints: int
    not_seen: str


class VerifyClients(Polling[ClientsSettings, ClientsIntent, ClientsFacts]):
    """Groups that were active on the source are active on the target, and nowhere else.

    They resume from their committed offsets, as far as there is something to read; no transaction
    on the target holds them back; and a record written through the endpoints can be read there.
    """

    name = "verify-clients"
    traits = Trait.VERIFIES

    def describe(self, settings: ClientsSettings) -> Description:
        """Describe the step for plans and reports."""
        title = f"see the consumers at work on {settings.target}"
        proof = "every group that was read in before is read in there, goes on, and has left"
        stayed = _STAYED.format(source=settings.source)
        return Description(title, f"{proof} {settings.source}", clients=stayed)

    def check(self, settings: ClientsSettings, facts: Facts, reader: LinkReader) -> ClientsIntent:
        """Whom to wait for, and where they stand now.

        Raises:
            Unreachable: the target did not respond.
        """
        source, target, stock = settings.source, settings.target, facts.of(SnapshotState())
        names = stock.active_groups.get(source, ()) if stock else ()
        return ClientsIntent(
            source=source,
            target=target,
            groups=names,
            stood=standing(target, names, reader),
            undecided=undecided(target, reader),
            probed_endpoints=settings.probed_endpoints,
            text=uuid.uuid4().hex,
        )

    def apply(self, intent: ClientsIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Write a record by each entrance that is known, as a client would."""
        errors = []
        for number in intent.probed_endpoints:
            try:
                probe_record = writer.probe_record(intent.target, number)
                probe_record.write_probe(PROBE_TOPIC, probe_text(intent, number))
            except DrctlError as error:
                errors.append(f"endpoint {number + 1}: {error.message}")
        return tuple(errors)

    def verify(self, intent: ClientsIntent, reader: LinkReader) -> Readback[ClientsFacts]:
        """Which groups have not come, do not consume, or have stayed."""
        target, names = intent.target, intent.groups
        late = absent(target, names, reader)
        come = tuple(name for name in names if name not in late)
        now = standing(target, come, reader)
        stood = now if intent.stood is None else intent.stood
        slow = () if intent.stood is None else still_standing(target, now, stood, reader)
        held = held_back(target, intent.undecided, reader)
        unheard = tuple(
            number
            for number in intent.probed_endpoints
            if not reader.probe_readable(target, PROBE_TOPIC, probe_text(intent, number))
        )
        left = _left(intent, reader)
        silent = (f"what was written by endpoint {n + 1} is not on {target}" for n in unheard)
        missing = (*silent, *late.values(), *slow, *held, *left.stayed)
        moved = sum(now[name] != stood.get(name) for name in now)
        not_seen = _not_seen(intent.source, left)
        facts = ClientsFacts(len(names), moved, len(intent.probed_endpoints), not_seen)
        if missing:
            told = _told(len(late), len(names), missing)
            return Readback(State.WAITING, told, facts, missing)
        return Readback(State.DONE, _done(intent, facts), facts)


def probe_text(intent: ClientsIntent, number: int) -> str:
    """What is written by an endpoint."""
    return f"{intent.text}-{number + 1}"


def _left(intent: ClientsIntent, reader: LinkReader) -> Left:
    if not intent.source:
        return Left((), ())
    try:
        return left_behind(intent.source, intent.groups, reader)
    except Unreachable as silent:
        return Left((), (silent.message,))


def _not_seen(source: str, left: Left) -> str:
    """Why it is not known of some groups, or of all, whether they have stayed."""
    if not left.unseen:
        return ""
    more = f"; and {len(left.unseen) - _SHOWN} more" if len(left.unseen) > _SHOWN else ""
    return f"who has stayed on {source}: {'; '.join(left.unseen[:_SHOWN])}{more}"


def _told(late: int, groups: int, missing: tuple[str, ...]) -> str:
    if late:
        return f"{late} of {groups} groups have not come yet: {'; '.join(missing[:_SHOWN])}"
    found = "1 thing is" if len(missing) == 1 else f"{len(missing)} things are"
    return f"{found} not as wanted: {'; '.join(missing[:_SHOWN])}"


def _done(intent: ClientsIntent, facts: ClientsFacts) -> str:
    told = _NOBODY
    if facts.groups:
        told = f"all {facts.groups} groups are read in on {intent.target}"
        told += f", {facts.moved} of them have gone on" if intent.stood is not None else ""
    if facts.probed_endpoints:
        ways = (
            "1 endpoint" if facts.probed_endpoints == 1 else f"{facts.probed_endpoints} endpoints"
        )
        told += f"; a record that was written by {ways} is there"
    if facts.not_seen:
        return f"{told}; not seen: {facts.not_seen}"
    return f"{told}; nobody reads on {intent.source}" if intent.source else told
