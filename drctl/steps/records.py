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
from drctl.model.text import plural, quote


@dataclass(frozen=True, slots=True)
class GapSettings:
    """Settings from the runbook.

    Attributes:
        scope: scope of the comparison: full or tail.
        at_most: how many records may be unreplicated; None for any number.
    """

    source: str
    target: str
    scope: str
    at_most: int | None


@dataclass(frozen=True, slots=True)
class GapIntent:
    """The scope and the limit."""

    scope: str
    at_most: int | None


@dataclass(frozen=True, slots=True)
class GapFacts:
    """How many records are not replicated."""

    unreplicated: int


class FindGap(Polling[GapSettings, GapIntent, GapFacts]):
    """Compares both clusters; fails if more records are unreplicated than allowed."""

    name = "gap"
    traits = Trait.FINDS_GAP

    def describe(self, settings: GapSettings) -> Description:
        """Describe the step for plans and reports."""
        most, proof = settings.at_most, "the comparison is complete"
        title = f"find records of {settings.source} that are not replicated to {settings.target}"
        return Description(
            title,
            proof
            if most is None
            else f"{proof}, and at most {plural(most, 'record is', 'records are')} not replicated",
        )

    def check(self, settings: GapSettings, facts: Facts, reader: LinkReader) -> GapIntent:
        """Use the settings as the intent."""
        return GapIntent(settings.scope, settings.at_most)

    def verify(self, intent: GapIntent, reader: LinkReader) -> Readback[GapFacts]:
        """Compare the clusters as they are now."""
        missing = reader.compared(intent.scope)
        if unproven := missing.unproven:
            message = f"not everything could be compared: {unproven[0]}"
            return Readback(State.UNKNOWN, message, items=unproven)
        message = (
            f"{plural(missing.records, 'record is', 'records are')} not replicated to the target"
        )
        if missing.duplicated:
            message += f"; {plural(missing.duplicated, 'duplicate')} on the target"
        if extra := missing.only_on_target:
            message += f"; {plural(extra, 'record is', 'records are')} only on the target"
        facts, most = GapFacts(missing.records), intent.at_most
        if most is not None and missing.records > most:
            return Readback(
                State.FAILED, f"{message}; the limit is {most:,}", facts, missing.partitions
            )
        return Readback(State.DONE, message, facts, missing.partitions)


@dataclass(frozen=True, slots=True)
class FindSettings(BothClusters):
    """Settings from the plan.

    Attributes:
        rebuild: whether the recovered cluster will be emptied.
    """

    rebuild: bool = False


class FindMissing(Polling[FindSettings, Search, Search]):
    """Compares everything, or reuses the result on which valid decisions are based."""

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
        """Find the records.

        Raises:
            Refused: the result is not reliable.
            Unknown: not everything could be compared.
        """
        return reader.search_before_rebuild() if settings.rebuild else reader.search_result()

    def verify(self, intent: Search, reader: LinkReader) -> Readback[Search]:
        """Report what was found."""
        message = f"{plural(intent.unreplicated, 'record')} ({intent.summary}); {intent.folder}"
        if not intent.folder:
            message = "the recovered cluster holds no records"
        elif intent.aside:
            message = (
                f"{message}; the surviving cluster has since compacted or deleted"
                f" {intent.aside:,} more"
            )
        return Readback(State.DONE, message, intent)


FIND_REVERSE = "find-missing-reverse"
"""The name of `FindMissing` for records that only the surviving cluster has."""


def found(facts: Facts, kind: str = FindMissing.name) -> Search:
    """The search result of the step of this kind, by default find-missing.

    Raises:
        Refused: the step was not done.
    """
    search = facts.named(kind, Search)
    if search is None:
        raise Refused(f"step {kind} has not been done")
    return search


_STAYS = "reconciled records stay reconciled, and the next run recognizes them"
COPY, DISCARD = "copy", "discard"


@dataclass(frozen=True, slots=True)
class DecideSettings(BothClusters):
    """The policies for the records; see `ReconcileRequest`."""

    policy: str | None
    topics: tuple[str, ...]
    conflicting: str


@dataclass(frozen=True, kw_only=True)
class ReconcileIntent(ReconcileRequest):
    """The policies, and the work to do.

    Attributes:
        due: how many records are not reconciled yet.
        newer: how many safe records will follow newer records that were appended since.
    """

    due: int
    newer: int = 0


@dataclass(frozen=True, slots=True)
class ReconcileFacts:
    """The result for the records.

    Attributes:
        given_up: how many records are not copied, as decided.
        done: how many records each action was applied to.
    """

    given_up: int
    done: Mapping[str, int] = field(default_factory=dict)


class Reconcile(Permanent[DecideSettings, ReconcileIntent, ReconcileFacts]):
    """Reconciles each record once, in partition order, also after a crash."""

    name = "reconcile"
    traits = Trait.CHANGES | Trait.RECONCILES | Trait.OPPOSITE_DIRECTION | Trait.IRREVERSIBLE

    def describe(self, settings: DecideSettings) -> Description:
        """Describe the step for plans and reports."""
        policies = ", ".join(settings.topics) or settings.policy or "no policy"
        title = f"reconcile these records: {policies}; conflicting records: {settings.conflicting}"
        proof = f"all of them are recorded on {settings.source} as reconciled"
        return Description(title, proof, f"none: {_STAYS}")

    def check(self, settings: DecideSettings, facts: Facts, reader: LinkReader) -> ReconcileIntent:
        """Count the records to reconcile.

        Raises:
            Refused: some records have no policy, or cannot be reconciled.
            Unknown: the result is on another host, or not everything could be compared.
        """
        search, due, newer = found(facts), 0, 0
        if search.unreplicated:
            progress = reader.reconciliation(_request(settings, search))
            if progress.refused:
                raise Refused("; ".join(progress.refused), "choose --policy and --conflicting")
            due, newer = progress.due, progress.newer
        return ReconcileIntent(
            **vars(_request(settings, search)) | {"records": search.unreplicated},
            due=due,
            newer=newer,
        )

    def apply(self, intent: ReconcileIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Reconcile what is left; an interrupted run continues where it stopped."""
        if intent.due:
            writer.reconcile(intent)
        return ()

    def verify(self, intent: ReconcileIntent, reader: LinkReader) -> Readback[ReconcileFacts]:
        """Verify that all records are reconciled."""
        if not intent.records:
            return Readback(State.DONE, "there are no records to reconcile", ReconcileFacts(0))
        progress = reader.reconciliation(intent)
        if progress.due or progress.refused:
            message = f"records not reconciled yet: {progress.due:,} of {intent.records:,}"
            return Readback(State.WAITING, message, items=progress.refused)
        done = dict(sorted(progress.done.items()))
        summary = _summary(done)
        left = sum(number for what, number in done.items() if what != COPY)
        # On another host, the search was repeated and may find nothing missing any more.
        message = (
            f"all reconciled ({summary})" if summary else "none of the records is missing any more"
        )
        if intent.newer:
            message += (
                f"; {plural(intent.newer, 'safe record was', 'safe records were')} appended"
                " after newer ones written meanwhile"
            )
        return Readback(State.DONE, message, ReconcileFacts(left, done))

    def verify_undo(self, intent: ReconcileIntent, reader: LinkReader) -> Readback[ReconcileFacts]:
        """Report that the effect stays."""
        return Readback(State.DONE, _STAYS, leaves_changes=bool(intent.due))


@dataclass(frozen=True, kw_only=True)
class ResultSettings(ReconcileRequest):
    """The policies for the records of a result of `drctl gap`.

    Attributes:
        out: folder of an export; empty for a folder in `state_dir`.
    """

    target: str
    out: str = ""
    overrides: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ResultIntent(ResultSettings):
    """The policies, and the work to do.

    Attributes:
        due: how many records are not reconciled yet.
        before: how many records were reconciled before.
    """

    due: int
    before: int


class ReconcileResult(Permanent[ResultSettings, ResultIntent, ReconcileFacts]):
    """Reconciles all records that are not refused; an interrupted run resumes where it stopped."""

    name = "reconcile-result"
    # It runs its own prechecks, and finds the records that it appended by their header.
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
        policies = ", ".join(settings.topics) or settings.policy or "no policy"
        return Description(
            f"reconcile {plural(settings.records, 'record')} of gap result"
            f" {settings.result}: {policies};"
            f" conflicting records: {settings.conflicting}",
            f"all of them are recorded on {settings.target} as reconciled",
            f"none: {_STAYS}",
        )

    def check(self, settings: ResultSettings, facts: Facts, reader: LinkReader) -> ResultIntent:
        """Run every precheck again.

        Raises:
            Refused: a precheck fails.
            Unknown: the result is on another host, or a cluster did not respond.
        """
        progress = reader.reconciliation(settings)
        return ResultIntent(**vars(settings), due=progress.due, before=sum(progress.done.values()))

    def apply(self, intent: ResultIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Reconcile what is left."""
        writer.reconcile(intent)
        return ()

    def verify(self, intent: ResultIntent, reader: LinkReader) -> Readback[ReconcileFacts]:
        """Verify that all records are reconciled."""
        progress = reader.reconciliation(intent)
        done = dict(sorted(progress.done.items()))
        summary = _summary(done) or "nothing is done yet"
        if progress.due:
            return Readback(
                State.WAITING, f"{summary}; {plural(progress.due, 'record is', 'records are')} left"
            )
        if progress.refused:
            message = f"{summary}; refused: {'; '.join(progress.refused)}"
            return Readback(State.FAILED, message, items=progress.refused)
        left = sum(number for what, number in done.items() if what != COPY)
        return Readback(State.DONE, f"all reconciled ({summary})", ReconcileFacts(left, done))

    def verify_undo(self, intent: ResultIntent, reader: LinkReader) -> Readback[ReconcileFacts]:
        """Report that the effect stays."""
        done = sum(reader.reconciliation(intent).done.values()) - intent.before
        if done <= 0:
            return Readback(State.DONE, "no record was changed")
        return Readback(State.DONE, f"{plural(done, 'record')}: {_STAYS}", leaves_changes=True)


def _summary(done: Mapping[str, int]) -> str:
    """Such as `copy: 1,998, quarantine: 2`."""
    return ", ".join(f"{what}: {number:,}" for what, number in done.items())


def discards(plan: Plan) -> str:
    """What a plan discards, such as `unreplicated records of audit`; empty for nothing."""
    return ", ".join(dict.fromkeys(message for step in plan.steps for message in _discarded(step)))


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
    """Counts by class, as in `Search`, and how many records are not reconciled yet."""

    safe: int
    conflicting: int
    unkeyed: int
    due: int


class ClassifyRecords(Polling[DecideSettings, ClassifyFacts, ClassifyFacts]):
    """Classifies records, and refuses if some have no policy."""

    name = "classify-records"
    traits = Trait.RUNS_PRECHECKS | Trait.OPPOSITE_DIRECTION

    def describe(self, settings: DecideSettings) -> Description:
        """Describe the step for plans and reports."""
        title = "classify these records as safe, conflicting or unkeyed"
        return Description(title, "each of them has a decision")

    def check(self, settings: DecideSettings, facts: Facts, reader: LinkReader) -> ClassifyFacts:
        """Check that the policies cover all records.

        Raises:
            Refused: some records have no policy, or cannot be reconciled.
        """
        search, due = found(facts), 0
        if search.unreplicated:
            progress = reader.reconciliation(_request(settings, search))
            if progress.refused:
                raise Refused(
                    f"of {search.unreplicated:,} records that only {settings.target} has"
                    f" ({search.summary}): {'; '.join(progress.refused)}",
                    "choose --policy copy|quarantine|export|discard, and --conflicting likewise;"
                    f" inspect the records: drctl reconcile {quote(search.folder)} --policy copy",
                )
            due = progress.due
        return ClassifyFacts(search.safe, search.conflicting, search.unkeyed, due)

    def verify(self, intent: ClassifyFacts, reader: LinkReader) -> Readback[ClassifyFacts]:
        """Report the counts."""
        counts = (
            f"{intent.safe:,} safe, {intent.conflicting:,} conflicting, {intent.unkeyed:,} unkeyed"
        )
        return Readback(State.DONE, f"{counts}; each has a decision", intent)


VERIFY_FORWARD_COPIES = "verify-forward-copies"
"""The name of `VerifyCopies` in the direction in which replication ran before the loss."""


@dataclass(frozen=True, slots=True)
class VerifySettings(BothClusters):
    """Settings from the plan.

    Attributes:
        forward: whether to verify forward replication, as it ran before the loss.
        emptied: whether the recovered cluster was emptied or truncated since.
    """

    forward: bool
    emptied: bool = False


@dataclass(frozen=True, slots=True)
class VerifyIntent:
    """The differences that are allowed.

    Equal records are counted: a second copy on one side counts as missing on the other.

    Attributes:
        may_miss: how many records may be missing, as decided.
        second_copies: how many second copies the source holds.
        twice_before: how many records the target held twice before.
        refilled: the source, if replication writes to it again and may add second copies.
    """

    target: str
    may_miss: int
    second_copies: int = 0
    twice_before: int = 0
    refilled: str = ""


@dataclass(frozen=True, slots=True)
class VerifyFacts:
    """How many records are missing, and how many are duplicates."""

    missing: int
    duplicated: int


class VerifyCopies(Polling[VerifySettings, VerifyIntent, VerifyFacts]):
    """Verifies that all records arrived that were to be copied; waits for records in flight."""

    name = "verify-copies"
    traits = Trait.VERIFIES

    def describe(self, settings: VerifySettings) -> Description:
        """Describe the step for plans and reports."""
        title = f"verify that {settings.target} has every record of {settings.source}"
        proof = "no record that was to be copied is missing; there are no duplicates"
        return Description(title, proof)

    def check(self, settings: VerifySettings, facts: Facts, reader: LinkReader) -> VerifyIntent:
        """Derive the allowed differences from earlier steps."""
        search, decided = facts.of(FindMissing()), facts.of(Reconcile())
        primary = facts.of(VerifyCopies())
        twice_on_source = search.duplicated if search else 0
        if not settings.forward:
            return VerifyIntent(settings.target, 0, twice_on_source, refilled=settings.source)
        # An emptied cluster no longer has the records that were not copied.
        may_miss = decided.given_up if decided and not settings.emptied else 0
        return VerifyIntent(
            settings.target, may_miss, primary.duplicated if primary else 0, twice_on_source
        )

    def verify(self, intent: VerifyIntent, reader: LinkReader) -> Readback[VerifyFacts]:
        """Compare the clusters as they are now."""
        found = reader.proof()
        if unproven := found.unproven:
            message = f"not everything could be compared: {unproven[0]}"
            return Readback(State.WAITING, message, items=unproven)
        target, source, known = intent.target, intent.refilled, intent.second_copies
        missing = found.but_for(known)
        new = min(missing, max(0, found.repeated - known)) if source else 0
        missing -= new
        if (unexpected := missing - intent.may_miss) > 0:
            message = f"{target} is missing {plural(unexpected, 'record')} that should be there"
            return Readback(State.WAITING, message, items=found.partitions)
        twice = found.duplicated - intent.twice_before
        left = f"only {plural(missing, 'record')} that were quarantined, exported or discarded"
        message = f"{target} is missing {left if missing else 'no records'}"
        message += f"; {plural(twice, 'duplicate')}" if twice > 0 else "; no duplicates"
        held = [
            f"{cluster} holds {plural(number, 'duplicate record')}"
            for cluster, number in ((target, twice), (source, new))
            if number > 0
        ]
        facts = VerifyFacts(missing, found.duplicated)
        return Readback(State.DONE, message, facts, outstanding="; ".join(held))
