"""What the steps of a plan read from the real systems of one link."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, ClassVar, Self

from drctl.app import adapters, run_adapters
from drctl.app.comparisons import Comparisons
from drctl.app.notices import NoPrompts, Prompts
from drctl.app.run_adapters import run_command
from drctl.engine.failback_state import OutstandingAction, ReconcileRequest, Reconciliation, Search
from drctl.engine.ports import CommandResult, ConnectorState, ConnectorTasks, Missing
from drctl.host import connections
from drctl.model.errors import DrctlError, Unreachable, UsageError
from drctl.model.loss import Mode
from drctl.model.topology import TopicPartition, Unavailable

if TYPE_CHECKING:
    from collections.abc import Collection

    from drctl.app.adapters import ConnectReader
    from drctl.app.notices import Task
    from drctl.checks.bounded_query import BoundedQuery
    from drctl.checks.replication_flow import Before
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.config.schema import ClusterConfig
    from drctl.elections.cluster_state import ElectionReader, PartitionStates
    from drctl.formats.tracked_positions import TrackedPositions
    from drctl.model.endpoints import EndpointReader
    from drctl.model.fencing import AclReader, FenceProver
    from drctl.model.finding import Finding
    from drctl.model.health import HealthReader
    from drctl.model.loss import Loss
    from drctl.model.ports import ClusterReader, GroupReader
    from drctl.model.producer_ids import ProducerIdReader
    from drctl.model.repairs import ShapeReader
    from drctl.model.replication import Workers
    from drctl.model.state_snapshot import StateSnapshot
    from drctl.model.survey import QuotaReader
    from drctl.offsets.applying import Translated
    from drctl.offsets.link_translation import EarlierAnswers
    from drctl.offsets.results import Answers, Place

_PAUSE_S = 0.2


@dataclass(slots=True)
class Connectors:
    """Implements `drctl.engine.ports.ConnectorsReader`."""

    client: "ConnectReader"

    def names(self) -> Sequence[str]:
        """The names of all connectors that the workers run.

        Raises:
            Unreachable: no worker answered within the deadline.
        """
        return self.client.connectors()

    def state(self, name: str) -> ConnectorState:
        """The state of a connector and its tasks.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        status = self.client.status(name)
        states = {status.state, *(task.state for task in status.tasks)}
        return ConnectorState(name, "+".join(sorted(states)), next(iter(status.stack_traces), ""))

    def tasks(self, name: str) -> ConnectorTasks:
        """The expected and the running tasks of a connector.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        status = self.client.status(name)
        running = tuple(f"{task.number} is {task.state}" for task in status.tasks)
        workers = frozenset(filter(None, (status.worker, *(t.worker for t in status.tasks))))
        return ConnectorTasks(self.client.task_count(name), running, workers)

    def tasks_left(self, names: Sequence[str], stabilize_s: float) -> Sequence[str]:
        """Remaining tasks, in words; empty if there were none for `stabilize_s`.

        Raises:
            NoSuchConnector: there is no such connector.
            Unreachable: no worker answered within the deadline.
        """
        until = monotonic() + stabilize_s
        while True:
            left = [
                f"{name}: {', '.join(tasks.summary)}"
                for name in names
                if (tasks := self.tasks(name)).any
            ]
            if left or monotonic() >= until:
                return left
            sleep(_PAUSE_S)

    def offsets(self, name: str) -> Sequence[Mapping[str, Any]]:
        """The source offsets of a connector.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        return self.client.offsets(name)

    def kafka_cluster_id(self) -> str:
        """The id of the cluster that the workers use.

        Raises:
            Unreachable: no worker answered within the deadline.
        """
        return self.client.kafka_cluster_id()

    def config(self, name: str) -> Mapping[str, str]:
        """The configuration of a connector; it may contain passwords.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        return self.client.config(name)


@dataclass(frozen=True, slots=True)
class Elections:
    """Implements `drctl.engine.ports.Elections`.

    Attributes:
        responses: the controller's responses to this process.
    """

    reader: "ElectionReader"
    responses: "Mapping[TopicPartition, Unavailable | None]"

    def look(
        self, topics: "Collection[str] | None", ends_of: "Collection[TopicPartition] | None" = None
    ) -> "PartitionStates":
        """The state of the partitions of these topics, or of all topics.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self.reader.look(topics, ends_of)

    def ends_before(
        self, epochs: "Mapping[TopicPartition, int]"
    ) -> "Mapping[TopicPartition, int | Unavailable]":
        """The end offset of an epoch in the log of each partition's leader.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self.reader.ends_before(epochs)

    def answers(self) -> "Mapping[TopicPartition, Unavailable | None]":
        """The result of each election that this process requested: None, or why it failed."""
        return self.responses


def must_have(client: "ConnectReader | None") -> "ConnectReader":
    """Check that Connect workers are configured.

    Raises:
        UsageError: none are.
    """
    if client is None:
        raise UsageError(
            "the link's replicator has no Connect workers",
            "set `replicator: {connect: http://..., connectors: {...}}` in drctl.yaml",
        )
    return client


_PROBE_RECORDS = 50
"""How many of the newest records are searched for a probe record: others are written there, too."""

_NO_REVERSE = "the reverse direction of this link is not configured"


class NoFailback:
    """The part of `drctl.engine.ports.LinkReader` that only a failback has."""

    __slots__ = ()

    def search_result(self) -> Search:
        """Not available.

        Raises:
            UsageError: this is not a failback.
        """
        raise UsageError(_NO_REVERSE)

    def search_before_rebuild(self) -> Search:
        """Not available.

        Raises:
            UsageError: this is not a failback.
        """
        raise UsageError(_NO_REVERSE)

    def reconciliation(self, request: ReconcileRequest) -> Reconciliation:
        """Not available.

        Raises:
            UsageError: this is not a failback.
        """
        raise UsageError(_NO_REVERSE)

    def outstanding(self) -> Sequence[OutstandingAction]:
        """Not available.

        Raises:
            UsageError: this is not a failback.
        """
        raise UsageError(_NO_REVERSE)


_QUICK_S = 2.0
"""The timeout of a request to a cluster that is probably down."""

_FRESH_S = 5.0
"""Maximum age of a failed connection attempt, or of an early snapshot, that is still used."""

_FEW_GROUPS = 100
"""If more groups than this changed, all groups are translated again."""

_PRECHECKS_S = 3.0
"""The maximum age of precheck results that a later step reuses."""


@dataclass(slots=True)
class ClusterLinkReader(NoFailback):
    """Implements `drctl.engine.ports.LinkReader`; opens each connection once, on first use.

    Args:
        judge: runs the prechecks of a mode.
        prompts: answers questions.
        lost: whether the source is probably down, so requests to it time out early.
        opposite: the reader of the reverse direction; None if no step needs it.

    Attributes:
        rehearses: whether the plan leaves the link's applications unchanged.
    """

    rehearses: ClassVar[bool] = False
    config: "Config"
    link: "Link"
    judge: "Callable[[ClusterLinkReader, str], Sequence[Finding]]"
    prompts: Prompts = field(default_factory=NoPrompts)
    lost: bool = False
    opposite: "ClusterLinkReader | None" = None
    commands: dict[str, CommandResult] = field(default_factory=dict, init=False)
    elected: "dict[TopicPartition, Unavailable | None]" = field(default_factory=dict, init=False)
    committed: "dict[Place, Unavailable | None]" = field(default_factory=dict, init=False)
    _copied: tuple[str, ...] | None = field(default=None, init=False)
    _comparisons: Comparisons = field(init=False)
    _found: "dict[str, tuple[float, Sequence[Finding]]]" = field(default_factory=dict, init=False)
    _copies: "BoundedQuery[Before] | None" = field(default=None, init=False)
    _watch: connections.ProbeLoop | None = field(default=None, init=False)
    _ahead: "BoundedQuery[tuple[Mapping[TopicPartition, int], Translated]] | None" = field(
        default=None, init=False
    )
    _answers: "EarlierAnswers | None" = field(default=None, init=False)
    _snapshot: "BoundedQuery[tuple[float, StateSnapshot]] | None" = field(default=None, init=False)
    _open: ExitStack = field(default_factory=ExitStack, init=False)
    _opened: dict[tuple[str, str], Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._comparisons = Comparisons(self.config, self.link)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._watch is not None:
            self._watch.close()
        self._open.close()
        if self.opposite is not None:
            self.opposite.__exit__()

    def probe_clusters(self, *, abandoned: bool = False) -> None:
        """Probe both clusters and Connect at the same time.

        Args:
            abandoned: whether to ignore an authentication failure of the source.

        Raises:
            ConfigError: the properties of a cluster are invalid.
            AuthenticationFailed: a cluster rejects drctl's credentials.
        """
        adapters.probe_clusters(
            self.link, source_s=self.timeout_s(self.link.source), abandoned=abandoned
        )

    def prepare(self) -> None:
        """Start to connect to everything that steps will read."""
        for name in (self.link.target,) if self.lost else (self.link.source, self.link.target):
            for what in ("topics", "groups", "acls", "shapes", "producer_ids"):
                self._once(what, name).prepare()
        if not self.lost:
            self._comparisons.prepare()

    def topics(self) -> tuple[str, ...]:
        """The source's topics that the link carries; from the target if the source is dead.

        Raises:
            Unreachable: neither cluster answered.
        """
        if self.lost and self._copied is not None:
            return self._copied
        try:
            return self.link.topics_of(self.cluster_reader(self.link.source).topic_names())
        except Unreachable:
            copies = self.cluster_reader(self.link.target).topic_names()
            names = map(self.link.source_topic, copies)
            self._copied = self.link.topics_of(name for name in names if name is not None)
            return self._copied

    def target_topic(self, topic: str) -> str:
        """The name on the target of a topic of the source."""
        return self.link.target_topic(topic)

    def cluster_reader(self, name: str) -> "ClusterReader":
        """The reader of one of the two clusters."""
        found: ClusterReader = self._once("topics", name)
        return found

    def live_cluster_id(self, name: str, *, newly: bool = False) -> str:
        """The id of a cluster that responds now; earlier failures are ignored.

        Args:
            newly: whether only the answer to a new request counts.

        Raises:
            AuthenticationFailed: it rejects drctl's credentials.
            Unreachable: it did not answer.
        """
        if name == self.link.source and self._watch is not None:
            self._watch.newest(0.0 if newly else connections.FRESH_S)
        connections.recheck(connections.cluster(name))
        return self.cluster_reader(name).cluster_id()

    def groups(self, name: str) -> "GroupReader":
        """The groups of one cluster."""
        found: GroupReader = self._once("groups", name)
        return found

    def offset_answers(self) -> "Answers":
        """The coordinators' responses to offsets that this process committed or deleted."""
        return self.committed

    def link_groups(self, name: str, *, incomplete: bool = False) -> tuple[str, ...]:
        """The groups of a cluster whose offsets the link translates, sorted.

        Args:
            incomplete: whether groups without a coordinator may be left out.

        Raises:
            Unreachable: the cluster did not answer, or groups have no coordinator.
        """
        listed = self.groups(name).groups(incomplete=incomplete)
        return tuple(sorted(filter(self.link.carries_group, listed)))

    def start_snapshot(self) -> None:
        """Start to record the target's and connectors' state while a lost source times out."""
        from drctl.checks.bounded_query import BoundedQuery

        def look() -> "tuple[float, StateSnapshot]":
            from drctl.app.plan_inputs import connector_names
            from drctl.steps.prechecks import SnapshotSettings, snapshot_of

            wanted = SnapshotSettings((self.link.target,), connector_names(self.link))
            # The connections of this reader are in use in another thread.
            with ClusterLinkReader(self.config, self.link, self.judge, lost=True) as other:
                return monotonic(), snapshot_of(wanted, other)

        self._snapshot = BoundedQuery(look, adapters.TIMEOUT_S)

    def early_snapshot(self) -> "StateSnapshot | None":
        """What `start_snapshot` found up to 5 s ago; None if it failed or was not called."""
        if self._snapshot is None:
            return None
        answer, self._snapshot = self._snapshot.answer(), None
        if isinstance(answer, Unavailable):
            return None
        at, snapshot = answer
        failed = any(each.error for each in snapshot.clusters.values())
        failed = failed or any(each.error for each in snapshot.connectors.values())
        return None if failed or monotonic() - at > _FRESH_S else snapshot

    def acls(self, name: str) -> "AclReader":
        """The ACL rules of one cluster."""
        found: AclReader = self._once("acls", name)
        return found

    def shapes(self, name: str) -> "ShapeReader":
        """The topics of one cluster with their partitions and configuration."""
        found: ShapeReader = self._once("shapes", name)
        return found

    def quotas(self, name: str) -> "QuotaReader":
        """The client quotas of one cluster."""
        found: QuotaReader = self._once("quotas", name)
        return found

    def producer_ids(self, name: str) -> "ProducerIdReader":
        """The producer ids of one cluster."""
        found: ProducerIdReader = self._once("producer_ids", name)
        return found

    def health(self, name: str) -> "HealthReader":
        """The health of one cluster, and its open transactions."""
        found: HealthReader = self._once("health", name)
        return found

    def fence(self, name: str, stabilize_s: float) -> "FenceProver":
        """Verifies that a fence of one cluster holds."""
        return adapters.reader(name, self.cluster(name)).fence(stabilize_s)

    def elections(self, name: str) -> Elections:
        """The partition leaders of one cluster."""
        found = self._once("elections", name)
        return Elections(found, self.elected)

    def connectors(self) -> Connectors:
        """The connectors that replicate the link.

        Raises:
            UsageError: no worker is configured.
        """
        if ("connect", "") not in self._opened:
            self._opened["connect", ""] = Connectors(must_have(adapters.connect_of(self.link)))
        found: Connectors = self._opened["connect", ""]
        return found

    def workers(self) -> "Workers":
        """All connectors of the workers that replicate the link, or that the run is about.

        Raises:
            UsageError: no worker is configured.
        """
        if ("workers", "") not in self._opened:
            opened = closing(run_adapters.workers_reader(self.link))
            self._opened["workers", ""] = self._open.enter_context(opened)
        found: Workers = self._opened["workers", ""]
        return found

    def source_workers(self, name: str) -> "Workers":
        """The workers whose source connectors write to one cluster of the link.

        Raises:
            UsageError: the link has no `source_connectors`.
        """
        if ("source-workers", name) not in self._opened:
            opened = closing(run_adapters.source_workers_reader(self.link, name))
            self._opened["source-workers", name] = self._open.enter_context(opened)
        found: Workers = self._opened["source-workers", name]
        return found

    def tracked_positions(self) -> "Mapping[str, TrackedPositions]":
        """The last export of the source's connectors by `drctl offsets track`, by name.

        Raises:
            Unreachable: the target did not answer.
        """
        from drctl.offsets.tracking_log import unreachable_source_id

        target = adapters.reader(self.link.target, self.link.target_config).tracked_offsets
        log = target.catch_up()
        found = unreachable_source_id(log, self.link.source, target.cluster_id())
        return log.positions(found) if found else {}

    def endpoint(self, number: int) -> "EndpointReader":
        """One of the link's endpoints, counted from 0."""
        return run_adapters.endpoint_reader(self.config, self.link, number)

    def reached(self, number: int, name: str) -> str:
        """The id of the cluster that a new client reaches through an endpoint.

        Raises:
            UsageError: the address of the endpoint is not configured.
            Unreachable: no cluster answered.
        """
        reached = run_adapters.through_endpoint(self.link, number, self.cluster(name))
        with reached.reader().topics as it:
            return it.cluster_id()

    def findings(self, mode: str) -> "Sequence[Finding]":
        """Run the prechecks; unreachable clusters are probed again."""
        at, recent = self._found.get(mode, (0.0, ()))
        if mode == Mode.UNPLANNED and recent and monotonic() - at < _PRECHECKS_S:
            return recent
        for name in (self.link.source, self.link.target):
            connections.recheck(connections.cluster(name), _FRESH_S)
        found = self.judge(self, mode)
        self._found[mode] = monotonic(), found
        return found

    def watch_source(self) -> None:
        """Start to probe a source that is probably down, so that no step has to wait for it.

        Also records the end offsets of its copies; prechecks test whether they grow.
        """
        from drctl.app.prechecks import ends_of_copies, heartbeats_of
        from drctl.checks.bounded_query import BoundedQuery

        link = self.link

        def copies() -> "Before":
            at = monotonic()
            with adapters.reader(link.target, link.target_config).topics as target:
                return at, ends_of_copies(link, target, heartbeats_of(link, target))

        self._copies = BoundedQuery(copies, adapters.TIMEOUT_S)
        source = adapters.cluster_of(link.source, link.source_config)
        self._watch = connections.ProbeLoop(lambda: source.present(_QUICK_S))

    @property
    def copies_before(self) -> "Callable[[], Before] | None":
        """The end offsets of the copies when the source was abandoned; None if it was not."""
        return self._copies.value if self._copies is not None else None

    def translated(self) -> "Translated":
        """The offsets of the link's groups on the target, from the current evidence.

        Raises:
            Unreachable: the target did not answer.
        """
        from drctl.app.prechecks import ends_of_copies

        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ends, found = ahead.value()
            if ends_of_copies(self.link, self.cluster_reader(self.link.target)) == ends:
                return found
        return self._translated()

    def translate_ahead(self, moved: "Collection[str] | None" = None) -> None:
        """Start to translate; the result is used unless a record is copied in the meantime.

        Args:
            moved: the groups whose offsets changed since the last call; the results of all others
                are kept.
        """
        if not self.link.settings.translate:
            return
        from drctl.app.prechecks import ends_of_copies
        from drctl.checks.bounded_query import BoundedQuery
        from drctl.checks.observing import TRANSLATION_S

        before = self._ahead if moved is not None and len(moved) <= _FEW_GROUPS else None

        def found() -> "tuple[Mapping[TopicPartition, int], Translated]":
            if before is not None and moved is not None:
                with suppress(DrctlError):  # then all are translated again
                    ends, known = before.value()
                    again = self._translated(tuple(map(re.escape, moved)), shown=False).wanted
                    kept = (row for row in known.wanted if row.group not in moved)
                    return ends, known._replace(wanted=(*kept, *again))
            with adapters.reader(self.link.target, self.link.target_config).topics as target:
                return ends_of_copies(self.link, target), self._translated(shown=False)

        self._ahead = BoundedQuery(found, TRANSLATION_S)

    def _translated(self, groups: Sequence[str] = (), *, shown: bool = True) -> "Translated":
        from drctl.app.offsets import link_translated
        from drctl.offsets.applying import Translated, from_translations, unmatched
        from drctl.offsets.link_translation import EarlierAnswers

        unproven = self.config.policy.commits_unproven
        if self._answers is None:
            self._answers = EarlierAnswers()
        found = link_translated(
            self.link, groups, None, unproven=unproven, shown=shown, earlier=self._answers
        )
        wanted = from_translations(row.translation for row in found.rows)
        settings = self.link.settings
        patterns = settings.groups if settings.translate and found.source.silent else ()
        return Translated(wanted, unmatched(patterns, wanted))

    def compare_ahead(self) -> None:
        """Compare the tails of partitions that receive no records, before clients have to wait.

        A failure is ignored here: then `missing` compares them.
        """
        with suppress(DrctlError):
            readers = map(self.cluster_reader, (self.link.source, self.link.target))
            self._comparisons.compare_ahead(*readers)

    def missing(self) -> Missing:
        """The unreplicated records of the source's tail, by content.

        Raises:
            Unreachable: one of the clusters did not answer.
        """
        source, target = (
            self.cluster_reader(self.link.source),
            self.cluster_reader(self.link.target),
        )
        return self._comparisons.missing(source, target)

    def compared(self, scope: str) -> Missing:
        """The unreplicated records by content, from a comparison of all records or of the tail.

        Raises:
            Unreachable: one of the clusters did not answer.
        """
        return self._comparisons.compared(scope)

    def proof(self) -> Missing:
        """The unreplicated records, from a full comparison; a clean result is kept as evidence.

        Records written since the previous call are in flight and do not count.

        Raises:
            Unreachable: one of the clusters did not answer.
        """
        return self._comparisons.proof()

    def reversed(self) -> "ClusterLinkReader":
        """The reader of the reverse direction.

        Raises:
            UsageError: it is not configured.
        """
        if self.opposite is None:
            raise UsageError(_NO_REVERSE)
        return self.opposite

    def loss(self, task: "Task | None" = None, *, halted: str | None = None) -> "Loss":
        """Estimate the loss from what is left of the source.

        Args:
            task: gets the progress.
            halted: why replication was not running when this run requested its stop; empty if it
                was running. None if this run requested no stop; the state is then read now.

        Raises:
            Unreachable: the target did not answer.
        """
        from drctl.app.loss import LossReader

        target = self.cluster_reader(self.link.target)
        given = self.config, self.link, target, self.topics()
        return LossReader(*given, task=task, halted=halted).loss()

    def probe_readable(self, name: str, topic: str, text: str) -> bool:
        """Whether a probe record is among the newest of the topic's only partition."""
        cluster, place = self.cluster_reader(name), TopicPartition(topic, 0)
        log = cluster.offsets([place]).get(place)
        if log is None or isinstance(log, Unavailable):
            return False
        start = max(log.log_start, log.end - _PROBE_RECORDS)
        records = cluster.following({place: start}, _PROBE_RECORDS).get(place, ())
        if isinstance(records, Unavailable):
            return False
        return any(record.value == text.encode() for record in records)

    def answer(self, question: str, text: str) -> bool | None:
        """The user's answer to a question; None without a terminal."""
        return self.prompts.answer(question, text)

    def run_read_only(
        self, argv: Sequence[str], env: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        """Run a user-supplied command that changes nothing.

        Raises:
            Unreachable: it timed out, and was killed.
        """
        return run_command(self.config, argv, env, timeout_s)

    def command_result(self, identity: str) -> CommandResult | None:
        """The result of a command that this process ran; None if it did not complete."""
        return self.commands.get(identity)

    def cluster(self, name: str) -> "ClusterConfig":
        """The configuration of a cluster of the link.

        Raises:
            UsageError: there is no cluster of this name.
        """
        return self.config.cluster(name)

    def timeout_s(self, name: str) -> float:
        """The timeout of requests to a cluster."""
        return _QUICK_S if self.lost and name == self.link.source else adapters.TIMEOUT_S

    def _once(self, what: str, name: str) -> Any:
        """A part of a cluster's reader by its name, opened only once."""
        if (what, name) not in self._opened:
            cluster = adapters.reader(name, self.cluster(name), self.timeout_s(name))
            self._opened[what, name] = self._open.enter_context(getattr(cluster, what))
        return self._opened[what, name]
