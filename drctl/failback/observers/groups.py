"""Groups of the link: where they are read in, and what they have committed on the source."""

from drctl.config.link import Link
from drctl.failback.facts import GroupSeen
from drctl.model.errors import Unreachable
from drctl.model.groups import Group
from drctl.model.ports import GroupReader
from drctl.model.topology import Unavailable


def observe_groups(link: Link, source: GroupReader, target: GroupReader) -> tuple[GroupSeen, ...]:
    """All of them, by name; positions in other topics are left out.

    Those that the target knows are seen where the source is silent, too: who reads there has left.

    Raises:
        Unreachable: the target did not answer, or the source, and the target knows no group.
    """
    there = target.groups()
    try:
        here = source.groups()
    except Unreachable as silence:
        return _only_there(link, target, there, silence)
    names = tuple(sorted(filter(link.carries_group, {*here, *there})))
    if not names:
        return ()
    described = {link.source: source.described(names), link.target: target.described(names)}
    committed = source.committed(names)
    found = []
    for name in names:
        positions = committed.get(name, {})
        known = {} if isinstance(positions, Unavailable) else positions
        at = {place: each.offset for place, each in known.items() if link.carries(place.topic)}
        groups = {cluster: known.get(name) for cluster, known in described.items()}
        reading = tuple(cluster for cluster, group in groups.items() if _read_in(group))
        silent = [e.reason for e in (*groups.values(), positions) if isinstance(e, Unavailable)]
        found.append(GroupSeen(name, reading, at, silent[0] if silent else ""))
    return tuple(found)


def _only_there(
    link: Link, target: GroupReader, there: tuple[str, ...], silence: Unreachable
) -> tuple[GroupSeen, ...]:
    names = tuple(sorted(filter(link.carries_group, there)))
    if not names:
        raise silence
    known = target.described(names)
    reading = {name: (link.target,) if _read_in(known.get(name)) else () for name in names}
    return tuple(GroupSeen(name, reading[name], {}, silence.message) for name in names)


def _read_in(group: Group | Unavailable | None) -> bool:
    """Whether members are seen; one that is between two states is not taken for read in."""
    return isinstance(group, Group) and bool(group.members)
