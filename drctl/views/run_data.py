"""The result of a run, read from its journal: every format of the report is made from it.

Texts are as they are in the journal; the renderers make them printable.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated

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
    """Nothing is changed: it did not start, or everything was rolled back."""
    STOPPED = "stopped"
    UNKNOWN = "unknown"
    INTERRUPTED = "interrupted"
    NOT_ENDED = "not-ended"
    """The journal stops: it is in progress, or its process is gone."""


class Became(StrEnum):
    """What became of a step."""

    DONE = "done"
    OUTSTANDING = "outstanding"
    """Not done; a later run must do it."""
    SKIPPED = "skipped"
    """Not done, and not needed."""
    FAILED = "failed"
    UNKNOWN = "unknown"
    """It may have been done; the cluster that knows did not answer."""
    STARTED = "started"
    """The journal has its start, and nothing after it."""
    ROLLED_BACK = "rolled-back"
    NOT_ROLLED_BACK = "not-rolled-back"
    NOT_STARTED = "not-started"


class Doing(StrEnum):
    """What a period of time was spent on."""

    LOOKING = "looking"
    """Checks, before the step starts."""
    EFFECT = "effect"
    """A change, and its verification."""
    WAITING = "waiting"
    """Waiting for something that drctl does not do itself, or verifying after an error."""
    ROLLING_BACK = "rolling-back"
    NOBODY = "nobody"
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
    """A period of time; `step` is empty between attempts."""

    step: str
    doing: Doing
    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        """Its length; never negative, even if the clocks of two hosts differ."""
        return max(0.0, (self.end - self.start).total_seconds())


@dataclass(frozen=True, slots=True)
class StepReport:
    """A step of the plan and its result.

    Attributes:
        changes: whether it has an effect outside.
        started: None where it was not started.
        seconds: that it took, without the time between attempts.
        waited: seconds of those from its start until it was verified or given up.
        words: what was observed last.
        items: what is not as wanted, each named.
        complaints: errors in answers to what was sent.
        owed: what of it a later run must do.
        taken_back: what was seen when it was taken back, or could not be.
    """

    number: Annotated[int, ("minimum", 1)]
    id: Name
    kind: Name
    title: Name
    proof: str
    rollback: str
    duty: Duty
    changes: bool
    became: Annotated[Became, ("key", "status")]
    started: datetime | None = None
    seconds: Seconds | None = None
    waited: Seconds | None = None
    words: str = ""
    items: tuple[str, ...] = ()
    complaints: tuple[str, ...] = ()
    outstanding: str = ""
    rolled_back: str = ""


@dataclass(frozen=True, slots=True)
class Rto:
    """How long writes were refused.

    Attributes:
        seconds: None where a part of the measurement is missing; `how` says which.
        how: from what to what it was measured.
        since_command: whether it is measured from the command on, because the time of the lost
            source's last write is not known.
    """

    seconds: Seconds | None
    how: Name
    start: datetime | None = None
    end: datetime | None = None
    since_command: Annotated[bool, HIDDEN] = False


@dataclass(frozen=True, slots=True)
class Rpo:
    """Records that were lost, and the seconds in which they were written; None: not known.

    Attributes:
        lost: lower and upper bound of their number, and the likely number.
        evidence: what an estimate is based on, each piece with its age at that time.
        compared: whether records were compared, though some may stay undecided.
    """

    lost: LossRange
    seconds: float | None
    exact: bool
    how: str
    evidence: tuple[str, ...] = ()
    compared: bool = False

    @property
    def records(self) -> int | None:
        """The likely number; the counted one where it is exact."""
        return self.lost.likely.records


@dataclass(frozen=True, slots=True)
class Warned:
    """What a precheck said that did not stand against the run, or was passed over.

    Attributes:
        checked: whether it could look.
    """

    words: Name
    checked: bool


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group whose positions were written.

    Attributes:
        rereads_at_most: null where it is not known.
        rereads_likely: with the source lost: what is read again if the group consumed nothing since
            the evidence; null where that is not known, or the source answered.
        based_on: with the source lost: the oldest evidence of its offsets.
        age_seconds: of that evidence; null where it is not known.
        skips_only_if: the condition under which records are skipped; null where the source
            answered.
    """

    name: Annotated[Name, ("key", "group")]
    positions: Count
    rereads_at_most: Count | None
    rereads_likely: Count | None = None
    based_on: Name | None = None
    age_seconds: Seconds | None = None
    skips_only_if: Name | None = None


@dataclass(frozen=True, slots=True)
class Positions:
    """What was committed for consumers.

    Attributes:
        same: offsets that were already in place.
        rereads_at_most: null: not known.
        rereads_likely: with the source lost: what is read again if the group consumed nothing since
            the evidence; null where that is not known, or the source answered.
        without_offset: groups that have no committed offset on the target at all.
    """

    positions: Count
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
        step: at which it ended or continues; empty where all are done.
        exit_code: None where it has not ended.
        over: whether it is finished although part of its changes stays in effect, as intended.
    """

    status: RunStatus
    step: str
    words: str
    items: tuple[str, ...]
    exit_code: ExitCode | None
    over: bool = False


@dataclass(frozen=True, slots=True)
class ReportData:
    """A run.

    Attributes:
        mode: `planned`, `unplanned`; empty where the plan has none.
        ids: of the clusters by their names, as they were seen.
        attempts: who started it, and who resumed it.
        turned_back: why its effects were taken back; empty where they were not.
        owed: what a later run must do, by step; where it was abandoned, what stands, too.
        not_checked: what was not or could not be checked.
        until: time of the last journal entry.
        fenced: whether the fence of the source's producers was verified, and is still in place.
        endpoints: how many of the plan's endpoints were switched, and how many there are.
        chain: whether the journal is intact; None where that was not checked.
        topics: of the source, that the run moved; empty where the journal does not say.
        abandoned: the reason for abandoning it; empty where it was not abandoned.
        set_aside: records that only the returned cluster had and that were not copied: how many
            were quarantined, exported or discarded.
        unseen: what could not be looked at before it began, by cause.
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
    positions: Positions | None
    not_checked: tuple[str, ...]
    began: datetime
    until: datetime
    fenced: bool = False
    endpoints: tuple[int, int] = (0, 0)
    chain: ChainVerdict | None = None
    writes_since: datetime | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    abandoned: str = ""
    set_aside: Mapping[str, int] = field(default_factory=dict)
    unseen: tuple[Unseen, ...] = ()

    @property
    def seconds(self) -> float:
        """From its beginning to the last thing that was written down."""
        return max(0.0, (self.until - self.began).total_seconds())

    @property
    def gives_up_source(self) -> bool:
        """Whether the plan takes its source for lost: nobody can rely on writing there."""
        return Mode.UNPLANNED in modes_of(self.plan.steps)

    @property
    def switched(self) -> bool:
        """Whether every endpoint that the plan names sends clients to the target."""
        return self.endpoints[0] == self.endpoints[1]

    def became(self, *wanted: Became) -> tuple[StepReport, ...]:
        """The steps of which this became."""
        return tuple(step for step in self.steps if step.became in wanted)
