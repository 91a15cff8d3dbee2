"""The order of a way back for a terminal; nothing of what clusters say is rich markup."""

from collections.abc import Iterator
from textwrap import indent

from drctl.failback.answer import ROWS, TABLE, Answer, State, Verdict
from drctl.failback.facts import Facts, JournaledRun
from drctl.failback.suggested_commands import CommandContext, commands_by_step, whole_plan
from drctl.model.text import quote
from drctl.model.topology import Unavailable
from drctl.views.text import sentence, show
from drctl.views.view import Part, Text, heading, table, view

_STYLES = {"done": "green", "not-done": "", "unknown": "yellow"}
_HEADS = {
    Verdict.OK: ("ok: every step that has happened was allowed to", "bold green"),
    Verdict.VIOLATED: ("violated", "bold red"),
    Verdict.UNKNOWN: ("unknown: not every step can be seen, so nobody can say", "bold yellow"),
}
_KEY = 40

_MOVES_CLIENTS = "i"
"""What a run does behind its fences, which nobody else may do beside it."""


@view
def failback_table(answer: Answer, site: CommandContext) -> Iterator[Part]:
    """The steps, the records, the verdict, what is next, and what is unknown."""
    facts = answer.seen.facts
    ends = f"{facts.target} -> {facts.source}"
    yield Text(f"The way back of link {facts.link}: {ends}", "bold")
    if answer.state is not State.NOTHING:
        yield table(_steps(answer), "", "Step", "Needs", "Observed", "Why")
        yield from _records(answer)
    words, style = _HEADS[answer.verdict]
    if answer.state is State.NOTHING:
        words = f"ok: there is nothing to fail back; {answer.seen.not_needed}"
    if answer.state is State.COMPLETED:
        words = f"ok: the failback is complete (run {answer.seen.failed_back})"
    if answer.state is State.UNKNOWN:
        words = f"unknown: {sentence(answer.seen.unclear)}"
    yield Text(f"\nVerdict: {words}", style)
    for each in answer.violations:
        yield Text(f"  {sentence(each.words)}")
    yield from _next(answer, site)
    if answer.unknown:
        yield Text("\nUnknown", "bold yellow")
        for name, why in answer.unknown.items():
            yield Text(f"  {name}  {sentence(why)}")
    yield from _journal(facts)


def _steps(answer: Answer) -> Iterator[tuple[str | Text, ...]]:
    for row in TABLE:
        seen = answer.steps[row.id]
        observed = Text(seen.observed.value, _STYLES[seen.observed.value])
        step = row.titled(answer.seen)
        yield row.id, step, ", ".join(row.needs) or "-", observed, sentence(seen.why)


def _records(answer: Answer) -> Iterator[Part]:
    yield heading("Missing records")
    tally = answer.tally
    if tally is None:
        yield Text("  not known: no result of drctl gap can be rested on (step c)")
        return
    yield Text(f"  {tally.told}")
    if answer.seen.gap.result is not None and answer.seen.gap.result.inversions is None:
        yield Text("  records that are on both sides were not checked for another order")
    for each in answer.samples:
        place, key = sentence(str(each.place)), show(each.key, _KEY)
        sample = f"{each.order:<11}  {place} offset {each.offset}  key {key.text}"
        yield Text(f"  {sample}", "dim")


def _next(answer: Answer, site: CommandContext) -> Iterator[Part]:
    if answer.next is None:
        done = "" if answer.state is State.NOTHING else "; every step is done"
        yield heading(f"Next: nothing{done}")
        return
    row = ROWS[answer.next]
    unseen = answer.next in answer.unknown
    look = "look yourself whether it has happened: " if unseen else ""
    yield heading(f"Next: {row.id}, {look}{row.titled(answer.seen)}")
    if answer.state is State.UNKNOWN and answer.next == _MOVES_CLIENTS:
        for line in _where_clients_are(site):
            yield Text(indent(line, "  "))
        return
    in_progress = _halfway(answer.seen.facts)
    if in_progress is None or (answer.violations and answer.next != _MOVES_CLIENTS):
        for line in commands_by_step(site)[row.id]:
            yield Text(indent(line, "  "))
    if in_progress is not None:
        yield from _resume(in_progress, site)
        return
    yield Text(f"All of it, as one plan: {whole_plan(site)}", "dim")


def _where_clients_are(site: CommandContext) -> tuple[str, ...]:
    """What to do where they may be at home, and replication runs as it should then."""
    return (
        f"stop and close nothing yet: where they use {site.link.source}, what copies from it is to"
        " run",
        f"where they are on {site.link.target}, it has to stop at once: step b",
        f"once who is silent answers: drctl failback --check-order {site.named}",
    )


def _halfway(facts: Facts) -> JournaledRun | None:
    """A run of the way home that nobody has brought to its end: no other may begin."""
    return next((each for each in facts.runs if each.in_progress), None)


def _resume(run: JournaledRun, site: CommandContext) -> Iterator[Part]:
    name = f"{quote(run.run)} {site.named}"
    yield Text(
        "  by the journal a run of the way home has not ended: it goes on from where it came; what"
        " it left half done may look out of order from outside"
    )
    yield Text(f"  drctl resume {name}")
    yield Text(f"  drctl resume {name} --execute")


def _journal(facts: Facts) -> Iterator[Part]:
    """Beside what was seen, never instead of it."""
    yield heading("The journal (evidence beside what was seen)")
    if isinstance(facts.journal, Unavailable):
        yield Text(f"  not known: {sentence(facts.journal.reason)}")
        return
    if not facts.journal:
        yield Text("  no runs")
    for run in facts.journal:
        yield Text(f"  {sentence(run.run)}  {sentence(run.plan)}  {sentence(run.status)}")
        for outstanding in run.outstanding:
            yield Text(f"    owed: {sentence(outstanding)}")
