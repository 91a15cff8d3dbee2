"""A kind of step: what it checks, does, reads back, and how it is rolled back.

Only `apply` and `undo` are handed something that can write (`LinkWriter`); everything else gets
something that can only look (`LinkReader`). mypy checks it, tests/engine/test_no_writes.py proves
it.

A kind is a `StepKind` of three frozen dataclasses: its settings (what a plan says), its intent
(what `check` decided: all that is needed to do it, to look at it and to undo it) and its facts
(what `verify` saw, for later steps and reports):

    @dataclass(frozen=True, slots=True)
    class DrainFacts:
        missing: int

    class Drain(Polling[DrainSettings, DrainIntent, DrainFacts]):
        name = "drain"
        traits = Trait.DRAINS

        def check(self, settings: DrainSettings, facts: Facts, reader: LinkReader) -> DrainIntent:
            found = facts.of(FindMissing())  # the facts of another step, or None
            ...

        def verify(self, intent: DrainIntent, reader: LinkReader) -> Seen[DrainFacts]:
            return Seen(State.DONE, words, DrainFacts(missing.records))

A plan's step is made with `Drain().step("drain", DrainSettings(target), timeout_s)`; the registry
holds `Journaled(Drain())`, which reads and writes JSON, so that the executor and the journal know
no kind's types (`Kind`). `drctl.model.typed_json` says how a type looks in JSON. Give a field a
default only where JSON may lack it: settings and intents leave out a field that has its default.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Flag, StrEnum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, get_args

from typing_extensions import TypeVar

from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import ExitCode
from drctl.model.plan import Duty, Json, Step
from drctl.model.topology import Unavailable
from drctl.model.typed_json import read_as, to_json

T = TypeVar("T")
S = TypeVar("S", default=Any)
I = TypeVar("I", default=Any)  # noqa: E741
F = TypeVar("F", default=Any, covariant=True)


class Status(StrEnum):
    """The status of a run."""

    DONE = "done"
    REFUSED = "refused"
    """Nothing is changed: it was not begun, or everything was put back."""
    STOPPED = "stopped"
    """Something is changed; `drctl resume` continues."""
    UNKNOWN = "unknown"
    """Something that was sent was not seen to be done; `drctl resume` looks first."""
    INTERRUPTED = "interrupted"


_CODES = {
    Status.DONE: ExitCode.DONE,
    Status.REFUSED: ExitCode.REFUSED,
    Status.STOPPED: ExitCode.STOPPED,
    Status.UNKNOWN: ExitCode.UNKNOWN,
    Status.INTERRUPTED: ExitCode.INTERRUPTED,
}

FINAL = frozenset({Status.DONE, Status.REFUSED})
"""Nobody resumes these."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a run, or of one attempt at it.

    Attributes:
        step: the step that it ended at; empty where all are done.
        items: what is not as wanted, each named.
        owes: whether something is left to a later run.
        over: whether nobody resumes it though something is changed: that is as it should stay.
        abandoned: whether somebody gave it up as it was.
    """

    status: Status
    step: str = ""
    words: str = ""
    items: tuple[str, ...] = ()
    outstanding: bool = False
    over: bool = False
    abandoned: bool = False

    @property
    def exit_code(self) -> ExitCode:
        """What the process exits with: never 0 where something is owed."""
        if self.abandoned or (self.status is Status.DONE and self.outstanding):
            return ExitCode.FOUND
        return _CODES[self.status]


class State(StrEnum):
    """The state of a step's effect."""

    DONE = "done"
    WAITING = "waiting"
    """Not yet; it may still come."""
    FAILED = "failed"
    """It will not come by waiting."""
    UNKNOWN = "unknown"
    """What would tell does not answer."""


@dataclass(frozen=True, slots=True)
class Seen(Generic[F]):
    """An observation of a step's effect.

    Attributes:
        words: what is true, for a person.
        facts: what later steps and the report need of it.
        items: what is not as wanted, each named: a partition, a group, a connector.
        owes: what is done, but for this, which a later run must do; empty where it is all.
        stays: whether a rollback leaves something changed; only `undone` of an `IRREVERSIBLE` kind.
    """

    state: State
    words: str
    facts: F | None = None
    items: tuple[str, ...] = ()
    outstanding: str = ""
    stays: bool = False


class Trait(Flag):
    """What the rules of order need to know of a kind; see `drctl.engine.invariants`."""

    NONE = 0
    CHANGES = auto()
    """It has an effect outside."""
    FENCES_WRITES = auto()
    DRAINS = auto()
    QUIESCES = auto()
    REQUESTS_STOP = auto()
    """Replication is told to stop; that it has is for a later step to prove."""
    STOPS_REPLICATION = auto()
    PREPARES_GROUPS = auto()
    COMMITS_OFFSETS = auto()
    ADVANCES_PRODUCER_IDS = auto()
    ENABLES_WRITES = auto()
    """From here on nothing is rolled back automatically: the target may have taken writes."""
    SWITCHES = auto()
    VERIFIES = auto()
    STARTS_REPLICATION = auto()
    SNAPSHOTS_STATE = auto()
    FINDS_GAP = auto()
    RECONCILES = auto()
    EMPTIES = auto()
    """What a cluster holds is given up, to be copied again from scratch."""
    RUNS_PRECHECKS = auto()
    """It lets the plan continue only where the prechecks allow it."""
    OPPOSITE_DIRECTION = auto()
    """It is about replication in the direction opposite to the plan's own."""
    IRREVERSIBLE = auto()
    """A rollback leaves what it did: `undone` says what stays, and why."""
    RECHECKED = auto()
    """What it was decided from may have moved: it is checked again before it is sent again."""


@dataclass(frozen=True, slots=True)
class Description:
    """A step in words, for plans, runbooks and reports.

    Attributes:
        title: what is done, a short line.
        proof: how it will be known that it was.
        way_back: how it is rolled back; empty where it cannot be.
        clients: what becomes of clients that are connected to the old cluster; empty where the
            step has nothing to say of it.
    """

    title: str
    proof: str
    rollback: str = ""
    clients: str = ""


@dataclass(frozen=True, slots=True)
class BothClusters:
    """Settings of a step that needs to know the names of both clusters.

    Attributes:
        source: the one that replication reads from.
    """

    source: str
    target: str


class Facts(dict[str, Json]):
    """The facts of the steps before: by kind, the newest of each."""

    def of(self, kind: "StepKind[Any, Any, F]") -> F | None:
        """Those of one kind; None where no step of it is done."""
        return self.named(kind.name, kind.forms()[2])

    def named(self, name: str, form: type[T]) -> T | None:
        """The same, where a kind has several names.

        Raises:
            ValueError: they are not of this type.
        """
        found = self.get(name)
        return None if found is None else read_as(form, found)


class StepKind(ABC, Generic[S, I, F]):
    """One kind of step, over types of its own."""

    _forms: ClassVar[tuple[Any, Any, Any]]

    if TYPE_CHECKING:
        # An attribute of the class, or a field.
        @property
        def name(self) -> str:
            """The name in plans, runbooks and journals."""

        @property
        def traits(self) -> Trait:
            """What the rules of order need to know."""

    def __init_subclass__(cls) -> None:
        for base in cls.__dict__.get("__orig_bases__", ()):
            if len(args := get_args(base)) == 3:
                cls._forms = args

    @abstractmethod
    def describe(self, settings: S) -> Description:
        """The step in words."""

    @abstractmethod
    def check(self, settings: S, facts: Facts, reader: LinkReader) -> I:
        """Look, and say what would be done: everything needed to do it, again, or to undo it.

        Raises:
            Refused: it must not be done; nothing was changed.
            Unreachable: what would be looked at does not answer.
        """

    @abstractmethod
    def apply(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Do it; doing it twice is as doing it once. What was complained of, item by item.

        Raises:
            Unknown: no answer came after something was sent.
        """

    @abstractmethod
    def verify(self, intent: I, reader: LinkReader) -> Seen[F]:
        """Look whether it is done; asked again and again until it is or time is up."""

    @abstractmethod
    def undo(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Put back what was there before; what was complained of, item by item.

        Raises:
            Unknown: no answer came after something was sent.
        """

    @abstractmethod
    def undone(self, intent: I, reader: LinkReader) -> Seen[F]:
        """Look whether it was put back."""

    def forms(self) -> tuple[type[S], type[I], type[F]]:
        """The types of its settings, intent and facts."""
        return self._forms

    def step(
        self, identity: str, settings: S, timeout_s: float = 60, duty: Duty = Duty.REQUIRED
    ) -> Step:
        """A step of a plan."""
        return Step(identity, self.name, to_json(settings), timeout_s, duty)

    def read_settings(self, data: Json) -> S:
        """From a plan.

        Raises:
            ValueError: they are not as this kind writes them.
        """
        return read_as(self.forms()[0], data)

    def read_intent(self, data: Json) -> I:
        """From a journal.

        Raises:
            ValueError: it is not as this kind writes it.
        """
        return read_as(self.forms()[1], data)


class Kind(Protocol):
    """One kind of step as plans and journals know it: over JSON."""

    @property
    def name(self) -> str:
        """The name in plans, runbooks and journals."""

    @property
    def traits(self) -> Trait:
        """What the rules of order need to know."""

    def describe(self, settings: Json) -> Description:
        """The step in words."""

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Look, and say what would be done: everything needed to do it, again, or to undo it.

        Raises:
            Refused: it must not be done; nothing was changed.
            Unreachable: what would be looked at does not answer.
        """

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Do it; doing it twice is as doing it once. What was complained of, item by item.

        Raises:
            Unknown: no answer came after something was sent.
        """

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """Look whether it is done; asked again and again until it is or time is up."""

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Put back what was there before; what was complained of, item by item.

        Raises:
            Unknown: no answer came after something was sent.
        """

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """Look whether it was put back."""


@dataclass(frozen=True, slots=True)
class Journaled:
    """Implements `Kind`: a kind behind its JSON."""

    kind: StepKind[Any, Any, Any]

    @property
    def name(self) -> str:
        """The name in plans, runbooks and journals."""
        return self.kind.name

    @property
    def traits(self) -> Trait:
        """What the rules of order need to know."""
        return self.kind.traits

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return self.kind.describe(self.kind.read_settings(settings))

    def check(self, settings: Json, facts: Mapping[str, Json], reader: LinkReader) -> Json:
        """Look, and say what would be done."""
        return to_json(self.kind.check(self.kind.read_settings(settings), Facts(facts), reader))

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Do it."""
        return self.kind.apply(self.kind.read_intent(intent), writer)

    def verify(self, intent: Json, reader: LinkReader) -> Seen[Json]:
        """Look whether it is done."""
        return _journaled(self.kind.verify(self.kind.read_intent(intent), reader))

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Put back what was there before."""
        return self.kind.undo(self.kind.read_intent(intent), writer)

    def undone(self, intent: Json, reader: LinkReader) -> Seen[Json]:
        """Look whether it was put back."""
        return _journaled(self.kind.undone(self.kind.read_intent(intent), reader))


def _journaled(seen: Seen[Any]) -> Seen[Json]:
    return replace(seen, facts={} if seen.facts is None else to_json(seen.facts, whole=True))


def complaints(
    answers: Mapping[T, Unavailable | None], name: Callable[[T], str] = str
) -> tuple[str, ...]:
    """What `apply` and `undo` return: each item that was not done, and why."""
    return tuple(f"{name(item)}: {why.reason}" for item, why in answers.items() if why)


class Permanent(StepKind[S, I, F]):
    """A kind whose effect is not rolled back; its `undone` says what stays."""

    def undo(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Nothing is rolled back."""
        return ()


class Polling(Permanent[S, I, F]):
    """A kind by which drctl changes nothing: nothing to apply, and nothing to roll back."""

    def apply(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Nothing is done."""
        return ()

    def undone(self, intent: I, reader: LinkReader) -> Seen[F]:
        """Nothing was done."""
        return Seen(State.DONE, "nothing was changed")
