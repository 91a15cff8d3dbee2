"""Checks the order of a failback, and resolves outstanding actions of earlier runs."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from drctl.connectors.moving import Prospect
from drctl.engine.failback_state import OutstandingAction
from drctl.engine.kind import Description, Facts, Polling, Readback, State, Trait
from drctl.engine.ports import LinkReader
from drctl.model.errors import Refused
from drctl.model.finding import Status
from drctl.model.text import plural
from drctl.steps.commands import COMMAND_FENCE
from drctl.steps.commit_offsets import CommitOffsets, VerifyGroups
from drctl.steps.enable_writes import EnableWrites
from drctl.steps.fences import (
    COMMAND_FENCE_RECOVERED,
    FENCE_PRODUCERS,
    FENCE_RECOVERED,
    MANUAL_FENCE_RECOVERED,
)
from drctl.steps.groups import PrepareGroups
from drctl.steps.manual import MANUAL_FENCE
from drctl.steps.producer_ids import AdvanceProducerIds
from drctl.steps.records import VERIFY_FORWARD_COPIES, VerifyCopies, VerifyFacts
from drctl.steps.source_connectors import (
    KEEP_SOURCES_STOPPED,
    MoveSourcePositions,
    ResumeSourceConnectors,
    StopSourceConnectors,
)
from drctl.steps.start_replication import RESTART_REPLICATION
from drctl.steps.verify_clients import VerifyClients

FAILBACK_MODE = "failback"
"""The mode of prechecks for a failback."""

REBUILD_MODE = "rebuild"
"""The mode of prechecks for a rebuild, which empties and refills the recovered cluster."""

STEP_ORDER = "step-order"
"""Blocks a failback whose steps were done out of order."""

INTACT = "source-intact"
"""Blocks a rebuild of a cluster that has lost no records."""

CYCLES = "replication-loops"
"""Blocks any plan while records loop between both clusters."""

UNHEALTHY = "source-unhealthy"
"""Blocks moving clients to a cluster that does not accept records."""

BOTH_WAYS = "replicator-both-ways"
"""Blocks two Replicators that replicate each other's copies."""

PRODUCERS = "producer-ids-collide"
"""Blocks moving producers to a cluster that assigned their ids to other producers."""

WRITES = "reverse-writes"
"""Blocks a connector that would not write to its target cluster."""

OVERRIDABLE = (STEP_ORDER, INTACT, CYCLES, UNHEALTHY, BOTH_WAYS, PRODUCERS, WRITES)
"""Prechecks that may be overridden."""


@dataclass(frozen=True, slots=True)
class OrderSettings:
    """Settings from the plan.

    Attributes:
        overrides: overridden prechecks, each with its reason.
        mode: the mode of the prechecks.
    """

    target: str
    overrides: Mapping[str, str]
    mode: str = FAILBACK_MODE


@dataclass(frozen=True, slots=True)
class OrderFacts:
    """Warnings: findings that block nothing."""

    warnings: tuple[str, ...]


class FailbackOrder(Polling[OrderSettings, OrderFacts, OrderFacts]):
    """Refuses a failback whose order is wrong; problems that later steps fix do not block."""

    name = "failback-order"
    traits = Trait.RUNS_PRECHECKS

    def describe(self, settings: OrderSettings) -> Description:
        """Describe the step for plans and reports."""
        title = f"check the progress and the order of the failback to {settings.target}"
        overridden = ", ".join(sorted(settings.overrides)) or "none"
        lost = "nothing is lost or"
        if settings.mode == REBUILD_MODE:
            lost = f"{settings.target} has lost records, and nothing is"
        return Description(title, f"{lost} out of order (overridden: {overridden})")

    def check(self, settings: OrderSettings, facts: Facts, reader: LinkReader) -> OrderFacts:
        """Run the prechecks.

        Raises:
            Refused: a precheck fails that is not overridden; all of them are listed.
        """
        found = [each for each in reader.findings(settings.mode) if each.status is not Status.OK]
        blockers = [
            each
            for each in found
            if each.status is Status.FAIL
            and not (each.check in OVERRIDABLE and each.check in settings.overrides)
        ]
        if blockers:
            raise Refused(
                "; ".join(f"{each.subject}: {each.reason}" for each in blockers),
                "; ".join(dict.fromkeys(each.remedy for each in blockers if each.remedy)),
            )
        return OrderFacts(tuple(f"{each.check}: {each.subject}: {each.reason}" for each in found))

    def verify(self, intent: OrderFacts, reader: LinkReader) -> Readback[OrderFacts]:
        """Pass: `check` has just run the prechecks."""
        number = len(intent.warnings)
        return Readback(State.DONE, f"no blockers; {plural(number, 'warning')}", intent)


_SHOWN = 3
_BY_A_PERSON = "confirmed by the operator"


@dataclass(frozen=True, slots=True)
class ResolveSettings:
    """Settings from the plan.

    Attributes:
        question: the id under which the operator confirms actions that no proof covers.
    """

    source: str = ""
    target: str = ""
    question: str = ""


@dataclass(frozen=True, slots=True)
class ResolveIntent:
    """The outstanding actions of earlier runs.

    Attributes:
        settled: resolved actions, each with its proof.
        kept: actions that no proof resolves.
    """

    question: str
    settled: tuple[str, ...]
    kept: tuple[OutstandingAction, ...]


@dataclass(frozen=True, slots=True)
class ResolveFacts:
    """The outstanding actions after the operator's answer."""

    settled: tuple[str, ...] = ()
    kept: tuple[OutstandingAction, ...] = ()


class ResolveOutstanding(Polling[ResolveSettings, ResolveIntent, ResolveFacts]):
    """Resolves the outstanding actions that this run's proofs cover, and no others."""

    name = "resolve-outstanding"
    traits = Trait.NONE

    def describe(self, settings: ResolveSettings) -> Description:
        """Describe the step for plans and reports."""
        proof = (
            "each resolved action is listed with the result that proves it; all others stay"
            " outstanding"
        )
        return Description("resolve the outstanding actions of earlier runs", proof)

    def check(self, settings: ResolveSettings, facts: Facts, reader: LinkReader) -> ResolveIntent:
        """Match outstanding actions with this run's proofs.

        Raises:
            Unreachable: the journal did not respond.
        """
        proven, settled, kept = Proven(settings.source, settings.target, facts), [], []
        for each in reader.outstanding():
            if why := resolved_by(each, proven):
                settled.append(_with_proof(each, why))
            else:
                kept.append(each)
        return ResolveIntent(settings.question, tuple(settled), tuple(kept))

    def verify(self, intent: ResolveIntent, reader: LinkReader) -> Readback[ResolveFacts]:
        """Report what is resolved; the operator may confirm the rest."""
        settled, kept, question = intent.settled, intent.kept, intent.question
        if kept and question and reader.answer(question, _asked(kept)):
            settled, kept = (*settled, *(_with_proof(each, _BY_A_PERSON) for each in kept)), ()
        facts = ResolveFacts(settled, kept)
        message = (
            f"{plural(len(settled), 'outstanding action is', 'outstanding actions are')} resolved"
        )
        if not kept:
            message = message if settled else "no outstanding actions"
            return Readback(State.DONE, message, facts, settled)
        message = f"{message}, {len(kept)} left"
        shown = "; ".join(map(_named, kept[:_SHOWN]))
        more = f"; and {len(kept) - _SHOWN} more" if len(kept) > _SHOWN else ""
        outstanding = f"not confirmed by this run: {shown}{more}"
        if question:
            outstanding += (
                f"; once they are done, pass --answer {question}=yes to the next failback"
            )
        items = (*settled, *(f"still outstanding: {_named(each)}" for each in kept))
        return Readback(State.DONE, message, facts, items, outstanding)


def _with_proof(each: OutstandingAction, why: str) -> str:
    return f"{_named(each)}: {why}"


def _named(each: OutstandingAction) -> str:
    return f"{each.what} (run {each.run})"


def _asked(kept: tuple[OutstandingAction, ...]) -> str:
    return f"are these actions done? This run cannot confirm them: {'; '.join(map(_named, kept))}"


_CLOSED = tuple(
    each.name for each in (FENCE_RECOVERED, COMMAND_FENCE_RECOVERED, MANUAL_FENCE_RECOVERED)
)
_FENCED = tuple(each.name for each in (FENCE_PRODUCERS, COMMAND_FENCE, MANUAL_FENCE))
_PRIMARY, _SECONDARY = VerifyCopies.name, VERIFY_FORWARD_COPIES


@dataclass(frozen=True, slots=True)
class Proven:
    """What a failback has proven.

    Attributes:
        left: the cluster that clients have left.
        returned: the cluster to which clients have failed back.
        facts: the facts of its steps, by kind.
    """

    left: str
    returned: str
    facts: Facts

    def any_of(self, kinds: Collection[str]) -> bool:
        """Whether a step of one of these kinds is done."""
        return any(kind in self.facts for kind in kinds)


def resolved_by(outstanding: OutstandingAction, proven: Proven) -> str:
    """The proof that resolves an action; empty if there is none."""
    if outstanding.fences:
        return _fence(outstanding, proven)
    proof = _PROOFS.get(outstanding.kind)
    return proof(outstanding, proven) if proof else ""


def _fence(outstanding: OutstandingAction, proven: Proven) -> str:
    """Proof that no write was lost where a fence was missing or incomplete."""
    if (
        outstanding.source == proven.returned
        and proven.any_of(_CLOSED)
        and _SECONDARY in proven.facts
    ):
        return (
            f"{proven.returned} was fenced before its records were searched, and {proven.left} is"
            " missing only records that were not to be copied (verify-secondary)"
        )
    if outstanding.source == proven.left and proven.any_of(_FENCED) and _PRIMARY in proven.facts:
        returned = proven.returned
        return f"{proven.left} was fenced, and {returned} has all of its records (verify-primary)"
    return ""


def _of_clients(outstanding: OutstandingAction, proven: Proven) -> str:
    """Proof that clients have left the cluster for which the action was outstanding."""
    if (
        outstanding.target == proven.left
        and proven.any_of(_FENCED)
        and VerifyClients.name in proven.facts
    ):
        return f"{proven.left} is fenced, and clients have left it (verify-clients)"
    return ""


def _second_copies(outstanding: OutstandingAction, proven: Proven) -> str:
    cluster = outstanding.target if outstanding.kind == _PRIMARY else outstanding.source
    proof, step = (
        (_PRIMARY, "verify-primary")
        if cluster == proven.returned
        else (_SECONDARY, "verify-secondary")
    )
    copies = proven.facts.named(proof, VerifyFacts)
    if copies and not copies.duplicated:
        return f"{cluster} holds no record twice ({step})"
    return ""


def _copied_back(outstanding: OutstandingAction, proven: Proven) -> str:
    """Proof that the recovered cluster has every record."""
    if outstanding.source == proven.returned and _PRIMARY in proven.facts:
        return f"{proven.returned} has every record of {proven.left} (verify-primary)"
    return ""


def _positions(outstanding: OutstandingAction, proven: Proven) -> str:
    """Proof that groups whose committed offset was missing or wrong now have a correct one."""
    put, verified = proven.facts.of(CommitOffsets()), proven.facts.of(VerifyGroups())
    if not put or not verified or verified.wrong != 0:
        return ""
    if outstanding.groups and all(group in put.stand for group in outstanding.groups):
        names = ", ".join(outstanding.groups)
        return f"{names}: each has a committed offset on {proven.returned} now (verify-groups)"
    return ""


def _sources_stopped(outstanding: OutstandingAction, proven: Proven) -> str:
    """Proof that the source connectors of the recovered cluster were stopped."""
    if outstanding.source == proven.returned and KEEP_SOURCES_STOPPED in proven.facts:
        return f"the source connectors of {proven.returned} were stopped before it was used again"
    return ""


def _sources_moved(outstanding: OutstandingAction, proven: Proven) -> str:
    """Proof that source connectors no longer have to run on the cluster that clients have left."""
    moved = proven.facts.of(MoveSourcePositions())
    stay = moved and any(each.prospect is Prospect.STAYS_STOPPED for each in moved.connectors)
    if outstanding.target == proven.left and moved and not stay:
        return (
            f"the source connectors of {proven.left} were moved to {proven.returned}"
            " (move-source-positions)"
        )
    return ""


_PROOFS: Mapping[str, Callable[[OutstandingAction, Proven], str]] = {
    PrepareGroups.name: _of_clients,
    AdvanceProducerIds.name: _of_clients,
    EnableWrites.name: _of_clients,
    _PRIMARY: _second_copies,
    _SECONDARY: _second_copies,
    RESTART_REPLICATION: _copied_back,
    CommitOffsets.name: _positions,
    VerifyGroups.name: _positions,
    StopSourceConnectors.name: _sources_stopped,
    MoveSourcePositions.name: _sources_moved,
    ResumeSourceConnectors.name: _sources_moved,
}
