"""The answer of `drctl failback --check-order`, document `drctl/order/1`."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple

from drctl.failback.facts import Cluster, Copies, Facts, ReverseStart
from drctl.failback.gap_results import Sample
from drctl.failback.rebuild_steps import TITLES, rebuilt
from drctl.failback.record_steps import (
    Tally,
    copied_conflicting,
    missing_records,
    offsets_with_copy,
    reconciled,
    record_order,
    returning_copies,
    tallied,
)
from drctl.failback.situation import Situation, out_of_order, rebuild_command, situation
from drctl.failback.steps import (
    Observed,
    StepState,
    caught_up,
    clients_switched,
    committed_while_active,
    done,
    fenced,
    forward_restarted,
    not_done,
    old_replication,
    proven,
    reverse_replication,
)
from drctl.model.document import Count, Document, From, Name
from drctl.model.errors import ExitCode
from drctl.model.gap import OrderVerdict
from drctl.model.text import quote
from drctl.model.topology import Unavailable


class Verdict(StrEnum):
    """Whether the steps of a failback happened in a safe order."""

    OK = "ok"
    VIOLATED = "violated"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of a command with this verdict."""
        codes = (ExitCode.DONE, ExitCode.REFUSED, ExitCode.UNKNOWN)
        return dict(zip(Verdict, codes, strict=True))[self]


@dataclass(frozen=True, slots=True)
class Violation:
    """A step that happened too early, or a change that should not have happened.

    Attributes:
        repair: the step that repairs it and is next.
        remedy: the command that repairs it, where the step alone does not.
    """

    repair: str
    message: str
    remedy: str = ""


class State(StrEnum):
    """The state of the failback as a whole."""

    NOTHING = "nothing-to-fail-back"
    UNKNOWN = "unknown"
    IN_PROGRESS = "in-progress"
    COMPLETED = "completed"


class Row(NamedTuple):
    """A step of a failback.

    Attributes:
        name: the step's name in JSON.
        needs: steps that must be done first.
        title: a template for the names of the clusters.
    """

    id: str
    name: str
    needs: tuple[str, ...]
    title: str
    look: Callable[[Situation], StepState]

    def titled(self, seen: Situation) -> str:
        """The title with cluster names; a rebuild has titles of its own."""
        title = TITLES.get(self.id, self.title) if seen.rebuilding else self.title
        return title.format(source=seen.facts.source, target=seen.facts.target)


TABLE = (
    Row("a", "source-fenced", (), "{source} is healthy and fenced", fenced),
    Row(
        "b",
        "forward-replication-stopped",
        (),
        "Replication {source} -> {target} is stopped",
        old_replication,
    ),
    Row(
        "c", "missing-records-found", ("a", "b"), "Unreplicated records are known", missing_records
    ),
    Row("d", "record-order-checked", ("c",), "Unreplicated records are classified", record_order),
    Row(
        "e",
        "missing-records-reconciled",
        ("c", "d"),
        "Unreplicated records are reconciled",
        reconciled,
    ),
    Row(
        "f",
        "reverse-replication",
        ("e",),
        "Replication {target} -> {source} runs from the boundary",
        reverse_replication,
    ),
    Row(
        "g",
        "copies-excluded",
        ("e",),
        "Reconciled records are not replicated back",
        returning_copies,
    ),
    Row("h", "wait-for-catch-up", ("f", "g"), "{source} has caught up", caught_up),
    Row("i", "clients-switched", ("h",), "Clients are switched to {source}", clients_switched),
    Row(
        "j",
        "forward-replication",
        ("i",),
        "Replication {source} -> {target} runs again",
        forward_restarted,
    ),
    Row("k", "verified", ("j",), "Both clusters are verified", proven),
)


ROWS = {row.id: row for row in TABLE}


Steps = Mapping[str, StepState]


_IN_TURN = tuple(sorted((row.id for row in TABLE), key="abcdegfhijk".index))
"""The order to work in: the filter (g) is added before reverse replication starts (f)."""


_COMPARISONS = ("c", "d")
"""Read-only steps: one that ran too early is harmless and is repeated."""


_BEFORE_THE_SWITCH = "abcdefgh"
"""Steps that leave no evidence once clients are back on the source."""


class Cause(NamedTuple):
    """Why steps are unknown."""

    why: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The state of a failback.

    Attributes:
        tally: None where no result of `drctl gap` is valid.
        next: the next step; None where nothing is left.
    """

    seen: Situation
    steps: Steps
    violations: tuple[Violation, ...]
    verdict: Verdict
    next: str | None
    tally: Tally | None

    @property
    def state(self) -> "State":
        """Whether a failback is needed, in progress or completed."""
        if self.seen.not_needed:
            return State.NOTHING
        if self.seen.unclear:
            return State.UNKNOWN
        over = bool(self.seen.failed_back) and self.next is None
        return State.COMPLETED if over else State.IN_PROGRESS

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Examples of unreplicated records; none where no result is valid."""
        return self.seen.gap.valid.samples if self.seen.gap.valid else ()

    @property
    def unknown(self) -> Mapping[str, str]:
        """Steps whose state is unknown, and why."""
        return {
            name: each.why for name, each in self.steps.items() if each.observed is Observed.UNKNOWN
        }

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Why steps are unknown, each cause once; the cause that affects most steps first."""
        found: dict[str, list[str]] = defaultdict(list)
        reasons = self.seen.facts.unavailable
        of: dict[str, str] = {}
        for name, why in self.unknown.items():
            needed = of.get(why[-2:-1] if why.endswith(")") and "(step " in why else "", "")
            of[name] = needed or next((each for each in reasons if each in why), why)
            found[of[name]].append(name)
        causes = (
            Cause(why if len(names) > 1 else self.unknown[names[0]], tuple(names))
            for why, names in found.items()
        )
        return tuple(sorted(causes, key=lambda each: -len(each.steps)))


StepId = Annotated[str, ("enum", tuple(row.id for row in TABLE))]
StepName = Annotated[str, ("enum", tuple(row.name for row in TABLE))]


class ExampleDocument(Document):
    """An example of an unreplicated record.

    Attributes:
        timestamp: milliseconds UTC.
        key: null for a null key; bytes that are not UTF-8 are escaped.
    """

    read = From(Sample)
    topic: Name = read(lambda each: each.place.topic)
    partition: Count = read(lambda each: each.place.partition)
    offset: Count
    timestamp: int = read(lambda each: each.timestamp_ms)
    key: str | None = read(
        lambda each: None if each.key is None else each.key.decode(errors="backslashreplace")
    )
    order: Literal["safe", "conflicting", "unkeyed"]


class RecordsDocument(Document):
    """Unreplicated records by the effect that copying them would have on order."""

    read = From(Answer)
    safe: Count | None = read(lambda a: a.tally.safe if a.tally else None)
    conflicting: Count | None = read(lambda a: a.tally.conflicting if a.tally else None)
    unkeyed: Count | None = read(lambda a: a.tally.unkeyed if a.tally else None)
    examples: Annotated[tuple[ExampleDocument, ...], ("maxItems", 5)] = read(
        lambda a: ExampleDocument.each(a.samples)
    )


class StepDocument(Document):
    """A step of a failback.

    Attributes:
        observed: whether the clusters and Connect show that the step is done; the journal counts
            only once a failback has finished.
    """

    id: StepId
    name: StepName
    title: Name
    needs: tuple[Name, ...]
    observed: Observed
    why: Name


class ViolationDocument(Document):
    """A step that happened too early, or a change that should not have happened.

    Attributes:
        step: the step that repairs it.
    """

    read = From(Violation)
    step: StepId = read(lambda v: v.repair)
    name: StepName = read(lambda v: ROWS[v.repair].name)
    why: Name = read(lambda v: v.message)


class UnknownDocument(Document):
    """A cause of unknown steps."""

    read = From(Cause)
    why: Name
    steps: tuple[StepId, ...]


class OrderDocument(Document):
    """How far a failback has come, and whether its steps happened in a safe order.

    Attributes:
        state: unknown: cannot tell whether clients have left the source; completed: the journal
            has a finished failback, and no observation contradicts it.
        why: why there is nothing to fail back, or why the state is unknown; else null.
        records: unreplicated records by the effect that copying them would have on order; null: no
            result of drctl gap is valid.
        verdict: determines exit code 0, 3 or 5; ok also if there is nothing to fail back, or the
            failback is completed.
        violations: the most urgent first.
        unknown: each cause of unknown steps once.
        next: the next step; if its state is unknown, verify it. null: nothing is left.
    """

    SCHEMA = "drctl/order/1"
    read = From(Answer)
    state: State
    why: str | None = read(lambda a: a.seen.not_needed or a.seen.unclear or None)
    records: RecordsDocument = read(RecordsDocument.of)
    steps: Annotated[
        tuple[StepDocument, ...], ("minItems", len(TABLE)), ("maxItems", len(TABLE))
    ] = read(
        lambda a: tuple(
            StepDocument.of(
                row,
                title=row.titled(a.seen),
                observed=a.steps[row.id].observed,
                why=a.steps[row.id].why,
            )
            for row in TABLE
        )
    )
    verdict: Verdict
    violations: tuple[ViolationDocument, ...]
    unknown: tuple[UnknownDocument, ...] = read(lambda a: UnknownDocument.each(a.causes))
    next: StepId | None
    next_name: StepName | None = read(lambda a: None if a.next is None else ROWS[a.next].name)


def answer(facts: Facts) -> Answer:
    """Derive the answer from the facts."""
    seen = situation(facts)
    steps = look(seen)
    found = violations(seen, steps)
    valid = seen.gap.valid
    return Answer(
        seen,
        steps,
        found,
        verdict(found, steps),
        next_step(found, steps, seen),
        tallied(valid, facts.order) if valid is not None else None,
    )


def look(seen: Situation) -> Steps:
    """The state of each step."""
    if seen.not_needed:
        return {
            row.id: not_done(f"there is nothing to fail back: {seen.not_needed}") for row in TABLE
        }
    steps = {row.id: row.look(seen) for row in TABLE} | dict(rebuilt(seen))
    if seen.failed_back:
        return steps | dict(_by_the_journal(seen, steps))
    for row in TABLE:
        if row.id in _COMPARISONS and not seen.rebuilding:
            steps[row.id] = _or_again(row, steps)
    return steps


def _by_the_journal(seen: Situation, steps: Steps) -> Iterator[tuple[str, StepState]]:
    """Steps that only the journal of the finished failback can confirm."""
    if not isinstance(seen.facts.on_source, Cluster) or not isinstance(
        seen.facts.on_target, Cluster
    ):
        return
    for name in _BEFORE_THE_SWITCH:
        if steps[name].observed is not Observed.DONE:
            why = f"journal: run {seen.failed_back} failed back to {seen.facts.source}"
            yield name, done(why)


def _or_again(row: Row, steps: Steps) -> StepState:
    """Require a comparison to be repeated if it ran before the steps that it needs."""
    found = steps[row.id]
    undone = [name for name in row.needs if steps[name].observed is Observed.NOT_DONE]
    if found.observed is not Observed.DONE or not undone:
        return found
    return not_done(f"repeat it after step {undone[0]}; so far: {found.why}")


def violations(seen: Situation, steps: Steps) -> tuple[Violation, ...]:
    """Everything out of order, the most urgent first."""
    if seen.not_needed or seen.unclear:
        # Running replication does harm only where clients have left its source.
        return ()
    harm = tuple(_harm(seen, steps))
    known = {each.repair for each in harm}
    early = (each for each in _too_early(seen, steps) if each.repair not in known)
    return (*harm, *dict.fromkeys(early))


def verdict(found: tuple[Violation, ...], steps: Steps) -> Verdict:
    """Violated if anything is out of order; else unknown if any step is unknown.

    A step in unknown state may have happened too early.
    """
    if found:
        return Verdict.VIOLATED
    unseen = any(each.observed is Observed.UNKNOWN for each in steps.values())
    return Verdict.UNKNOWN if unseen else Verdict.OK


def next_step(found: tuple[Violation, ...], steps: Steps, seen: Situation) -> str | None:
    """The next step to do, or to verify where its state is unknown; None: nothing is left.

    Once clients are back, steps a to h leave no evidence; only j and k can be next, so that nothing
    fences the cluster that applications write to. If forward replication runs and it is unknown
    whether clients ever left the source, verify that (i) first.
    """
    if seen.not_needed:
        return None
    if seen.unclear and steps["b"].started:
        return "i"
    if found:
        return found[0].repair
    if seen.all_on_source is True:
        left = (name for name in "jk" if steps[name].observed is Observed.NOT_DONE)
        return next(left, None if steps["k"].observed is Observed.DONE else "k")
    waiting = (name for name in _IN_TURN if steps[name].observed is not Observed.DONE)
    return next(waiting, None)


def _harm(seen: Situation, steps: Steps) -> Iterator[Violation]:
    facts = seen.facts
    if steps["b"].started and seen.all_on_source is not True:
        yield Violation("b", f"forward replication runs: {steps['b'].why}")
    if seen.rebuilding:
        # The source is refilled from scratch, so its current order does not matter.
        return
    if seen.gap.written_to and ReverseStart.START not in seen.arrived.values():
        repair = "a" if steps["a"].observed is Observed.NOT_DONE else "c"
        message = f"{facts.source} was written to, or copied from, after the comparison"
        search = f"drctl gap --link {quote(facts.link)} --scope full"
        yield Violation(repair, f"{message}: {seen.gap.why}", search)
    if ReverseStart.START in seen.arrived.values():
        yield Violation("f", f"reverse replication started from the beginning: {steps['f'].why}")
    if seen.out_of_order_in:
        yield Violation("f", out_of_order(seen), rebuild_command(facts.link))
    if isinstance(facts.returned_copies, Copies) and facts.returned_copies.total:
        yield Violation("g", f"reconciled records were copied back: {steps['g'].why}")
    if older := _older_after_newer(seen):
        yield Violation("e", older)
    if seen.all_on_source is not True and committed_while_active(seen):
        yield Violation("i", f"offsets were committed too early: {steps['i'].why}")


def _older_after_newer(seen: Situation) -> str:
    """A conflicting record that was copied without a decision; empty if there is none."""
    result, facts = seen.gap.valid, seen.facts
    if result is None or facts.order == "none" or isinstance(facts.drctl_copies, Unavailable):
        return ""
    # Copied by decision: reported, and nothing to repair.
    if copied_conflicting(seen):
        return ""
    there = offsets_with_copy(result, facts.drctl_copies)
    wrong = [
        f"{each.place} offset {each.offset}"
        for each in result.samples
        if each.order == OrderVerdict.CONFLICTING and each.offset in there.get(each.place, ())
    ]
    message = f"older records follow newer ones on {facts.target}"
    return f"{message}: {wrong[0]} was copied" if wrong else ""


def _too_early(seen: Situation, steps: Steps) -> Iterator[Violation]:
    """Steps that are done or started before a step that they need."""
    for row in TABLE:
        # Reverse replication may be stopped part-way: a run was rolled back, or died.
        halted = row.id == "h" and seen.reverse_started and not seen.reverse_runs
        if halted or not steps[row.id].happened:
            continue
        for needed in row.needs:
            if steps[needed].observed is Observed.NOT_DONE:
                why = f"step {row.id} happened before step {needed}"
                back = f"; {_until_then(seen)}" * (row.id == "i")
                message = f"{why}: {steps[needed].why}{back}"
                yield Violation(_first_undone(needed, steps), message)


def _until_then(seen: Situation) -> str:
    """What to do with clients that were switched too early."""
    target = seen.facts.target
    if seen.forward_runs:
        return f"replication to {target} already runs: compare both directions first"
    return f"switch clients back to {target} until that step is done"


def _first_undone(step: str, steps: Steps) -> str:
    """Of a step and all steps that it needs, the first one that is not done."""
    wanted, waiting = {step}, [step]
    while waiting:
        needs = ROWS[waiting.pop()].needs
        waiting += [each for each in needs if each not in wanted]
        wanted.update(needs)
    undone = (n for n in _IN_TURN if n in wanted and steps[n].observed is Observed.NOT_DONE)
    return next(undone, step)
