"""Stops the connectors that replicate the link; the offsets that Connect stores are the boundary.

Connect accepts and stores a stop request at once, then stops the tasks, which do the copying. The
connectors themselves may take a minute longer if their source is dead: their schedulers wait for
it but copy nothing. So the stop is requested early (`request-stop`), later steps wait only for the
tasks (`stop-replication`), and the end of the connectors is verified last (`confirm-stop`).

A worker handles a stop request only after the tasks of the previous request have stopped, and a
task that waits for a dead source gets 5 s. So if the source is lost, the connector that copies
records is stopped first and on its own; connectors that no application needs are stopped last.
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
from drctl.model.text import named, plural, put, stop_unassigned

STOPPED, RUNNING, PAUSED, UNASSIGNED = "STOPPED", "RUNNING", "PAUSED", "UNASSIGNED"

KEEP_STOPPED = "keep-stopped"
"""The name of `StopReplication` in the direction in which replication ran before the loss."""

KEEP_REVERSE_STOPPED = "keep-reverse-stopped"
"""The same in the reverse direction, if applications write to both clusters."""

SETTLE_S = 6.0
"""How long all tasks must be gone if several workers run them.

Each worker cancels tasks that do not stop within `task.shutdown.graceful.timeout.ms` (5 s by
default), and only one worker reports it.
"""

WRITES_NO_RECORDS = frozenset(
    {
        "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
        "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
    }
)
"""Connectors of MirrorMaker 2 whose tasks write nothing that applications read."""

COMMITS_OFFSETS = "sync.group.offsets.enabled"
"""If this is true, the checkpoint task commits offsets on the target."""

Kept = Mapping[str, tuple[Mapping[str, Any], ...]]
"""By connector, the source offsets that Connect stores."""


@dataclass(frozen=True, slots=True)
class StopSettings:
    """Settings from the plan.

    Attributes:
        tasks_only: whether to wait only until the tasks that write records or offsets are gone.
        rest_later: whether to leave connectors that write neither records nor offsets running.
        translate_ahead: whether to translate offsets in the background meanwhile.
    """

    connectors: tuple[str, ...]
    tasks_only: bool = False
    rest_later: bool = False
    translate_ahead: bool = False


@dataclass(frozen=True, kw_only=True)
class StoppingIntent:
    """The previous states of the connectors to stop, and how many workers run them."""

    before: Mapping[str, str] = field(default_factory=dict)
    workers: int = 0


@dataclass(frozen=True, kw_only=True)
class StopIntent(StoppingIntent):
    """The connectors to stop.

    Attributes:
        requested: connectors whose stop an earlier step requested.
        tasks_of: connectors whose tasks must stop; None if the connectors themselves must stop.
    """

    requested: tuple[str, ...]
    tasks_of: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class RequestedStop(StoppingIntent):
    """The connectors whose stop is requested.

    Attributes:
        idle: connectors that had no task.
    """

    idle: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConfirmSettings:
    """Settings from the plan.

    Attributes:
        source: the lost source, which must not be back; empty if it is not lost.
    """

    connectors: tuple[str, ...]
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class ConfirmIntent(StoppingIntent):
    """The connectors to stop last.

    Attributes:
        ended: connectors whose tasks had already stopped.
    """

    connectors: tuple[str, ...]
    source: str = ""
    ended: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StopFacts:
    """The stopped connectors.

    Attributes:
        boundary: the source offsets of each connector; empty if only tasks have stopped.
        tasks_of: connectors without tasks.
    """

    boundary: Kept = field(default_factory=dict)
    tasks_of: tuple[str, ...] = ()


def halted(facts: Facts) -> str | None:
    """What was wrong with connectors when this run requested their stop; None without a request.

    After the request, the state of a connector no longer shows when replication failed.
    """
    requested = facts.of(RequestStop())
    if requested is None:
        return None
    before = requested.before.items()
    problems = [f"connector {name} was {state}" for name, state in before if state != RUNNING]
    problems += [f"connector {name} had no task" for name in requested.idle]
    return "; ".join(problems)


S = TypeVar("S")
I = TypeVar("I", bound=StoppingIntent)  # noqa: E741
F = TypeVar("F", covariant=True)


class _Stopping(StepKind[S, I, F]):
    """Stops connectors; a rollback restores their previous states."""

    def undo(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Resume connectors that were running, and pause those that were paused."""
        before, connectors = intent.before, writer.connectors()

        def restore(name: str) -> None:
            (connectors.pause if before[name] == PAUSED else connectors.resume)(name)

        return for_each_connector(
            [n for n in before if before[n] != STOPPED], restore, at_once=True
        )

    def verify_undo(self, intent: I, reader: LinkReader) -> Readback[F]:
        """Verify the previous states; a connector that had failed passes unless it is STOPPED."""
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
    """Stops connectors: their tasks stop, their configuration and offsets stay."""

    name = "stop-replication"
    traits = Trait.CHANGES | Trait.STOPS_REPLICATION

    def describe(self, settings: StopSettings) -> Description:
        """Describe the step for plans and reports."""
        proof = "Connect reports each connector and all its tasks as STOPPED"
        if settings.tasks_only:
            proof = "Connect has no task left that writes records or offsets on the target"
        return Description(
            f"stop replication: {named('connector', settings.connectors)}",
            proof,
            "resume the connectors that were running",
        )

    def check(self, settings: StopSettings, facts: Facts, reader: LinkReader) -> StopIntent:
        """Read the states of the connectors before their stop was requested.

        Raises:
            UsageError: the connector does not exist.
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
        """Stop the connectors whose stop was not requested yet."""
        names = [name for name in intent.before if name not in intent.requested]
        return for_each_connector(names, writer.connectors().stop, at_once=True)

    def verify(self, intent: StopIntent, reader: LinkReader) -> Readback[StopFacts]:
        """Verify that the connectors or their tasks have stopped, and read their offsets."""
        connectors = reader.connectors()
        if intent.tasks_of is not None:
            return _without_tasks(intent.tasks_of, intent.workers, connectors)
        states = {name: connectors.state(name).state for name in intent.before}
        others = tuple(awaited(name, state) for name, state in states.items() if state != STOPPED)
        if others:
            return Readback(State.WAITING, "; ".join(others), items=others)
        facts = StopFacts(_boundary(states, connectors), tuple(states))
        return Readback(State.DONE, f"{plural(len(states), 'connector')} stopped", facts)


class RequestStop(_Stopping[StopSettings, RequestedStop, RequestedStop]):
    """Requests the stop of connectors; their tasks stop while later steps run."""

    name = "request-stop"
    traits = Trait.CHANGES | Trait.REQUESTS_STOP

    def describe(self, settings: StopSettings) -> Description:
        """Describe the step for plans and reports."""
        return Description(
            f"request the stop of {named('connector', settings.connectors)}",
            "Connect has stored the request: the connectors have no configured tasks any more",
            "resume the connectors that were running",
        )

    def check(self, settings: StopSettings, facts: Facts, reader: LinkReader) -> RequestedStop:
        """Read the states of the connectors, and count their workers.

        Raises:
            UsageError: the connector does not exist.
            Unreachable: no worker responded.
        """
        if settings.translate_ahead:
            reader.translate_ahead()
        names, connectors = settings.connectors, reader.connectors()
        idle = tuple(name for name in names if not connectors.tasks(name).summary)
        found = _as_they_are(names, reader)
        return RequestedStop(before=found.before, workers=found.workers, idle=idle)

    def apply(self, intent: RequestedStop, writer: LinkWriter) -> tuple[str, ...]:
        """Send all requests at once: one after the other, each would wait for the previous tasks.

        Connect responds once the stop is stored in its configuration topic.
        """
        return for_each_connector(intent.before, writer.connectors().stop, at_once=True)

    def verify(self, intent: RequestedStop, reader: LinkReader) -> Readback[RequestedStop]:
        """Verify that Connect has stored the stop."""
        connectors = reader.connectors()
        others = tuple(
            f"{name} has {plural(tasks.configured, 'task')}"
            for name in intent.before
            if (tasks := connectors.tasks(name)).configured
        )
        if others:
            return Readback(State.WAITING, f"not stored yet: {'; '.join(others)}", items=others)
        message = (
            f"Connect has stored the request to stop {plural(len(intent.before), 'connector')}"
        )
        return Readback(State.DONE, message, intent)


class ConfirmStop(_Stopping[ConfirmSettings, ConfirmIntent, StopFacts]):
    """Stops the remaining connectors, and verifies that all have stopped.

    Connectors stop once their schedulers give up on the source. Connectors that write neither
    records nor offsets are stopped only here: no application depends on them.
    """

    name = "confirm-stop"
    traits = Trait.CHANGES

    def describe(self, settings: ConfirmSettings) -> Description:
        """Describe the step for plans and reports."""
        names, source = named("connector", settings.connectors), settings.source
        silent = f", and {source} stays unreachable" if source else ""
        if len(settings.connectors) == 1:
            title = f"stop {names} if it still runs, and wait until it is stopped"
        else:
            title = f"stop {names} if they still run, and wait until all are stopped"
        return Description(
            title,
            f"Connect reports each as STOPPED, without tasks{silent}",
            "resume the connectors that were running",
        )

    def check(self, settings: ConfirmSettings, facts: Facts, reader: LinkReader) -> ConfirmIntent:
        """Find the connectors whose tasks have stopped, and the states of the others.

        Raises:
            UsageError: the connector does not exist.
            Unreachable: no worker responded.
        """
        names, stopped = settings.connectors, facts.of(StopReplication())
        ended = stopped.tasks_of if stopped else names
        before = _as_they_are([name for name in names if name not in ended], reader).before
        return ConfirmIntent(connectors=names, source=settings.source, ended=ended, before=before)

    def apply(self, intent: ConfirmIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Stop the others in reverse order: the tasks of the first may delay the rest by 5 s."""
        return for_each_connector(list(intent.before)[::-1], writer.connectors().stop)

    def verify(self, intent: ConfirmIntent, reader: LinkReader) -> Readback[StopFacts]:
        """Verify that all have stopped, none copies again, and the source is not back."""
        connectors, source = reader.connectors(), intent.source
        running = {name: tasks for name in intent.ended if (tasks := connectors.tasks(name)).any}
        if running:
            again = tuple(
                f"{name} has tasks again: {', '.join(tasks.summary)}"
                for name, tasks in running.items()
            )
            message = (
                f"{'; '.join(again)}: what they copy is appended after newer records."
                f" Stop them now: {'; '.join(put('', name, 'stop') for name in running)}"
            )
            return Readback(State.FAILED, message, items=again)
        states = {name: connectors.state(name).state for name in intent.connectors}
        others = tuple(awaited(name, state) for name, state in states.items() if state != STOPPED)
        if others:
            message = "; ".join(filter(None, (_is_back(source, reader), *others)))
            return Readback(State.WAITING, message, items=others)
        message = f"{plural(len(states), 'connector')} stopped, without tasks"
        facts = StopFacts(_boundary(states, connectors))
        # Connectors may have stopped because their source is back: check it last.
        return Readback(
            State.DONE, message, facts, outstanding=_is_back(source, reader, newly=True)
        )


def _is_back(source: str, reader: LinkReader, *, newly: bool = False) -> str:
    """What to do about a lost source that responds again; empty if it does not."""
    if not source:
        return ""
    try:
        reader.live_cluster_id(source, newly=newly)
    except AuthenticationFailed:
        what = f"a server responds at the addresses of {source}, but rejects drctl's credentials"
    except Unreachable:
        return ""
    else:
        what = f"{source} responds again"
    return f"{what}: keep applications from writing there; to return to it: drctl failback"


def _as_they_are(names: Collection[str], reader: LinkReader) -> StoppingIntent:
    connectors = reader.connectors()
    workers = {worker for name in names for worker in connectors.tasks(name).workers}
    before = {name: connectors.state(name).state for name in names}
    return StoppingIntent(before=before, workers=len(workers))


def awaited(name: str, state: str) -> str:
    """The state of a connector that should change, and what to do if it does not."""
    text = f"{name} is {state}"
    return f"{text}; if it stays so: {stop_unassigned('', name)}" if state == UNASSIGNED else text


def _without_tasks(
    names: tuple[str, ...], workers: int, connectors: ConnectorsReader
) -> Readback[StopFacts]:
    left = tuple(connectors.tasks_left(names, SETTLE_S if workers > 1 else 0.0))
    if left:
        return Readback(State.WAITING, "; ".join(left), items=left)
    # Connect stores the final offsets only after the last task has stopped: see `ConfirmStop`.
    message = f"no task of {', '.join(names)} is left: nothing copies"
    return Readback(State.DONE, message, StopFacts(tasks_of=names))


def _writes_for_clients(config: Mapping[str, str]) -> bool:
    """Whether a connector writes application records, or offsets of their groups."""
    commits = config.get(COMMITS_OFFSETS, "false").lower() == "true"
    return commits or config.get("connector.class") not in WRITES_NO_RECORDS


def _boundary(names: Iterable[str], connectors: ConnectorsReader) -> Kept:
    """The source offsets that Connect stores for each connector."""
    return {name: tuple(connectors.offsets(name)) for name in names}


def for_each_connector(
    names: Collection[str], act: Callable[[str], None], *, at_once: bool = False
) -> tuple[str, ...]:
    """Act on each connector; returns the errors. An error does not stop the others."""

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
    """The topics, for a comparison once the source is back.

    Attributes:
        halted: why replication was not running; None if this run did not request a stop.
    """

    topics: tuple[str, ...] = ()
    halted: str | None = None


class MeasureLoss(Polling[BothClusters, MeasureIntent, LossFacts]):
    """Estimates the loss from the target, replication offsets, and observations of the source."""

    name = "measure-loss"
    traits = Trait.NONE

    def describe(self, settings: BothClusters) -> Description:
        """Describe the step for plans and reports."""
        title = f"estimate how many records of {settings.source} are missing on {settings.target}"
        return Description(
            title, "a number of records and seconds, with the reasons for uncertainty"
        )

    def check(self, settings: BothClusters, facts: Facts, reader: LinkReader) -> MeasureIntent:
        """List the topics."""
        return MeasureIntent(tuple(reader.topics()), halted(facts))

    def verify(self, intent: MeasureIntent, reader: LinkReader) -> Readback[LossFacts]:
        """Estimate the loss."""
        loss = reader.loss(halted=intent.halted)
        return Readback(State.DONE, loss.message, facts_of(loss))
