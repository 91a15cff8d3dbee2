"""Results of elections, as observed afterwards, not as the controller reported them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from drctl.elections.cluster_state import Declined, ElectionReader, Kind, PartitionStates
from drctl.elections.loss import lost_after
from drctl.elections.planning import Action, Aim, Blocker, ElectionPlan, Line, Precheck
from drctl.model.errors import ExitCode
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable


class Outcome(StrEnum):
    """The outcome for a partition."""

    ELECTED = "elected"
    NOT_NEEDED = "not-needed"
    REFUSED = "refused"
    FAILED = "failed"
    """The controller reported an error, and the expected leader does not lead."""
    UNKNOWN = "unknown"
    """Requested, but not observed."""


@dataclass(frozen=True, slots=True)
class ElectionOutcome:
    """The outcome of one election, as observed.

    Attributes:
        leader: the current leader; None without a leader.
        cut: end offset of the remaining log at the election, from the new leader's epochs; None
            for elections that lose nothing.
        reason: why it was not elected.
    """

    outcome: Outcome
    leader: int | None = None
    cut: int | Unavailable | None = None
    reason: str = ""


def observed(
    kind: Kind,
    aims: Sequence[Aim],
    reader: ElectionReader,
    answers: Mapping[TopicPartition, Unavailable | None],
) -> Mapping[TopicPartition, ElectionOutcome]:
    """Observe the current leaders.

    Args:
        answers: the controller's answers for the requested partitions.

    Raises:
        Unreachable: no broker answered.
    """
    if not aims:
        return {}
    states = reader.look(sorted({aim.topic for aim in aims}), ())
    cuts: Mapping[TopicPartition, int | Unavailable] = {}
    epochs = {a.place: a.epoch for a in aims if a.epoch >= 0 and a.is_led(kind, states)}
    if kind is Kind.UNCLEAN and epochs:
        cuts = reader.ends_before(epochs)
    return {aim.place: _outcome(kind, aim, states, answers, cuts) for aim in aims}


def _outcome(
    kind: Kind,
    aim: Aim,
    states: PartitionStates,
    answers: Mapping[TopicPartition, Unavailable | None],
    cuts: Mapping[TopicPartition, int | Unavailable],
) -> ElectionOutcome:
    found = states.find(aim.place)
    leader = found.leader if found else None
    if aim.is_led(kind, states):
        unknown = Unavailable("the brokers do not report leader epochs")
        cut = cuts.get(aim.place, unknown) if kind is Kind.UNCLEAN else None
        return ElectionOutcome(Outcome.ELECTED, leader, cut)
    if aim.place not in answers:
        return ElectionOutcome(Outcome.UNKNOWN, leader, reason="the election was not requested")
    answer = answers[aim.place]
    if answer is not None:
        outcome = Outcome.FAILED if isinstance(answer, Declined) else Outcome.UNKNOWN
        return ElectionOutcome(outcome, leader, reason=answer.reason)
    reason = "the controller elected a leader, but no leader answers"
    return ElectionOutcome(Outcome.UNKNOWN, leader, reason=reason)


@dataclass(frozen=True, slots=True)
class LineResult:
    """One partition of a run.

    Attributes:
        blockers: why it was refused.
    """

    line: Line
    election: ElectionOutcome
    blockers: tuple[Blocker, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """The outcome."""
        return self.election.outcome

    @property
    def cut(self) -> int | Unavailable | None:
        """The end offset of the remaining log at the election."""
        return self.election.cut

    @property
    def lost(self) -> OffsetRange | None:
        """The measured loss; None if unknown."""
        loss = self.line.loss
        if loss is None or self.cut is None or loss.candidate.clean:
            return None
        return lost_after(self.cut, loss.known_end)

    @property
    def as_stated(self) -> bool | None:
        """Whether the loss is what the plan stated; None if unknown."""
        loss = self.line.loss
        if loss is None or not isinstance(self.cut, int):
            return None
        return self.cut == loss.log_end


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """A run.

    Attributes:
        run: id of the run; empty if nothing was requested.
        journal: where its journal is stored.
        resume: the command line that resumes it; empty if it ended.
    """

    plan: ElectionPlan
    results: tuple[LineResult, ...]
    run: str = ""
    journal: str = ""
    seconds: float = 0.0
    resume: str = ""

    @property
    def counts(self) -> Counter[Outcome]:
        """The number of each outcome."""
        return Counter(each.outcome for each in self.results)

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the command."""
        counts = self.counts
        if counts[Outcome.UNKNOWN] or self.resume:
            return ExitCode.UNKNOWN
        if counts[Outcome.REFUSED] or counts[Outcome.FAILED]:
            return ExitCode.STOPPED if counts[Outcome.ELECTED] else ExitCode.REFUSED
        return ExitCode.DONE

    @property
    def status(self) -> str:
        """The status of the run."""
        return self.exit_code.name.lower()


def results_of(
    plan: ElectionPlan,
    found: Mapping[TopicPartition, ElectionOutcome],
    changed: Mapping[TopicPartition, int | None],
) -> tuple[LineResult, ...]:
    """The outcome of each line of the plan.

    Args:
        changed: skipped partitions that changed since the plan, with their current leaders.
    """
    return tuple(_result_of(line, found, changed) for line in plan.lines)


def _result_of(
    line: Line,
    found: Mapping[TopicPartition, ElectionOutcome],
    changed: Mapping[TopicPartition, int | None],
) -> LineResult:
    if line.place in found:
        return LineResult(line, found[line.place])
    if line.place in changed:
        against = Blocker(
            Precheck.CHANGED, "it has changed since the plan was made: make a new plan"
        )
        return LineResult(line, ElectionOutcome(Outcome.REFUSED, changed[line.place]), (against,))
    leader = line.partition.leader if line.partition else None
    if line.action is Action.NOTHING:
        return LineResult(line, ElectionOutcome(Outcome.NOT_NEEDED, leader))
    return LineResult(line, ElectionOutcome(Outcome.REFUSED, leader), line.refused)
