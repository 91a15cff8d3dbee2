"""Steps as seen -> the verdict: are they in order, and which one is to be done now."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from drctl.failback.facts import Began, Cluster, Copies, Replication
from drctl.failback.situation import Situation
from drctl.failback.standing_behind import anew, stand_behind
from drctl.failback.step import Observed, Seen, done, not_done
from drctl.failback.steps.rebuilt import rebuilt
from drctl.failback.steps.reconciled import brought, copied_conflicting
from drctl.failback.steps.switched_home import moved_while_read
from drctl.failback.table import TABLE, Row
from drctl.model.errors import ExitCode
from drctl.model.gap import OrderVerdict
from drctl.model.pasting import quote
from drctl.model.topology import Unavailable

Steps = Mapping[str, Seen]

_IN_TURN = tuple(sorted((row.id for row in TABLE), key="abcdegfhijk".index))
"""What leaves copies out is there before anything comes back: g is done before f."""


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
        cure: the command that puts it right, where that step by itself does not.
    """

    repair: str
    words: str
    cure: str = ""


_COMPARISONS = ("c", "d")
"""Steps that only look: one that was made too early does no harm, and is made again."""

_BEFORE_THE_SWITCH = "abcdefgh"
"""Steps whose traces are gone once clients are back."""


def look(seen: Situation) -> Steps:
    """What each observer says, by step."""
    if seen.peace:
        return {row.id: not_done(f"there is nothing to fail back: {seen.peace}") for row in TABLE}
    steps = {row.id: row.look(seen) for row in TABLE} | dict(rebuilt(seen))
    if seen.failed_back:
        return steps | dict(_by_the_journal(seen, steps))
    for row in TABLE:
        if row.id in _COMPARISONS and not seen.rebuilding:
            steps[row.id] = _or_again(row, steps)
    return steps


def _by_the_journal(seen: Situation, steps: Steps) -> Iterator[tuple[str, Seen]]:
    """What the run saw that led clients back, where nothing can be seen of it any more."""
    if not isinstance(seen.facts.on_source, Cluster) or not isinstance(
        seen.facts.on_target, Cluster
    ):
        return
    for name in _BEFORE_THE_SWITCH:
        if steps[name].observed is not Observed.DONE:
            told = f"run {seen.failed_back} led clients back to {seen.facts.source}, to its end"
            yield name, done(f"by the journal {told}")


def _or_again(row: Row, steps: Steps) -> Seen:
    """A comparison that was made before what it needs was done has to be repeated."""
    found = steps[row.id]
    undone = [name for name in row.needs if steps[name].observed is Observed.NOT_DONE]
    if found.observed is not Observed.DONE or not undone:
        return found
    told = f"to be repeated once step {undone[0]} is done ({steps[undone[0]].why})"
    return not_done(f"{told}; so far: {found.why}")


def violations(seen: Situation, steps: Steps) -> tuple[Violation, ...]:
    """Everything that is out of order, the most urgent first."""
    if seen.peace or seen.unclear:
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

    Where clients are home, the traces of a to h are gone: what has still to be done, or shown,
    comes after them, and nothing closes the cluster that applications write to. Where the old
    replication runs and nobody knows whether they ever left, that is to be looked at first.
    """
    if seen.peace:
        return None
    if seen.unclear and steps["b"].begun:
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
    if steps["b"].begun and seen.home is not True:
        yield Violation("b", f"the old replication runs: {steps['b'].why}")
    if seen.rebuilding:
        # What stood on the source, and in which order, is gone: all of it comes anew.
        return
    if seen.gap.written_to and Began.START not in seen.arrived.values():
        repair = "a" if steps["a"].observed is Observed.NOT_DONE else "c"
        words = f"{facts.source} was written to, or copied from, after it was searched"
        search = f"drctl gap --link {quote(facts.link)} --scope full"
        yield Violation(repair, f"{words}: {seen.gap.why}", f"search anew: {search}")
    if Began.START in seen.arrived.values():
        yield Violation("f", f"the way back began at the beginning: {steps['f'].why}")
    if seen.stand_behind:
        yield Violation("f", stand_behind(seen), anew(facts.link))
    if isinstance(facts.came_back, Copies) and facts.came_back.total:
        yield Violation("g", f"copies have come back: {steps['g'].why}")
    behind = _behind_newer(seen)
    if behind:
        yield Violation("e", behind)
    if seen.home is not True and moved_while_read(seen):
        yield Violation("i", f"positions were committed too early: {steps['i'].why}")


def _behind_newer(seen: Situation) -> str:
    """A conflicting record that was copied, and nobody decided so; empty where none was seen."""
    result, facts = seen.gap.valid, seen.facts
    if result is None or facts.order == "none":
        return ""
    words = f"older records stand behind newer ones on {facts.target}"
    # What somebody decided to copy is told, and nothing to repair.
    if copied_conflicting(seen) or isinstance(facts.brought, Unavailable):
        return ""
    there = brought(result, facts.brought)
    wrong = [
        f"{each.place} offset {each.offset}"
        for each in result.samples
        if each.order == OrderVerdict.CONFLICTING and each.offset in there.get(each.place, ())
    ]
    return f"{words}: {wrong[0]} was copied" if wrong else ""


def _too_early(seen: Situation, steps: Steps) -> Iterator[Violation]:
    """Steps that have happened, or begun, though one that they need has not."""
    for row in TABLE:
        if not steps[row.id].happened or (row.id == "h" and _halted(seen)):
            continue
        for needed in row.needs:
            if steps[needed].observed is Observed.NOT_DONE:
                why = f"step {row.id} has happened, and {needed}, which it needs, has not"
                back = f"; {_until_then(seen)}" * (row.id == "i")
                words = f"{why}: {steps[needed].why}{back}"
                yield Violation(_first_undone(needed, steps), words)


def _halted(seen: Situation) -> bool:
    """Whether what copies back came as far as it did, and waits: a run turned back, or died."""
    return seen.way_back_begun and not seen.way_back_runs


def _until_then(seen: Situation) -> str:
    """Where clients are to be, who were led home too early."""
    facts = seen.facts
    if isinstance(facts.forward, Replication) and facts.forward.runs:
        return f"what copies to {facts.target} runs already: compare both directions first"
    return f"lead clients back to {facts.target} until then"


def _first_undone(step: str, steps: Steps) -> str:
    """Of a step and all that it rests on, the first to be done that has not happened."""
    rows = {row.id: row for row in TABLE}
    wanted, waiting = {step}, [step]
    while waiting:
        needs = rows[waiting.pop()].needs
        waiting += [each for each in needs if each not in wanted]
        wanted.update(needs)
    undone = (n for n in _IN_TURN if n in wanted and steps[n].observed is Observed.NOT_DONE)
    return next(undone, step)
