"""The answer of `drctl failback --check-order`, document `drctl/order/1`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple

from drctl.failback.facts import Cluster, Copies, Facts, ReverseStart
from drctl.failback.gap_results import Sample
from drctl.failback.rebuild_steps import TITLES, rebuilt
from drctl.failback.record_steps import (
    Tally,
    brought,
    copied_conflicting,
    missing_records,
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
    """What the order of things is."""

    OK = "ok"
    VIOLATED = "violated"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> ExitCode:
        """What a command that found it ends with."""
        codes = (ExitCode.DONE, ExitCode.REFUSED, ExitCode.UNKNOWN)
        return dict(zip(Verdict, codes, strict=True))[self]


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that happened before its time, or should not have happened at all.

    Attributes:
        repair: the step that is to be done now because of it.
        remedy: the command that puts it right, where that step by itself does not.
    """

    repair: str
    words: str
    remedy: str = ""


class State(StrEnum):
    """What there is to say of a failback as a whole."""

    NOTHING = "nothing-to-fail-back"
    UNKNOWN = "unknown"
    UNDER_WAY = "under-way"
    COMPLETED = "completed"


class Row(NamedTuple):
    """A step of a failback.

    Attributes:
        name: for programs.
        needs: steps that have to be done before it.
        title: with the clusters' names to be filled in.
    """

    id: str
    name: str
    needs: tuple[str, ...]
    title: str
    look: Callable[[Situation], StepState]

    def titled(self, seen: Situation) -> str:
        """What it is; a source that has lost its records has others of its own."""
        title = TITLES.get(self.id, self.title) if seen.rebuilding else self.title
        return title.format(source=seen.facts.source, target=seen.facts.target)


TABLE = (
    Row("a", "source-fenced", (), "{source} is whole, and closed to applications", fenced),
    Row(
        "b",
        "old-replication-stopped",
        (),
        "the old replication {source} -> {target} is stopped",
        old_replication,
    ),
    Row(
        "c",
        "missing-records-found",
        ("a", "b"),
        "the records that {target} lacks are found",
        missing_records,
    ),
    Row("d", "record-order-judged", ("c",), "their order is judged", record_order),
    Row("e", "missing-records-reconciled", ("c", "d"), "each of them is decided on", reconciled),
    Row(
        "f",
        "reverse-replication",
        ("e",),
        "what is new goes {target} -> {source}, from the boundary",
        reverse_replication,
    ),
    Row(
        "g", "copies-excluded", ("e",), "what was brought over does not come back", returning_copies
    ),
    Row("h", "wait-for-catch-up", ("f", "g"), "{source} has caught up", caught_up),
    Row("i", "clients-switched", ("h",), "clients are switched home to {source}", clients_switched),
    Row(
        "j",
        "forward-replication",
        ("i",),
        "replication {source} -> {target} runs again",
        forward_restarted,
    ),
    Row("k", "verified", ("j",), "all of it is proven", proven),
)


ROWS = {row.id: row for row in TABLE}


Steps = Mapping[str, StepState]


_IN_TURN = tuple(sorted((row.id for row in TABLE), key="abcdegfhijk".index))
"""What leaves copies out is there before anything comes back: g is done before f."""


_COMPARISONS = ("c", "d")
"""Steps that only look: one that was made too early does no harm, and is made again."""


_BEFORE_THE_SWITCH = "abcdefgh"
"""Steps whose traces are gone once clients are back."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found out.

    Attributes:
        tally: None where no result of `drctl gap` may be rested on.
        next: the step that is to be done now; None where nothing is left.
    """

    seen: Situation
    steps: Steps
    violations: tuple[Violation, ...]
    verdict: Verdict
    next: str | None
    tally: Tally | None

    @property
    def state(self) -> "State":
        """Whether there is a failback to make, and whether it is over."""
        if self.seen.not_needed:
            return State.NOTHING
        if self.seen.unclear:
            return State.UNKNOWN
        over = bool(self.seen.failed_back) and self.next is None
        return State.COMPLETED if over else State.UNDER_WAY

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Missing records to look at; none where no result may be rested on."""
        return self.seen.gap.valid.samples if self.seen.gap.valid else ()

    @property
    def unknown(self) -> Mapping[str, str]:
        """Steps that nobody could see, and why."""
        return {
            name: each.why for name, each in self.steps.items() if each.observed is Observed.UNKNOWN
        }


StepId = Annotated[str, ("enum", tuple(row.id for row in TABLE))]
StepName = Annotated[str, ("enum", tuple(row.name for row in TABLE))]


class ExampleDocument(Document):
    """A missing record to look at.

    Attributes:
        timestamp: milliseconds UTC.
        key: null: a null key; bytes that are no UTF-8 are escaped.
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
    """Missing records by what copying them would do to order."""

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
        title: for people.
        observed: as seen on the clusters and on Connect, not as journaled.
    """

    id: StepId
    name: StepName
    title: Name
    needs: tuple[Name, ...]
    observed: Observed
    why: Name


class ViolationDocument(Document):
    """What happened before its time.

    Attributes:
        step: the step that puts it right.
    """

    read = From(Violation)
    step: StepId = read(lambda v: v.repair)
    name: StepName = read(lambda v: ROWS[v.repair].name)
    why: Name = read(lambda v: v.words)


class OrderDocument(Document):
    """How far a way back has come, and whether it is in order.

    Attributes:
        state: unknown: nobody can see whether clients have left the source; completed: by the
            journal a run led clients back to its end, and nothing speaks against it.
        why: why there is nothing to fail back, or why nobody knows; null where there is.
        records: missing records by what copying them would do to order; null: no result of drctl
            gap can be rested on.
        verdict: exit code 0, 3, 5; ok also where there is nothing to fail back, and where a
            failback is completed.
        violations: what happened before its time, the most urgent first.
        next: the step that is to be done now, or looked at where nobody can see it; null: nothing
            is left.
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
    next: StepId | None
    next_name: StepName | None = read(lambda a: None if a.next is None else ROWS[a.next].name)


def answer(facts: Facts) -> Answer:
    """Judge what was observed."""
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
    """What each observer says, by step."""
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
    """What the run saw that led clients back, where nothing can be seen of it any more."""
    if not isinstance(seen.facts.on_source, Cluster) or not isinstance(
        seen.facts.on_target, Cluster
    ):
        return
    for name in _BEFORE_THE_SWITCH:
        if steps[name].observed is not Observed.DONE:
            told = f"run {seen.failed_back} led clients back to {seen.facts.source}, to its end"
            yield name, done(f"by the journal {told}")


def _or_again(row: Row, steps: Steps) -> StepState:
    """A comparison that was made before what it needs was done has to be repeated."""
    found = steps[row.id]
    undone = [name for name in row.needs if steps[name].observed is Observed.NOT_DONE]
    if found.observed is not Observed.DONE or not undone:
        return found
    told = f"to be repeated once step {undone[0]} is done ({steps[undone[0]].why})"
    return not_done(f"{told}; so far: {found.why}")


def violations(seen: Situation, steps: Steps) -> tuple[Violation, ...]:
    """Everything that is out of order, the most urgent first."""
    if seen.not_needed or seen.unclear:
        # Replication that runs is harm only where clients have left what it copies from.
        return ()
    harm = tuple(_harm(seen, steps))
    known = {each.repair for each in harm}
    early = (each for each in _too_early(seen, steps) if each.repair not in known)
    return (*harm, *dict.fromkeys(early))


def verdict(found: tuple[Violation, ...], steps: Steps) -> Verdict:
    """Violated where anything is; else unknown where any step is: it may have happened too early.

    A step that nobody can see is never taken for one that did not happen.
    """
    if found:
        return Verdict.VIOLATED
    unseen = any(each.observed is Observed.UNKNOWN for each in steps.values())
    return Verdict.UNKNOWN if unseen else Verdict.OK


def next_step(found: tuple[Violation, ...], steps: Steps, seen: Situation) -> str | None:
    """The step that is to be done now, or looked at where nobody can see it; None: nothing is left.

    Where clients are back, the traces of a to h are gone: what has still to be done, or shown,
    comes after them, and nothing closes the cluster that applications write to. Where the old
    replication runs and nobody knows whether they ever left, that is to be looked at first.
    """
    if seen.not_needed:
        return None
    if seen.unclear and steps["b"].started:
        return "i"
    if found:
        return found[0].repair
    if seen.home is True:
        left = (name for name in "jk" if steps[name].observed is Observed.NOT_DONE)
        return next(left, None if steps["k"].observed is Observed.DONE else "k")
    waiting = (name for name in _IN_TURN if steps[name].observed is not Observed.DONE)
    return next(waiting, None)


def _harm(seen: Situation, steps: Steps) -> Iterator[Violation]:
    facts = seen.facts
    if steps["b"].started and seen.home is not True:
        yield Violation("b", f"the old replication runs: {steps['b'].why}")
    if seen.rebuilding:
        # What stood on the source, and in which order, is gone: all of it comes again.
        return
    if seen.gap.written_to and ReverseStart.START not in seen.arrived.values():
        repair = "a" if steps["a"].observed is Observed.NOT_DONE else "c"
        words = f"{facts.source} was written to, or copied from, after it was searched"
        search = f"drctl gap --link {quote(facts.link)} --scope full"
        yield Violation(repair, f"{words}: {seen.gap.why}", f"search anew: {search}")
    if ReverseStart.START in seen.arrived.values():
        yield Violation("f", f"the way back began at the beginning: {steps['f'].why}")
    if seen.out_of_order_in:
        yield Violation("f", out_of_order(seen), rebuild_command(facts.link))
    if isinstance(facts.returned_copies, Copies) and facts.returned_copies.total:
        yield Violation("g", f"copies have come back: {steps['g'].why}")
    if behind := _behind_newer(seen):
        yield Violation("e", behind)
    if seen.home is not True and committed_while_active(seen):
        yield Violation("i", f"positions were committed too early: {steps['i'].why}")


def _behind_newer(seen: Situation) -> str:
    """A conflicting record that was copied, and nobody decided so; empty where none was seen."""
    result, facts = seen.gap.valid, seen.facts
    if result is None or facts.order == "none" or isinstance(facts.drctl_copies, Unavailable):
        return ""
    # What somebody decided to copy is told, and nothing to repair.
    if copied_conflicting(seen):
        return ""
    there = brought(result, facts.drctl_copies)
    wrong = [
        f"{each.place} offset {each.offset}"
        for each in result.samples
        if each.order == OrderVerdict.CONFLICTING and each.offset in there.get(each.place, ())
    ]
    words = f"older records stand behind newer ones on {facts.target}"
    return f"{words}: {wrong[0]} was copied" if wrong else ""


def _too_early(seen: Situation, steps: Steps) -> Iterator[Violation]:
    """Steps that have happened, or begun, though one that they need has not."""
    for row in TABLE:
        # What copies back may wait where it came to: a run turned back, or died.
        halted = row.id == "h" and seen.reverse_started and not seen.reverse_runs
        if halted or not steps[row.id].happened:
            continue
        for needed in row.needs:
            if steps[needed].observed is Observed.NOT_DONE:
                why = f"step {row.id} has happened, and {needed}, which it needs, has not"
                back = f"; {_until_then(seen)}" * (row.id == "i")
                words = f"{why}: {steps[needed].why}{back}"
                yield Violation(_first_undone(needed, steps), words)


def _until_then(seen: Situation) -> str:
    """Where clients belong that were switched back too early."""
    target = seen.facts.target
    if seen.forward_runs:
        return f"what copies to {target} runs already: compare both directions first"
    return f"lead clients back to {target} until then"


def _first_undone(step: str, steps: Steps) -> str:
    """Of a step and all that it rests on, the first to be done that has not happened."""
    wanted, waiting = {step}, [step]
    while waiting:
        needs = ROWS[waiting.pop()].needs
        waiting += [each for each in needs if each not in wanted]
        wanted.update(needs)
    undone = (n for n in _IN_TURN if n in wanted and steps[n].observed is Observed.NOT_DONE)
    return next(undone, step)
