"""`drctl failback --check-order` for a terminal: verdict, steps, what is unknown, next command."""

from collections.abc import Iterator
from textwrap import indent

from drctl.failback.answer import ROWS, TABLE, Answer, State, Verdict
from drctl.failback.facts import Facts, JournaledRun
from drctl.failback.suggested_commands import CommandContext, commands_by_step, whole_plan
from drctl.model.health import brief_silence
from drctl.model.text import plural, quote
from drctl.model.topology import Unavailable
from drctl.views.text import sentence, show
from drctl.views.view import Part, Text, heading, table, view

_STYLES = {"done": "green", "not-done": "", "unknown": "yellow"}
_HEADS = {
    Verdict.OK: ("ok: all steps so far happened in a safe order", "bold green"),
    Verdict.VIOLATED: ("violated: steps happened out of order", "bold red"),
    Verdict.UNKNOWN: ("unknown: some steps could not be checked", "bold yellow"),
}
_KEY = 40

_SWITCH = "i"
"""The step that moves clients: nothing else may run at the same time."""


@view
def failback_table(answer: Answer, context: CommandContext) -> Iterator[Part]:
    """Show the verdict first, then the steps and what is unknown, and the next command last."""
    facts = answer.seen.facts
    yield Text(f"Failback of link {facts.link}: {facts.target} -> {facts.source}", "bold")
    message, style = _HEADS[answer.verdict]
    if answer.state is State.NOTHING:
        message = f"ok: there is nothing to fail back; {answer.seen.not_needed}"
    if answer.state is State.COMPLETED:
        message = f"ok: the failback is complete (run {answer.seen.failed_back})"
    if answer.state is State.UNKNOWN:
        message = f"unknown: {sentence(answer.seen.unclear)}"
    yield Text(f"Verdict: {message}", style)
    for each in answer.violations:
        yield Text(f"  {sentence(each.message)}")
    if answer.state is not State.NOTHING:
        yield Text("")
        yield table(_steps(answer), "", "Step", "State", "Why")
        yield from _records(answer)
    yield from _unknown(answer)
    yield from _journal(facts)
    yield from _next(answer, context)


def _steps(answer: Answer) -> Iterator[tuple[str | Text, ...]]:
    shared = {step for each in answer.causes if len(each.steps) > 1 for step in each.steps}
    for row in TABLE:
        seen = answer.steps[row.id]
        observed = Text(seen.observed.value, _STYLES[seen.observed.value])
        why = "see Unknown" if row.id in shared else sentence(seen.why)
        yield row.id, row.titled(answer.seen), observed, why


def _unknown(answer: Answer) -> Iterator[Part]:
    if not answer.causes:
        return
    yield Text("\nUnknown", "bold yellow")
    for why, steps in answer.causes:
        count = f"{plural(len(steps), 'step')} ({', '.join(steps)})"
        yield Text(f"  {count}: {sentence(why)}")


def _records(answer: Answer) -> Iterator[Part]:
    yield heading("Records not replicated")
    tally = answer.tally
    if tally is None:
        yield Text("  unknown: no result of drctl gap is valid (step c)")
        return
    yield Text(f"  {tally.text}")
    if answer.seen.gap.result is not None and answer.seen.gap.result.inversions is None:
        yield Text("  the order of records that are on both clusters was not compared")
    for each in answer.samples:
        place, key = sentence(str(each.place)), show(each.key, _KEY)
        sample = f"{each.order:<11}  {place} offset {each.offset}  key {key.text}"
        yield Text(f"  {sample}", "dim")


def _next(answer: Answer, context: CommandContext) -> Iterator[Part]:
    if answer.next is None:
        done = "" if answer.state is State.NOTHING else "; every step is done"
        yield heading(f"Next: nothing{done}")
        return
    row = ROWS[answer.next]
    by_hand = "verify by hand: " if answer.next in answer.unknown else ""
    yield heading(f"Next: {by_hand}step {row.id} ({row.titled(answer.seen)})")
    if answer.state is State.UNKNOWN and answer.next == _SWITCH:
        for line in _where_clients_are(context):
            yield Text(indent(line, "  "))
        return
    run = next((each for each in answer.seen.facts.runs if each.in_progress), None)
    if run is None or (answer.violations and answer.next != _SWITCH):
        for line in commands_by_step(context)[row.id]:
            yield Text(indent(line, "  "))
    if run is not None:
        yield from _resume(run, context)
        return
    yield Text("To do all remaining steps as one plan:", "dim")
    yield Text(f"  {whole_plan(context)}", "dim")


def _where_clients_are(context: CommandContext) -> tuple[str, ...]:
    """Say what to do if it is unknown whether clients have left the source."""
    source, target = context.link.source, context.link.target
    return (
        "do not stop or fence anything yet",
        f"if clients use {source}: replication {source} -> {target} must keep running",
        f"if clients use {target}: stop replication {source} -> {target} now (step b)",
        "check again once everything above is reachable:",
        f"drctl failback --check-order {context.named}",
    )


def _resume(run: JournaledRun, context: CommandContext) -> Iterator[Part]:
    """Show the commands that resume an unfinished failback; no other run may start."""
    name = f"{quote(run.run)} {context.named}"
    yield Text(
        "  A failback run has not ended. Resume it; a step in progress may look out of order."
    )
    yield Text(f"  drctl resume {name}")
    yield Text(f"  drctl resume {name} --execute")


def _journal(facts: Facts) -> Iterator[Part]:
    """Show the runs in the journal, in addition to what was observed."""
    yield heading("Journal")
    if isinstance(facts.journal, Unavailable):
        yield Text(f"  unknown: {sentence(facts.journal.reason)}")
        return
    if not facts.journal:
        yield Text("  no runs")
    for run in facts.journal:
        yield Text(f"  {sentence(run.run)}  {sentence(run.plan)}  {sentence(run.status)}")
        for action in run.outstanding:
            yield Text(f"    outstanding: {sentence(brief_silence(action))}")
