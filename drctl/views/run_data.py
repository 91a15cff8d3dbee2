"""The result of a run, read from its journal: the input of every report format.

Texts are as in the journal; the renderers make them printable.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from drctl.connectors.moving import MovedConnector
from drctl.engine.run_state import ChainVerdict
from drctl.model.document import HIDDEN, Count, Name, Seconds
from drctl.model.errors import ExitCode
from drctl.model.loss import LossRange, Mode
from drctl.model.plan import Duty, Plan
from drctl.steps.prechecks import Unseen, modes_of


class RunStatus(StrEnum):
    """How a run ended, or that it has not."""

    DONE = "done"
    REFUSED = "refused"
    """Nothing remains changed: it did not start, or everything was rolled back."""
    STOPPED = "stopped"
    UNKNOWN = "unknown"
    INTERRUPTED = "interrupted"
    NOT_ENDED = "not-ended"
    """The journal has no end: the run is in progress, or its process is gone."""


class StepStatus(StrEnum):
    """The result of a step."""

    DONE = "done"
    OUTSTANDING = "outstanding"
    """Not done; a later run must do it."""
    SKIPPED = "skipped"
    """Not done, and the run continued without it."""
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It may have taken effect; the cluster did not answer."""
    STARTED = "started"
    """The journal has its start, and nothing after it."""
    ROLLED_BACK = "rolled-back"
    NOT_ROLLED_BACK = "not-rolled-back"
    NOT_STARTED = "not-started"


class Doing(StrEnum):
    """What a period of time was spent on."""

    CHECKING = "checking"
    """Checks, before the step starts."""
    EFFECT = "effect"
    """A change, and its verification."""
    WAITING = "waiting"
    """Waiting for something that drctl does not do itself, or verifying after an error."""
    ROLLING_BACK = "rolling-back"
    NOT_RUNNING = "not-running"
    """Between two attempts; after a crash the start of this period is not exact."""


class Writes(StrEnum):
    """Where applications can write."""

    AS_BEFORE = "as before"
    NOWHERE = "nowhere"
    TARGET = "target"
    UNKNOWN = "unknown"
    NOT_TOUCHED = "not touched"
    """The plan neither fences a cluster nor enables writes."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A start or resume of the run.

    Attributes:
        until: time of its last journal entry.
        ending: how it ended, in words.
    """

    who: Name
    host: Name
    began: datetime
    until: datetime
    ending: Name


@dataclass(frozen=True, slots=True)
class Span:
    """A period of the run; `step` is empty between attempts."""

    step: str
    doing: Doing
    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        """Duration in seconds; never negative, even if the clocks of two hosts differ."""
        return max(0.0, (self.end - self.start).total_seconds())


@dataclass(frozen=True, slots=True)
class StepReport:
    """A step of the plan and its result.

    Attributes:
        changes: whether it changes anything outside drctl.
        started: null if it was not started.
        seconds: duration, without the time between attempts.
        waited: seconds from the announcement of its effect until it was verified or timed out.
        message: the last observation.
        items: the problems, each named.
        errors: errors that its requests returned.
        outstanding: what a later run must do.
        rolled_back: the result of rolling it back.
    """

    number: Annotated[int, ("minimum", 1)]
    id: Name
    kind: Name
    title: Name
    proof: str
    rollback: str
    duty: Duty
    changes: bool
    status: StepStatus
    started: datetime | None = None
    seconds: Seconds | None = None
    waited: Seconds | None = None
    message: str = ""
    items: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    outstanding: str = ""
    rolled_back: str = ""


@dataclass(frozen=True, slots=True)
class Rto:
    """How long writes were refused.

    Attributes:
        seconds: null if a part of the measurement is missing; `how` says which.
        how: the start and the end of the measurement.
        since_command: whether it starts at the command, because the time of the lost source's last
            write is unknown.
    """

    seconds: Seconds | None
    how: Name
    start: datetime | None = None
    end: datetime | None = None
    since_command: Annotated[bool, HIDDEN] = False


@dataclass(frozen=True, slots=True)
class Rpo:
    """Records that were not replicated, and the seconds in which they were written; None: unknown.

    Attributes:
        lost: lower and upper bound of their number, and the likely number.
        evidence: what an estimate is based on, each item with its age when the loss was estimated.
        compared: whether records were compared, even if some remain undecided.
    """

    lost: LossRange
    seconds: float | None
    exact: bool
    how: str
    evidence: tuple[str, ...] = ()
    compared: bool = False

    @property
    def records(self) -> int | None:
        """The likely number; the exact one if records were counted."""
        return self.lost.likely.records


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning of a precheck, or a failure that was overridden.

    Attributes:
        checked: whether the check could run.
    """

    message: Name
    checked: bool


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group whose offsets were committed.

    Attributes:
        rereads_at_most: null if unknown.
        rereads_likely: with the source lost: records that are read again if the group consumed
            nothing since the evidence; null if unknown, or if the source answered.
        based_on: with the source lost: the oldest evidence of its offsets.
        age_seconds: age of that evidence; null if unknown.
        skips_only_if: the condition under which records are skipped; null if the source answered.
    """

    name: Annotated[Name, ("key", "group")]
    offsets: Count
    rereads_at_most: Count | None
    rereads_likely: Count | None = None
    based_on: Name | None = None
    age_seconds: Seconds | None = None
    skips_only_if: Name | None = None


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """What was committed for consumers.

    Attributes:
        same: offsets that were already in place.
        rereads_at_most: null if unknown.
        rereads_likely: with the source lost: records that are read again if the groups consumed
            nothing since the evidence; null if unknown, or if the source answered.
        without_offset: groups that have no committed offset on the target at all.
    """

    offsets: Count
    same: Count
    rereads_at_most: Count | None
    rereads_likely: Count | None
    left_out: tuple[Name, ...]
    without_offset: tuple[Name, ...]
    groups: tuple[GroupRow, ...]


@dataclass(frozen=True, slots=True)
class Ending:
    """How the run ended, and where.

    Attributes:
        step: the step at which it ended or continues; empty if all are done.
        exit_code: None if it has not ended.
        over: whether it has ended although some of its changes intentionally remain.
    """

    status: RunStatus
    step: str
    message: str
    items: tuple[str, ...]
    exit_code: ExitCode | None
    over: bool = False


@dataclass(frozen=True, slots=True)
class ReportData:
    """A run.

    Attributes:
        mode: `planned` or `unplanned`; empty if the plan has none.
        ids: observed cluster ids by cluster name.
        attempts: who started it, and who resumed it.
        rollback_reason: why its effects were rolled back; empty if they were not.
        outstanding: what a later run must do, by step; if it was abandoned, also what is still in
            effect.
        not_checked: what was not or could not be checked.
        until: time of the last journal entry.
        fenced: whether the fence of the source's producers was verified, and is still in place.
        endpoints: how many of the plan's endpoints were switched, and how many there are.
        chain: whether the journal is intact; None if that was not checked.
        partial: whether the journal has damaged or unreadable lines after those of this report.
        topics: the source's topics that the run moved; empty if the journal does not say.
        abandoned: the reason for abandoning it; empty if it was not abandoned.
        set_aside: how many records that exist only on the recovered cluster were quarantined,
            exported or discarded instead of copied.
        unseen: what could not be checked before it began, by cause.
        source_connectors: what the link's source connectors do on the target, and why.
    """

    run: str
    plan: Plan
    mode: str
    ids: Mapping[str, str]
    attempts: tuple[Attempt, ...]
    steps: tuple[StepReport, ...]
    spans: tuple[Span, ...]
    ending: Ending
    rollback_reason: str
    writes: Writes
    rto: Rto
    rpo: Rpo
    warned: tuple[Warned, ...]
    outstanding: Mapping[str, str]
    committed_offsets: CommittedOffsets | None
    not_checked: tuple[str, ...]
    began: datetime
    until: datetime
    fenced: bool = False
    endpoints: tuple[int, int] = (0, 0)
    chain: ChainVerdict | None = None
    partial: bool = False
    writes_since: datetime | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    abandoned: str = ""
    set_aside: Mapping[str, int] = field(default_factory=dict)
    unseen: tuple[Unseen, ...] = ()
    source_connectors: tuple[MovedConnector, ...] = ()

    @property
    def seconds(self) -> float:
        """Seconds from its start to its last journal entry."""
        return max(0.0, (self.until - self.began).total_seconds())

    @property
    def gives_up_source(self) -> bool:
        """Whether the plan treats its source as lost: applications cannot rely on writing there."""
        return Mode.UNPLANNED in modes_of(self.plan.steps)

    @property
    def switched(self) -> bool:
        """Whether every endpoint of the plan sends clients to the target."""
        return self.endpoints[0] == self.endpoints[1]

    def with_status(self, *wanted: StepStatus) -> tuple[StepReport, ...]:
        """Return the steps with one of these results."""
        return tuple(step for step in self.steps if step.status in wanted)
