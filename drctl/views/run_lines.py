"""What is true of a run, what it does not tell, its figures and steps, and what to do now.

Page, terminal and Markdown say the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from drctl.engine.source_fence import ALIVE, MOVED
from drctl.model.document import Name
from drctl.model.text import option, quote
from drctl.plans import failback
from drctl.steps.failback import WHOLE
from drctl.steps.records import Reconcile
from drctl.steps.waiting import Drain
from drctl.views.client_moves import leaving_told
from drctl.views.run_data import Became, Positions, ReportData, Standing, StepReport, Writes
from drctl.views.run_words import (
    BECAME,
    Tone,
    closed,
    estimated,
    length,
    lossless,
    lost_in_words,
    rpo_in_brief,
    rto_in_brief,
    tone,
    turning,
    verdict,
    when,
    writes_now,
)
from drctl.views.text import collected, number, plain, plural, sentence
from drctl.views.view import Figure, Part, Text, figures_table, heading, section, table, view

_BAD = (Became.FAILED, Became.UNKNOWN, Became.NOT_ROLLED_BACK, Became.OUTSTANDING, Became.STARTED)
"""What a person has to look at."""


@collected
def known(data: ReportData) -> Iterator[str]:
    """What is true, as far as the journal was written."""
    since = f", since {when(data.writes_since)} UTC" if data.writes_since else ""
    if data.writes is not Writes.NOT_TOUCHED and data.writes is not Writes.UNKNOWN:
        yield f"{writes_now(data)}{since}."
    if data.abandoned:
        yield f"Why it was left behind: {closed(data.abandoned)}"
    elif data.rollback_reason and data.ending.standing in (Standing.REFUSED, Standing.STOPPED):
        yield f"Why it was {turning(data)}: {closed(data.rollback_reason)}"
    elif data.ending.words and data.ending.standing is Standing.STOPPED:
        yield f"Step {plain(data.ending.step)}: {closed(data.ending.words)}"
    back = data.became(Became.ROLLED_BACK)
    if back:
        yield f"Taken back, and seen to be: {_names(back)}."
    if data.rto.seconds is not None:
        seconds, how = length(data.rto.seconds), data.rto.how
        if data.rto.since_command:
            yield f"Applications could write again {seconds} after the command: {how}."
        else:
            yield f"Writes were refused for {seconds}: {how}."
    if lossless(data):
        yield f"No record was left behind: {data.rpo.how}."
    elif data.rpo.exact and data.rpo.records is not None:
        yield f"{lost_in_words(data).capitalize()}: {data.rpo.how}."
    done = data.ending.standing is Standing.DONE
    if done and failback.rebuilds(data.plan.steps) and WHOLE in data.overrides:
        # The source had lost nothing: its order was not right.
        yield (
            f"{plain(data.plan.target)} has the order of {plain(data.plan.source)} now: what the"
            " old replication put behind newer records stands so on both."
        )
    if data.positions is not None:
        yield _positions(data.positions, data.mode)
    if data.overrides:
        told = "; ".join(
            f"{plain(precheck)}: {plain(why)}" for precheck, why in data.overrides.items()
        )
        yield f"{plural(len(data.overrides), 'precheck')} passed over: {closed(told)}"


def _positions(found: Positions, mode: str) -> str:
    told = (
        f"{plural(found.positions, 'position')} of {plural(len(found.groups), 'group')} committed"
    )
    if found.same:
        told += f", {number(found.same)} more stood there already"
    if found.rereads_at_most is None:
        return f"{told}."
    again = f"{told}; at most {plural(found.rereads_at_most, 'record')} read again"
    if found.rereads_likely is not None:
        again += f" ({number(found.rereads_likely)} if they read nothing after they were last seen)"
    if mode == "unplanned":
        # The end of the target's log bounds it, whatever they consumed since.
        return f"{again}."
    return f"{again}, and what members had fetched and could not commit behind the fence."


@collected
def unknown(data: ReportData) -> Iterator[str]:
    """What this run does not tell."""
    if data.writes is Writes.UNKNOWN:
        yield f"Where applications can write: {_doubtful(data)}."
    if data.writes is Writes.TARGET and not data.fenced:
        yield f"Whether {plain(data.plan.source)} takes writes, too: nobody saw it fenced."
    for step in data.became(Became.UNKNOWN, Became.STARTED, Became.NOT_ROLLED_BACK):
        words = closed(step.rolled_back or step.words or "nothing more was written down")
        asked = "What became of" if step.changes else "What would have been seen by"
        yield f"{asked} {plain(step.id)}: {words}"
    if data.ending.standing is Standing.UNKNOWN:
        late = (step for step in data.became(Became.FAILED) if step.id == data.ending.step)
        yield from (f"Whether {plain(s.id)} comes true: {closed(s.words)}" for s in late)
    if data.rto.seconds is None and data.writes is Writes.TARGET:
        yield f"For how long writes were refused: {data.rto.how}."
    if data.writes is Writes.TARGET and not data.rpo.exact:
        yield f"What exactly was left behind: {data.rpo.how}."
    yield from (f"Not checked: {closed(each.words)}" for each in data.unseen)
    for name in data.not_checked:
        if not any(name.startswith(f"step {step.id}:") for step in data.steps):
            yield f"Not checked: {closed(name)}"
    if data.ending.standing is Standing.NOT_ENDED:
        yield "Whether it is under way: who runs it may still be at it."
    if data.chain is None:
        yield "Whether the journal is as it was written: drctl report --verify looks."


def _doubtful(data: ReportData) -> str:
    found = data.became(Became.UNKNOWN, Became.STARTED, Became.NOT_ROLLED_BACK, Became.FAILED)
    names = _names(tuple(s for s in found if s.changes and (s.waited is not None)))
    return f"it hangs on {names}" if names else "the steps do not tell"


def _names(steps: tuple[StepReport, ...]) -> str:
    return ", ".join(plain(step.id) for step in steps)


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step in a table.

    Attributes:
        told: what was seen of it last.
        bad: whether a person has to look at it.
    """

    number: int
    id: str
    became: str
    seconds: str
    told: str
    bad: bool


def figures(data: ReportData) -> tuple[Figure, ...]:
    """Where writes go, and what the run cost."""
    rto = data.rto
    return (
        Figure("Applications can write to", _writes_to(data), _writes_how(data)),
        Figure(
            "RTO, from the command on" if rto.since_command else "RTO, writes refused for",
            "not measured" if rto.seconds is None else length(rto.seconds),
            rto_in_brief(data),
        ),
        Figure("RPO, left behind", _loss(data), rpo_in_brief(data)),
    )


def _writes_to(data: ReportData) -> str:
    """A cluster, or what else is true."""
    match data.writes:
        case Writes.TARGET:
            return plain(data.plan.target)
        case Writes.AS_BEFORE if data.gives_up_source:
            return "nowhere that is known"
        case Writes.AS_BEFORE:
            return plain(data.plan.source)
        case _:
            return data.writes.value


def _writes_how(data: ReportData) -> str:
    """Since when, or what is missing."""
    if data.writes is Writes.TARGET and not data.switched:
        done, total = data.endpoints
        return f"{done} of {plural(total, 'endpoint')} switched"
    if data.writes_since is not None:
        return f"since {when(data.writes_since)} UTC"
    match data.writes:
        case Writes.AS_BEFORE if data.gives_up_source:
            return f"{plain(data.plan.source)} was given up as lost"
        case Writes.AS_BEFORE:
            return "as before the run"
        case Writes.UNKNOWN:
            return "look before you act"
        case _:
            return "by this plan"


def _loss(data: ReportData) -> str:
    """Records, or seconds where nobody knows how many."""
    rpo = data.rpo
    if rpo.lost.known:
        return estimated(rpo)
    if rpo.seconds is not None:
        return f"about {length(rpo.seconds)}"
    return "unknown" if data.writes is Writes.TARGET else "not measured"


def step_rows(data: ReportData) -> tuple[StepRow, ...]:
    """Every step, in order."""
    return tuple(
        StepRow(
            step.number,
            plain(step.id),
            BECAME[step.became],
            "" if step.seconds is None else length(step.seconds),
            sentence(step.rolled_back or step.words),
            step.became in _BAD,
        )
        for step in data.steps
    )


def named(data: ReportData) -> tuple[str, ...]:
    """Everything that is not as wanted, each named with its step; owed ones last."""
    told = [
        f"{plain(step.id)}: {sentence(each)}"
        for step in data.steps
        if step.became in _BAD
        for each in (*step.items, *step.complaints)
    ]
    told += [f"owed by {plain(step)}: {sentence(what)}" for step, what in data.outstanding.items()]
    return tuple(told)


@dataclass(frozen=True, slots=True)
class NextStep:
    """Something to do, or to leave alone, and why.

    Attributes:
        command: null: there is none.
    """

    what: Name
    why: str
    command: Name | None = None


@collected
def next_steps(data: ReportData) -> Iterator[NextStep]:
    """What to do now."""
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
            yield from _after_abandoned(data)
        case Standing.STOPPED if data.ending.over:
            if failback.is_failback(data.plan.steps):
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


def _after_abandoned(data: ReportData) -> Iterator[NextStep]:
    for step, what in data.outstanding.items():
        yield NextStep(
            f"Look at {plain(step)}, and take it back if it is in the way.",
            closed(what[:1].upper() + what[1:]),
        )
    yield NextStep(
        "Then look at a plan: another run may begin.",
        "It looks at what is there.",
        _plan_again(data) or None,
    )


def _stopped(data: ReportData) -> Iterator[NextStep]:
    stuck = data.became(Became.FAILED, Became.UNKNOWN, Became.NOT_ROLLED_BACK)
    for step in stuck:
        items = f" ({plural(len(step.items), 'item')} named below)" if step.items else ""
        words = closed(step.rolled_back or step.words)
        yield NextStep(f"Look at {plain(step.id)}{items}.", words)
    if data.rollback_reason:
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
    stopped = data.ending.standing is Standing.STOPPED and not data.rollback_reason
    for step in stuck:
        for precheck in (ALIVE, MOVED):
            moved = precheck == MOVED and step.kind == Drain.name and stopped
            named = step.words.startswith(f"{precheck}: ")
            if (named or moved) and precheck not in data.overrides:
                yield NextStep(
                    f"Or pass {precheck} over, where {plain(data.plan.source)} is to be given up.",
                    f"What it took meanwhile, {plain(data.plan.target)} lacks: it is owed, and"
                    " drctl gap finds it.",
                    f"{_resume(data)} --override {quote(precheck)}=REASON",
                )


def _after_done(data: ReportData) -> Iterator[NextStep]:
    for step, what in data.outstanding.items():
        yield NextStep(closed(what), f"Owed by step {plain(step)}: {_later(data)}.")
    if data.writes is not Writes.TARGET:
        if not data.outstanding:
            yield NextStep("Nothing has to be done.", "Every step was seen to be done.")
        return
    if failback.is_failback(data.plan.steps):
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
        gone = failback.rebuilds(data.plan.steps)
        originals = "nothing else holds them" if gone else f"their originals are on {target} alone"
        yield NextStep(
            f"Decide what becomes of the {plural(count, 'record')} in quarantine.",
            f"Topics __drctl_quarantine.* of {source} hold copies of them; {originals}.",
        )


def _plan_again(data: ReportData) -> str:
    if data.plan.name.startswith("failover-"):
        return f"{_command(data, 'failover')} --mode {quote(data.mode or 'planned')}"
    if not failback.is_failback(data.plan.steps):
        return ""
    rebuild = _rebuilding(data) if failback.rebuilds(data.plan.steps) else ""
    return f"{_command(data, failback.NAME)}{rebuild}{_decisions(data)}"


def _rebuilding(data: ReportData) -> str:
    """A source that has lost nothing is filled anew only where somebody says why."""
    if WHOLE not in data.overrides:
        return " --rebuild"
    return f" --rebuild {option('--override', f'{WHOLE}={data.overrides[WHOLE]}')}"


def _decisions(data: ReportData) -> str:
    """What was said of the records that only the returned cluster has, as it is typed."""
    deciding = (step for step in data.plan.steps if step.kind == Reconcile.name)
    given = []
    for step in islice(deciding, 1):
        settings = Reconcile().read_settings(step.settings)
        given += [("--policy", settings.policy)] if settings.policy else []
        given += [("--topic", topic) for topic in settings.topics]
        if settings.conflicting != "refuse":
            given.append(("--conflicting", settings.conflicting))
    return "".join(f" {option(name, value)}" for name, value in given)


def _again(data: ReportData) -> NextStep:
    # A reason that names another way home stands in that one's place.
    named = f"drctl {failback.NAME} " in data.rollback_reason
    return NextStep(
        "Clear the reason, then look at the plan again.",
        closed(data.rollback_reason) if data.rollback_reason else "The run changed nothing.",
        None if named else _plan_again(data) or None,
    )


def _command(data: ReportData, name: str) -> str:
    return f"drctl {name} {option('--link', data.plan.link)}"


def _resume(data: ReportData) -> str:
    return f"drctl resume {quote(data.run)}"


_VERDICT_STYLES = {Tone.FINE: "bold green", Tone.FOUND: "bold yellow", Tone.INCOMPLETE: "bold red"}
_MOST = 20


@view
def run_table(data: ReportData, page: str | None) -> Iterator[Part]:
    """The verdict, the figures, the steps, what is known and not, and what to do."""
    yield Text(verdict(data), _VERDICT_STYLES.get(tone(data), "bold"))
    yield figures_table(figures(data))
    yield heading("Steps")
    yield table(map(_step_seen, step_rows(data)))
    told = named(data)
    more = [f"and {len(told) - _MOST} more: the report names all"] if len(told) > _MOST else []
    yield from section("Named", (*told[:_MOST], *more), mark="- ")
    yield from section("Known", known(data), mark="- ")
    yield from section("Unknown", unknown(data), mark="- ")
    if data.ending.standing is not Standing.DONE:
        yield from section(
            "Clients that are connected to the source", leaving_told(data), mark="- "
        )
    evidence = tuple(map(sentence, data.rpo.evidence))
    yield from section("What the estimate of the loss rests on", evidence, mark="- ")
    yield heading("Do now")
    for place, step in enumerate(next_steps(data), 1):
        yield Text(f"  {place}. {step.what} {step.why}")
        if step.command:
            yield Text(f"     {step.command}", "bold")
    if page:
        yield Text(f"\nPage: {page}")


def _step_seen(row: StepRow) -> Iterator[Text]:
    words = (str(row.number), row.id, row.became, row.seconds, row.told)
    return (Text(word, "bold red" if row.bad else "") for word in words)
