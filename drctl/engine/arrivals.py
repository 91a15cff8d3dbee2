"""Where clients are that were sent to another cluster: who has come, goes on, or has stayed."""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from drctl.engine.ports import Look
from drctl.model.errors import Unreachable
from drctl.model.groups import Committed, Group
from drctl.model.reachability import Silent
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable

Standing = Mapping[str, int]
"""By group the sum of its positions; it grows where the group goes on in any partition."""

_SHOWN = 3


class Left(NamedTuple):
    """Who has not left a cluster.

    Attributes:
        stayed: groups in which somebody reads, or may, each in words.
        unseen: why of others nobody can tell, in words; empty where all were looked at.
    """

    stayed: tuple[str, ...]
    unseen: tuple[str, ...]


def absent(cluster: str, names: Collection[str], look: Look) -> Mapping[str, str]:
    """Groups in which nobody reads on a cluster, each in words."""
    described = look.groups(cluster).described(names) if names else {}
    found = {}
    for name in names:
        group = described[name]
        if isinstance(group, Unavailable):
            found[name] = f"{name} cannot be looked at: {group.reason}"
        elif not group.active:
            found[name] = name
    return found


def standing(cluster: str, names: Collection[str], look: Look) -> Standing:
    """How far groups came on a cluster; one whose positions cannot be read is left out."""
    committed = look.groups(cluster).committed(names) if names else {}
    return {
        name: sum(position.offset for position in positions.values())
        for name, positions in committed.items()
        if not isinstance(positions, Unavailable)
    }


def still_standing(cluster: str, now: Standing, before: Standing, look: Look) -> tuple[str, ...]:
    """Groups that have something to read, and stand where they stood; each in words."""
    names = [name for name, total in now.items() if total == before.get(name)]
    if not names:
        return ()
    committed = look.groups(cluster).committed(names)
    known = {n: p for n, p in committed.items() if not isinstance(p, Unavailable)}
    places = sorted({place for positions in known.values() for place in positions})
    ends = look.site(cluster).offsets(places)
    waiting = {name: _unread(positions, ends) for name, positions in known.items()}
    return tuple(
        f"{name} does not go on: {rows[0]}" for name, rows in sorted(waiting.items()) if rows
    )


def undecided(cluster: str, look: Look) -> Mapping[str, int]:
    """Partitions of the link's topics with records that a transaction holds back: where from.

    Raises:
        Unreachable: the cluster did not answer.
    """
    return {
        str(place): log.last_stable
        for place, log in _copies(cluster, look).items()
        if log.last_stable < log.end
    }


def held_back(cluster: str, before: Mapping[str, int], look: Look) -> tuple[str, ...]:
    """Those that the very same transaction still holds back, each in words."""
    if not before:
        return ()
    now = undecided(cluster, look)
    same = [place for place, offset in before.items() if now.get(place) == offset]
    return tuple(
        f"{place} does not go on for readers of committed records: a transaction has been open"
        f" since offset {before[place]}"
        for place in sorted(same)
    )


def left_behind(cluster: str, known: Collection[str], look: Look) -> Left:
    """The link's groups in which somebody still reads on a cluster, each with its members.

    Of a cluster that is half dead this says what its living brokers tell: a group whose coordinator
    is silent is not known to have stayed, nor to have left.

    Args:
        known: groups that were read in there; where a coordinator is gone no broker lists them.

    Raises:
        Unreachable: the cluster did not answer.
    """
    unseen = []
    try:
        names = {*known, *look.link_groups(cluster)}
    except Unreachable as silent:
        names = set(known)
        if not names:
            raise
        unseen.append(f"which groups there are beside {_listed(names)}: {silent.message}")
    described = look.groups(cluster).described(sorted(names))
    mute = {name: each for name, each in described.items() if isinstance(each, Silent)}
    unseen = [f"group {name}: {each.reason}" for name, each in sorted(mute.items())] + unseen
    stayed = tuple(
        _stayed(name, group, cluster)
        for name, group in sorted(described.items())
        if name not in mute and (isinstance(group, Unavailable) or group.active)
    )
    return Left(stayed, tuple(unseen))


def not_heard(entrances: Iterable[int], cluster: str) -> tuple[str, ...]:
    """Entrances by which no record came to a cluster, each in words."""
    return tuple(
        f"what was written by endpoint {number + 1} is not on {cluster}" for number in entrances
    )


def _copies(cluster: str, look: Look) -> Mapping[TopicPartition, PartitionOffsets]:
    site = look.site(cluster)
    there = site.overview().partitions
    names = sorted({look.target_topic(topic) for topic in look.topics()})
    places = [TopicPartition(name, n) for name in names for n in there.get(name, ())]
    known = site.offsets(places).items()
    return {place: log for place, log in known if not isinstance(log, Unavailable)}


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
