"""Steps on the connectors of one Connect cluster: restart, recreate, set source positions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from drctl.connectors.applying import Export, kept
from drctl.engine.kind import (
    Description,
    Facts,
    Permanent,
    Polling,
    Readback,
    State,
    StepKind,
    Trait,
)
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.document import as_json
from drctl.model.errors import Refused, UsageError
from drctl.model.replication import STOPPED, Connector, Partition, Position, Workers
from drctl.model.text import named, plural, put
from drctl.steps.stop_replication import for_each_connector

BEFORE = "before.json"
"""The file in the run's folder with the previous positions; `apply --from` reads it."""

_NO_TASKS_S = 60.0
"""A connector that has run this long without a task has nothing to read."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Connectors that have to run.

    Attributes:
        min_uptime_s: how long each has to be RUNNING.
        from_scratch: whether they start without source positions.
    """

    connectors: tuple[str, ...]
    min_uptime_s: float
    from_scratch: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """Connectors that have to run, and those that did not.

    Attributes:
        restarted: connectors that were not running; excludes connectors that no longer exist.
    """

    connectors: tuple[str, ...]
    min_uptime_s: float
    restarted: tuple[str, ...]


def running(
    names: Sequence[str], min_uptime_s: float, workers: Workers, how: str = ""
) -> Readback[None]:
    """Verify that all connectors have run for `min_uptime_s`, as observed by this process."""
    there = workers.all()
    since = workers.running_for(names)
    not_yet, idle = [], []
    for name in names:
        found = there.get(name)
        if found is None:
            not_yet.append(f"{name} is gone")
        elif not found.running:
            states = "+".join(sorted({part.state for part in found.parts}))
            not_yet.append(f"{name} is {states}")
        elif len(found.parts) < 2:
            idle.append(name)
            if since[name] < max(min_uptime_s, _NO_TASKS_S):
                not_yet.append(f"{name} runs without a task")
        elif since[name] < min_uptime_s:
            not_yet.append(f"{name} has run for {since[name]:.0f} of {min_uptime_s:g} s")
    if not_yet:
        return Readback(State.WAITING, "; ".join(not_yet), items=tuple(not_yet))
    lines = [f"{name} runs{', and has no task' if name in idle else how}" for name in names]
    return Readback(State.DONE, "; ".join(lines))


class VerifyConnectorsRunning(Polling[Watch, Watch, None]):
    """Watches connectors until they have been running for a while."""

    name = "verify-connectors-running"
    traits = Trait.NONE

    def describe(self, settings: Watch) -> Description:
        """Describe the step for plans and reports."""
        names = named("connector", settings.connectors)
        return Description(
            f"verify that {names} {'runs' if len(settings.connectors) == 1 else 'run'}",
            f"each has been RUNNING for {settings.min_uptime_s:g} s",
        )

    def check(self, settings: Watch, facts: Facts, reader: LinkReader) -> Watch:
        """Use the settings as the intent."""
        return settings

    def verify(self, intent: Watch, reader: LinkReader) -> Readback[None]:
        """Verify that the connectors run."""
        how = ", and starts from scratch" if intent.from_scratch else ""
        return running(intent.connectors, intent.min_uptime_s, reader.workers(), how)


class RestartConnectors(Permanent[Watch, Restart, None]):
    """Restarts the connectors and tasks that are not running."""

    name = "restart-connectors"
    traits = Trait.CHANGES | Trait.IRREVERSIBLE

    def describe(self, settings: Watch) -> Description:
        """Describe the step for plans and reports."""
        names = named("connector", settings.connectors)
        return Description(
            f"restart {names} if it is not running"
            if len(settings.connectors) == 1
            else f"restart those of {names} that are not running",
            f"each has been RUNNING for {settings.min_uptime_s:g} s, with all of its tasks",
            "none: a restart cannot be rolled back",
        )

    def check(self, settings: Watch, facts: Facts, reader: LinkReader) -> Restart:
        """Find the connectors that are not running.

        Raises:
            Unreachable: no worker responded.
        """
        there = reader.workers().all()
        names = settings.connectors
        off = tuple(name for name in names if name in there and not there[name].running)
        return Restart(names, settings.min_uptime_s, off)

    def apply(self, intent: Restart, writer: LinkWriter) -> tuple[str, ...]:
        """Restart them; Connect skips what is running by then."""
        return for_each_connector(intent.restarted, writer.workers().restart)

    def verify(self, intent: Restart, reader: LinkReader) -> Readback[None]:
        """Verify that the connectors run."""
        return running(intent.connectors, intent.min_uptime_s, reader.workers())

    def verify_undo(self, intent: Restart, reader: LinkReader) -> Readback[None]:
        """Report that restarts are not rolled back."""
        return Readback(
            State.DONE, "restarts are not rolled back", leaves_changes=bool(intent.restarted)
        )


@dataclass(frozen=True, slots=True)
class SaveSettings:
    """The connectors whose source positions are saved.

    Attributes:
        workers: host and port of the first worker.
        partitions: by connector, the source partitions to save; empty for all.
    """

    workers: str
    partitions: Mapping[str, tuple[Partition, ...]]


class SaveSourcePositions(Polling[SaveSettings, Export, None]):
    """Saves source positions in the run's folder and the journal; changes nothing else."""

    name = "save-source-positions"
    traits = Trait.NONE

    def describe(self, settings: SaveSettings) -> Description:
        """Describe the step for plans and reports."""
        names = ", ".join(settings.partitions)
        return Description(
            f"save the source positions of {names}",
            f"{BEFORE} in the run's folder holds these positions",
        )

    def check(self, settings: SaveSettings, facts: Facts, reader: LinkReader) -> Export:
        """Read the positions.

        Raises:
            UsageError: the connector does not exist.
            Unreachable: no worker responded.
        """
        workers = reader.workers()
        there = workers.all()
        rows = []
        for name, partitions in settings.partitions.items():
            positions = workers.positions(name)
            if partitions:
                positions = tuple(Position(p, _at(p, positions)) for p in partitions)
            rows.append(kept(known_connector(name, there), positions))
        taken, cluster = datetime.now(UTC).isoformat(), workers.kafka_cluster_id()
        return Export(settings.workers, cluster, taken, tuple(rows), BEFORE)

    def apply(self, intent: Export, writer: LinkWriter) -> tuple[str, ...]:
        """Write the file."""
        writer.save_evidence(BEFORE, as_json(intent))
        return ()

    def verify(self, intent: Export, reader: LinkReader) -> Readback[None]:
        """Report how many positions were saved."""
        number = sum(len(each.offsets) for each in intent.connectors)
        return Readback(State.DONE, f"{plural(number, 'position')} saved in {BEFORE}")


@dataclass(frozen=True, slots=True)
class Move:
    """A change of one source position.

    Attributes:
        before: the previous position; None if there was none.
        to: the new position; None deletes it.
    """

    partition: Partition
    before: Mapping[str, Any] | None
    to: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Moves:
    """Changes of source positions of one connector."""

    connector: str
    positions: tuple[Move, ...]


class SetSourcePositions(StepKind[Moves, Moves, None]):
    """Sets the source positions of a stopped connector; a rollback restores the previous ones."""

    name = "set-source-positions"
    traits = Trait.CHANGES

    def describe(self, settings: Moves) -> Description:
        """Describe the step for plans and reports."""
        number = plural(len(settings.positions), "position")
        return Description(
            f"set {number} of connector {settings.connector}",
            "the positions read back",
            "restore its previous positions",
        )

    def check(self, settings: Moves, facts: Facts, reader: LinkReader) -> Moves:
        """Check that the connector is stopped and still has the positions of the plan.

        Raises:
            Refused: it is not stopped, or its positions have changed since the plan was made.
            UsageError: the connector does not exist.
            Unreachable: no worker responded.
        """
        name, workers = settings.connector, reader.workers()
        state = known_connector(name, workers.all()).state
        if state != STOPPED:
            raise Refused(
                f"connector {name} is {state}: Connect sets positions only of stopped connectors",
                f"stop it: {put('', name, 'stop')}",
            )
        now = workers.positions(name)
        moved = [p for p in settings.positions if _at(p.partition, now) not in (p.before, p.to)]
        if moved:
            raise Refused(
                f"{plural(len(moved), 'position')} of connector {name} changed since the plan was"
                " made",
                "make a new plan: run the same command again",
            )
        return settings

    def apply(self, intent: Moves, writer: LinkWriter) -> tuple[str, ...]:
        """Set the positions."""
        wanted = [Position(each.partition, each.to) for each in intent.positions]
        writer.workers().put_positions(intent.connector, wanted)
        return ()

    def verify(self, intent: Moves, reader: LinkReader) -> Readback[None]:
        """Read the positions back; a worker may return old ones for a moment."""
        wanted = {n: each.to for n, each in enumerate(intent.positions)}
        return read_back(intent, wanted, "was accepted but does not read back", reader.workers())

    def undo(self, intent: Moves, writer: LinkWriter) -> tuple[str, ...]:
        """Restore the previous positions."""
        before = [Position(each.partition, each.before) for each in intent.positions]
        writer.workers().put_positions(intent.connector, before)
        return ()

    def verify_undo(self, intent: Moves, reader: LinkReader) -> Readback[None]:
        """Verify that the previous positions are restored."""
        before = {n: each.before for n, each in enumerate(intent.positions)}
        return read_back(intent, before, "is not restored yet", reader.workers())


@dataclass(frozen=True, slots=True)
class One:
    """Settings of a step on one connector."""

    connector: str


@dataclass(frozen=True, slots=True)
class StateBefore:
    """A connector, and its previous state."""

    connector: str
    before: str


class StopConnector(StepKind[One, StateBefore, None]):
    """Stops a connector: its tasks end, its configuration and positions stay."""

    name = "stop-connector"
    traits = Trait.CHANGES

    def describe(self, settings: One) -> Description:
        """Describe the step for plans and reports."""
        name = settings.connector
        return Description(f"stop {name}", "it is STOPPED, without a task", f"resume {name}")

    def check(self, settings: One, facts: Facts, reader: LinkReader) -> StateBefore:
        """Read the connector's state.

        Raises:
            UsageError: the connector does not exist.
            Unreachable: no worker responded.
        """
        found = known_connector(settings.connector, reader.workers().all())
        return StateBefore(settings.connector, found.state)

    def apply(self, intent: StateBefore, writer: LinkWriter) -> tuple[str, ...]:
        """Stop the connector."""
        writer.workers().stop(intent.connector)
        return ()

    def verify(self, intent: StateBefore, reader: LinkReader) -> Readback[None]:
        """Verify that it is stopped."""
        found = known_connector(intent.connector, reader.workers().all())
        if found.state == STOPPED and len(found.parts) == 1:
            return Readback(State.DONE, f"{found.name} is stopped")
        return Readback(State.WAITING, f"{found.name} is not stopped yet")

    def undo(self, intent: StateBefore, writer: LinkWriter) -> tuple[str, ...]:
        """Resume it, unless it was stopped before."""
        if intent.before != STOPPED:
            writer.workers().resume(intent.connector)
        return ()

    def verify_undo(self, intent: StateBefore, reader: LinkReader) -> Readback[None]:
        """Verify that it is no longer stopped."""
        found = known_connector(intent.connector, reader.workers().all())
        back = (found.state == STOPPED) == (intent.before == STOPPED)
        message = f"{found.name} is {found.state}, and was {intent.before}"
        return Readback(State.DONE if back else State.WAITING, message)


class DeleteSourcePositions(StepKind[One, Moves, None]):
    """Deletes all source positions of a stopped connector; a rollback restores them."""

    name = "delete-source-positions"
    traits = Trait.CHANGES

    def describe(self, settings: One) -> Description:
        """Describe the step for plans and reports."""
        name = settings.connector
        return Description(
            f"delete the source positions of {name}",
            "it has none",
            f"restore the source positions of {name}",
        )

    def check(self, settings: One, facts: Facts, reader: LinkReader) -> Moves:
        """Read the positions.

        Raises:
            UsageError: the connector does not exist.
            Unreachable: no worker responded.
        """
        found = reader.workers().positions(settings.connector)
        return Moves(settings.connector, tuple(Move(p.partition, p.offset, None) for p in found))

    def apply(self, intent: Moves, writer: LinkWriter) -> tuple[str, ...]:
        """Delete the positions."""
        writer.workers().delete_positions(intent.connector)
        return ()

    def verify(self, intent: Moves, reader: LinkReader) -> Readback[None]:
        """Verify that no position is left."""
        left = [p for p in reader.workers().positions(intent.connector) if p.offset is not None]
        if left:
            return Readback(
                State.WAITING, f"{intent.connector} has {plural(len(left), 'position')}"
            )
        return Readback(State.DONE, f"{intent.connector} has no positions")

    def undo(self, intent: Moves, writer: LinkWriter) -> tuple[str, ...]:
        """Restore the previous positions."""
        if intent.positions:
            before = [Position(each.partition, each.before) for each in intent.positions]
            writer.workers().put_positions(intent.connector, before)
        return ()

    def verify_undo(self, intent: Moves, reader: LinkReader) -> Readback[None]:
        """Verify that the previous positions are restored."""
        before = {n: each.before for n, each in enumerate(intent.positions)}
        return read_back(intent, before, "is not restored yet", reader.workers())


class ResumeConnector(StepKind[One, One, None]):
    """Resumes a connector; another step verifies that it keeps running."""

    name = "resume-connector"
    traits = Trait.CHANGES

    def describe(self, settings: One) -> Description:
        """Describe the step for plans and reports."""
        name = settings.connector
        return Description(f"resume {name}", "it is no longer STOPPED", f"stop {name}")

    def check(self, settings: One, facts: Facts, reader: LinkReader) -> One:
        """Use the settings as the intent."""
        return settings

    def apply(self, intent: One, writer: LinkWriter) -> tuple[str, ...]:
        """Resume the connector."""
        writer.workers().resume(intent.connector)
        return ()

    def verify(self, intent: One, reader: LinkReader) -> Readback[None]:
        """Verify that it is no longer stopped."""
        found = known_connector(intent.connector, reader.workers().all())
        if found.state == STOPPED:
            return Readback(State.WAITING, f"{found.name} is still {STOPPED}")
        return Readback(State.DONE, f"{found.name} is resumed")

    def undo(self, intent: One, writer: LinkWriter) -> tuple[str, ...]:
        """Stop the connector."""
        writer.workers().stop(intent.connector)
        return ()

    def verify_undo(self, intent: One, reader: LinkReader) -> Readback[None]:
        """Verify that it is stopped."""
        found = known_connector(intent.connector, reader.workers().all())
        done = found.state == STOPPED and len(found.parts) == 1
        return Readback(State.DONE if done else State.WAITING, f"{found.name} is {found.state}")


@dataclass(frozen=True, slots=True)
class Another:
    """A connector, and the name of its copy."""

    connector: str
    new_name: str


class CreateConnector(Permanent[Another, Another, None]):
    """Creates a connector with the configuration of another, which is not journaled."""

    name = "create-connector"
    traits = Trait.CHANGES | Trait.IRREVERSIBLE

    def describe(self, settings: Another) -> Description:
        """Describe the step for plans and reports."""
        return Description(
            f"create connector {settings.new_name} with the configuration of {settings.connector}",
            "it exists",
            "none: drctl deletes no connector",
        )

    def check(self, settings: Another, facts: Facts, reader: LinkReader) -> Another:
        """Check that the name is free.

        Raises:
            Refused: the name is taken.
            Unreachable: no worker responded.
        """
        if settings.new_name in reader.workers().all():
            raise Refused(
                f"connector {settings.new_name} already exists", "choose another name: --as NAME"
            )
        return settings

    def apply(self, intent: Another, writer: LinkWriter) -> tuple[str, ...]:
        """Create the connector."""
        writer.workers().copy(intent.connector, intent.new_name)
        return ()

    def verify(self, intent: Another, reader: LinkReader) -> Readback[None]:
        """Verify that it exists."""
        there = intent.new_name in reader.workers().all()
        message = f"{intent.new_name} {'created' if there else 'does not exist'}"
        return Readback(State.DONE if there else State.WAITING, message)

    def verify_undo(self, intent: Another, reader: LinkReader) -> Readback[None]:
        """Report what stays changed."""
        there = intent.new_name in reader.workers().all()
        message = f"{intent.new_name} stays" if there else "no connector was created"
        return Readback(State.DONE, message, leaves_changes=there)


def known_connector(name: str, there: Mapping[str, Connector]) -> Connector:
    """The connector.

    Raises:
        UsageError: it does not exist.
    """
    if name not in there:
        raise UsageError(f"connector {name} no longer exists on these workers")
    return there[name]


def _at(partition: Partition, positions: Iterable[Position]) -> Mapping[str, Any] | None:
    return next((each.offset for each in positions if each.partition == partition), None)


def read_back(
    intent: Moves, wanted: Mapping[int, Mapping[str, Any] | None], message: str, workers: Workers
) -> Readback[None]:
    """Compare the current positions of a connector with those that it should have."""
    now = workers.positions(intent.connector)
    others = tuple(
        str(dict(each.partition))
        for number, each in enumerate(intent.positions)
        if _at(each.partition, now) != wanted[number]
    )
    if others:
        return Readback(State.WAITING, f"{intent.connector}: {others[0]} {message}", items=others)
    return Readback(State.DONE, f"{intent.connector}: {plural(len(wanted), 'position')} read back")
