"""Whether a failback may begin or continue, and which outstanding actions it settles."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from drctl.engine.failback_state import OutstandingAction
from drctl.engine.kind import Description, Facts, Polling, Readback, State, Trait
from drctl.engine.ports import LinkReader
from drctl.model.errors import Refused
from drctl.model.finding import Status
from drctl.steps.commands import COMMAND_FENCE
from drctl.steps.commit_offsets import CommitOffsets, VerifyGroups
from drctl.steps.enable_writes import EnableWrites
from drctl.steps.fences import (
    COMMAND_FENCE_RETURNED,
    FENCE_PRODUCERS,
    FENCE_RETURNED,
    MANUAL_FENCE_RETURNED,
)
from drctl.steps.groups import PrepareGroups
from drctl.steps.manual import MANUAL_FENCE
from drctl.steps.producer_ids import AdvanceProducerIds
from drctl.steps.records import VERIFY_FORWARD_COPIES, VerifyCopies, VerifyFacts
from drctl.steps.start_replication import RESTART_REPLICATION
from drctl.steps.verify_clients import VerifyClients

ASKED_FOR = "way-back"
"""The mode of prechecks for a failback."""

REBUILDING = "rebuild"
"""Their mode for a rebuild, in which the returned cluster is filled again from scratch."""

STEP_ORDER = "step-order"
"""Blocks a failback in which something was done out of order."""

INTACT = "source-intact"
"""Blocks a rebuild of a cluster that has lost nothing."""

CYCLES = "replication-loops"
"""Blocks any plan while records loop between both clusters."""

UNHEALTHY = "source-unhealthy"
"""Blocks moving clients to a cluster that takes no records."""

BOTH_WAYS = "replicator-both-ways"
"""Blocks two Replicators that copy again what one of them has copied."""

PRODUCERS = "producer-ids-collide"
"""Blocks moving producers to where others with their id are remembered."""

WRITES = "reverse-writes"
"""Blocks a connector that does not write to the cluster it copies to."""

PASSED = (STEP_ORDER, INTACT, CYCLES, UNHEALTHY, BOTH_WAYS, PRODUCERS, WRITES)
"""Those that may be overridden."""


@dataclass(frozen=True, slots=True)
class OrderSettings:
    """Settings from the plan.

    Attributes:
        overrides: prechecks that are overridden, each with the reason.
        mode: of the prechecks.
    """

    target: str
    overrides: Mapping[str, str]
    mode: str = ASKED_FOR


@dataclass(frozen=True, slots=True)
class OrderFacts:
    """What is good to know, and blocks nothing."""

    warnings: tuple[str, ...]


class FailbackOrder(Polling[OrderSettings, OrderFacts, OrderFacts]):
    """What the steps that follow put right is no blocker."""

    name = "failback-order"
    traits = Trait.RUNS_PRECHECKS

    def describe(self, settings: OrderSettings) -> Description:
        """Describe the step for plans and reports."""
        title = f"check the progress and the order of the failback to {settings.target}"
        passed = ", ".join(sorted(settings.overrides)) or "none"
        lost = "nothing is lost, or"
        if settings.mode == REBUILDING:
            lost = f"{settings.target} has lost records, and nothing is"
        return Description(title, f"{lost} out of order (overridden: {passed})")

    def check(self, settings: OrderSettings, facts: Facts, reader: LinkReader) -> OrderFacts:
        """Ask.

        Raises:
            Refused: there are blockers that are not overridden; each is named.
        """
        found = [each for each in reader.findings(settings.mode) if each.status is not Status.OK]
        against = [
            each
            for each in found
            if each.status is Status.FAIL
            and not (each.check in PASSED and each.check in settings.overrides)
        ]
        if against:
            raise Refused(
                "; ".join(f"{each.subject}: {each.reason}" for each in against),
                "; ".join(dict.fromkeys(each.remedy for each in against if each.remedy)),
            )
        return OrderFacts(tuple(f"{each.check}: {each.subject}: {each.reason}" for each in found))

    def verify(self, intent: OrderFacts, reader: LinkReader) -> Readback[OrderFacts]:
        """Passes: `check` has just run them."""
        number = len(intent.warnings)
        return Readback(State.DONE, f"no blockers; {number} warnings", intent)


_SHOWN = 3
_BY_A_PERSON = "confirmed by the operator"


@dataclass(frozen=True, slots=True)
class ResolveSettings:
    """What a plan says; plans of an older drctl name no clusters: no proof is about one then.

    Attributes:
        question: by its id, whether what nothing has proven is settled.
    """

    source: str = ""
    target: str = ""
    question: str = ""


@dataclass(frozen=True, slots=True)
class ResolveIntent:
    """What earlier runs left.

    Attributes:
        settled: actions with the proof that settles them, in words.
        kept: those that none settles.
    """

    question: str
    settled: tuple[str, ...]
    kept: tuple[OutstandingAction, ...]


@dataclass(frozen=True, slots=True)
class ResolveFacts:
    """The same, with what a person knows."""

    settled: tuple[str, ...] = ()
    kept: tuple[OutstandingAction, ...] = ()


class ResolveOutstanding(Polling[ResolveSettings, ResolveIntent, ResolveFacts]):
    """The proofs of this run settle the outstanding actions they are about, and nothing else."""

    name = "resolve-outstanding"
    traits = Trait.NONE

    def describe(self, settings: ResolveSettings) -> Description:
        """Describe the step for plans and reports."""
        proof = "each action is listed with the proof that resolves it; all others stay outstanding"
        return Description("resolve the outstanding actions of earlier runs", proof)

    def check(self, settings: ResolveSettings, facts: Facts, reader: LinkReader) -> ResolveIntent:
        """What they owe, and what of it is settled.

        Raises:
            Unreachable: the journal did not respond.
        """
        shown, settled, kept = Shown(settings.source, settings.target, facts), [], []
        for each in reader.outstanding():
            if why := settled_by(each, shown):
                settled.append(_told(each, why))
            else:
                kept.append(each)
        return ResolveIntent(settings.question, tuple(settled), tuple(kept))

    def verify(self, intent: ResolveIntent, reader: LinkReader) -> Readback[ResolveFacts]:
        """What is settled; what is not stays owed, unless a person knows better."""
        settled, kept, question = intent.settled, intent.kept, intent.question
        if kept and question and reader.answer(question, _asked(kept)):
            settled, kept = (*settled, *(_told(each, _BY_A_PERSON) for each in kept)), ()
        facts = ResolveFacts(settled, kept)
        words = f"{len(settled)} outstanding actions are resolved"
        if not kept:
            words = words if settled else "no outstanding actions"
            return Readback(State.DONE, words, facts, settled)
        words = f"{words}, {len(kept)} remain"
        shown = "; ".join(map(_named, kept[:_SHOWN]))
        more = f"; and {len(kept) - _SHOWN} more" if len(kept) > _SHOWN else ""
        outstanding = f"no proof resolves: {shown}{more}"
        if question:
            outstanding += f"; once it is done, pass --answer {question}=yes to the next failback"
        items = (*settled, *(f"still outstanding: {_named(each)}" for each in kept))
        return Readback(State.DONE, words, facts, items, outstanding)


def _told(each: OutstandingAction, why: str) -> str:
    return f"{_named(each)}: {why}"


def _named(each: OutstandingAction) -> str:
    return f"{each.what} (run {each.run})"


def _asked(kept: tuple[OutstandingAction, ...]) -> str:
    return f"is this resolved? No proof covers it: {'; '.join(map(_named, kept))}"


_CLOSED = tuple(
    each.name for each in (FENCE_RETURNED, COMMAND_FENCE_RETURNED, MANUAL_FENCE_RETURNED)
)
_FENCED = tuple(each.name for each in (FENCE_PRODUCERS, COMMAND_FENCE, MANUAL_FENCE))
_PRIMARY, _SECONDARY = VerifyCopies.name, VERIFY_FORWARD_COPIES


@dataclass(frozen=True, slots=True)
class Shown:
    """What a failback has proven.

    Attributes:
        left: the cluster that clients have left.
        home: the cluster to which they have failed back.
        facts: of its steps, by kind.
    """

    left: str
    home: str
    facts: Facts

    def any_of(self, kinds: Collection[str]) -> bool:
        """Whether a step of one of these kinds is done."""
        return any(kind in self.facts for kind in kinds)


def settled_by(outstanding: OutstandingAction, shown: Shown) -> str:
    """The proof that settles it, in words; empty where there is none."""
    if outstanding.fences:
        return _fence(outstanding, shown)
    proof = _PROOFS.get(outstanding.kind)
    return proof(outstanding, shown) if proof else ""


def _fence(outstanding: OutstandingAction, shown: Shown) -> str:
    """A fence that was not set, or that something came through."""
    if outstanding.source == shown.home and shown.any_of(_CLOSED) and _SECONDARY in shown.facts:
        return (
            f"{shown.home} was fenced before its records were found, and {shown.left} is"
            f" missing none"
            " but what was decided on (verify-secondary)"
        )
    if outstanding.source == shown.left and shown.any_of(_FENCED) and _PRIMARY in shown.facts:
        return (
            f"{shown.left} was fenced, and {shown.home} is missing nothing of it (verify-primary)"
        )
    return ""


def _of_clients(outstanding: OutstandingAction, shown: Shown) -> str:
    """What clients needed on the cluster to which they were moved."""
    if (
        outstanding.target == shown.left
        and shown.any_of(_FENCED)
        and VerifyClients.name in shown.facts
    ):
        return f"{shown.left} is fenced, and clients have left it (verify-clients)"
    return ""


def _second_copies(outstanding: OutstandingAction, shown: Shown) -> str:
    cluster = outstanding.target if outstanding.kind == _PRIMARY else outstanding.source
    proof, step = (
        (_PRIMARY, "verify-primary") if cluster == shown.home else (_SECONDARY, "verify-secondary")
    )
    proven = shown.facts.named(proof, VerifyFacts)
    if proven and not proven.duplicated:
        return f"{cluster} holds no record twice ({step})"
    return ""


def _copied_back(outstanding: OutstandingAction, shown: Shown) -> str:
    """What was to be replicated to the cluster that is active again."""
    if outstanding.source == shown.home and _PRIMARY in shown.facts:
        return f"{shown.home} has every record of {shown.left} (verify-primary)"
    return ""


def _positions(outstanding: OutstandingAction, shown: Shown) -> str:
    """Groups that had no offset to resume from, or were moved back."""
    put, proven = shown.facts.of(CommitOffsets()), shown.facts.of(VerifyGroups())
    if not put or not proven or proven.wrong != 0:
        return ""
    if outstanding.groups and all(group in put.stand for group in outstanding.groups):
        names = ", ".join(outstanding.groups)
        return f"{names}: each has a committed offset on {shown.home} now (verify-groups)"
    return ""


_PROOFS: Mapping[str, Callable[[OutstandingAction, Shown], str]] = {
    PrepareGroups.name: _of_clients,
    AdvanceProducerIds.name: _of_clients,
    EnableWrites.name: _of_clients,
    _PRIMARY: _second_copies,
    _SECONDARY: _second_copies,
    RESTART_REPLICATION: _copied_back,
    CommitOffsets.name: _positions,
    VerifyGroups.name: _positions,
}
