"""The two clusters: ids and logs of the link's topics, the source's fence, and the groups."""

from collections.abc import Collection, Iterable, Mapping

from drctl.checks.check import listed, several
from drctl.checks.cluster_pair import log_ranges
from drctl.config.link import Link
from drctl.engine.ports import LinkReader
from drctl.failback.facts import Cluster, Fence, GroupState, Stopped
from drctl.model.errors import Unreachable
from drctl.model.fencing import DENY, LITERAL, PREFIXED, Denied, denials
from drctl.model.fencing import Topics as Pattern
from drctl.model.groups import Group
from drctl.model.ports import GroupReader, OffsetReader
from drctl.model.repairs import Acl, Acls
from drctl.model.topology import TopicPartition, TopicState, Unavailable
from drctl.steps.commands import run_probe

_ALL, _EVERYBODY, _ANY = "ALL", "User:*", "*"
_SETTLE_S, _COMMAND_S = 2.0, 30.0


def observe_fence(link: Link, topics: Collection[str], reader: LinkReader) -> Fence:
    """Whether applications are kept from writing to the source.

    Raises:
        Refused: the command cannot be started.
        Unreachable: no broker answered within the deadline.
    """
    settings = link.settings.fence
    if not topics:
        return Fence(None, "the cluster has no topic of the link: nothing to fence")
    if settings.method == "acl" and settings.principals:
        return _by_rules(link.source, settings.principals, topics, reader)
    if settings.method == "command" and settings.verify:
        text = _reported_by(settings.verify, "the fence is", "set", reader)
        prover = reader.fence(link.source, _SETTLE_S)
        return Fence(
            text.held, text.message, prover.prove((), topics).no_writes if text.held else None
        )
    return Fence(
        None,
        f"a fence of method {settings.method!r} cannot be checked: the check needs method acl"
        " with `principals`, or method command with `verify`",
    )


def observe_stopped(link: Link, reader: LinkReader) -> Stopped | None:
    """The result of the user-supplied check of the old replication, if there are no connectors.

    Raises:
        Refused: it cannot be started.
        Unreachable: it took too long, and was ended.
    """
    replicator = link.settings.replicator
    if not replicator.stopped or replicator.connect:
        return None
    return _reported_by(replicator.stopped, "it is", "stopped", reader)


def _reported_by(argv: tuple[str, ...], what: str, so: str, reader: LinkReader) -> Stopped:
    ended = run_probe(argv, {}, _COMMAND_S, reader)
    held, output = ended.code == 0, ended.output.strip()
    message = f"user-supplied command: {what} {so if held else f'not {so}'}"
    return Stopped(held, f"{message} ({output})" if output else message)


def _by_rules(
    cluster: str, principals: Collection[str], topics: Collection[str], reader: LinkReader
) -> Fence:
    present = reader.acls(cluster).acls()
    if isinstance(present, Unavailable):
        return Fence(None, f"ACLs: {present.reason}")
    if not present.enforced:
        return Fence(False, "the cluster has no authorizer: ACLs are not enforced")
    wanted = denials(principals, [Pattern(topic) for topic in topics], [Denied.WRITE])
    pairs = [(rule, covering(rule, present)) for rule in wanted]
    open_ = [f"{rule.principal} on {rule.name}" for rule, by in pairs if by is None]
    if open_:
        return Fence(False, f"applications may write: no ACL denies {listed(open_)}")
    rules = tuple(dict.fromkeys(by for _, by in pairs if by is not None))
    proof = reader.fence(cluster, _SETTLE_S).prove(rules, topics)
    if not proof.enforcement.proven:
        unproven = several(proof.enforcement.unproven) or "no broker is known"
        return Fence(False, f"the fence is set but not every broker enforces it: {unproven}")
    brokers = listed(sorted(proof.enforcement.brokers))
    message = f"every broker ({brokers}) denies writes to {listed(sorted(principals))}"
    return Fence(True, message, proof.no_writes)


def covering(wanted: Acl, present: Acls) -> Acl | None:
    """Find a rule that denies at least as much as this one; None if there is none."""
    return next((rule for rule in present.rules if _denies(rule, wanted)), None)


def _denies(rule: Acl, wanted: Acl) -> bool:
    name = (rule.pattern == LITERAL and rule.name in (wanted.name, _ANY)) or (
        rule.pattern == PREFIXED and wanted.name.startswith(rule.name)
    )
    return (
        name
        and rule.resource == wanted.resource
        and rule.permission == DENY
        and rule.host == _ANY
        and rule.principal in (wanted.principal, _EVERYBODY)
        and rule.operation in (wanted.operation, _ALL)
    )


def observe_groups(link: Link, source: GroupReader, target: GroupReader) -> tuple[GroupState, ...]:
    """All groups of the link, by name; offsets in other topics are omitted.

    Groups on the target are also listed if the source is unreachable.

    Raises:
        Unreachable: the target did not answer; or the source did not, and the target has no group.
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
        reading = tuple(cluster for cluster, group in groups.items() if _is_active(group))
        silent = [e.reason for e in (*groups.values(), positions) if isinstance(e, Unavailable)]
        found.append(GroupState(name, reading, at, silent[0] if silent else ""))
    return tuple(found)


def _only_there(
    link: Link, target: GroupReader, there: tuple[str, ...], silence: Unreachable
) -> tuple[GroupState, ...]:
    names = tuple(sorted(filter(link.carries_group, there)))
    if not names:
        raise silence
    known = target.described(names)
    reading = {name: (link.target,) if _is_active(known.get(name)) else () for name in names}
    return tuple(GroupState(name, reading[name], {}, silence.message) for name in names)


def _is_active(group: Group | Unavailable | None) -> bool:
    """Whether the group has members; a group that changes its state counts as inactive."""
    return isinstance(group, Group) and bool(group.members)


def observe_source(link: Link, reader: OffsetReader) -> Cluster:
    """The cluster that was lost.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    overview = reader.overview()
    names = link.topics_of(overview.partitions)
    places = [TopicPartition(t, n) for t in names for n in overview.partitions[t]]
    ids = _topic_ids(_states(reader, places))
    return Cluster(overview.cluster_id, log_ranges(reader, places), ids)


def observe_target(link: Link, reader: OffsetReader) -> Cluster:
    """The cluster on which applications run, and the link's copies there.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    overview = reader.overview()
    there = sorted(overview.partitions)
    copies = [name for name in there if _is_copy(link, name)]
    beside = [n for n in there if n not in copies and link.carries(n)]
    beside = [name for name in beside if link.target_topic(name) in copies]
    places, others = (
        [TopicPartition(name, number) for name in names for number in overview.partitions[name]]
        for names in (copies, beside)
    )
    logs, states = log_ranges(reader, [*places, *others]), _states(reader, places)
    return Cluster(
        overview.cluster_id,
        {place: logs[place] for place in places},
        _topic_ids(states),
        {place: logs[place] for place in others},
        frozenset(name for name, state in states.items() if not _keeps_time(state)),
        frozenset(
            n for n, each in states.items() if isinstance(each, TopicState) and each.compacted
        ),
    )


def _is_copy(link: Link, name: str) -> bool:
    origin = link.source_topic(name)
    return origin is not None and link.carries(origin)


States = Mapping[str, TopicState | Unavailable | None]


def _states(reader: OffsetReader, places: Iterable[TopicPartition]) -> States:
    names = sorted({place.topic for place in places})
    return reader.topics(names) if names else {}


def _topic_ids(states: States) -> dict[str, str]:
    return {
        name: state.topic_id
        for name, state in states.items()
        if isinstance(state, TopicState) and state.topic_id
    }


def _keeps_time(state: TopicState | Unavailable | None) -> bool:
    """Whether records keep the timestamps of their originals; False if unknown."""
    known = isinstance(state, TopicState) and bool(state.config)
    return known and isinstance(state, TopicState) and not state.log_append_time
