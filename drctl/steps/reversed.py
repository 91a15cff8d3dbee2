"""Kinds that run another kind: in the opposite direction, without rollback, or only while stopped.

During a failback the recovered cluster stays fenced and replication from it stays stopped, even if
the failback is rolled back.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

from drctl.engine.kind import (
    BothClusters,
    Description,
    F,
    Facts,
    I,
    Readback,
    S,
    State,
    StepKind,
    Trait,
)
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.steps.source_offsets import log_ends, moved_partitions, running_connectors
from drctl.steps.stop_replication import KEEP_STOPPED


@dataclass(frozen=True, slots=True)
class Wrapped(StepKind[S, I, F]):
    """Delegates to another kind; subclasses change parts of it."""

    kind: StepKind[S, I, F]

    def forms(self) -> tuple[type[S], type[I], type[F]]:
        """The types of the wrapped kind."""
        return self.kind.forms()

    @property
    def traits(self) -> Trait:
        """The traits that the ordering rules read."""
        return self.kind.traits

    def describe(self, settings: S) -> Description:
        """Describe the step for plans and reports."""
        return self.kind.describe(settings)

    def check(self, settings: S, facts: Facts, reader: LinkReader) -> I:
        """Delegate to the kind.

        Raises:
            Refused: the step must not be done.
            Unreachable: a cluster or Connect did not respond.
        """
        return self.kind.check(settings, facts, reader)

    def apply(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Delegate to the kind.

        Raises:
            Unknown: a request was sent but got no response.
        """
        return self.kind.apply(intent, writer)

    def verify(self, intent: I, reader: LinkReader) -> Readback[F]:
        """Delegate to the kind."""
        return self.kind.verify(intent, reader)

    def undo(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Delegate to the kind.

        Raises:
            Unknown: a request was sent but got no response.
        """
        return self.kind.undo(intent, writer)

    def verify_undo(self, intent: I, reader: LinkReader) -> Readback[F]:
        """Delegate to the kind."""
        return self.kind.verify_undo(intent, reader)


@dataclass(frozen=True, slots=True)
class OppositeDirection(Wrapped[S, I, F]):
    """A kind for replication in the direction opposite to the plan's own."""

    name: str

    @property
    def traits(self) -> Trait:
        """The traits that the ordering rules read."""
        return self.kind.traits | Trait.OPPOSITE_DIRECTION

    def check(self, settings: S, facts: Facts, reader: LinkReader) -> I:
        """Delegate to the kind, in the opposite direction."""
        return self.kind.check(settings, facts, reader.reversed())

    def apply(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Delegate to the kind, in the opposite direction."""
        return self.kind.apply(intent, writer.reversed())

    def verify(self, intent: I, reader: LinkReader) -> Readback[F]:
        """Delegate to the kind, in the opposite direction."""
        return self.kind.verify(intent, reader.reversed())

    def undo(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Delegate to the kind, in the opposite direction."""
        return self.kind.undo(intent, writer.reversed())

    def verify_undo(self, intent: I, reader: LinkReader) -> Readback[F]:
        """Delegate to the kind, in the opposite direction."""
        return self.kind.verify_undo(intent, reader.reversed())


@dataclass(frozen=True, slots=True)
class Irreversible(Wrapped[S, I, F]):
    """A kind whose effect is not rolled back.

    Attributes:
        why: why the effect stays; shown after "none:".
        verifies: whether a rollback verifies that the effect is still there.
    """

    name: str
    why: str
    verifies: bool = False

    @property
    def traits(self) -> Trait:
        """The traits that the ordering rules read."""
        return self.kind.traits | Trait.IRREVERSIBLE

    def describe(self, settings: S) -> Description:
        """Describe the step for plans and reports."""
        return replace(self.kind.describe(settings), rollback=f"none: {self.why}", clients="")

    def undo(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Roll back nothing."""
        return ()

    def verify_undo(self, intent: I, reader: LinkReader) -> Readback[F]:
        """Report what stays; with `verifies`, verify that it is still there."""
        seen = self.kind.verify(intent, reader) if self.verifies else None
        if seen is not None and seen.state is not State.DONE:
            return replace(seen, message=f"{seen.message}, but: {self.why}")
        return Readback(State.DONE, self.why, leaves_changes=True)


_HINT = (
    "stop replication and keep it stopped; drctl failback --check-order shows the consequences. If"
    " applications write to both clusters, start the failback again instead: it compares the"
    " clusters again"
)
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class WhileStopped(Wrapped[S, I, F]):
    """A kind that runs only while replication is stopped and has stayed stopped.

    Attributes:
        stopped_by: the kind of the step that stopped it; by default, that of forward replication.
    """

    stopped_by: str = KEEP_STOPPED

    @property
    def name(self) -> str:
        """The name of the wrapped kind."""
        return self.kind.name

    def check(self, settings: S, facts: Facts, reader: LinkReader) -> I:
        """Delegate to the kind, if replication is still stopped.

        Raises:
            Refused: replication was resumed, or the kind refuses.
            Unreachable: a cluster or Connect did not respond.
        """
        _refuse_if_running(facts, reader, self.stopped_by)
        if moved := moved_partitions(facts, reader, stopped_by=self.stopped_by):
            raise Refused(
                f"{_listed(moved)}: replication was resumed although it had to stay stopped", _HINT
            )
        return self.kind.check(settings, facts, reader)


@dataclass(frozen=True, kw_only=True)
class SinceStopped:
    """Part of the intent of kinds wrapped in `ReportMovedReplication`.

    Attributes:
        moved: partitions in which forward replication has moved since it was stopped.
    """

    moved: tuple[str, ...] = ()


T = TypeVar("T", bound=BothClusters)
J = TypeVar("J", bound=SinceStopped)


@dataclass(frozen=True, slots=True)
class ReportMovedReplication(Wrapped[T, J, F]):
    """A kind that runs only while forward replication is stopped.

    If replication was resumed and stopped again meanwhile, the records that it copied become an
    outstanding action: they may be duplicates.
    """

    @property
    def name(self) -> str:
        """The name of the wrapped kind."""
        return self.kind.name

    def check(self, settings: T, facts: Facts, reader: LinkReader) -> J:
        """Delegate to the kind, if forward replication is still stopped.

        Raises:
            Refused: forward replication was resumed, or the kind refuses.
            Unreachable: a cluster or Connect did not respond.
        """
        _refuse_if_running(facts, reader)
        moved = moved_partitions(facts, reader)
        found = self.kind.check(settings, facts, reader)
        return replace(found, moved=moved and _not_set_by_drctl(settings.source, facts, reader))

    def verify(self, intent: J, reader: LinkReader) -> Readback[F]:
        """Delegate to the kind; report records that forward replication copied meanwhile."""
        seen = self.kind.verify(intent, reader)
        if seen.state is not State.DONE or not intent.moved:
            return seen
        outstanding = (
            f"{_listed(intent.moved)}: replication was resumed although it had to stay stopped; the"
            " records that it copied were appended after newer records and may be duplicates"
        )
        return replace(seen, outstanding="; ".join(filter(None, (seen.outstanding, outstanding))))


def _refuse_if_running(facts: Facts, reader: LinkReader, stopped_by: str = KEEP_STOPPED) -> None:
    if running := running_connectors(facts, reader, stopped_by):
        raise Refused(f"{'; '.join(running)}: it has to stay stopped", _HINT)


def _not_set_by_drctl(source: str, facts: Facts, reader: LinkReader) -> tuple[str, ...]:
    """The partitions that moved, except those that an earlier run set to the source's end offsets.

    If the connector had reached the end by copying, the end would have advanced, because copies are
    replicated back.
    """
    old = reader.reversed()
    ends = log_ends(old.cluster_reader(source), old.topics())
    return moved_partitions(facts, reader, {place: end - 1 for place, end in ends.items()})


def _listed(moved: tuple[str, ...]) -> str:
    more = len(moved) - _SHOWN
    return "; ".join((*moved[:_SHOWN], *((f"{more} more",) if more > 0 else ())))
