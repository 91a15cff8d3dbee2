"""Plans and results of `drctl reconcile` in a terminal; no text is markup."""

from collections.abc import Iterator, Sequence

from drctl.model.errors import ExitCode
from drctl.model.text import plural
from drctl.reconcile.documents import rollback
from drctl.reconcile.planning import Line, ReconcilePlan
from drctl.reconcile.policy import Action
from drctl.reconcile.prechecks import Blocker
from drctl.reconcile.results import LineResult, Outcome, ReconcileResult
from drctl.views.text import number, plain, sentence, size
from drctl.views.view import MOST, Part, Text, heading, listing, more, notes, section, view

_ENDINGS = {
    "done": "Done",
    "found": "Done, but some records no longer existed on the source",
    "stopped": "Stopped part-way",
    "refused": "Nothing was written",
    "unknown": "Unknown: some writes could not be verified",
}
_DONE = {
    Action.COPY: "copied",
    Action.QUARANTINE: "quarantined",
    Action.EXPORT: "exported",
    Action.DISCARD: "discarded",
}
_NUMBERS = ("Part.", "Records", "Size", "Left")


@view
def reconcile_table(result: ReconcileResult, execute: str) -> Iterator[Part]:
    """Show the plan or the result; the command to run comes last, next to the prompt."""
    plan, gap = result.plan, result.plan.gap
    yield Text(_headline(result), "bold")
    yield Text(
        f"gap result {gap.id} from {gap.started}, {plain(gap.source)} to {plain(gap.target)}",
        style="dim",
    )
    yield from notes(plan.notes, plan.overrides.items())
    yield from _blockers([o for o in plan.blockers if not o.overridden])
    yield from _table(result.results)
    yield from _reasons(result)
    if result.exported:
        yield Text(f"\nExported: {plain(result.exported)}")
    if plan.left_out:
        yield Text(f"\nNot selected: {plural(plan.left_out, 'record')} of other topics.")
    if plan.acting and not _fails_again(result):
        text = rollback(result)
        yield Text(f"\n{text[0].upper()}{text[1:]}.", "dim")
    to_do = any(each.outcome in (Outcome.PLANNED, Outcome.PARTIAL) for each in result.results)
    if (to_do or (plan.noted and not result.run)) and not _fails_again(result):
        these = "execute what is not refused" if plan.refused else "execute"
        title = "To continue" if result.run else f"Nothing was written. To {these}"
        if not plan.blocked:
            yield from section(f"{title}:", [plain(execute)])


def _fails_again(result: ReconcileResult) -> bool:
    """Return whether it was refused before anything was written: a retry would be refused, too."""
    return bool(result.failure) and result.exit_code is ExitCode.REFUSED


def _headline(result: ReconcileResult) -> str:
    plan = result.plan
    if plan.blocked:
        failed = plural(len(plan.blocked), "precheck")
        return f"Reconcile blocked: {failed} failed. Nothing was written"
    if not result.run:
        due = sum(line.due.records for line in plan.acting)
        return f"Plan for cluster {plain(plan.gap.target)}: {_planned(plan, due)}"
    done = sum(each.count.records for each in result.results)
    ending = _ENDINGS.get(result.status, result.status)
    return f"{ending}: {plural(done, 'record')} processed in {result.seconds:.1f} s"


def _planned(plan: ReconcilePlan, due: int) -> str:
    refused = sum(line.due.records for line in plan.refused)
    if refused and not due:
        return f"nothing to do, {plural(refused, 'record')} refused"
    if not due and plan.noted:
        return "nothing to do, except to store earlier decisions for this gap result"
    if not due:
        return "nothing to do"
    planned = f"{plural(due, 'record')} to process"
    return f"{planned}, {number(refused)} refused" if refused else planned


def _blockers(found: Sequence[Blocker]) -> Iterator[Text]:
    for each in found[:MOST]:
        which = f"{plain(str(each.place))}: " if each.place else ""
        override = f" (--override {each.precheck}=REASON)" if each.precheck.overridable else ""
        yield Text(f"  {each.precheck}: {which}{sentence(each.reason)}{override}", "red")
    yield from more(len(found) - MOST)


def _table(results: Sequence[LineResult]) -> Iterator[Part]:
    if not results:
        yield heading("Nothing to do.")
        return
    first = sorted(results, key=lambda each: each.outcome in (Outcome.DONE, Outcome.PLANNED))
    yield from listing(first, _cells, "Topic", *_NUMBERS, "Order", "What", "", numbers=_NUMBERS)


def _cells(each: LineResult) -> Iterator[str]:
    line = each.line
    yield plain(line.record_set.place.topic)
    yield str(line.record_set.place.partition)
    yield number(line.all.records)
    yield size(line.all.bytes)
    yield number(line.due.records - each.count.records - each.count.gone)
    yield line.record_set.order.value
    yield _what(line)
    yield f"{each.outcome.value} ({line.precheck})" if line.precheck else _outcome(each)


def _what(line: Line) -> str:
    """Describe the action; if nothing is left to do, what earlier runs did."""
    if line.done and not line.due.records:
        before = dict.fromkeys((segment.action, segment.to) for segment in line.done)
        return ", ".join(
            f"{_DONE[what]} to {plain(to)}" if to else _DONE[what] for what, to in before
        )
    return f"{line.action.value} to {plain(line.to)}" if line.to else line.action.value


def _outcome(each: LineResult) -> str:
    if each.line.done and not each.line.due.records:
        return "done earlier"
    if each.outcome is Outcome.PARTIAL and not (each.count.records or each.count.gone):
        return "not done"
    return each.outcome.value


def _reasons(result: ReconcileResult) -> Iterator[Text]:
    if result.failure:
        yield Text(f"\nStopped: {sentence(result.failure)}", "red")
        if result.hint:
            yield Text(f"  {sentence(result.hint)}")
    for reason in dict.fromkeys(each.reason for each in result.results if each.reason):
        if reason != result.failure:
            yield Text(f"  {sentence(reason)}")
    for place, gone in sorted(result.gone.items()):
        runs = ", ".join(f"{a}" if a == b else f"{a}..{b}" for a, b in gone.runs[:20])
        more = ", ..." if len(gone.runs) > 20 else ""
        yield Text(
            f"  deleted on the source: {plural(gone.records, 'record')} of {plain(str(place))}:"
            f" {runs}{more}",
            style="yellow",
        )
