"""What to do after a run, most urgent first: page, terminal and Markdown say the same."""

from collections.abc import Iterator
from dataclasses import dataclass

from drctl.engine.sequences import failback, rebuild
from drctl.engine.steps.drain import Drain
from drctl.engine.steps.last_look import ALIVE, MOVED
from drctl.engine.steps.reconcile import Reconcile
from drctl.engine.steps.way_back_order import WHOLE
from drctl.model.pasting import option, quote
from drctl.report.printable import plain, plural
from drctl.report.run_data import Became, ReportData, Standing, StepReport, Writes
from drctl.report.run_words import closed

_UNSAID = "refuse"


@dataclass(frozen=True, slots=True)
class NextStep:
    """Something to do, or to leave alone, and why.

    Attributes:
        command: the command line for it; empty where there is none.
    """

    what: str
    why: str
    command: str = ""


def next_steps(data: ReportData) -> tuple[NextStep, ...]:
    """What to do now."""
    return tuple(_steps(data))


def _steps(data: ReportData) -> Iterator[NextStep]:
    if data.chain is not None and data.chain.harm is not None:
        yield NextStep(
            "Do not rely on this report.",
            f"Its journal is not as it was written: {closed(data.chain.words)} Compare it with "
            "its copies: the topic __drctl_journal and the state_dir of whoever ran it.",
        )
    match data.ending.standing:
        case Standing.DONE:
            yield from _after_done(data)
        case Standing.REFUSED:
            yield _again(data)
        case Standing.STOPPED if data.abandoned:
            yield from _left_behind(data)
        case Standing.STOPPED if data.ending.over:
            yield NextStep(
                f"Leave {plain(data.plan.target)} closed, and its old replication stopped.",
                "The next run finds them so; opened or started now, either loses records.",
            )
            yield _again(data)
        case Standing.NOT_ENDED:
            yield NextStep(
                f"Ask {plain(data.attempts[-1].who)} on {plain(data.attempts[-1].host)} whether it "
                "still runs; if not, go on with it.",
                "A run that is alive keeps a second one out; resume says so and changes nothing.",
                f"{_resume(data)} --execute",
            )
        case _:
            yield from _stopped(data)


def _left_behind(data: ReportData) -> Iterator[NextStep]:
    for step, what in data.owed.items():
        yield NextStep(
            f"Look at {plain(step)}, and take it back if it is in the way.",
            closed(what[:1].upper() + what[1:]),
        )
    yield NextStep(
        "Then look at a plan: another run may begin.", "It looks at what is there.", _anew(data)
    )


def _stopped(data: ReportData) -> Iterator[NextStep]:
    stuck = data.became(Became.FAILED, Became.UNKNOWN, Became.NOT_TAKEN_BACK)
    for step in stuck:
        items = f" ({plural(len(step.items), 'item')} named below)" if step.items else ""
        words = closed(step.taken_back or step.words)
        yield NextStep(f"Look at {plain(step.id)}{items}.", words)
    if data.turned_back:
        why = "It puts back what still stands, the newest first; nothing else is begun."
    elif data.writes is Writes.TARGET:
        why = "It looks at that step first and does what is left; what is done is not done again."
    else:
        why = "It looks at the fence first; nothing that was done is done again without a look."
    yield NextStep(
        "Then go on with the run." if stuck else "Go on with the run.",
        why,
        f"{_resume(data)} --execute",
    )
    yield from _past(data, stuck)
    if data.writes is Writes.NOWHERE:
        yield NextStep(
            "Do not lift the fence by hand.",
            "The journal would not know; resume goes on, or puts everything back.",
        )
    if data.ending.standing is not Standing.INTERRUPTED:
        yield NextStep(
            "Or, where nothing can bring it to its end, leave it behind.",
            "Nothing is put back: what stands is listed, and another run may begin.",
            f"{_resume(data)} --abandon REASON",
        )


def _past(data: ReportData, stuck: tuple[StepReport, ...]) -> Iterator[NextStep]:
    # A drain that stops a run was done before: a fence fell while its target was half open.
    stopped = data.ending.standing is Standing.STOPPED and not data.turned_back
    for step in stuck:
        for guard in (ALIVE, MOVED):
            moved = guard == MOVED and step.kind == Drain.name and stopped
            named = step.words.startswith(f"{guard}: ")
            if (named or moved) and guard not in data.overrides:
                yield NextStep(
                    f"Or pass {guard} over, where {plain(data.plan.source)} is to be given up.",
                    f"What it took meanwhile, {plain(data.plan.target)} lacks: it is owed, and"
                    " drctl gap finds it.",
                    f"{_resume(data)} --override {quote(guard)}=REASON",
                )


def _after_done(data: ReportData) -> Iterator[NextStep]:
    for step, what in data.owed.items():
        yield NextStep(closed(what), f"Owed by step {plain(step)}: {_later(data)}.")
    if data.writes is not Writes.TARGET:
        if not data.owed:
            yield NextStep("Nothing has to be done.", "Every step was seen to be done.")
        return
    if failback.leads_home(data.plan.steps):
        yield from _home(data)
        return
    source, target = plain(data.plan.source), plain(data.plan.target)
    yield NextStep(
        f"Do not start the old replication from {source} to {target}.",
        f"It would append old records behind the newer ones of {target}.",
    )
    closing = NextStep(
        f"Before {source} is used again, keep its applications away and find what only it holds.",
        f"{target} takes writes now that {source} does not have; this says what has been done of"
        " the way back, and what comes next.",
        f"{_command(data, failback.NAME)} --check-order",
    )
    if not data.rpo.exact:
        yield closing
        yield NextStep(
            f"When {source} answers again, and is closed, find what was left behind.",
            "Only a comparison of the records makes the estimate exact.",
            _command(data, "gap"),
        )
        return
    if data.rpo.records:
        yield NextStep(
            f"Decide what becomes of the {plural(data.rpo.records, 'record')} left behind.",
            "A late copy may stand behind newer records of its key, and whatever overwrites"
            f" {source} destroys them.",
        )
    yield closing


def _later(data: ReportData) -> str:
    if data.plan.name.startswith("failover-"):
        return f"the way home does it, or says why not (`{_command(data, failback.NAME)}`)"
    return "a later run must do it"


def _home(data: ReportData) -> Iterator[NextStep]:
    source, target = plain(data.plan.source), plain(data.plan.target)
    yield NextStep(
        f"Leave the replication from {source} to {target} stopped.",
        f"Records go from {target} to {source} again; in both directions they would be copied"
        " round for ever.",
    )
    if count := data.set_aside.get("quarantine", 0):
        gone = rebuild.rebuilds(data.plan.steps)
        originals = "nothing else holds them" if gone else f"their originals are on {target} alone"
        yield NextStep(
            f"Decide what becomes of the {plural(count, 'record')} in quarantine.",
            f"Topics __drctl_quarantine.* of {source} hold copies of them; {originals}.",
        )


def _anew(data: ReportData) -> str:
    if data.plan.name.startswith("failover-"):
        return f"{_command(data, 'failover')} --mode {quote(data.mode or 'planned')}"
    if not failback.leads_home(data.plan.steps):
        return ""
    anew = _rebuilding(data) if rebuild.rebuilds(data.plan.steps) else ""
    return f"{_command(data, failback.NAME)}{anew}{_decisions(data)}"


def _rebuilding(data: ReportData) -> str:
    """A source that has lost nothing is filled anew only where somebody says why."""
    if WHOLE not in data.overrides:
        return " --rebuild"
    return f" --rebuild {option('--override', f'{WHOLE}={data.overrides[WHOLE]}')}"


def _decisions(data: ReportData) -> str:
    """What was said of the records that only the returned cluster has, as it is typed."""
    settings = next((s.settings for s in data.plan.steps if s.kind == Reconcile.name), {})
    given = [("--policy", settings["policy"])] if settings.get("policy") else []
    given += [("--topic", topic) for topic in settings.get("topics", ())]
    if settings.get("conflicting", _UNSAID) != _UNSAID:
        given.append(("--conflicting", settings["conflicting"]))
    return "".join(f" {option(name, str(value))}" for name, value in given)


def _again(data: ReportData) -> NextStep:
    # A reason that names another way home stands in that one's place.
    named = f"drctl {failback.NAME} " in data.turned_back
    return NextStep(
        "Clear the reason, then look at the plan again.",
        closed(data.turned_back) if data.turned_back else "The run changed nothing.",
        "" if named else _anew(data),
    )


def _command(data: ReportData, name: str) -> str:
    return f"drctl {name} {option('--link', data.plan.link)}"


def _resume(data: ReportData) -> str:
    return f"drctl resume {quote(data.run)}"
