"""The headline and other phrases of a run's report; all of it is printable."""

from datetime import UTC
from enum import StrEnum

from drctl.model.text import plural
from drctl.plans.failback import is_failback
from drctl.views.run_data import ReportData, RunStatus, StepStatus, Writes
from drctl.views.text import be, length, number, plain, sentence, when


class Tone(StrEnum):
    """The overall result."""

    FINE = "fine"
    FOUND = "found"
    """Something remains to be done."""
    INCOMPLETE = "incomplete"
    """Unknown, or not finished."""


CHIPS = {
    RunStatus.DONE: "Done",
    RunStatus.REFUSED: "Refused",
    RunStatus.STOPPED: "Stopped part-way",
    RunStatus.UNKNOWN: "Unknown",
    RunStatus.INTERRUPTED: "Interrupted",
    RunStatus.NOT_ENDED: "Not finished",
}

STEP_STATUS = {
    StepStatus.DONE: "done",
    StepStatus.OUTSTANDING: "outstanding",
    StepStatus.SKIPPED: "skipped",
    StepStatus.FAILED: "failed",
    StepStatus.UNKNOWN: "unknown",
    StepStatus.STARTED: "started",
    StepStatus.ROLLED_BACK: "rolled back",
    StepStatus.NOT_ROLLED_BACK: "not rolled back",
    StepStatus.NOT_STARTED: "not started",
}


def tone(data: ReportData) -> Tone:
    """Return the overall result."""
    if data.ending.status is RunStatus.DONE:
        return Tone.FOUND if data.outstanding else Tone.FINE
    if data.ending.status in (RunStatus.REFUSED, RunStatus.STOPPED):
        return Tone.FOUND
    return Tone.INCOMPLETE


def chip(data: ReportData) -> str:
    """Return the status in one to three words."""
    if data.ending.status is RunStatus.DONE and data.outstanding:
        return "Done, actions outstanding"
    if data.abandoned:
        return "Abandoned"
    return CHIPS[data.ending.status]


def verdict(data: ReportData) -> str:
    """Return the headline: the result in one sentence."""
    at = plain(data.ending.step)
    match data.ending.status:
        case RunStatus.DONE:
            return f"{_end(data)}."
        case RunStatus.REFUSED:
            if not any(step.rolled_back for step in data.steps):
                return f"Refused at {at}: nothing was changed."
            return f"Failed at {at}: everything was rolled back."
        case RunStatus.STOPPED if data.abandoned:
            return f"Abandoned at {at}: {writes_state(data)}."
        case RunStatus.STOPPED if data.ending.over:
            if is_failback(data.plan.steps):
                return f"Failed at {at}: rolled back, except for what must stay."
            return f"Ended at {at}: part of the step was done, and is kept."
        case RunStatus.STOPPED if data.rollback_reason:
            return f"Failed at {_failed_at(data)}, and not everything could be rolled back."
        case RunStatus.STOPPED:
            return f"Stopped at {at}: {writes_state(data)}, and {_left(data)}."
        case RunStatus.UNKNOWN if _late(data):
            return f"{at} was not verified in time: check before you act. {writes_now(data)}."
        case RunStatus.UNKNOWN:
            return f"The outcome of {at} is unknown: check before you act. {writes_now(data)}."
        case RunStatus.INTERRUPTED:
            place = f"{at} was not finished" if at else "After the last step"
            return f"{place}: {writes_state(data)}."
        case RunStatus.NOT_ENDED:
            place = f"at {at}" if at else "after the last step"
            return f"The journal stops {place}: {writes_state(data)}."


def _end(data: ReportData) -> str:
    if data.writes is not Writes.TARGET:
        return f"All {plural(len(data.steps), 'step')} of {plain(data.plan.name)} are done"
    what = "Failback" if is_failback(data.plan.steps) else "Failover"
    lost = "every record was replicated" if lossless(data) else lost_in_words(data)
    parts = f"{what} to {plain(data.plan.target)} completed", lost, set_aside(data)
    return ". ".join(f"{each[0].upper()}{each[1:]}" for each in parts if each)


_ASIDE = {"quarantine": "in quarantine", "export": "exported", "discard": "discarded"}


def set_aside(data: ReportData) -> str:
    """Say what was done with records of the recovered cluster that were not copied."""
    counts = [
        f"{number(count)} {be(count)} {_ASIDE[kind]}" for kind, count in data.set_aside.items()
    ]
    if not counts:
        return ""
    return f"of the records only on {plain(data.plan.target)}, {', '.join(counts)}"


def lossless(data: ReportData) -> bool:
    """Return whether it is proven that every record was replicated."""
    return data.rpo.exact and data.rpo.records == 0


def lost_in_words(data: ReportData) -> str:
    """Say how many records were not replicated."""
    records, seconds = data.rpo.records, data.rpo.seconds
    if not data.rpo.lost.known and seconds is None:
        return "the number of records that were not replicated is unknown"
    if records is None and seconds is not None and not data.rpo.lost.known:
        return f"about the last {length(seconds)} of writes may not have been replicated"
    if data.rpo.exact and records is not None:
        return f"{plural(records, 'record')} {'was' if records == 1 else 'were'} not replicated"
    within = f" of the last {length(seconds)}" if seconds and not data.rpo.compared else ""
    return f"{data.rpo.lost.message}{within} may not have been replicated"


def writes_now(data: ReportData) -> str:
    """Say where applications can write, as a sentence; cluster names are not capitalized."""
    text = writes_state(data)
    return text if data.writes is Writes.TARGET else text[:1].upper() + text[1:]


def writes_state(data: ReportData) -> str:
    """Say where applications can write, as the end of a sentence."""
    source, target = plain(data.plan.source), plain(data.plan.target)
    match data.writes:
        case Writes.AS_BEFORE:
            if data.gives_up_source:
                return f"writes to {target} are not enabled yet, and {source} is treated as lost"
            return f"applications can write to {source} as before"
        case Writes.NOWHERE:
            return f"no cluster accepts writes: {source} is fenced, {target} is not enabled yet"
        case Writes.TARGET:
            done, total = data.endpoints
            only = "" if data.switched else f", but {done} of {plural(total, 'endpoint')} switched"
            return f"{target} accepts writes{only}"
        case Writes.UNKNOWN:
            return "it is unknown where applications can write"
        case Writes.NOT_TOUCHED:
            return f"{_left(data)} of {plural(len(data.steps), 'step')}"


def _left(data: ReportData) -> str:
    left = len(data.steps) - len(
        data.with_status(StepStatus.DONE, StepStatus.SKIPPED, StepStatus.OUTSTANDING)
    )
    return f"{plural(left, 'step')} {'remains' if left == 1 else 'remain'}"


def _late(data: ReportData) -> bool:
    """Return whether the last step failed its verification."""
    return any(s.id == data.ending.step for s in data.with_status(StepStatus.FAILED))


def _failed_at(data: ReportData) -> str:
    failed = next((step for step in data.steps if step.status is StepStatus.FAILED), None)
    return plain(failed.id if failed else data.ending.step)


def circumstances(data: ReportData) -> str:
    """Describe the run: its plan, link and time."""
    plan = data.plan
    return (
        f"run {plain(data.run)}, {plain(plan.name)}, link {plain(plan.link)}, "
        f"{plain(plan.source)} to {plain(plan.target)}, {when(data.began)} UTC, "
        f"took {length(data.seconds)}"
    )


def rto_in_brief(data: ReportData) -> str:
    """Return the start and end of the RTO, or why it is unknown."""
    rto = data.rto
    if rto.seconds is None or rto.start is None or rto.end is None:
        return sentence(rto.how.removeprefix("not measured: "))
    return f"{rto.start.astimezone(UTC):%H:%M:%S} to {rto.end.astimezone(UTC):%H:%M:%S} UTC"


def rpo_in_brief(data: ReportData) -> str:
    """Say how the RPO was determined, in a few words."""
    rpo = data.rpo
    if rpo.exact:
        return "proven by content"
    if not rpo.lost.known and rpo.seconds is None:
        return sentence(rpo.how.removeprefix("not measured: "))
    within = f" of the last {length(rpo.seconds)} of writes" if rpo.records and rpo.seconds else ""
    found = "compared by content, partly undecided" if rpo.compared else f"estimate{within}"
    return "; ".join(filter(None, (rpo.lost.parts[1], found)))


def journal_in_words(data: ReportData) -> str:
    """Say whether the journal is intact."""
    chain = data.chain
    if chain is None:
        return "not verified"
    if chain.damage is not None:
        return f"CHANGED OR DAMAGED: {sentence(chain.message)}"
    lines = plural(chain.lines, "line")
    ended = "" if chain.ended else ", not finished"
    return f"intact: {lines}{ended}, digest {chain.head.digest[:16]}"


def closed(text: str) -> str:
    """End external prose with a full stop."""
    prose = sentence(text)
    return prose if prose.endswith((".", "!", "?")) else f"{prose}."
