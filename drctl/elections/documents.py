"""What `drctl elect` shows, plans and did, as JSON documents."""

from collections.abc import Mapping
from typing import Annotated

from drctl.elections.cluster_state import Kind, Partition, PartitionStates, Replica
from drctl.elections.loss import Beyond, Evidence, Loss
from drctl.elections.planning import Action, ElectionPlan, Line, Precheck
from drctl.elections.results import ElectionResult, LineResult, Outcome
from drctl.model.document import Count, Document, From, Name, Seconds
from drctl.model.health import Controller
from drctl.model.topology import OffsetRange, Unavailable


class ClusterDocument(Document):
    """The cluster.

    Attributes:
        name: as drctl.yaml calls it.
        id: the cluster's own.
    """

    name: Name
    id: Name


class SilentBroker(Document):
    """A broker that did not answer."""

    broker: Count
    reason: str


class BrokersDocument(Document):
    """Who is there.

    Attributes:
        alive: that answered for themselves.
        silent: that the cluster lists and that did not answer.
    """

    read = From(PartitionStates)
    alive: tuple[Count, ...] = read(lambda s: tuple(sorted(s.alive)))
    silent: tuple[SilentBroker, ...] = read(
        lambda s: tuple(
            SilentBroker(broker=node, reason=why.reason) for node, why in s.silent.items()
        )
    )


class ReplicaDocument(Document):
    """A replica of a partition without a leader.

    Attributes:
        in_sync: it held everything when a leader last said so.
        eligible: out of sync, and yet it holds all that was committed; null: the brokers do not
            tell.
        last_known: it was eligible last.
        log_end: of its own log; null: it was not told.
    """

    broker: Count
    alive: bool
    in_sync: bool
    eligible: bool | None
    last_known: bool | None
    log_end: Count | None


class LeaderlessDocument(Document):
    """A partition without a leader.

    Attributes:
        leader: a leader that does not answer; null: there is none.
        epoch: of the leader; -1: the brokers do not tell.
        replicas: in their order: the first one is the preferred leader.
    """

    read = From(Partition)
    topic: Name = read(lambda p: p.place.topic)
    partition: Count = read(lambda p: p.place.partition)
    leader: Count | None
    epoch: Annotated[int, ("minimum", -1)]
    replicas: tuple[ReplicaDocument, ...]


def _leaderless(seen: Partition, states: PartitionStates) -> LeaderlessDocument:
    ends = {node: states.log_ends.get(Replica(seen.place, node)) for node in seen.replicas}
    replicas = (
        ReplicaDocument(
            broker=node,
            alive=node in states.alive,
            in_sync=node in seen.in_sync,
            eligible=None if seen.eligible is None else node in seen.eligible,
            last_known=None if seen.last_known is None else node in seen.last_known,
            log_end=end if isinstance(end, int) else None,
        )
        for node, end in ends.items()
    )
    return LeaderlessDocument.of(seen, replicas=tuple(replicas))


class ShowDocument(Document):
    """Partitions without a leader, and what each of their replicas holds.

    Attributes:
        controller: the active controller; null: none is known, and nobody is elected.
        partitions: that were looked at.
        missing_topics: topics that were asked for and are not there.
    """

    SCHEMA = "drctl/elect-show/1"
    read = From(PartitionStates)
    cluster: ClusterDocument
    controller: Count | None = read(
        lambda s: s.controller.node if isinstance(s.controller, Controller) else None
    )
    brokers: BrokersDocument = read(BrokersDocument.of)
    partitions: Count = read(lambda s: len(s.partitions))
    leaderless: tuple[LeaderlessDocument, ...]
    missing_topics: tuple[Name, ...] = read(lambda s: tuple(sorted(s.absent)))


def show_document(
    cluster: str, states: PartitionStates, shown: tuple[Partition, ...]
) -> ShowDocument:
    """Partitions without leaders, and who is there."""
    return ShowDocument.of(
        states,
        cluster=ClusterDocument(name=cluster, id=states.cluster_id),
        leaderless=tuple(_leaderless(each, states) for each in shown),
    )


class BlockerDocument(Document):
    """What blocks an election, or was overridden."""

    precheck: Precheck
    reason: str


class RangeDocument(Document):
    """Offsets.

    Attributes:
        before: the first offset behind it.
        offsets: how many; at least as many as records.
    """

    read = From(OffsetRange)
    from_: Count = read(lambda offsets: offsets.start)
    before: Count = read(lambda offsets: offsets.end)
    offsets: Count = read(lambda offsets: offsets.span)


class LongerDocument(Document):
    """A living replica, and the end of its log."""

    broker: Count
    log_end: Count


class EvidenceDocument(Document):
    """What tells where a log ended.

    Attributes:
        copied_to: there were records up to here.
        copied: they are on another cluster.
    """

    read = From(Evidence)
    words: str
    copied_to: Count
    exact: bool
    copied: bool


class BeyondDocument(Document):
    """A group whose committed offset is beyond the end of the log that stays."""

    read = From(Beyond)
    group: Name
    offset: Count


def _range(offsets: OffsetRange | None) -> RangeDocument | None:
    return None if offsets is None else RangeDocument.of(offsets)


class ElectionLoss(Document):
    """What an unclean election would lose.

    Attributes:
        summary: what would be lost, and how that is known.
        clean: the candidate holds all that was committed.
        log_end: of the candidate's own log.
        lost: null: nothing can be told.
        exact: whether it is known where the lost log ended; else it is at least this much.
        on_other_cluster: lost offsets whose records another cluster holds.
        longer_replicas: live replicas that hold more than the one that the controller would take.
        evidence: what tells where the lost log ended, the furthest first.
        groups_beyond_log_end: groups with a committed offset beyond that log end.
    """

    read = From(Loss)
    summary: str = read(lambda loss: loss.words)
    clean: bool = read(lambda loss: loss.candidate.clean)
    log_end: Count | None = read(
        lambda loss: loss.log_end if isinstance(loss.log_end, int) else None
    )
    lost: RangeDocument | None = read(lambda loss: _range(loss.offsets))
    exact: bool
    on_other_cluster: Count = read(lambda loss: loss.elsewhere)
    longer_replicas: tuple[LongerDocument, ...] = read(
        lambda loss: tuple(LongerDocument(broker=node, log_end=end) for node, end in loss.longer)
    )
    evidence: tuple[EvidenceDocument, ...]
    groups_beyond_log_end: tuple[BeyondDocument, ...] = read(
        lambda loss: BeyondDocument.each(loss.beyond)
    )


class LineDocument(Document):
    """A partition, and what is done about it.

    Attributes:
        eligible: null: the brokers do not tell.
        expected_leader: the broker that is expected to lead it afterwards.
        blockers: prechecks that failed.
        overridden: prechecks that failed and were overridden.
        loss: of an unclean election; null: of a preferred one, or nobody could be elected.
    """

    read = From(Line)
    topic: Name = read(lambda line: line.place.topic)
    partition: Count = read(lambda line: line.place.partition)
    leader: Count | None = read(lambda line: line.partition.leader if line.partition else None)
    replicas: tuple[Count, ...] = read(
        lambda line: line.partition.replicas if line.partition else ()
    )
    in_sync: tuple[Count, ...] = read(
        lambda line: tuple(line.partition.in_sync) if line.partition else ()
    )
    eligible: tuple[Count, ...] | None = read(
        lambda line: line.partition.eligible if line.partition else None
    )
    action: Action
    expected_leader: Count | None = read(lambda line: line.to)
    blockers: tuple[BlockerDocument, ...] = read(lambda line: BlockerDocument.each(line.refused))
    overridden: tuple[BlockerDocument, ...]
    loss: ElectionLoss | None


class MeasuredDocument(Document):
    """What an unclean election lost.

    Attributes:
        truncated_at: log end offset of the new leader when it was elected, by its own
            epochs.
        unknown_reason: why `truncated_at` is not known.
        lost: null: nothing can be told.
        as_predicted: whether the loss is what the plan stated.
    """

    read = From(LineResult)
    truncated_at: Count | None = read(lambda r: r.cut if isinstance(r.cut, int) else None)
    unknown_reason: str = read(lambda r: r.cut.reason if isinstance(r.cut, Unavailable) else "")
    lost: RangeDocument | None = read(lambda r: _range(r.lost))
    as_predicted: bool | None = read(lambda r: r.as_stated)


class ResultDocument(LineDocument):
    """A partition, and what became of it.

    Attributes:
        measured: of an unclean election that was held.
    """

    result = From(LineResult)
    outcome: Outcome
    leader_now: Count | None = result(lambda r: r.became.leader)
    reason: str = result(lambda r: r.became.reason)
    measured: MeasuredDocument | None = result(
        lambda r: None if r.line.loss is None or r.cut is None else MeasuredDocument.of(r)
    )


def _result(each: LineResult) -> ResultDocument:
    line = vars(LineDocument.of(each.line))
    against = BlockerDocument.each(each.blockers)
    return ResultDocument.of(each, **{**line, "blockers": against})


class HeadDocument(Document):
    """Which elections.

    Attributes:
        overrides: precheck to the reason why it is passed over.
        notes: who might have told more, and did not.
    """

    plan = From(ElectionPlan)
    kind: Kind
    cluster: ClusterDocument = plan(lambda p: ClusterDocument(name=p.cluster, id=p.cluster_id))
    overrides: Mapping[str, str] = plan(lambda p: {g.value: why for g, why in p.overrides.items()})
    notes: tuple[str, ...]


class ElectPlanDocument(HeadDocument):
    """What elections would be held, and what they would lose.

    Attributes:
        execute: the command line that carries it out.
    """

    SCHEMA = "drctl/elect-plan/1"
    lines: tuple[LineDocument, ...]
    execute: Name


class ElectDocument(HeadDocument):
    """What elections were held, and what they lost.

    Attributes:
        run: empty: nobody was elected.
    """

    SCHEMA = "drctl/elect/1"
    read = From(ElectionResult)
    run: str
    status: Annotated[str, ("enum", ("done", "refused", "stopped", "unknown"))] = read(
        lambda r: r.status
    )
    journal: str
    seconds: Seconds = read(lambda r: round(r.seconds, 3))
    lines: tuple[ResultDocument, ...] = read(lambda r: tuple(map(_result, r.results)))


def result_document(result: ElectionResult) -> ElectDocument:
    """What was done."""
    return ElectDocument.of(result, **vars(HeadDocument.of(result.plan)))
