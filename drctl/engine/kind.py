"""What a kind of step must provide: check, apply, verify, and roll back.

Only `apply` and `undo` are given a `LinkWriter`; every other method gets a `LinkReader`, which has
no method that writes. mypy enforces this, and tests/engine/test_no_writes.py tests it.

A kind is a `StepKind` with three frozen dataclasses: its settings (from the plan), its intent (the
result of `check`: everything needed to apply, verify and roll back the step) and its facts (the
result of `verify`, for later steps and reports):

    @dataclass(frozen=True, slots=True)
    class DrainFacts:
        missing: int

    class Drain(Polling[DrainSettings, DrainIntent, DrainFacts]):
        name = "drain"
        traits = Trait.DRAINS

        def check(self, settings: DrainSettings, facts: Facts, reader: LinkReader) -> DrainIntent:
            found = facts.of(FindMissing())  # the facts of an earlier step, or None
            ...

        def verify(self, intent: DrainIntent, reader: LinkReader) -> Readback[DrainFacts]:
            return Readback(State.DONE, words, DrainFacts(missing.records))

`Drain().step("drain", DrainSettings(target), timeout_s)` is a step of a plan. The registry wraps
each kind in `Kind`, which converts from and to JSON, so that the executor and the journal do not
depend on the types of a kind. `drctl.model.typed_json` defines the JSON form. A field may have a
default only if it may be absent from the JSON: settings and intents omit fields with their default.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Flag, StrEnum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Generic, get_args

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
    """Nothing is changed: the run did not begin, or all changes were rolled back."""
    STOPPED = "stopped"
    """Changes remain; `drctl resume` continues the run, unless `Outcome.over`."""
    UNKNOWN = "unknown"
    """A change was requested but could not be verified; `drctl resume` checks it first."""
    INTERRUPTED = "interrupted"


_CODES = {
    Status.DONE: ExitCode.DONE,
    Status.REFUSED: ExitCode.REFUSED,
    Status.STOPPED: ExitCode.STOPPED,
    Status.UNKNOWN: ExitCode.UNKNOWN,
    Status.INTERRUPTED: ExitCode.INTERRUPTED,
}

FINAL = frozenset({Status.DONE, Status.REFUSED})
"""A run with one of these statuses cannot be resumed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run, or one attempt to complete it, ended.

    Attributes:
        step: the step at which it ended; empty if all steps are done.
        message: the reason; empty if all steps are done.
        items: the partitions, groups or connectors that failed.
        outstanding: whether outstanding actions remain for a later run.
        over: whether the run cannot be resumed although irreversible changes remain.
        abandoned: whether the run was abandoned with `drctl resume --abandon`.
    """

    status: Status
    step: str = ""
    message: str = ""
    items: tuple[str, ...] = ()
    outstanding: bool = False
    over: bool = False
    abandoned: bool = False

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the process; never 0 if actions are outstanding."""
        if self.abandoned or (self.status is Status.DONE and self.outstanding):
            return ExitCode.FOUND
        return _CODES[self.status]


class State(StrEnum):
    """The state of a step's effect."""

    DONE = "done"
    WAITING = "waiting"
    """Not in effect yet; polling continues."""
    FAILED = "failed"
    """Not in effect, and waiting does not change that."""
    UNKNOWN = "unknown"
    """It could not be read."""


@dataclass(frozen=True, slots=True)
class Readback(Generic[F]):
    """The state of a step's effect, as read back.

    Attributes:
        message: the state as a sentence.
        facts: what later steps and reports need.
        items: the partitions, groups or connectors that are not in the wanted state.
        outstanding: the action that remains for a later run; empty if the step is complete.
        leaves_changes: whether changes remain after a rollback; set only by `verify_undo` of an
            `IRREVERSIBLE` kind.
    """

    state: State
    message: str
    facts: F | None = None
    items: tuple[str, ...] = ()
    outstanding: str = ""
    leaves_changes: bool = False


class Trait(Flag):
    """Properties of a kind that the executor and the ordering rules (`invariants`) depend on."""

    NONE = 0
    CHANGES = auto()
    """It changes something outside drctl."""
    FENCES_WRITES = auto()
    ENDS_TRANSACTIONS = auto()
    DRAINS = auto()
    QUIESCES = auto()
    REQUESTS_STOP = auto()
    """It requests that replication stops; a later step verifies it."""
    STOPS_REPLICATION = auto()
    PREPARES_GROUPS = auto()
    COMMITS_OFFSETS = auto()
    ADVANCES_PRODUCER_IDS = auto()
    ENABLES_WRITES = auto()
    """No automatic rollback after this: the target may have accepted writes."""
    SWITCHES = auto()
    VERIFIES = auto()
    STARTS_REPLICATION = auto()
    STOPS_SOURCES = auto()
    """It stops source connectors, such as Debezium."""
    MOVES_SOURCES = auto()
    """It sets the positions of source connectors on other workers."""
    RESUMES_SOURCES = auto()
    SNAPSHOTS_STATE = auto()
    FINDS_GAP = auto()
    RECONCILES = auto()
    EMPTIES = auto()
    """It deletes the records of a cluster, to replicate them from scratch."""
    RUNS_PRECHECKS = auto()
    """The plan continues only if its prechecks pass."""
    OPPOSITE_DIRECTION = auto()
    """It concerns replication in the direction opposite to the plan's."""
    IRREVERSIBLE = auto()
    """It cannot be rolled back: `verify_undo` reports which changes remain, and why."""
    RECHECKED = auto()
    """Its intent can become outdated: `check` runs again before it is applied again."""


@dataclass(frozen=True, slots=True)
class Description:
    """A description of a step for plans, runbooks and reports.

    Attributes:
        title: what the step does, in one short line.
        proof: how its success is verified.
        rollback: how it is rolled back; empty if it cannot be.
        clients: the effect on clients of the old cluster; empty if there is none.
    """

    title: str
    proof: str
    rollback: str = ""
    clients: str = ""


@dataclass(frozen=True, slots=True)
class BothClusters:
    """Settings of a step that needs only the names of both clusters.

    Attributes:
        source: the cluster that replication reads from.
    """

    source: str
    target: str


class Facts(dict[str, Json]):
    """The facts of earlier steps: the newest for each kind."""

    def of(self, kind: "StepKind[Any, Any, F]") -> F | None:
        """Return the facts of one kind; None if no step of this kind is done."""
        return self.named(kind.name, kind.forms()[2])

    def named(self, name: str, form: type[T]) -> T | None:
        """Return the facts of the kind with this name; None if no step of this kind is done.

        Raises:
            ValueError: the facts do not have this type.
        """
        found = self.get(name)
        return None if found is None else read_as(form, found)


class StepKind(ABC, Generic[S, I, F]):
    """One kind of step, with its own types for settings, intent and facts."""

    _forms: ClassVar[tuple[Any, Any, Any]]

    if TYPE_CHECKING:
        # A class attribute, or a dataclass field.
        @property
        def name(self) -> str:
            """The name in plans, runbooks and journals."""

        @property
        def traits(self) -> Trait:
            """What the executor and the ordering rules need to know."""

    def __init_subclass__(cls) -> None:
        for base in cls.__dict__.get("__orig_bases__", ()):
            if len(args := get_args(base)) == 3:
                cls._forms = args

    @abstractmethod
    def describe(self, settings: S) -> Description:
        """Describe the step."""

    @abstractmethod
    def check(self, settings: S, facts: Facts, reader: LinkReader) -> I:
        """Read the current state and return everything needed to apply, verify and roll back.

        Raises:
            Refused: the step must not be applied; nothing was changed.
            Unreachable: the state could not be read.
        """

    @abstractmethod
    def apply(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Apply the step; must be idempotent. Returns one error message for each failed item.

        Raises:
            Unknown: a request was sent and not answered.
        """

    @abstractmethod
    def verify(self, intent: I, reader: LinkReader) -> Readback[F]:
        """Read back whether the step is in effect; called until it is, or until the timeout."""

    @abstractmethod
    def undo(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Restore the state before the step; returns one error message for each failed item.

        Raises:
            Unknown: a request was sent and not answered.
        """

    @abstractmethod
    def verify_undo(self, intent: I, reader: LinkReader) -> Readback[F]:
        """Read back whether the step is rolled back."""

    def forms(self) -> tuple[type[S], type[I], type[F]]:
        """Return the types of settings, intent and facts."""
        return self._forms

    def step(
        self, identity: str, settings: S, timeout_s: float = 60, duty: Duty = Duty.REQUIRED
    ) -> Step:
        """Create a step of a plan."""
        return Step(identity, self.name, to_json(settings), timeout_s, duty)

    def read_settings(self, data: Json) -> S:
        """Read settings from a plan.

        Raises:
            ValueError: the data does not match the type.
        """
        return read_as(self.forms()[0], data)

    def read_intent(self, data: Json) -> I:
        """Read an intent from a journal.

        Raises:
            ValueError: the data does not match the type.
        """
        return read_as(self.forms()[1], data)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of step as plans and journals use it: settings, intent and facts are JSON."""

    kind: StepKind[Any, Any, Any]

    @property
    def name(self) -> str:
        """The name in plans, runbooks and journals."""
        return self.kind.name

    @property
    def traits(self) -> Trait:
        """What the executor and the ordering rules need to know."""
        return self.kind.traits

    def describe(self, settings: Json) -> Description:
        """Describe the step."""
        return self.kind.describe(self.kind.read_settings(settings))

    def check(self, settings: Json, facts: Mapping[str, Json], reader: LinkReader) -> Json:
        """Call `StepKind.check`."""
        return to_json(self.kind.check(self.kind.read_settings(settings), Facts(facts), reader))

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Call `StepKind.apply`."""
        return self.kind.apply(self.kind.read_intent(intent), writer)

    def verify(self, intent: Json, reader: LinkReader) -> Readback[Json]:
        """Call `StepKind.verify`."""
        return _with_json_facts(self.kind.verify(self.kind.read_intent(intent), reader))

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Call `StepKind.undo`."""
        return self.kind.undo(self.kind.read_intent(intent), writer)

    def verify_undo(self, intent: Json, reader: LinkReader) -> Readback[Json]:
        """Call `StepKind.verify_undo`."""
        return _with_json_facts(self.kind.verify_undo(self.kind.read_intent(intent), reader))


def _with_json_facts(seen: Readback[Any]) -> Readback[Json]:
    return replace(seen, facts={} if seen.facts is None else to_json(seen.facts, whole=True))


def failed_items(
    answers: Mapping[T, Unavailable | None], name: Callable[[T], str] = str
) -> tuple[str, ...]:
    """Return the error messages of failed items, as `apply` and `undo` return them."""
    return tuple(f"{name(item)}: {why.reason}" for item, why in answers.items() if why)


class Permanent(StepKind[S, I, F]):
    """A kind that is not rolled back; `verify_undo` reports which changes remain."""

    def undo(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Do nothing."""
        return ()


class Polling(Permanent[S, I, F]):
    """A kind that only reads: nothing to apply, and nothing to roll back."""

    def apply(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Do nothing."""
        return ()

    def verify_undo(self, intent: I, reader: LinkReader) -> Readback[F]:
        """Report that nothing was changed."""
        return Readback(State.DONE, "nothing was changed")
