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
from drctl.model.replication import STOPPED, Connector, Partition, Position
from drctl.steps.repairs import counted
from drctl.steps.stop_replication import told_each

BEFORE = "before.json"
"""The file in the run's folder with the positions that there were; `apply --from` takes it."""

_NO_TASKS_S = 60.0
"""A connector that has run for so long without a task has nothing to read."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Connectors that are to run.

    Attributes:
        settle_s: for so long each has to run.
        anew: whether it starts from scratch, without source positions.
    """

    connectors: tuple[str, ...]
    settle_s: float
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """What is to run, and which of it did not.

    Attributes:
        restarted: those that did not run; one that is gone is not among them.
    """

    connectors: tuple[str, ...]
    settle_s: float
    restarted: tuple[str, ...]


def _running(
    names: Sequence[str], settle_s: float, reader: LinkReader, how: str = ""
) -> Readback[None]:
    """Whether all have run for so long, as far as this process saw."""
    workers = reader.workers()
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
            if since[name] < max(settle_s, _NO_TASKS_S):
                not_yet.append(f"{name} runs without a task")
        elif since[name] < settle_s:
            not_yet.append(f"{name} has run for {since[name]:.0f} of {settle_s:g} s")
    if not_yet:
        return Readback(State.WAITING, "; ".join(not_yet), items=tuple(not_yet))
    told = [f"{name} runs{', and has no task' if name in idle else how}" for name in names]
    return Readback(State.DONE, "; ".join(told))


class VerifyConnectorsRunning(Polling[Watch, Watch, None]):
    """Looks for a while whether they run."""

    name = "verify-connectors-running"
    traits = Trait.NONE

    def describe(self, settings: Watch) -> Description:
        """The step in words."""
        names = ", ".join(settings.connectors)
        return Description(
            f"verify that {names} run", f"each has been RUNNING for {settings.settle_s:g} s"
        )

    def check(self, settings: Watch, facts: Facts, reader: LinkReader) -> Watch:
        """Nothing has to be decided."""
        return settings

    def verify(self, intent: Watch, reader: LinkReader) -> Readback[None]:
        """Which of them run."""
        how = ", and starts from scratch" if intent.anew else ""
        return _running(intent.connectors, intent.settle_s, reader, how)


class RestartConnectors(Permanent[Watch, Restart, None]):
    """Restarts the connectors and tasks that are not running."""

    name = "restart-connectors"
    traits = Trait.CHANGES | Trait.IRREVERSIBLE

    def describe(self, settings: Watch) -> Description:
        """The step in words."""
        return Description(
            f"restart connectors that are not running: {', '.join(settings.connectors)}",
            f"each has been RUNNING for {settings.settle_s:g} s, with all of its tasks",
            "none: a restart cannot be rolled back",
        )

    def check(self, settings: Watch, facts: Facts, reader: LinkReader) -> Restart:
        """Which of them do not run.

        Raises:
            Unreachable: no worker answered.
        """
        there = reader.workers().all()
        names = settings.connectors
        off = tuple(name for name in names if name in there and not there[name].running)
        return Restart(names, settings.settle_s, off)

    def apply(self, intent: Restart, writer: LinkWriter) -> tuple[str, ...]:
        """Restart them: what runs of them meanwhile is left alone by Connect."""
        return told_each(intent.restarted, writer.workers().restart)

    def verify(self, intent: Restart, reader: LinkReader) -> Readback[None]:
        """Which of them run."""
        return _running(intent.connectors, intent.settle_s, reader)

    def verify_undo(self, intent: Restart, reader: LinkReader) -> Readback[None]:
        """Restarts stay."""
        return Readback(
            State.DONE, "restarts are not rolled back", leaves_changes=bool(intent.restarted)
        )


@dataclass(frozen=True, slots=True)
class SaveSettings:
    """Whose positions are kept.

    Attributes:
        workers: host and port of the first.
        partitions: by connector those that count; none for all that it has.
    """

    workers: str
    partitions: Mapping[str, tuple[Partition, ...]]


class SaveSourcePositions(Polling[SaveSettings, Export, None]):
    """Into a file of the run's folder, and the journal; nothing outside is changed."""

    name = "save-source-positions"
    traits = Trait.NONE

    def describe(self, settings: SaveSettings) -> Description:
        """The step in words."""
        names = ", ".join(settings.partitions)
        return Description(
            f"save the source positions of {names}", f"{BEFORE} in the run's folder has them"
        )

    def check(self, settings: SaveSettings, facts: Facts, reader: LinkReader) -> Export:
        """Read them.

        Raises:
            UsageError: there is no such connector.
            Unreachable: no worker answered.
        """
        workers = reader.workers()
        there = workers.all()
        rows = []
        for name, partitions in settings.partitions.items():
            positions = workers.positions(name)
            if partitions:
                positions = tuple(Position(p, _at(p, positions)) for p in partitions)
            rows.append(kept(_known(name, there), positions))
        taken, cluster = datetime.now(UTC).isoformat(), workers.kafka_cluster_id()
        return Export(settings.workers, cluster, taken, tuple(rows), BEFORE)

    def apply(self, intent: Export, writer: LinkWriter) -> tuple[str, ...]:
        """Write the file."""
        writer.save_evidence(BEFORE, as_json(intent))
        return ()

    def verify(self, intent: Export, reader: LinkReader) -> Readback[None]:
        """They are in the journal, too."""
        number = sum(len(each.offsets) for each in intent.connectors)
        return Readback(State.DONE, f"{counted(number, 'position')} saved in {BEFORE}")


@dataclass(frozen=True, slots=True)
class Move:
    """One position.

    Attributes:
        before: None for none.
        to: None removes it.
    """

    partition: Partition
    before: Mapping[str, Any] | None
    to: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Moves:
    """Those of one connector."""

    connector: str
    positions: tuple[Move, ...]


class SetSourcePositions(StepKind[Moves, Moves, None]):
    """Sets the source positions of a stopped connector; a rollback restores the previous ones."""

    name = "set-source-positions"
    traits = Trait.CHANGES

    def describe(self, settings: Moves) -> Description:
        """The step in words."""
        number = counted(len(settings.positions), "position")
        return Description(
            f"set {number} of connector {settings.connector}",
            "the positions read back",
            "restore its previous positions",
        )

    def check(self, settings: Moves, facts: Facts, reader: LinkReader) -> Moves:
        """What it has now.

        Raises:
            Refused: it is not stopped, or has moved since the plan was made.
            UsageError: there is no such connector.
            Unreachable: no worker answered.
        """
        name, workers = settings.connector, reader.workers()
        state = _known(name, workers.all()).state
        if state != STOPPED:
            raise Refused(
                f"connector {name} is {state}: Connect sets positions only of stopped connectors"
            )
        now = workers.positions(name)
        moved = [p for p in settings.positions if _at(p.partition, now) not in (p.before, p.to)]
        if moved:
            raise Refused(
                f"connector {name} has moved in {counted(len(moved), 'partition')} since"
                f" the plan was made"
                " was made",
                "plan again",
            )
        return settings

    def apply(self, intent: Moves, writer: LinkWriter) -> tuple[str, ...]:
        """Set them."""
        wanted = [Position(each.partition, each.to) for each in intent.positions]
        writer.workers().put_positions(intent.connector, wanted)
        return ()

    def verify(self, intent: Moves, reader: LinkReader) -> Readback[None]:
        """Whether they read back; a worker may tell the old ones for a moment."""
        wanted = {n: each.to for n, each in enumerate(intent.positions)}
        return _read_back(intent, wanted, "was accepted but does not read back", reader)

    def undo(self, intent: Moves, writer: LinkWriter) -> tuple[str, ...]:
        """Give it back what it had."""
        before = [Position(each.partition, each.before) for each in intent.positions]
        writer.workers().put_positions(intent.connector, before)
        return ()

    def verify_undo(self, intent: Moves, reader: LinkReader) -> Readback[None]:
        """Whether it has it."""
        before = {n: each.before for n, each in enumerate(intent.positions)}
        return _read_back(intent, before, "is not as it was", reader)


@dataclass(frozen=True, slots=True)
class One:
    """A connector."""

    connector: str


@dataclass(frozen=True, slots=True)
class Stood:
    """A connector, and its state before."""

    connector: str
    before: str


class StopConnector(StepKind[One, Stood, None]):
    """Its tasks end; configuration and positions stay."""

    name = "stop-connector"
    traits = Trait.CHANGES

    def describe(self, settings: One) -> Description:
        """The step in words."""
        name = settings.connector
        return Description(f"stop {name}", "it is STOPPED, without a task", f"resume {name}")

    def check(self, settings: One, facts: Facts, reader: LinkReader) -> Stood:
        """Its state.

        Raises:
            UsageError: there is no such connector.
            Unreachable: no worker answered.
        """
        found = _known(settings.connector, reader.workers().all())
        return Stood(settings.connector, found.state)

    def apply(self, intent: Stood, writer: LinkWriter) -> tuple[str, ...]:
        """Stop it."""
        writer.workers().stop(intent.connector)
        return ()

    def verify(self, intent: Stood, reader: LinkReader) -> Readback[None]:
        """Whether it has ended."""
        found = _known(intent.connector, reader.workers().all())
        if found.state == STOPPED and len(found.parts) == 1:
            return Readback(State.DONE, f"{found.name} is stopped")
        return Readback(State.WAITING, f"{found.name} does not stop")

    def undo(self, intent: Stood, writer: LinkWriter) -> tuple[str, ...]:
        """Resume it, where it was not stopped before."""
        if intent.before != STOPPED:
            writer.workers().resume(intent.connector)
        return ()

    def verify_undo(self, intent: Stood, reader: LinkReader) -> Readback[None]:
        """Whether it goes on."""
        found = _known(intent.connector, reader.workers().all())
        back = (found.state == STOPPED) == (intent.before == STOPPED)
        words = f"{found.name} is {found.state}, and was {intent.before}"
        return Readback(State.DONE if back else State.WAITING, words)


class DeleteSourcePositions(StepKind[One, Moves, None]):
    """Deletes all source positions of a stopped connector; a rollback restores them."""

    name = "delete-source-positions"
    traits = Trait.CHANGES

    def describe(self, settings: One) -> Description:
        """The step in words."""
        name = settings.connector
        return Description(
            f"delete the source positions of {name}",
            "it has none",
            f"restore the source positions of {name}",
        )

    def check(self, settings: One, facts: Facts, reader: LinkReader) -> Moves:
        """What it has.

        Raises:
            UsageError: there is no such connector.
            Unreachable: no worker answered.
        """
        found = reader.workers().positions(settings.connector)
        return Moves(settings.connector, tuple(Move(p.partition, p.offset, None) for p in found))

    def apply(self, intent: Moves, writer: LinkWriter) -> tuple[str, ...]:
        """Delete them."""
        writer.workers().delete_positions(intent.connector)
        return ()

    def verify(self, intent: Moves, reader: LinkReader) -> Readback[None]:
        """What is left."""
        left = [p for p in reader.workers().positions(intent.connector) if p.offset is not None]
        if left:
            return Readback(
                State.WAITING, f"{intent.connector} has {counted(len(left), 'position')}"
            )
        return Readback(State.DONE, f"{intent.connector} has no positions")

    def undo(self, intent: Moves, writer: LinkWriter) -> tuple[str, ...]:
        """Give it back what it had."""
        if intent.positions:
            before = [Position(each.partition, each.before) for each in intent.positions]
            writer.workers().put_positions(intent.connector, before)
        return ()

    def verify_undo(self, intent: Moves, reader: LinkReader) -> Readback[None]:
        """Whether it has it."""
        before = {n: each.before for n, each in enumerate(intent.positions)}
        return _read_back(intent, before, "is not as it was", reader)


class ResumeConnector(StepKind[One, One, None]):
    """Resumes a connector; another step verifies that it keeps running."""

    name = "resume-connector"
    traits = Trait.CHANGES

    def describe(self, settings: One) -> Description:
        """The step in words."""
        name = settings.connector
        return Description(f"resume {name}", "it is no longer STOPPED", f"stop {name}")

    def check(self, settings: One, facts: Facts, reader: LinkReader) -> One:
        """Nothing has to be decided."""
        return settings

    def apply(self, intent: One, writer: LinkWriter) -> tuple[str, ...]:
        """Resume it."""
        writer.workers().resume(intent.connector)
        return ()

    def verify(self, intent: One, reader: LinkReader) -> Readback[None]:
        """Whether it goes on."""
        found = _known(intent.connector, reader.workers().all())
        if found.state == STOPPED:
            return Readback(State.WAITING, f"{found.name} is still {STOPPED}")
        return Readback(State.DONE, f"{found.name} is resumed")

    def undo(self, intent: One, writer: LinkWriter) -> tuple[str, ...]:
        """Stop it."""
        writer.workers().stop(intent.connector)
        return ()

    def verify_undo(self, intent: One, reader: LinkReader) -> Readback[None]:
        """Whether it has ended."""
        found = _known(intent.connector, reader.workers().all())
        done = found.state == STOPPED and len(found.parts) == 1
        return Readback(State.DONE if done else State.WAITING, f"{found.name} is {found.state}")


@dataclass(frozen=True, slots=True)
class Another:
    """A connector, and what another of the same configuration is called."""

    connector: str
    new_name: str


class CreateConnector(Permanent[Another, Another, None]):
    """Creates another connector with the same configuration, which no journal holds."""

    name = "create-connector"
    traits = Trait.CHANGES | Trait.IRREVERSIBLE

    def describe(self, settings: Another) -> Description:
        """The step in words."""
        return Description(
            f"create connector {settings.new_name} with the configuration of {settings.connector}",
            "it exists",
            "none: drctl deletes no connector",
        )

    def check(self, settings: Another, facts: Facts, reader: LinkReader) -> Another:
        """Whether the name is free.

        Raises:
            Refused: it is taken.
            Unreachable: no worker answered.
        """
        if settings.new_name in reader.workers().all():
            raise Refused(
                f"connector {settings.new_name} already exists", "choose another name: --as NAME"
            )
        return settings

    def apply(self, intent: Another, writer: LinkWriter) -> tuple[str, ...]:
        """Make it."""
        writer.workers().copy(intent.connector, intent.new_name)
        return ()

    def verify(self, intent: Another, reader: LinkReader) -> Readback[None]:
        """Whether it is there."""
        there = intent.new_name in reader.workers().all()
        words = f"{intent.new_name} {'created' if there else 'does not exist'}"
        return Readback(State.DONE if there else State.WAITING, words)

    def verify_undo(self, intent: Another, reader: LinkReader) -> Readback[None]:
        """What stays."""
        there = intent.new_name in reader.workers().all()
        words = f"{intent.new_name} stays" if there else "no connector was made"
        return Readback(State.DONE, words, leaves_changes=there)


def _known(name: str, there: Mapping[str, Connector]) -> Connector:
    """The connector.

    Raises:
        UsageError: there is none of this name.
    """
    if name not in there:
        raise UsageError(f"connector {name} no longer exists on these workers")
    return there[name]


def _at(partition: Partition, positions: Iterable[Position]) -> Mapping[str, Any] | None:
    return next((each.offset for each in positions if each.partition == partition), None)


def _read_back(
    intent: Moves, wanted: Mapping[int, Mapping[str, Any] | None], words: str, reader: LinkReader
) -> Readback[None]:
    now = reader.workers().positions(intent.connector)
    others = tuple(
        str(dict(each.partition))
        for number, each in enumerate(intent.positions)
        if _at(each.partition, now) != wanted[number]
    )
    if others:
        told = f"{intent.connector}: {others[0]} {words}"
        return Readback(State.WAITING, told, items=others)
    return Readback(State.DONE, f"{intent.connector}: {counted(len(wanted), 'position')} read back")
