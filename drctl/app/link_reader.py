"""What the steps of a plan may look at, over the real systems of one link."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from threading import Condition, Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Self

from drctl.app import adapters, run_adapters
from drctl.app.comparisons import Comparisons
from drctl.app.notices import Nobody, People
from drctl.app.run_adapters import run_command
from drctl.engine.failback_state import OutstandingAction, Reconciliation, Search, Wish
from drctl.engine.ports import CommandEnded, ConnectorState, ConnectorTasks, Missing
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
    from drctl.model.endpoints import EndpointReader
    from drctl.model.fencing import AclReader, FenceProver
    from drctl.model.finding import Finding
    from drctl.model.loss import Loss
    from drctl.model.ports import ClusterReader, GroupReader
    from drctl.model.producer_ids import ProducerIdReader
    from drctl.model.repairs import ShapeReader
    from drctl.model.replication import Workers
    from drctl.model.state_snapshot import StateSnapshot
    from drctl.offsets.applying import Translated
    from drctl.offsets.results import Answers, Place

_PAUSE_S = 0.2


@dataclass(slots=True)
class Connectors:
    """Implements `drctl.engine.ports.ConnectorsReader`."""

    client: "ConnectReader"

    def names(self) -> Sequence[str]:
        """Of all connectors that the workers run, whosever they are.

        Raises:
            Unreachable: no worker answered within the deadline.
        """
        return self.client.connectors()

    def state(self, name: str) -> ConnectorState:
        """Of one connector and its tasks.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        status = self.client.status(name)
        states = {status.state, *(task.state for task in status.tasks)}
        return ConnectorState(name, "+".join(sorted(states)), next(iter(status.stack_traces), ""))

    def tasks(self, name: str) -> ConnectorTasks:
        """Of one connector: those that are to run, and those that are known to.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        status = self.client.status(name)
        running = tuple(f"{task.number} is {task.state}" for task in status.tasks)
        workers = frozenset(filter(None, (status.worker, *(t.worker for t in status.tasks))))
        return ConnectorTasks(self.client.task_count(name), running, workers)

    def tasks_left(self, names: Sequence[str], settle_s: float) -> Sequence[str]:
        """Tasks that are there still, in words; none where for so long none was seen.

        Raises:
            NoSuchConnector: there is no such connector.
            Unreachable: no worker answered within the deadline.
        """
        until = monotonic() + settle_s
        while True:
            left = [
                f"{name}: {', '.join(tasks.told)}"
                for name in names
                if (tasks := self.tasks(name)).any
            ]
            if left or monotonic() >= until:
                return left
            sleep(_PAUSE_S)

    def offsets(self, name: str) -> Sequence[Mapping[str, Any]]:
        """What it keeps of how far it got.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        return self.client.offsets(name)

    def kafka_cluster_id(self) -> str:
        """The cluster that the workers are of.

        Raises:
            Unreachable: no worker answered within the deadline.
        """
        return self.client.kafka_cluster_id()

    def config(self, name: str) -> Mapping[str, str]:
        """How it is configured; it may hold passwords.

        Raises:
            NoSuchConnector: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """
        return self.client.config(name)


@dataclass(frozen=True, slots=True)
class Elections:
    """Implements `drctl.engine.ports.Elections`.

    Attributes:
        told: what the controller said to this process.
    """

    reader: "ElectionReader"
    told: "Mapping[TopicPartition, Unavailable | None]"

    def look(
        self, topics: "Collection[str] | None", ends_of: "Collection[TopicPartition] | None" = None
    ) -> "PartitionStates":
        """These topics, or all of them.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self.reader.look(topics, ends_of)

    def ends_before(
        self, epochs: "Mapping[TopicPartition, int]"
    ) -> "Mapping[TopicPartition, int | Unavailable]":
        """Where, in the log of each partition's leader, the records up to an epoch end.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self.reader.ends_before(epochs)

    def answers(self) -> "Mapping[TopicPartition, Unavailable | None]":
        """Of the partitions that this process asked for: None where the controller elected."""
        return self.told


def must_have(client: "ConnectReader | None") -> "ConnectReader":
    """The Connect workers.

    Raises:
        UsageError: none are configured.
    """
    if client is None:
        raise UsageError(
            "the link's replicator has no Connect workers",
            "set `replicator: {connect: http://..., connectors: {...}}` in drctl.yaml",
        )
    return client


_CANARIES = 50
"""How many of the newest records are searched: others write there, too."""


def probe_readable(site: "ClusterReader", topic: str, text: str) -> bool:
    """Whether it is among the newest of the topic's only partition."""
    place = TopicPartition(topic, 0)
    log = site.offsets([place]).get(place)
    if log is None or isinstance(log, Unavailable):
        return False
    start = max(log.log_start, log.end - _CANARIES)
    records = site.following({place: start}, _CANARIES).get(place, ())
    if isinstance(records, Unavailable):
        return False
    return any(record.value == text.encode() for record in records)


NO_WAY_BACK = "the other direction of this link is not configured"


class NoFailback:
    """The part of `drctl.engine.ports.Look` that is about records of a cluster that returned."""

    __slots__ = ()

    def searched(self) -> Search:
        """Only a way back searches.

        Raises:
            UsageError: this is none.
        """
        raise UsageError(NO_WAY_BACK)

    def remnant(self) -> Search:
        """Only a way back fills a cluster anew.

        Raises:
            UsageError: this is none.
        """
        raise UsageError(NO_WAY_BACK)

    def reconciliation(self, wish: Wish) -> Reconciliation:
        """Only a way back decides on records.

        Raises:
            UsageError: this is none.
        """
        raise UsageError(NO_WAY_BACK)

    def outstanding(self) -> Sequence[OutstandingAction]:
        """Only a way back settles what is owed.

        Raises:
            UsageError: this is none.
        """
        raise UsageError(NO_WAY_BACK)


FRESH_S = 3.0
"""The maximum age of an answer, or of a failed attempt, that decisions use."""

_WATCH_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class _Said:
    """What a question came to; it ended at `at`."""

    at: float
    error: DrctlError | None


class SourceWatch:
    """Asks in a thread of its own, again and again, until it is closed.

    Args:
        ask: sees whether it is there, by a client of its own; has a deadline.
    """

    def __init__(self, ask: Callable[[], None], clock: Callable[[], float] = monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._changed = Condition()
        self._said: _Said | None = None
        self._over = False
        # A question that never ends must not keep the process from ending.
        Thread(target=self._watch, name="source-watch", daemon=True).start()

    def newest(self, fresh_s: float = FRESH_S) -> None:
        """Return where it is there, by the newest question that ended within this time.

        Raises:
            NotLetIn: somebody is there, and does not let drctl in.
            Unreachable: it did not answer.
            ConfigError: it cannot be asked.
        """
        since = self._clock() - fresh_s
        with self._changed:
            while (said := self._said) is None or said.at < since:
                self._changed.wait(0.2)
        if said.error is not None:
            raise said.error

    def close(self) -> None:
        """Ask no more."""
        self._over = True

    def _watch(self) -> None:
        while not self._over:
            error: DrctlError | None = None
            try:
                self._ask()
            except DrctlError as said:
                error = said
            with self._changed:
                self._said = _Said(self._clock(), error)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._over, _WATCH_PAUSE_S)


_QUICK_S = 2.0
_FRESH_S = 5.0
"""The maximum age of a failed attempt that prechecks use."""

_FEW = 100
"""Up to this many groups are translated alone; more are translated with all others."""

_ASKED_S = 3.0
"""The maximum age of precheck results that a later step reuses."""


@dataclass(slots=True)
class ClusterLinkReader(NoFailback):
    """Implements `drctl.engine.ports.Look`; opens what is asked for, once.

    Args:
        judge: what says what the prechecks say, told the mode.
        people: who answer questions.
        lost: whether the source is likely to be dead: it gets little time to answer.
        opposite: what looks at the other direction; None where nothing asks for it.
    """

    config: "Config"
    link: "Link"
    judge: "Callable[[ClusterLinkReader, str], Sequence[Finding]]"
    people: People = field(default_factory=Nobody)
    lost: bool = False
    opposite: "ClusterLinkReader | None" = None
    commands: dict[str, CommandEnded] = field(default_factory=dict, init=False)
    elected: "dict[TopicPartition, Unavailable | None]" = field(default_factory=dict, init=False)
    committed: "dict[Place, Unavailable | None]" = field(default_factory=dict, init=False)
    _copied: tuple[str, ...] | None = field(default=None, init=False)
    _comparisons: Comparisons = field(init=False)
    _found: "dict[str, tuple[float, Sequence[Finding]]]" = field(default_factory=dict, init=False)
    _copies: "BoundedQuery[Before] | None" = field(default=None, init=False)
    _watch: SourceWatch | None = field(default=None, init=False)
    _ahead: "BoundedQuery[tuple[Mapping[TopicPartition, int], Translated]] | None" = field(
        default=None, init=False
    )
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

    def meet(self, *, given_up: bool = False) -> None:
        """See who is there, all at once.

        Args:
            given_up: whether a source that does not let drctl in is given up all the same.

        Raises:
            ConfigError: a cluster cannot be asked as drctl.yaml says.
            NotLetIn: a cluster does not let drctl in.
        """
        adapters.meet(self.link, source_s=self.patience(self.link.source), given_up=given_up)

    def prepare(self) -> None:
        """Open what steps will look by: it connects while something else is waited for."""
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
            return self.link.topics_of(self.site(self.link.source).topic_names())
        except Unreachable:
            copies = self.site(self.link.target).topic_names()
            names = map(self.link.source_topic, copies)
            self._copied = self.link.topics_of(name for name in names if name is not None)
            return self._copied

    def target_topic(self, topic: str) -> str:
        """What a topic of the source is called on the target."""
        return self.link.target_topic(topic)

    def site(self, name: str) -> "ClusterReader":
        """One of the two clusters."""
        found: ClusterReader = self._once("topics", name)
        return found

    def alive(self, name: str, *, newly: bool = False) -> str:
        """The id of a cluster that answers now; it is asked anew, whatever is remembered of it.

        Raises:
            NotLetIn: somebody is there, and does not let drctl in.
            Unreachable: it did not answer.
        """
        if name == self.link.source and self._watch is not None:
            self._watch.newest(0.0 if newly else FRESH_S)
        connections.recheck(connections.cluster(name))
        return self.site(name).cluster_id()

    def groups(self, name: str) -> "GroupReader":
        """The groups of one of them."""
        found: GroupReader = self._once("groups", name)
        return found

    def offset_answers(self) -> "Answers":
        """What coordinators said to this process of offsets that it committed or removed."""
        return self.committed

    def link_groups(self, name: str) -> tuple[str, ...]:
        """Those whose positions the link carries, sorted.

        Raises:
            Unreachable: the cluster did not answer.
        """
        return tuple(sorted(filter(self.link.carries_group, self.groups(name).groups())))

    def look_ahead(self) -> None:
        """Begin to look at target and connectors, while a lost source is waited for."""
        from drctl.checks.bounded_query import BoundedQuery

        def look() -> "tuple[float, StateSnapshot]":
            from drctl.app.plan_inputs import connector_names
            from drctl.steps.prechecks import SnapshotSettings, stock_of

            wanted = SnapshotSettings((self.link.target,), connector_names(self.link))
            # By connections of its own: those of this reader are used meanwhile.
            with ClusterLinkReader(self.config, self.link, self.judge, lost=True) as beside:
                return monotonic(), stock_of(wanted, beside)

        self._snapshot = BoundedQuery(look, adapters.PATIENCE_S)

    def seen_ahead(self) -> "StateSnapshot | None":
        """What `look_ahead` found up to 5 s ago; None where it failed or was not called."""
        if self._snapshot is None:
            return None
        seen, self._snapshot = self._snapshot.answer(), None
        if isinstance(seen, Unavailable):
            return None
        at, stock = seen
        faulty = any(each.error for each in stock.clusters.values())
        faulty = faulty or any(each.error for each in stock.connectors.values())
        return None if faulty or monotonic() - at > _FRESH_S else stock

    def acls(self, name: str) -> "AclReader":
        """The rules of one cluster."""
        found: AclReader = self._once("acls", name)
        return found

    def shapes(self, name: str) -> "ShapeReader":
        """The topics of one cluster, as whoever changes them must know them."""
        found: ShapeReader = self._once("shapes", name)
        return found

    def producer_ids(self, name: str) -> "ProducerIdReader":
        """The producer ids of one cluster."""
        found: ProducerIdReader = self._once("producer_ids", name)
        return found

    def fence(self, name: str, settle_s: float) -> "FenceProver":
        """What proves that a fence of one cluster holds."""
        return adapters.reader(name, self.cluster(name)).fence(settle_s)

    def elections(self, name: str) -> Elections:
        """The leaders of one cluster."""
        found = self._once("elections", name)
        return Elections(found, self.elected)

    def connectors(self) -> Connectors:
        """Those that replicate the link.

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

    def endpoint(self, number: int) -> "EndpointReader":
        """One of the link's endpoints, counted from 0."""
        return run_adapters.endpoint_reader(self.config, self.link, number)

    def reached(self, number: int, name: str) -> str:
        """The id of the cluster that a client comes to by an endpoint, asked by a new client.

        Raises:
            UsageError: nobody says what clients come by.
            Unreachable: nobody answered.
        """
        entrance = run_adapters.entrance(self.link, number, self.cluster(name))
        with entrance.reader().topics as it:
            return it.cluster_id()

    def findings(self, mode: str) -> "Sequence[Finding]":
        """What the prechecks say now; whether a cluster is silent they ask anew."""
        at, kept = self._found.get(mode, (0.0, ()))
        if mode == Mode.UNPLANNED and kept and monotonic() - at < _ASKED_S:
            return kept
        for name in (self.link.source, self.link.target):
            connections.recheck(connections.cluster(name), _FRESH_S)
        found = self.judge(self, mode)
        self._found[mode] = monotonic(), found
        return found

    def give_up(self) -> None:
        """Begin to watch a source that is likely to be lost: whatever waits for it waits at once.

        Where its copies end is noted now: the prechecks ask whether they grow.
        """
        from drctl.app.prechecks import ends_of_copies, heartbeats_of
        from drctl.checks.bounded_query import BoundedQuery

        link = self.link

        def copies() -> "Before":
            at = monotonic()
            with adapters.reader(link.target, link.target_config).topics as target:
                return at, ends_of_copies(link, target, heartbeats_of(link, target))

        self._copies = BoundedQuery(copies, adapters.PATIENCE_S)
        self._watch = SourceWatch(self._ask_source)

    @property
    def copies_before(self) -> "Callable[[], Before] | None":
        """Where copies ended when the source was given up; None where it was not."""
        return self._copies.value if self._copies is not None else None

    def translated(self) -> "Translated":
        """Where the link's groups are to stand on the target, by the evidence there is now.

        Raises:
            Unreachable: the target did not answer.
        """
        from drctl.app.prechecks import ends_of_copies

        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ends, found = ahead.value()
            if ends_of_copies(self.link, self.site(self.link.target)) == ends:
                return found
        return self._translated()

    def translate_ahead(self, moved: "Collection[str] | None" = None) -> None:
        """Begin to translate; what is found counts unless something is copied meanwhile.

        Args:
            moved: groups that moved since this was last called: of the others that is kept.
        """
        if not self.link.settings.translate:
            return
        from drctl.app.prechecks import ends_of_copies
        from drctl.checks.bounded_query import BoundedQuery
        from drctl.checks.observing import TRANSLATION_S

        before = self._ahead if moved is not None and len(moved) <= _FEW else None

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

        unproven = self.config.policy.commits_unproven
        found = link_translated(self.link, groups, None, unproven=unproven, shown=shown)
        wanted = from_translations(row.translation for row in found.rows)
        settings = self.link.settings
        patterns = settings.groups if settings.translate and found.source.silent else ()
        return Translated(wanted, unmatched(patterns, wanted))

    def missing(self) -> Missing:
        """What the target lacks of the source's tail, by content.

        Raises:
            Unreachable: one of the clusters did not answer.
        """
        source, target = self.site(self.link.source), self.site(self.link.target)
        return self._comparisons.missing(source, target)

    def compared(self, scope: str) -> Missing:
        """What the target lacks of everything, or of the tail, by content.

        Raises:
            Unreachable: one of the clusters did not answer.
        """
        return self._comparisons.compared(scope)

    def proof(self) -> Missing:
        """What the target lacks of everything, by content; a clean result is kept as evidence.

        What was written since the proof before is on its way, and not counted.

        Raises:
            Unreachable: one of the clusters did not answer.
        """
        return self._comparisons.proof()

    def other_way(self) -> "ClusterLinkReader":
        """What looks at the other direction.

        Raises:
            UsageError: nothing does.
        """
        return _known(self.opposite)

    def loss(self, task: "Task | None" = None, *, halted: str | None = None) -> "Loss":
        """What the target probably lacks, by what is left of the source; a task is told of it.

        Args:
            halted: what kept replication from running when this run told it to stop, empty for
                nothing; None where it was not told, and is asked.

        Raises:
            Unreachable: the target did not answer.
        """
        from drctl.app.loss import LossReader

        target = self.site(self.link.target)
        given = self.config, self.link, target, self.topics()
        return LossReader(*given, task=task, told=halted).loss()

    def probe_readable(self, name: str, topic: str, text: str) -> bool:
        """Whether the record of a probe record can be read on a cluster."""
        return probe_readable(self.site(name), topic, text)

    def answer(self, question: str, text: str) -> bool | None:
        """What a person says to a question; None where nobody is there to say it."""
        return self.people.answer(question, text)

    def probe(self, argv: Sequence[str], env: Mapping[str, str], timeout_s: float) -> CommandEnded:
        """Run a command of the site that only looks.

        Raises:
            Unreachable: it took too long, and was ended.
        """
        return run_command(self.config, argv, env, timeout_s)

    def ended(self, identity: str) -> CommandEnded | None:
        """How a command ended that this process ran; None where it ran none to its end."""
        return self.commands.get(identity)

    def cluster(self, name: str) -> "ClusterConfig":
        """The settings of one end of the link.

        Raises:
            UsageError: it is neither.
        """
        return self.config.cluster(name)

    def patience(self, name: str) -> float:
        """How long a cluster may take to answer, in seconds."""
        return _QUICK_S if self.lost and name == self.link.source else adapters.PATIENCE_S

    def _ask_source(self) -> None:
        adapters.cluster_of(self.link.source, self.link.source_config).present(_QUICK_S)

    def _once(self, what: str, name: str) -> Any:
        """A part of a cluster's reader, by its name."""
        if (what, name) not in self._opened:
            site = adapters.reader(name, self.cluster(name), self.patience(name))
            self._opened[what, name] = self._open.enter_context(getattr(site, what))
        return self._opened[what, name]


def _known(reader: ClusterLinkReader | None) -> ClusterLinkReader:
    if reader is None:
        raise UsageError(NO_WAY_BACK)
    return reader
