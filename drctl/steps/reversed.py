"""Kinds that wrap another kind: in the opposite direction, never rolled back, or while stopped.

A cluster that was lost and is back stays fenced, and what copied from it stays stopped, whatever
becomes of the failback.
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
from drctl.steps.source_offsets import going_on, gone_on, log_ends


@dataclass(frozen=True, slots=True)
class Wrapped(StepKind[S, I, F]):
    """Passes everything on to another kind; subclasses change some of it."""

    kind: StepKind[S, I, F]

    def forms(self) -> tuple[type[S], type[I], type[F]]:
        """The kind's."""
        return self.kind.forms()

    @property
    def traits(self) -> Trait:
        """The traits that the ordering rules read."""
        return self.kind.traits

    def describe(self, settings: S) -> Description:
        """Describe the step for plans and reports."""
        return self.kind.describe(settings)

    def check(self, settings: S, facts: Facts, reader: LinkReader) -> I:
        """As the kind does.

        Raises:
            Refused: it must not be done; nothing was changed.
            Unreachable: what would be looked at does not answer.
        """
        return self.kind.check(settings, facts, reader)

    def apply(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """As the kind does.

        Raises:
            Unknown: no answer came after something was sent.
        """
        return self.kind.apply(intent, writer)

    def verify(self, intent: I, reader: LinkReader) -> Readback[F]:
        """As the kind does."""
        return self.kind.verify(intent, reader)

    def undo(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """As the kind does.

        Raises:
            Unknown: no answer came after something was sent.
        """
        return self.kind.undo(intent, writer)

    def verify_undo(self, intent: I, reader: LinkReader) -> Readback[F]:
        """As the kind does."""
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
        """As the kind does, in the other direction."""
        return self.kind.check(settings, facts, reader.reversed())

    def apply(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """As the kind does, in the other direction."""
        return self.kind.apply(intent, writer.reversed())

    def verify(self, intent: I, reader: LinkReader) -> Readback[F]:
        """As the kind does, in the other direction."""
        return self.kind.verify(intent, reader.reversed())

    def undo(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """As the kind does, in the other direction."""
        return self.kind.undo(intent, writer.reversed())

    def verify_undo(self, intent: I, reader: LinkReader) -> Readback[F]:
        """As the kind does, in the other direction."""
        return self.kind.verify_undo(intent, reader.reversed())


@dataclass(frozen=True, slots=True)
class Irreversible(Wrapped[S, I, F]):
    """A kind whose effect is not rolled back.

    Attributes:
        why: it stays; the words after "none:".
        looks: whether a rollback looks at the effect: it may not stand any more.
    """

    name: str
    why: str
    looks: bool = False

    @property
    def traits(self) -> Trait:
        """The traits that the ordering rules read."""
        return self.kind.traits | Trait.IRREVERSIBLE

    def describe(self, settings: S) -> Description:
        """Describe the step for plans and reports."""
        return replace(self.kind.describe(settings), rollback=f"none: {self.why}", clients="")

    def undo(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Nothing is rolled back."""
        return ()

    def verify_undo(self, intent: I, reader: LinkReader) -> Readback[F]:
        """What stays, and whether it does where that is looked at."""
        seen = self.kind.verify(intent, reader) if self.looks else None
        if seen is not None and seen.state is not State.DONE:
            return replace(seen, words=f"{seen.words}, but: {self.why}")
        return Readback(State.DONE, self.why, leaves_changes=True)


_HINT = "stop it and keep it stopped; drctl failback --check-order shows the consequences"
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class WhileStopped(Wrapped[S, I, F]):
    """A kind that runs only while forward replication is stopped and has stayed stopped."""

    @property
    def name(self) -> str:
        """The kind's own."""
        return self.kind.name

    def check(self, settings: S, facts: Facts, reader: LinkReader) -> I:
        """As the kind does, if the old replication is still stopped.

        Raises:
            Refused: it must not be done; nothing was changed.
            Unreachable: what would be looked at does not answer.
        """
        _refuse_if_running(facts, reader)
        if moved := gone_on(facts, reader):
            raise Refused(f"{_told(moved)}: it was resumed although it had to stay stopped", _HINT)
        return self.kind.check(settings, facts, reader)


@dataclass(frozen=True, kw_only=True)
class SinceStopped:
    """Part of the intent of a kind that is wrapped in `ReportMovedReplication`.

    Attributes:
        gone_on: where the old replication is not any more where it was stopped, each in words.
    """

    gone_on: tuple[str, ...] = ()


T = TypeVar("T", bound=BothClusters)
J = TypeVar("J", bound=SinceStopped)


@dataclass(frozen=True, slots=True)
class ReportMovedReplication(Wrapped[T, J, F]):
    """A kind that runs only while forward replication is stopped.

    If it was resumed and stopped again, the records it copied are outstanding: they are on both
    clusters.
    """

    @property
    def name(self) -> str:
        """The kind's own."""
        return self.kind.name

    def check(self, settings: T, facts: Facts, reader: LinkReader) -> J:
        """As the kind does, if the old replication is still stopped.

        Raises:
            Refused: it must not be done; nothing was changed.
            Unreachable: what would be looked at does not answer.
        """
        _refuse_if_running(facts, reader)
        moved = gone_on(facts, reader)
        found = self.kind.check(settings, facts, reader)
        return replace(found, gone_on=moved and _by_itself(settings.source, facts, reader))

    def verify(self, intent: J, reader: LinkReader) -> Readback[F]:
        """As the kind does; what the old replication has copied meanwhile is owed."""
        seen = self.kind.verify(intent, reader)
        if seen.state is not State.DONE or not intent.gone_on:
            return seen
        outstanding = (
            f"{_told(intent.gone_on)}: it was resumed although it had to stay stopped; what it"
            " copied was appended after newer records and may be duplicated"
        )
        return replace(seen, outstanding="; ".join(filter(None, (seen.outstanding, outstanding))))


def _refuse_if_running(facts: Facts, reader: LinkReader) -> None:
    if running := going_on(facts, reader):
        raise Refused(f"{'; '.join(running)}: it has to stay stopped", _HINT)


def _by_itself(source: str, facts: Facts, reader: LinkReader) -> tuple[str, ...]:
    """A run that was here before may have told it to begin where its source ends.

    Had it come there by itself, its copies would have been replicated back, and the end moved.
    """
    old = reader.reversed()
    ends = log_ends(old.cluster_reader(source), old.topics())
    return gone_on(facts, reader, {place: end - 1 for place, end in ends.items()})


def _told(moved: tuple[str, ...]) -> str:
    more = len(moved) - _SHOWN
    return "; ".join((*moved[:_SHOWN], *((f"{more} more",) if more > 0 else ())))
