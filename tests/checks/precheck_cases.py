"""What the prechecks of a failover look at, from a case written in YAML."""

from collections.abc import Callable, Mapping
from typing import Any

from drctl.checks.observed import NOT_QUERIED
from drctl.checks.replication_flow import ReplicationFlow
from drctl.model.active_cluster import ActiveCluster, FenceProbe, Moved, Unfinished
from drctl.model.endpoints import EndpointState
from drctl.model.groups import Group, GroupProtocol, GroupState, Member
from drctl.model.health import ClusterHealth, Controller, Locked, OpenTransaction, Shortage, Silent
from drctl.model.loss import Mode
from drctl.model.producer_ids import Producer
from drctl.model.repairs import Acl, Acls
from drctl.model.replication import Lag, LeftOut, Tail
from drctl.model.topology import TopicPartition, Unavailable

NOW_MS = 1_800_000_000_000


def guarded(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return what only prechecks observe; a text in its place says why it could not be read."""
    seen = {name: _seen(case.get(name), read) for name, read in _READERS.items()}
    source = _source(case.get("source"))
    return {"mode": Mode(case.get("mode", "planned")), "now_ms": NOW_MS, "source": source, **seen}


def acls(given: Any) -> Acls:
    """Parse `ALLOW User:app WRITE LITERAL:topic HOST [RESOURCE]`; false: no authorizer."""
    rules = []
    for line in given or ():
        permission, principal, operation, on, host, *resource = line.split()
        pattern, _, name = on.partition(":")
        rules.append(Acl(name, pattern, principal, host, operation, permission, *resource))
    return Acls(given is not False, tuple(rules))


def _seen(given: Any, read: Callable[[Any], Any]) -> Any:
    if given is None:
        return NOT_QUERIED
    return Unavailable(given) if isinstance(given, str) else read(given)


def _source(given: Any) -> str | Unavailable:
    """Return the source's response; a text means that it does not respond."""
    if isinstance(given, str):
        return Silent(given)
    match given:
        case {"silent": reason}:
            return Silent(reason)
        case {"locked": reason}:
            return Locked(reason)
        case {"unknown": reason}:
            return Unavailable(reason)
        case {"id": identity}:
            return str(identity)
    return NOT_QUERIED


def _place(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _by_place(read: Callable[[Any], Any]) -> Callable[[Mapping[str, Any]], Any]:
    return lambda given: {_place(place): _seen(each, read) for place, each in given.items()}


def _health(given: Mapping[str, Any]) -> ClusterHealth:
    return ClusterHealth(
        "BBB",
        _seen(given.get("controller", [1, 5]), lambda values: Controller(*values)),
        tuple(given.get("brokers", [1, 2])),
        tuple(given.get("absent", ())),
        given.get("partitions", 8),
        tuple(given.get("missing", ())),
        offline=tuple(map(_place, given.get("offline", ()))),
        under_min_isr=tuple(Shortage(_place(p), *n) for p, n in given.get("short", {}).items()),
        under_replicated=tuple(Shortage(_place(p), *n) for p, n in given.get("behind", {}).items()),
        unknown={name: Unavailable(why) for name, why in given.get("unknown", {}).items()},
    )


def _group(name: str, given: Any) -> Group | Unavailable:
    if isinstance(given, str):
        return Unavailable(given)
    members = tuple(Member(*text.split("@")) for text in given.get("members", ()))
    state = GroupState(given.get("state", "stable" if members else "empty"))
    return Group(name, GroupProtocol.CLASSIC, state, members)


def _transactions(given: list[Mapping[str, Any]]) -> tuple[OpenTransaction, ...]:
    return tuple(
        OpenTransaction(
            each.get("producer", 7),
            0,
            100,
            NOW_MS - 1000 * each["seconds"] if "seconds" in each else -1,
            each.get("name", ""),
            hanging=each.get("hanging"),
        )
        for each in given
    )


def _endpoint(given: Mapping[str, Any]) -> EndpointState:
    return EndpointState(given["endpoint"], given.get("cluster"), given.get("message", "as seen"))


def _active_cluster(given: Mapping[str, Any]) -> ActiveCluster:
    moved, unfinished = given.get("moved"), given.get("unfinished")
    run, plan, seconds = moved or ("", "", 0)
    return ActiveCluster(
        Moved(run, plan, NOW_MS - 1000 * seconds, acls(given.get("denied")).rules)
        if moved
        else None,
        Unfinished(*unfinished) if unfinished else None,
        _probe(*given["probe"]) if "probe" in given else None,
    )


def _probe(run: str, seconds_ago: int, principals: list[str], *counts: int) -> FenceProbe:
    """`counts`: created ACLs, deleted ones, and for how many seconds they were observed."""
    return FenceProbe(run, NOW_MS - 1000 * seconds_ago, tuple(principals), *counts)


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "target": _source,
    "replication_flow": lambda given: ReplicationFlow(*given),
    "target_health": _health,
    "source_coordinators": _health,
    "target_groups": lambda given: {name: _group(name, each) for name, each in given.items()},
    "target_acls": acls,
    "source_rights": frozenset,
    "lag": _by_place(lambda values: Lag(*values)),
    "newest_copy_ms": lambda given: NOW_MS - 1000 * given["seconds"],
    "tails": _by_place(lambda values: Tail(*values)),
    "transactions": _by_place(_transactions),
    "source_producers": _by_place(lambda ids: tuple(Producer(*each) for each in ids)),
    "target_producers": _by_place(lambda ids: tuple(Producer(*each) for each in ids)),
    "left_out": lambda given: tuple(LeftOut(g, _place(p), why) for g, p, why in given),
    "endpoints": lambda given: tuple(_seen(each, _endpoint) for each in given),
    "active_cluster": _active_cluster,
    "journal": lambda given: {
        place: None if why is None else Unavailable(why) for place, why in given.items()
    },
}
