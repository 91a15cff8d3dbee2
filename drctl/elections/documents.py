"""The JSON documents of `drctl elect`."""

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
        name: its name in drctl.yaml.
        id: its Kafka cluster id.
    """

    name: Name
    id: Name


class SilentBroker(Document):
    """A broker that did not answer."""

    broker: Count
    reason: str


class BrokersDocument(Document):
    """The brokers of the cluster.

    Attributes:
        alive: brokers that answered a direct request.
        silent: brokers that the cluster lists but that did not answer.
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
        in_sync: whether it is in the last known set of in-sync replicas.
        eligible: whether it is out of sync but holds all committed records; null: the brokers do
            not report it.
        last_known: whether it was among the last eligible replicas.
        log_end: its log end offset; null: unknown.
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
        leader: the leader, which does not answer; null: there is none.
        epoch: leader epoch; -1: unknown.
        replicas: replicas in order; the first is the preferred leader.
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
        controller: the active controller; null: unknown; elections need one.
        partitions: number of partitions checked.
        missing_topics: requested topics that do not exist.
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
    """Partitions without a leader, and the live brokers."""
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
    """A range of offsets.

    Attributes:
        before: end of the range, exclusive.
        offsets: number of offsets; the number of records may be lower.
    """

    read = From(OffsetRange)
    from_: Count = read(lambda offsets: offsets.start)
    before: Count = read(lambda offsets: offsets.end)
    offsets: Count = read(lambda offsets: offsets.span)


class LongerDocument(Document):
    """A live replica and its log end offset."""

    broker: Count
    log_end: Count


class EvidenceDocument(Document):
    """Evidence of where a log ended.

    Attributes:
        copied_to: the log had records up to this offset, exclusive.
        copied: whether these records are on another cluster.
    """

    read = From(Evidence)
    message: str
    copied_to: Count
    exact: bool
    copied: bool


class BeyondDocument(Document):
    """A group whose committed offset is beyond the end of the remaining log."""

    read = From(Beyond)
    group: Name
    offset: Count


def _range(offsets: OffsetRange | None) -> RangeDocument | None:
    return None if offsets is None else RangeDocument.of(offsets)


class ElectionLoss(Document):
    """What an unclean election would lose.

    Attributes:
        summary: the expected loss and its evidence.
        clean: whether the candidate holds all committed records.
        log_end: log end offset of the candidate.
        lost: null: unknown.
        exact: whether the end of the lost log is known; otherwise the loss is a lower bound.
        on_other_cluster: lost offsets whose records another cluster holds.
        longer_replicas: live replicas with more records than the one that would be elected.
        evidence: evidence of where the lost log ended, highest offset first.
        groups_beyond_log_end: groups with a committed offset beyond that log end.
    """

    read = From(Loss)
    summary: str = read(lambda loss: loss.message)
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
    """A partition and its planned action.

    Attributes:
        eligible: null: the brokers do not report it.
        expected_leader: the expected leader after the election.
        blockers: prechecks that failed.
        overridden: prechecks that failed and were overridden.
        loss: expected loss of an unclean election; null for a preferred one, or if no replica
            can be elected.
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
        truncated_at: log end offset of the new leader when it was elected, according to
            its leader epochs.
        unknown_reason: why `truncated_at` is not known.
        lost: null: unknown.
        as_predicted: whether the loss is what the plan stated.
    """

    read = From(LineResult)
    truncated_at: Count | None = read(lambda r: r.cut if isinstance(r.cut, int) else None)
    unknown_reason: str = read(lambda r: r.cut.reason if isinstance(r.cut, Unavailable) else "")
    lost: RangeDocument | None = read(lambda r: _range(r.lost))
    as_predicted: bool | None = read(lambda r: r.as_stated)


class ResultDocument(LineDocument):
    """A partition and its outcome.

    Attributes:
        measured: the measured loss of an unclean election.
    """

    result = From(LineResult)
    outcome: Outcome
    leader_now: Count | None = result(lambda r: r.election.leader)
    reason: str = result(lambda r: r.election.reason)
    measured: MeasuredDocument | None = result(
        lambda r: None if r.line.loss is None or r.cut is None else MeasuredDocument.of(r)
    )


def _result(each: LineResult) -> ResultDocument:
    line = vars(LineDocument.of(each.line))
    against = BlockerDocument.each(each.blockers)
    return ResultDocument.of(each, **{**line, "blockers": against})


class HeadDocument(Document):
    """Common fields of plan and result.

    Attributes:
        overrides: overridden prechecks: name to reason.
        notes: sources of evidence that did not answer.
    """

    plan = From(ElectionPlan)
    kind: Kind
    cluster: ClusterDocument = plan(lambda p: ClusterDocument(name=p.cluster, id=p.cluster_id))
    overrides: Mapping[str, str] = plan(lambda p: {g.value: why for g, why in p.overrides.items()})
    notes: tuple[str, ...]


class ElectPlanDocument(HeadDocument):
    """A plan of elections, with the expected loss.

    Attributes:
        execute: the command line that executes it.
    """

    SCHEMA = "drctl/elect-plan/1"
    lines: tuple[LineDocument, ...]
    execute: Name


class ElectDocument(HeadDocument):
    """The result of elections, with the measured loss.

    Attributes:
        run: empty if no election was requested.
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
    """The result as a document."""
    return ElectDocument.of(result, **vars(HeadDocument.of(result.plan)))
