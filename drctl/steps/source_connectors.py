"""Steps that move source connectors, such as Debezium, to the other cluster of a failover.

The connectors stop on the workers of one cluster, their positions are set on the workers of the
other, and they resume there. Positions are read after the stop; if the old workers are lost, the
positions of the last export of `drctl offsets track` are used.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from drctl.connectors.applying import Action, Export, kept
from drctl.connectors.diagnosis import worst
from drctl.connectors.moving import MovedConnector, Moving, Prospect, export_of, plan_moving
from drctl.engine.kind import Description, Facts, Readback, State, StepKind, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused, Unreachable
from drctl.model.replication import STOPPED, Connector, Position, Workers
from drctl.model.text import named, plural, put
from drctl.steps.connectors import Move, Moves, known_connector, read_back, running
from drctl.steps.stop_replication import for_each_connector

_SETTLE_S = 3.0
"""How long a resumed connector has to run: one whose position is gone fails within a second."""


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Source connectors that write to a cluster.

    Attributes:
        cluster: name of the cluster.
        connectors: names of the connectors on its workers.
    """

    cluster: str
    connectors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StopIntent:
    """The states of the connectors before they are stopped."""

    cluster: str
    before: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StoppedSources:
    """Where the connectors stopped."""

    cluster: str
    export: Export


class StopSourceConnectors(StepKind[SourceSettings, StopIntent, StoppedSources]):
    """Stops source connectors, and reads their final positions."""

    name = "stop-source-connectors"
    traits = Trait.CHANGES | Trait.STOPS_SOURCES

    def describe(self, settings: SourceSettings) -> Description:
        """Describe the step for plans and reports."""
        return Description(
            f"stop {_who_write(settings)}",
            "each is STOPPED without a task, and its position is read",
            "resume the connectors that were running",
        )

    def check(self, settings: SourceSettings, facts: Facts, reader: LinkReader) -> StopIntent:
        """Read the states of the connectors.

        Raises:
            UsageError: a connector does not exist.
            Unreachable: no worker responded.
        """
        there = reader.source_workers(settings.cluster).all()
        before = {name: known_connector(name, there).state for name in settings.connectors}
        return StopIntent(settings.cluster, before)

    def apply(self, intent: StopIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Stop all connectors at once; the requests are stored by the workers' own cluster."""
        workers = writer.source_workers(intent.cluster)
        return for_each_connector(intent.before, workers.stop, at_once=True)

    def verify(self, intent: StopIntent, reader: LinkReader) -> Readback[StoppedSources]:
        """Verify that all have stopped, and read their positions."""
        workers = reader.source_workers(intent.cluster)
        there = workers.all()
        found = [known_connector(name, there) for name in intent.before]
        if others := tuple(_state_of(each) for each in found if not _is_stopped(each)):
            return Readback(State.WAITING, "; ".join(others), items=others)
        facts = StoppedSources(intent.cluster, _export(found, workers))
        number = sum(len(each.offsets) for each in facts.export.connectors)
        words = f"{plural(len(found), 'source connector')} stopped, {plural(number, 'position')}"
        return Readback(State.DONE, words, facts)

    def undo(self, intent: StopIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Resume the connectors that were not stopped before."""
        names = [name for name, state in intent.before.items() if state != STOPPED]
        workers = writer.source_workers(intent.cluster)
        return for_each_connector(names, workers.resume, at_once=True)

    def verify_undo(self, intent: StopIntent, reader: LinkReader) -> Readback[StoppedSources]:
        """Verify that these connectors are no longer stopped."""
        there = reader.source_workers(intent.cluster).all()
        others = tuple(
            f"{name} is {known_connector(name, there).state}, was {state}"
            for name, state in intent.before.items()
            if (known_connector(name, there).state == STOPPED) != (state == STOPPED)
        )
        if others:
            return Readback(State.WAITING, "; ".join(others), items=others)
        return Readback(State.DONE, "the source connectors are as they were")


KEEP_SOURCES_STOPPED = "keep-source-connectors-stopped"
"""The name of `StopSourceConnectors` in a failback, which stops them on the recovered cluster."""


@dataclass(frozen=True, slots=True)
class MoveSettings:
    """Source connectors to move.

    Attributes:
        source: the cluster that they wrote to.
        target: the cluster that they will write to.
        connectors: each connector's name on the source's workers, and its name on the target's.
        lost: whether the source is lost; if so, connectors that cannot be moved stay stopped and
            become outstanding actions.
    """

    source: str
    target: str
    connectors: Mapping[str, str]
    lost: bool = False


@dataclass(frozen=True, slots=True)
class MoveIntent:
    """The positions to set, and what each connector then does."""

    target: str
    moves: tuple[Moves, ...]
    expected: tuple[MovedConnector, ...]


@dataclass(frozen=True, slots=True)
class MoveFacts:
    """What each connector does on the target."""

    target: str
    connectors: tuple[MovedConnector, ...] = field(default=())


class MoveSourcePositions(StepKind[MoveSettings, MoveIntent, MoveFacts]):
    """Sets the positions of source connectors on the workers of the target."""

    name = "move-source-positions"
    traits = Trait.CHANGES | Trait.MOVES_SOURCES

    def describe(self, settings: MoveSettings) -> Description:
        """Describe the step for plans and reports."""
        names, target = named("source connector", settings.connectors.values()), settings.target
        where = "the last positions that can be read" if settings.lost else "the final positions"
        return Description(
            f"set {where} of {names} on the workers of {target}",
            "the positions read back, and the connectors are STOPPED there",
            "restore the previous positions",
        )

    def check(self, settings: MoveSettings, facts: Facts, reader: LinkReader) -> MoveIntent:
        """Read the positions, and compare them with the target's workers.

        Raises:
            Refused: a position cannot be moved and the source is not lost, or a connector that was
                stopped runs again.
            UsageError: a connector does not exist.
            Unreachable: no worker responded.
        """
        moving = _moving(settings, reader, facts.of(StopSourceConnectors()))
        if moving.left and not settings.lost:
            first = "; ".join(each.words for each in moving.left)
            raise Refused(
                f"{plural(len(moving.left), 'source connector')} cannot be moved: {first}",
                "compare the connectors of both groups of workers: drctl connect status",
            )
        return MoveIntent(settings.target, tuple(_moves(moving)), moving.connectors)

    def apply(self, intent: MoveIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Set the positions."""
        return _put(intent, writer, after=True)

    def verify(self, intent: MoveIntent, reader: LinkReader) -> Readback[MoveFacts]:
        """Read the positions back."""
        workers = reader.source_workers(intent.target)
        for each in intent.moves:
            wanted = {n: move.to for n, move in enumerate(each.positions)}
            seen = read_back(each, wanted, "was accepted but does not read back", workers)
            if seen.state is not State.DONE:
                return Readback(seen.state, seen.message, items=seen.items)
        left = [c.words for c in intent.expected if c.prospect is Prospect.STAYS_STOPPED]
        words = "; ".join(each.words for each in intent.expected)
        facts = MoveFacts(intent.target, intent.expected)
        return Readback(State.DONE, words, facts, outstanding="; ".join(left))

    def undo(self, intent: MoveIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Restore the previous positions."""
        return _put(intent, writer, after=False)

    def verify_undo(self, intent: MoveIntent, reader: LinkReader) -> Readback[MoveFacts]:
        """Verify that the previous positions are restored."""
        workers = reader.source_workers(intent.target)
        for each in intent.moves:
            before = {n: move.before for n, move in enumerate(each.positions)}
            seen = read_back(each, before, "is not restored yet", workers)
            if seen.state is not State.DONE:
                return Readback(seen.state, seen.message, items=seen.items)
        return Readback(State.DONE, "the previous source positions are restored")


def expected(settings: MoveSettings, reader: LinkReader) -> tuple[MovedConnector, ...]:
    """What each connector would do if the step ran now.

    If the source is lost, a connector's position is that of the last export; else it is the current
    position, which may still advance until the connector stops.

    Raises:
        Unreachable: no worker responded.
        UsageError: a connector does not exist.
    """
    if settings.lost:
        return _moving(settings, reader, None).connectors
    workers = reader.source_workers(settings.source)
    there = workers.all()
    now = _export([known_connector(name, there) for name in settings.connectors], workers)
    exported = dict.fromkeys(settings.connectors, now)
    names, target = settings.connectors, reader.source_workers(settings.target)
    moving = plan_moving(exported, names, target, datetime.now(UTC), stopped=True)
    return tuple(
        replace(each, position=f"its final position (now {each.position})")
        if each.prospect is Prospect.RESUMES
        else each
        for each in moving.connectors
    )


def _who_write(settings: SourceSettings) -> str:
    names, cluster = settings.connectors, settings.cluster
    write = "writes" if len(names) == 1 else "write"
    return f"{named('source connector', names)}, which {write} to {cluster}"


def _moving(settings: MoveSettings, reader: LinkReader, stopped: StoppedSources | None) -> Moving:
    exported = _exported(settings, reader, stopped)
    workers, now = reader.source_workers(settings.target), datetime.now(UTC)
    names = settings.connectors
    return plan_moving(exported, names, workers, now, stopped=stopped is not None)


def _exported(
    settings: MoveSettings, reader: LinkReader, stopped: StoppedSources | None
) -> Mapping[str, Export]:
    if stopped is None:
        tracked = reader.tracked_positions()
        return {
            name: export_of(name, tracked[name]) for name in settings.connectors if name in tracked
        }
    try:
        workers = reader.source_workers(settings.source)
        there = workers.all()
    except Unreachable:
        return dict.fromkeys(settings.connectors, stopped.export)
    found = [known_connector(name, there) for name in settings.connectors]
    if again := [each for each in found if not _is_stopped(each)]:
        raise Refused(
            f"{'; '.join(map(_state_of, again))}, and would read the same database as its"
            f" connector on {settings.target}",
            f"stop it: {put('', again[0].name, 'stop')}",
        )
    return dict.fromkeys(settings.connectors, _export(found, workers))


def _moves(moving: Moving) -> Iterator[Moves]:
    rows: dict[str, list[Move]] = {}
    for line in moving.lines:
        if line.action is Action.WRITE:
            rows.setdefault(line.connector, []).append(Move(line.partition, line.before, line.to))
    return (Moves(name, tuple(each)) for name, each in rows.items())


def _put(intent: MoveIntent, writer: LinkWriter, *, after: bool) -> tuple[str, ...]:
    workers, moves = writer.source_workers(intent.target), {m.connector: m for m in intent.moves}

    def put_positions(name: str) -> None:
        wanted = [
            Position(move.partition, move.to if after else move.before)
            for move in moves[name].positions
        ]
        workers.put_positions(name, wanted)

    return for_each_connector(moves, put_positions)


@dataclass(frozen=True, slots=True)
class ResumeIntent:
    """Source connectors to resume.

    Attributes:
        left: those that stay stopped, each with the reason.
    """

    cluster: str
    connectors: tuple[str, ...]
    left: tuple[str, ...] = ()


class ResumeSourceConnectors(StepKind[SourceSettings, ResumeIntent, None]):
    """Resumes source connectors whose positions were moved, and verifies that they run."""

    name = "resume-source-connectors"
    traits = Trait.CHANGES | Trait.RESUMES_SOURCES

    def describe(self, settings: SourceSettings) -> Description:
        """Describe the step for plans and reports."""
        return Description(
            f"resume {_who_write(settings)}",
            f"each has been RUNNING for {_SETTLE_S:g} s, with its tasks",
            "stop them",
        )

    def check(self, settings: SourceSettings, facts: Facts, reader: LinkReader) -> ResumeIntent:
        """Choose the connectors whose positions were set.

        Raises:
            Refused: no positions were set in this run.
        """
        moved = facts.of(MoveSourcePositions())
        if moved is None or moved.target != settings.cluster:
            raise Refused(
                "source connectors stay stopped: no positions were set for them in this run",
                "set them: drctl connect offsets apply",
            )
        stay = {
            e.connector: e.words for e in moved.connectors if e.prospect is Prospect.STAYS_STOPPED
        }
        names = tuple(name for name in settings.connectors if name not in stay)
        return ResumeIntent(settings.cluster, names, tuple(stay.values()))

    def apply(self, intent: ResumeIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Resume the connectors."""
        workers = writer.source_workers(intent.cluster)
        return for_each_connector(intent.connectors, workers.resume, at_once=True)

    def verify(self, intent: ResumeIntent, reader: LinkReader) -> Readback[None]:
        """Verify that the connectors keep running."""
        if not intent.connectors:
            return Readback(State.DONE, "no source connector can resume")
        workers = reader.source_workers(intent.cluster)
        seen = running(intent.connectors, _SETTLE_S, workers)
        there = workers.all()
        failed = [there[name] for name in intent.connectors if name in there]
        if words := [_failure(each) for each in failed if each.failed]:
            return Readback(State.FAILED, "; ".join(words), items=tuple(words))
        return seen

    def undo(self, intent: ResumeIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Stop the resumed connectors."""
        workers = writer.source_workers(intent.cluster)
        return for_each_connector(intent.connectors, workers.stop, at_once=True)

    def verify_undo(self, intent: ResumeIntent, reader: LinkReader) -> Readback[None]:
        """Verify that the resumed connectors are stopped."""
        there = reader.source_workers(intent.cluster).all()
        found = [known_connector(name, there) for name in intent.connectors]
        if others := tuple(_state_of(each) for each in found if not _is_stopped(each)):
            return Readback(State.WAITING, "; ".join(others), items=others)
        return Readback(State.DONE, "the source connectors are stopped")


def _failure(connector: Connector) -> str:
    found = worst(connector)
    why = f"{found.advice.message} ({found.evidence}); {found.advice.remedy}" if found else ""
    return f"{connector.name} failed: {why}"


def _is_stopped(connector: Connector) -> bool:
    return connector.state == STOPPED and not connector.tasks


def _state_of(connector: Connector) -> str:
    states = sorted({part.state for part in connector.parts})
    return f"{connector.name} is {'+'.join(states)}"


def _export(found: list[Connector], workers: Workers) -> Export:
    rows = tuple(kept(each, workers.positions(each.name)) for each in found)
    return Export(
        "source_connectors", workers.kafka_cluster_id(), datetime.now(UTC).isoformat(), rows
    )
