"""Records that exist on one cluster only: found by content, classified, reconciled, verified."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from drctl.engine.failback_state import ReconcileRequest, Search
from drctl.engine.kind import (
    BothClusters,
    Description,
    Facts,
    Permanent,
    Polling,
    Readback,
    State,
    Trait,
)
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.plan import Plan, Step
from drctl.model.text import quote


@dataclass(frozen=True, slots=True)
class GapSettings:
    """Settings from the runbook.

    Attributes:
        scope: of the comparison: full or tail.
        at_most: so many records may be missing; None for any number.
    """

    source: str
    target: str
    scope: str
    at_most: int | None


@dataclass(frozen=True, slots=True)
class GapIntent:
    """The same, without the names of clusters."""

    scope: str
    at_most: int | None


@dataclass(frozen=True, slots=True)
class GapFacts:
    """How many records are missing."""

    unreplicated: int


class FindGap(Polling[GapSettings, GapIntent, GapFacts]):
    """Compares; more unreplicated records than allowed end the plan."""

    name = "gap"
    traits = Trait.FINDS_GAP

    def describe(self, settings: GapSettings) -> Description:
        """Describe the step for plans and reports."""
        most, proof = settings.at_most, "the comparison is complete"
        title = f"find records of {settings.source} that are not replicated to {settings.target}"
        return Description(
            title,
            proof if most is None else f"{proof}, and at most {most:,} records are not replicated",
        )

    def check(self, settings: GapSettings, facts: Facts, reader: LinkReader) -> GapIntent:
        """Use the settings as the intent."""
        return GapIntent(settings.scope, settings.at_most)

    def verify(self, intent: GapIntent, reader: LinkReader) -> Readback[GapFacts]:
        """What is missing now."""
        missing = reader.compared(intent.scope)
        if unproven := missing.unproven:
            words = f"not everything could be compared: {unproven[0]}"
            return Readback(State.UNKNOWN, words, items=unproven)
        words = f"{missing.records:,} records are not replicated to the target"
        facts, most = GapFacts(missing.records), intent.at_most
        if most is not None and missing.records > most:
            return Readback(
                State.FAILED, f"{words}; the limit is {most:,}", facts, missing.partitions
            )
        return Readback(State.DONE, words, facts, missing.partitions)


@dataclass(frozen=True, slots=True)
class FindSettings(BothClusters):
    """Settings from the plan.

    Attributes:
        rebuild: whether the returned cluster is to be emptied.
    """

    rebuild: bool = False


class FindMissing(Polling[FindSettings, Search, Search]):
    """Compares everything; where decisions rest on an older result that still holds, takes that."""

    name = "find-missing"
    traits = Trait.FINDS_GAP | Trait.OPPOSITE_DIRECTION

    def describe(self, settings: FindSettings) -> Description:
        """Describe the step for plans and reports."""
        begins = "" if settings.rebuild else ", and finds where new records start"
        return Description(
            f"find the records that exist only on {settings.target}",
            f"the comparison is complete{begins}",
        )

    def check(self, settings: FindSettings, facts: Facts, reader: LinkReader) -> Search:
        """Search.

        Raises:
            Refused: what was found cannot be rested on.
            Unknown: not everything could be compared.
        """
        return reader.search_before_rebuild() if settings.rebuild else reader.search_result()

    def verify(self, intent: Search, reader: LinkReader) -> Readback[Search]:
        """What was found."""
        words = f"{intent.unreplicated:,} records ({intent.summary}); {intent.folder}"
        if not intent.folder:
            words = "it holds no records at all"
        elif intent.aside:
            words = (
                f"{words}; the surviving cluster has since compacted or deleted"
                f" {intent.aside:,} more"
            )
        return Readback(State.DONE, words, intent)


def found(facts: Facts) -> Search:
    """What the search found; the plan has it first.

    Raises:
        Refused: it has none.
    """
    search = facts.of(FindMissing())
    if search is None:
        raise Refused(f"no step {FindMissing.name} was done before")
    return search


_STAYS = "reconciled records stay reconciled: the next run finds them"
COPY, DISCARD = "copy", "discard"


@dataclass(frozen=True, slots=True)
class DecideSettings(BothClusters):
    """What becomes of the records; see `ReconcileRequest`."""

    policy: str | None
    topics: tuple[str, ...]
    conflicting: str


@dataclass(frozen=True, kw_only=True)
class ReconcileIntent(ReconcileRequest):
    """What is to be done.

    Attributes:
        due: records that something is still to be done with.
        newer: safe ones of which something newer was written since.
    """

    due: int
    newer: int = 0


@dataclass(frozen=True, slots=True)
class ReconcileFacts:
    """What became of the records.

    Attributes:
        left_behind: that are not copied, as was decided.
        done: by what became of them, how many.
    """

    left_behind: int
    done: Mapping[str, int] = field(default_factory=dict)


class Reconcile(Permanent[DecideSettings, ReconcileIntent, ReconcileFacts]):
    """Reconciles each record once, in partition order, also after a crash."""

    name = "reconcile"
    traits = Trait.CHANGES | Trait.RECONCILES | Trait.OPPOSITE_DIRECTION | Trait.IRREVERSIBLE

    def describe(self, settings: DecideSettings) -> Description:
        """Describe the step for plans and reports."""
        told = ", ".join(settings.topics) or settings.policy or "no policy"
        title = f"reconcile these records: {told}; conflicting records: {settings.conflicting}"
        proof = f"{settings.source} records that all of them are reconciled"
        return Description(title, proof, f"none: {_STAYS}")

    def check(self, settings: DecideSettings, facts: Facts, reader: LinkReader) -> ReconcileIntent:
        """What there is to do.

        Raises:
            Refused: some records have no decision, or must not be acted upon.
            Unknown: the result is elsewhere, and not everything could be compared.
        """
        search, due, newer = found(facts), 0, 0
        if search.unreplicated:
            stands = reader.reconciliation(_request(settings, search))
            if stands.refused:
                raise Refused("; ".join(stands.refused), "choose --policy and --conflicting")
            due, newer = stands.due, stands.newer
        return ReconcileIntent(
            **vars(_request(settings, search)) | {"records": search.unreplicated},
            due=due,
            newer=newer,
        )

    def apply(self, intent: ReconcileIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Do what is left; a run that was interrupted continues where it was."""
        if intent.due:
            writer.reconcile(intent)
        return ()

    def verify(self, intent: ReconcileIntent, reader: LinkReader) -> Readback[ReconcileFacts]:
        """Whether something is left."""
        if not intent.records:
            return Readback(State.DONE, "there are no records to reconcile", ReconcileFacts(0))
        stands = reader.reconciliation(intent)
        if stands.due or stands.refused:
            words = f"{stands.due:,} of {intent.records:,} records are not reconciled yet"
            return Readback(State.WAITING, words, items=stands.refused)
        done = dict(sorted(stands.done.items()))
        told = ", ".join(f"{number:,} {what}" for what, number in done.items())
        left = sum(number for what, number in done.items() if what != COPY)
        # On another machine than that of the run the search was repeated, and found none.
        words = f"all reconciled: {told}" if told else "none of them is missing any more"
        if intent.newer:
            words += f"; {intent.newer:,} safe records were appended after newer ones written since"
        return Readback(State.DONE, words, ReconcileFacts(left, done))

    def verify_undo(self, intent: ReconcileIntent, reader: LinkReader) -> Readback[ReconcileFacts]:
        """Report that the effect stays."""
        return Readback(State.DONE, _STAYS, leaves_changes=bool(intent.due))


@dataclass(frozen=True, kw_only=True)
class ResultSettings(ReconcileRequest):
    """What is to become of the records of a result of `drctl gap`.

    Attributes:
        out: folder of an export; empty for one in the state_dir.
    """

    target: str
    out: str = ""
    overrides: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ResultIntent(ResultSettings):
    """The same, and what is to be done.

    Attributes:
        due: records that something is still to be done with.
        before: records that are done already.
    """

    due: int
    before: int


class ReconcileResult(Permanent[ResultSettings, ResultIntent, ReconcileFacts]):
    """Skips refused records and ends the run; an interrupted run resumes where it stopped."""

    name = "reconcile-result"
    # It asks its own prechecks, and what it appends is found by its header.
    traits = (
        Trait.RUNS_PRECHECKS
        | Trait.SNAPSHOTS_STATE
        | Trait.FINDS_GAP
        | Trait.CHANGES
        | Trait.RECONCILES
        | Trait.IRREVERSIBLE
    )

    def describe(self, settings: ResultSettings) -> Description:
        """Describe the step for plans and reports."""
        told = ", ".join(settings.topics) or settings.policy or "no policy"
        return Description(
            f"reconcile {settings.records:,} records of gap result {settings.result}: {told};"
            f" conflicting records: {settings.conflicting}",
            f"{settings.target} records that all of them are reconciled",
            f"none: {_STAYS}",
        )

    def check(self, settings: ResultSettings, facts: Facts, reader: LinkReader) -> ResultIntent:
        """Ask every precheck again.

        Raises:
            Refused: one of them stands against it.
            Unknown: the result is elsewhere, or a cluster did not respond.
        """
        stands = reader.reconciliation(settings)
        return ResultIntent(**vars(settings), due=stands.due, before=sum(stands.done.values()))

    def apply(self, intent: ResultIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Do what is left."""
        writer.reconcile(intent)
        return ()

    def verify(self, intent: ResultIntent, reader: LinkReader) -> Readback[ReconcileFacts]:
        """What is left of it."""
        stands = reader.reconciliation(intent)
        done = dict(sorted(stands.done.items()))
        told = (
            ", ".join(f"{number:,} {what}" for what, number in done.items())
            or "nothing is done yet"
        )
        if stands.due:
            return Readback(State.WAITING, f"{told}; {stands.due:,} records are left")
        if stands.refused:
            words = f"{told}; refused: {'; '.join(stands.refused)}"
            return Readback(State.FAILED, words, items=stands.refused)
        left = sum(number for what, number in done.items() if what != COPY)
        return Readback(State.DONE, f"all reconciled: {told}", ReconcileFacts(left, done))

    def verify_undo(self, intent: ResultIntent, reader: LinkReader) -> Readback[ReconcileFacts]:
        """Report that the effect stays."""
        done = sum(reader.reconciliation(intent).done.values()) - intent.before
        if done <= 0:
            return Readback(State.DONE, "no record was changed")
        return Readback(State.DONE, f"{done:,} records: {_STAYS}", leaves_changes=True)


def discards(plan: Plan) -> str:
    """What a plan gives up for good, such as `unreplicated records of audit`; empty for nothing."""
    return ", ".join(dict.fromkeys(words for step in plan.steps for words in _discarded(step)))


def _discarded(step: Step) -> Iterator[str]:
    settings: DecideSettings | ResultSettings
    if step.kind == Reconcile.name:
        settings = Reconcile().read_settings(step.settings)
    elif step.kind == ReconcileResult.name:
        settings = ReconcileResult().read_settings(step.settings)
    else:
        return
    for text in settings.topics:
        topic, named, own = text.partition("=")
        if (own if named else settings.policy) == DISCARD:
            yield f"unreplicated records of {topic}"
        if settings.conflicting == DISCARD:
            yield f"conflicting records of {topic}"


def _request(settings: DecideSettings, search: Search) -> ReconcileRequest:
    return ReconcileRequest(
        folder=search.folder,
        result=search.id,
        policy=settings.policy,
        topics=settings.topics,
        conflicting=settings.conflicting,
    )


@dataclass(frozen=True, slots=True)
class ClassifyFacts:
    """What was judged: counts of a `Search`, and records that something is to be done with."""

    safe: int
    conflicting: int
    unkeyed: int
    due: int


class ClassifyRecords(Polling[DecideSettings, ClassifyFacts, ClassifyFacts]):
    """Refuses where some of them have no decision."""

    name = "classify-records"
    traits = Trait.RUNS_PRECHECKS | Trait.OPPOSITE_DIRECTION

    def describe(self, settings: DecideSettings) -> Description:
        """Describe the step for plans and reports."""
        return Description("classify these records by order", "each of them has a decision")

    def check(self, settings: DecideSettings, facts: Facts, reader: LinkReader) -> ClassifyFacts:
        """Hold the policies against what was found.

        Raises:
            Refused: some records have no decision, or must not be acted upon.
        """
        search, due = found(facts), 0
        if search.unreplicated:
            stands = reader.reconciliation(_request(settings, search))
            if stands.refused:
                raise Refused(
                    f"of {search.unreplicated:,} records that only {settings.target} has"
                    f" ({search.summary}): {'; '.join(stands.refused)}",
                    "choose --policy copy|quarantine|export|discard, and --conflicting likewise;"
                    f" inspect them: drctl reconcile {quote(search.folder)} --policy copy",
                )
            due = stands.due
        return ClassifyFacts(search.safe, search.conflicting, search.unkeyed, due)

    def verify(self, intent: ClassifyFacts, reader: LinkReader) -> Readback[ClassifyFacts]:
        """What was judged."""
        told = (
            f"{intent.safe:,} safe, {intent.conflicting:,} conflicting, {intent.unkeyed:,} unkeyed"
        )
        return Readback(State.DONE, f"{told}; each has a decision", intent)


VERIFY_FORWARD_COPIES = "verify-forward-copies"
"""The name of `VerifyCopies` in the direction in which replication ran before the loss."""


@dataclass(frozen=True, slots=True)
class VerifySettings(BothClusters):
    """Settings from the plan.

    Attributes:
        forward: whether it is about the replication as it was before the loss.
        emptied: whether the source of the loss was emptied, or cut off, since.
    """

    forward: bool
    emptied: bool = False


@dataclass(frozen=True, slots=True)
class VerifyIntent:
    """What may differ.

    Equal records are counted: a second copy on one side is missing on the other.

    Attributes:
        may_lack: records that may be missing, as was decided.
        second_copies: that the source holds.
        twice_before: that the target held twice before.
    """

    target: str
    may_lack: int
    second_copies: int = 0
    twice_before: int = 0


@dataclass(frozen=True, slots=True)
class VerifyFacts:
    """How many records are missing, and how many are there more often than once."""

    missing: int
    duplicated: int


class VerifyCopies(Polling[VerifySettings, VerifyIntent, VerifyFacts]):
    """Verifies copies: given-up records may be missing; waits for records in flight."""

    name = "verify-copies"
    traits = Trait.VERIFIES

    def describe(self, settings: VerifySettings) -> Description:
        """Describe the step for plans and reports."""
        title = f"verify that {settings.target} has every record of {settings.source}"
        return Description(
            title, "only records that were given up are missing, and there are no duplicates"
        )

    def check(self, settings: VerifySettings, facts: Facts, reader: LinkReader) -> VerifyIntent:
        """What may be missing, what was there twice before, and what is twice on the source."""
        search, decided = facts.of(FindMissing()), facts.of(Reconcile())
        home = facts.of(VerifyCopies())
        twice_away = search.duplicated if search else 0
        if not settings.forward:
            return VerifyIntent(settings.target, 0, twice_away)
        # What was emptied has none of the records left that were decided on.
        may_lack = decided.left_behind if decided and not settings.emptied else 0
        return VerifyIntent(settings.target, may_lack, home.duplicated if home else 0, twice_away)

    def verify(self, intent: VerifyIntent, reader: LinkReader) -> Readback[VerifyFacts]:
        """What a comparison finds now."""
        found = reader.proof()
        if unproven := found.unproven:
            words = f"not everything could be compared: {unproven[0]}"
            return Readback(State.WAITING, words, items=unproven)
        missing, target = found.but_for(intent.second_copies), intent.target
        if (lacks := missing - intent.may_lack) > 0:
            words = f"{target} is missing {lacks:,} records that were not given up"
            return Readback(State.WAITING, words, items=found.partitions)
        twice = found.duplicated - intent.twice_before
        words = f"{target} is missing {missing:,} records, as decided; {max(0, twice):,} duplicates"
        outstanding = f"{target} holds {twice:,} duplicate records" if twice > 0 else ""
        return Readback(
            State.DONE, words, VerifyFacts(missing, found.duplicated), outstanding=outstanding
        )
