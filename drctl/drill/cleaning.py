"""Names of a drill's resources, and their cleanup.

The source is cleaned first: otherwise the replicator would copy its topics again.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from drctl.drill.clients import ScratchMaker
from drctl.model.fencing import LITERAL, AclReader, AclWriter, may_be_of_a_fence
from drctl.model.ports import ClusterReader, GroupReader
from drctl.model.repairs import Acl
from drctl.model.survey import ClusterSurveyor
from drctl.model.topology import Unavailable

MARK = "drctl-drill-"
"""Part of every name of a drill's resources."""

_NAME = re.compile(rf"[^:]*?{MARK}(\d{{8}}t\d{{6}}z-[0-9a-f]{{6}})(?:-[a-z]+)?")
_TIME = "%Y%m%dt%H%M%Sz"


@dataclass(frozen=True, slots=True)
class Scratch:
    """Names of one drill's resources.

    Attributes:
        drill: id of the drill; begins with its start time, so that names sort by time.
        prefix: prefix of the names, so that the replicator copies the topic.
    """

    drill: str
    prefix: str = ""

    @property
    def topic(self) -> str:
        """The topic that is written, replicated and read."""
        return f"{self.prefix}{MARK}{self.drill}-records"

    @property
    def probe_record(self) -> str:
        """The topic of the probe record on the target."""
        return f"{self.prefix}{MARK}{self.drill}-probe"

    @property
    def group(self) -> str:
        """The consumer group."""
        return f"{self.prefix}{MARK}{self.drill}"

    @property
    def principal(self) -> str:
        """The principal that the fence denies; no client uses it."""
        return f"User:{MARK}{self.drill}"


def new_drill(now: datetime, token: str) -> str:
    """The id of a drill that starts now.

    Args:
        token: six random hex digits.
    """
    return f"{now.astimezone(UTC).strftime(_TIME)}-{token}"


def drill_of(name: str) -> str | None:
    """The drill that a name belongs to, or None."""
    found = _NAME.fullmatch(name)
    return found[1] if found else None


def began(drill: str) -> datetime:
    """The start time of a drill."""
    return datetime.strptime(drill.partition("-")[0], _TIME).replace(tzinfo=UTC)


STAYS_AWAY_S = 3.0
_AT_MOST_S = 60.0
_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Left:
    """Resources of drills that remain on one cluster.

    Attributes:
        rules: ACLs on drill topics.
    """

    cluster: str
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    rules: tuple[Acl, ...] = ()

    @property
    def anything(self) -> bool:
        """Whether anything remains."""
        return bool(self.topics or self.groups or self.rules)

    @property
    def resources(self) -> tuple[str, ...]:
        """Each resource as text."""
        return (
            *(f"topic {name} of {self.cluster}" for name in self.topics),
            *(f"group {name} of {self.cluster}" for name in self.groups),
            *(f"ACL on {rule.name} of {self.cluster}" for rule in self.rules),
        )

    def of(self, drills: frozenset[str]) -> "Left":
        """Only the resources of these drills."""
        return Left(
            self.cluster,
            tuple(name for name in self.topics if drill_of(name) in drills),
            tuple(name for name in self.groups if drill_of(name) in drills),
            tuple(rule for rule in self.rules if drill_of(rule.name) in drills),
        )

    @property
    def drills(self) -> frozenset[str]:
        """The drills with remaining resources."""
        names = (*self.topics, *self.groups, *(rule.name for rule in self.rules))
        return frozenset(drill for drill in map(drill_of, names) if drill is not None)


@dataclass(frozen=True, slots=True)
class Ports:
    """Readers and writers of one cluster."""

    name: str
    cluster_reader: ClusterReader
    groups: GroupReader
    acls: AclReader
    scratch: ScratchMaker
    denials: AclWriter
    survey: ClusterSurveyor


@dataclass(slots=True)
class Cleaned:
    """Deleted and remaining resources, as text."""

    gone: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def left_on(ports: Ports) -> Left:
    """Find the resources of drills on a cluster.

    Raises:
        Unreachable: the cluster did not answer.
    """
    rules = ports.acls.acls()
    return Left(
        ports.name,
        _ours(ports.cluster_reader.topic_names()),
        _ours(ports.groups.groups()),
        () if isinstance(rules, Unavailable) else tuple(filter(_of_a_drill, rules.rules)),
    )


def clean(
    source: Ports, target: Ports, drills: frozenset[str], wait: Callable[[float], None]
) -> Cleaned:
    """Delete the resources of these drills, until they stay deleted.

    The source is cleaned first: otherwise the replicator would copy its topics again.

    Raises:
        Unreachable: a cluster did not answer.
    """
    done = Cleaned()
    for ports in (source, target):
        _delete(ports, left_on(ports).of(drills), done)
    still = waited = 0.0
    while still < STAYS_AWAY_S and waited < _AT_MOST_S and not done.left:
        wait(_PAUSE_S)
        still, waited = still + _PAUSE_S, waited + _PAUSE_S
        for ports in (source, target):
            found = left_on(ports).of(drills)
            if found.anything:
                _delete(ports, found, done)
                still = 0.0
    if not done.left and still < STAYS_AWAY_S:
        again = (left_on(ports).of(drills) for ports in (source, target))
        done.left += [
            f"{what}: reappears after deletion" for left in again for what in left.resources
        ]
    return done


def _delete(ports: Ports, left: Left, done: Cleaned) -> None:
    if left.rules:
        for rule, why in ports.denials.restore(left.rules).items():
            _note(f"ACL on {rule.on} of {ports.name}", why, done)
    for kind, names, delete in (
        ("group", left.groups, ports.scratch.delete_groups),
        ("topic", left.topics, ports.scratch.delete_topics),
    ):
        if names:
            for name, why in delete(names).items():
                _note(f"{kind} {name} of {ports.name}", why, done)


def _note(what: str, why: Unavailable | None, done: Cleaned) -> None:
    if why is not None:
        done.left.append(f"{what}: {why.reason}")
    elif what not in done.gone:
        done.gone.append(what)


def _ours(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if drill_of(name) is not None))


def _of_a_drill(rule: Acl) -> bool:
    """Whether a rule has exactly the form of a drill's fence."""
    return rule.pattern == LITERAL and may_be_of_a_fence(rule) and drill_of(rule.name) is not None
