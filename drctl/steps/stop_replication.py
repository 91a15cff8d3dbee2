"""Stops the connectors that replicate the link; the offsets that Connect keeps are the boundary.

Connect takes a stop at once, keeps it, and ends the tasks, which are what copies. The connectors
themselves may take a minute longer where their source is dead: their schedulers wait for it, and
copy nothing. So the stop can be requested early (`request-stop`), what rests on it waits for the
tasks (`stop-replication`), and that the connectors ended is seen at the end (`confirm-stop`).

A worker answers a request only after the tasks that the one before it stopped have ended, and a
task that waits for a dead source is given 5 s. So where the source is lost, what copies is stopped
first and by itself, and what no application waits for is stopped last.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from drctl.engine.kind import (
    BothClusters,
    Description,
    Facts,
    Polling,
    Readback,
    State,
    StepKind,
    Trait,
)
from drctl.engine.ports import ConnectorsReader, LinkReader, LinkWriter
from drctl.model.errors import DrctlError, Unreachable
from drctl.model.health import AuthenticationFailed
from drctl.model.loss import LossFacts, facts_of

STOPPED, RUNNING, PAUSED = "STOPPED", "RUNNING", "PAUSED"

KEEP_STOPPED = "keep-stopped"
"""The name of `StopReplication` in the direction in which replication ran before the loss."""

SETTLE_S = 6.0
"""For so long no task may be seen where several workers run them: each cancels what has not ended
within `task.shutdown.graceful.timeout.ms` (5 s by default), and only one of them tells."""

WRITES_NO_RECORDS = frozenset(
    {
        "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
        "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
    }
)
"""Connectors of MirrorMaker 2 whose tasks write nothing that applications read."""

COMMITS_OFFSETS = "sync.group.offsets.enabled"
"""With it, the checkpoint task commits offsets on the target."""

Kept = Mapping[str, tuple[Mapping[str, Any], ...]]
"""By connector, the offsets that Connect keeps of it."""


@dataclass(frozen=True, slots=True)
class StopSettings:
    """Settings from the plan.

    Attributes:
        tasks_only: whether it is enough that no task is left of a connector that writes.
        rest_later: whether connectors that write neither records nor offsets are left running.
        translate_ahead: whether offsets are translated meanwhile: no group is active any more.
    """

    connectors: tuple[str, ...]
    tasks_only: bool = False
    rest_later: bool = False
    translate_ahead: bool = False


@dataclass(frozen=True, kw_only=True)
class StoppingIntent:
    """The states of connectors before they are stopped, and how many workers run them."""

    before: Mapping[str, str] = field(default_factory=dict)
    workers: int = 0


@dataclass(frozen=True, kw_only=True)
class StopIntent(StoppingIntent):
    """What is stopped.

    Attributes:
        requested: those of which a step before requested it.
        tasks_of: the connectors whose tasks have to end; None where they have to end themselves.
    """

    requested: tuple[str, ...]
    tasks_of: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class RequestedStop(StoppingIntent):
    """What is requested, and known since.

    Attributes:
        idle: connectors that had no task.
    """

    idle: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfirmSettings:
    """Settings from the plan.

    Attributes:
        source: that is lost, and is to stay silent; empty where none is.
    """

    connectors: tuple[str, ...]
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class ConfirmIntent(StoppingIntent):
    """What is stopped last.

    Attributes:
        ended: connectors whose tasks ended before.
    """

    connectors: tuple[str, ...]
    source: str = ""
    ended: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StopFacts:
    """What was stopped.

    Attributes:
        boundary: how far each got; nothing where only the tasks have ended.
        tasks_of: the connectors that have no task any more.
    """

    boundary: Kept = field(default_factory=dict)
    tasks_of: tuple[str, ...] = ()


def halted(facts: Facts) -> str | None:
    """What was wrong with connectors when a run told them to stop; None where it told none.

    A connector that its own run has stopped says nothing of when replication ended.
    """
    requested = facts.of(RequestStop())
    if requested is None:
        return None
    stood = requested.before.items()
    told = [f"connector {name} was {state}" for name, state in stood if state != RUNNING]
    told += [f"connector {name} had no task" for name in requested.idle]
    return "; ".join(told)


S = TypeVar("S")
I = TypeVar("I", bound=StoppingIntent)  # noqa: E741
F = TypeVar("F", covariant=True)


class _Stopping(StepKind[S, I, F]):
    """Stops connectors; a rollback has those run that ran, which the intent names in `before`."""

    def undo(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Resume those that ran, and pause those that were paused."""
        before, connectors = intent.before, writer.connectors()

        def back(name: str) -> None:
            (connectors.pause if before[name] == PAUSED else connectors.resume)(name)

        return for_each_connector([n for n in before if before[n] != STOPPED], back, at_once=True)

    def verify_undo(self, intent: I, reader: LinkReader) -> Readback[F]:
        """Whether they are as before; one that had failed need only not be stopped."""
        connectors = reader.connectors()
        others = []
        for name, before in intent.before.items():
            now = connectors.state(name).state
            if now != before and (before in (RUNNING, PAUSED, STOPPED) or now == STOPPED):
                others.append(f"{name} is {now}, was {before}")
        if others:
            return Readback(State.WAITING, "; ".join(others), items=tuple(others))
        return Readback(State.DONE, "the connectors are as they were")


class StopReplication(_Stopping[StopSettings, StopIntent, StopFacts]):
    """Their tasks end, their configuration and offsets stay."""

    name = "stop-replication"
    traits = Trait.CHANGES | Trait.STOPS_REPLICATION

    def describe(self, settings: StopSettings) -> Description:
        """Describe the step for plans and reports."""
        names = ", ".join(settings.connectors)
        proof = "Connect says STOPPED of each and of all tasks"
        if settings.tasks_only:
            proof = "Connect has no task left that writes records or offsets on the target"
        return Description(
            f"stop replication: connectors {names}", proof, "let those go on that ran before"
        )

    def check(self, settings: StopSettings, facts: Facts, reader: LinkReader) -> StopIntent:
        """Their states now, or before they were asked to stop.

        Raises:
            UsageError: there is no such connector.
            Unreachable: no worker responded.
        """
        names, requested = settings.connectors, facts.of(RequestStop()) or RequestedStop()
        if settings.tasks_only or settings.rest_later:
            connectors = reader.connectors()
            names = tuple(name for name in names if _writes_for_clients(connectors.config(name)))
        asked = {name: requested.before[name] for name in names if name in requested.before}
        found = _as_they_are([name for name in names if name not in asked], reader)
        states = {**asked, **found.before}
        return StopIntent(
            before={name: states[name] for name in names},
            workers=max(found.workers, requested.workers),
            requested=tuple(asked),
            tasks_of=names if settings.tasks_only else None,
        )

    def apply(self, intent: StopIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Stop those that were not asked to; one that is stopped stays so."""
        names = [name for name in intent.before if name not in intent.requested]
        return for_each_connector(names, writer.connectors().stop, at_once=True)

    def verify(self, intent: StopIntent, reader: LinkReader) -> Readback[StopFacts]:
        """Their states now, and how far they got."""
        connectors = reader.connectors()
        if intent.tasks_of is not None:
            return _without_tasks(intent.tasks_of, intent.workers, connectors)
        states = {name: connectors.state(name).state for name in intent.before}
        others = tuple(f"{name} is {state}" for name, state in states.items() if state != STOPPED)
        if others:
            return Readback(State.WAITING, "; ".join(others), items=others)
        facts = StopFacts(_boundary(states, connectors), tuple(states))
        return Readback(State.DONE, f"{len(states)} connectors are stopped", facts)


class RequestStop(_Stopping[StopSettings, RequestedStop, RequestedStop]):
    """Connect keeps that they are to be stopped; their tasks end while other things are done."""

    name = "request-stop"
    traits = Trait.CHANGES | Trait.REQUESTS_STOP

    def describe(self, settings: StopSettings) -> Description:
        """Describe the step for plans and reports."""
        names = ", ".join(settings.connectors)
        return Description(
            f"request the stop of connectors {names}",
            "Connect has stored it: no task of them is configured any more",
            "let those go on that ran before",
        )

    def check(self, settings: StopSettings, facts: Facts, reader: LinkReader) -> RequestedStop:
        """Their states now, and which workers run them.

        Raises:
            UsageError: there is no such connector.
            Unreachable: no worker responded.
        """
        if settings.translate_ahead:
            reader.translate_ahead()
        names, connectors = settings.connectors, reader.connectors()
        idle = tuple(name for name in names if not connectors.tasks(name).summary)
        found = _as_they_are(names, reader)
        return RequestedStop(before=found.before, workers=found.workers, idle=idle)

    def apply(self, intent: RequestedStop, writer: LinkWriter) -> tuple[str, ...]:
        """Request all at once: each request by itself would wait for the tasks of the one before.

        Connect answers once the stop is in its configuration topic, and read back from there.
        """
        return for_each_connector(intent.before, writer.connectors().stop, at_once=True)

    def verify(self, intent: RequestedStop, reader: LinkReader) -> Readback[RequestedStop]:
        """Whether Connect keeps it."""
        connectors = reader.connectors()
        others = tuple(
            f"{name} has {tasks.configured} tasks"
            for name in intent.before
            if (tasks := connectors.tasks(name)).configured
        )
        if others:
            return Readback(State.WAITING, f"not stored yet: {'; '.join(others)}", items=others)
        words = f"Connect has stored that {len(intent.before)} connectors are to be stopped"
        return Readback(State.DONE, words, intent)


class ConfirmStop(_Stopping[ConfirmSettings, ConfirmIntent, StopFacts]):
    """The connectors end once their schedulers give up on the source; nothing copies meanwhile.

    Those that write neither records nor offsets are told to stop only here: no application waits
    for them.
    """

    name = "confirm-stop"
    traits = Trait.CHANGES

    def describe(self, settings: ConfirmSettings) -> Description:
        """Describe the step for plans and reports."""
        names, source = ", ".join(settings.connectors), settings.source
        silent = f", and {source} stays silent" if source else ""
        return Description(
            f"stop what still runs of connectors {names}, and watch all of them end",
            f"Connect says STOPPED of each and none has a task{silent}",
            "let those go on that ran before",
        )

    def check(self, settings: ConfirmSettings, facts: Facts, reader: LinkReader) -> ConfirmIntent:
        """Whose tasks had ended before, and the states of the others.

        Raises:
            UsageError: there is no such connector.
            Unreachable: no worker responded.
        """
        names, stopped = settings.connectors, facts.of(StopReplication())
        ended = stopped.tasks_of if stopped else names
        before = _as_they_are([name for name in names if name not in ended], reader).before
        return ConfirmIntent(connectors=names, source=settings.source, ended=ended, before=before)

    def apply(self, intent: ConfirmIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Stop the others; one whose tasks end at once goes first, the next may take 5 s."""
        return for_each_connector(list(intent.before)[::-1], writer.connectors().stop)

    def verify(self, intent: ConfirmIntent, reader: LinkReader) -> Readback[StopFacts]:
        """Which have not ended, which copy again, and whether the source is back."""
        connectors, source = reader.connectors(), intent.source
        again = tuple(
            f"{name} has tasks again: {', '.join(tasks.summary)}"
            for name in intent.ended
            if (tasks := connectors.tasks(name)).any
        )
        if again:
            words = (
                f"{'; '.join(again)}: what they copy is appended after newer records."
                f" Stop them now: curl -X PUT $CONNECT/connectors/NAME/stop"
            )
            return Readback(State.FAILED, words, items=again)
        states = {name: connectors.state(name).state for name in intent.connectors}
        others = tuple(f"{name} is {state}" for name, state in states.items() if state != STOPPED)
        if others:
            words = "; ".join(filter(None, (_is_back(source, reader), *others)))
            return Readback(State.WAITING, words, items=others)
        words = f"{len(states)} connectors are stopped, and none has a task"
        facts = StopFacts(_boundary(states, connectors))
        # Connectors may have ended because their source is back: it is asked after them.
        return Readback(State.DONE, words, facts, outstanding=_is_back(source, reader, newly=True))


def _is_back(source: str, reader: LinkReader, *, newly: bool = False) -> str:
    """What is to be done about a source that answers again; empty where none is lost."""
    if not source:
        return ""
    try:
        reader.live_cluster_id(source, newly=newly)
    except AuthenticationFailed:
        told = f"somebody answers at the addresses of {source}"
    except Unreachable:
        return ""
    else:
        told = f"{source} answers again"
    return f"{told}: keep applications from writing there; drctl failback brings it back"


def _as_they_are(names: Collection[str], reader: LinkReader) -> StoppingIntent:
    connectors = reader.connectors()
    workers = {worker for name in names for worker in connectors.tasks(name).workers}
    before = {name: connectors.state(name).state for name in names}
    return StoppingIntent(before=before, workers=len(workers))


def _without_tasks(
    names: tuple[str, ...], workers: int, connectors: ConnectorsReader
) -> Readback[StopFacts]:
    left = tuple(connectors.tasks_left(names, SETTLE_S if workers > 1 else 0.0))
    if left:
        return Readback(State.WAITING, "; ".join(left), items=left)
    # How far they came, Connect says once the last task has ended: see `ConfirmStop`.
    words = f"no task of {', '.join(names)} is left: nothing copies"
    return Readback(State.DONE, words, StopFacts(tasks_of=names))


def _writes_for_clients(config: Mapping[str, str]) -> bool:
    """Whether tasks of a connector write records of applications, or offsets of their groups."""
    commits = config.get(COMMITS_OFFSETS, "false").lower() == "true"
    return commits or config.get("connector.class") not in WRITES_NO_RECORDS


def _boundary(names: Iterable[str], connectors: ConnectorsReader) -> Kept:
    """The offsets that Connect keeps of each connector."""
    return {name: tuple(connectors.offsets(name)) for name in names}


def for_each_connector(
    names: Collection[str], act: Callable[[str], None], *, at_once: bool = False
) -> tuple[str, ...]:
    """Complaints of connectors; one that does not do as told does not keep the others."""

    def complaint(name: str) -> str:
        try:
            act(name)
        except DrctlError as error:
            return f"{name}: {error.message}"
        return ""

    if not at_once:
        return tuple(filter(None, map(complaint, names)))
    with ThreadPoolExecutor(max(1, len(names))) as pool:
        return tuple(filter(None, pool.map(complaint, names)))


@dataclass(frozen=True, slots=True)
class MeasureIntent:
    """Of which topics, for whoever compares them once the source is back.

    Attributes:
        halted: what kept replication from running; None where this run has not stopped it.
    """

    topics: tuple[str, ...] = ()
    halted: str | None = None


class MeasureLoss(Polling[BothClusters, MeasureIntent, LossFacts]):
    """From what survived: how far it was copied, until when, and what was seen of the source."""

    name = "measure-loss"
    traits = Trait.NONE

    def describe(self, settings: BothClusters) -> Description:
        """Describe the step for plans and reports."""
        title = f"estimate what {settings.target} lacks of {settings.source}"
        return Description(title, "records and seconds, with what makes them uncertain")

    def check(self, settings: BothClusters, facts: Facts, reader: LinkReader) -> MeasureIntent:
        """Of which topics."""
        return MeasureIntent(tuple(reader.topics()), halted(facts))

    def verify(self, intent: MeasureIntent, reader: LinkReader) -> Readback[LossFacts]:
        """What survived says."""
        loss = reader.loss(halted=intent.halted)
        return Readback(State.DONE, loss.words, facts_of(loss))
