"""What is true of a run, and what it does not tell: page, terminal and Markdown say the same."""

from collections.abc import Iterator

from drctl.engine.sequences import rebuild
from drctl.engine.steps.way_back_order import WHOLE
from drctl.report.printable import number, plain, plural
from drctl.report.run_data import Became, ReportData, Standing, StepReport, Writes
from drctl.report.run_words import (
    closed,
    length,
    lossless,
    lost_in_words,
    turning,
    when,
    writes_now,
)


def known(data: ReportData) -> tuple[str, ...]:
    """What is true, as far as the journal was written."""
    return tuple(_known(data))


def _known(data: ReportData) -> Iterator[str]:
    since = f", since {when(data.writes_since)} UTC" if data.writes_since else ""
    if data.writes is not Writes.NOT_TOUCHED and data.writes is not Writes.UNKNOWN:
        yield f"{writes_now(data)}{since}."
    if data.abandoned:
        yield f"Why it was left behind: {closed(data.abandoned)}"
    elif data.turned_back and data.ending.standing in (Standing.REFUSED, Standing.STOPPED):
        yield f"Why it was {turning(data)}: {closed(data.turned_back)}"
    elif data.ending.words and data.ending.standing is Standing.STOPPED:
        yield f"Step {plain(data.ending.step)}: {closed(data.ending.words)}"
    back = data.became(Became.TAKEN_BACK)
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
    if _refilled(data):
        yield (
            f"{plain(data.plan.target)} has the order of {plain(data.plan.source)} now: what the"
            " old replication put behind newer records stands so on both."
        )
    if data.positions is not None:
        yield _positions(data)
    if data.overrides:
        told = "; ".join(f"{plain(guard)}: {plain(why)}" for guard, why in data.overrides.items())
        yield f"{plural(len(data.overrides), 'guard')} passed over: {closed(told)}"


def _refilled(data: ReportData) -> bool:
    """Whether a source was filled anew that had lost nothing, because its order was not right."""
    done = data.ending.standing is Standing.DONE
    return done and rebuild.rebuilds(data.plan.steps) and WHOLE in data.overrides


def _positions(data: ReportData) -> str:
    found = data.positions
    assert found is not None
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
    if data.mode == "unplanned":
        # The end of the target's log bounds it, whatever they consumed since.
        return f"{again}."
    return f"{again}, and what members had fetched and could not commit behind the fence."


def unknown(data: ReportData) -> tuple[str, ...]:
    """What this run does not tell."""
    return tuple(_unknown(data))


def _unknown(data: ReportData) -> Iterator[str]:
    if data.writes is Writes.UNKNOWN:
        yield f"Where applications can write: {_doubtful(data)}."
    if data.writes is Writes.TARGET and not data.fenced:
        yield f"Whether {plain(data.plan.source)} takes writes, too: nobody saw it fenced."
    for step in data.became(Became.UNKNOWN, Became.BEGUN, Became.NOT_TAKEN_BACK):
        words = closed(step.taken_back or step.words or "nothing more was written down")
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
    found = data.became(Became.UNKNOWN, Became.BEGUN, Became.NOT_TAKEN_BACK, Became.FAILED)
    names = _names(tuple(s for s in found if s.changes and (s.waited is not None)))
    return f"it hangs on {names}" if names else "the steps do not tell"


def _names(steps: tuple[StepReport, ...]) -> str:
    return ", ".join(plain(step.id) for step in steps)
