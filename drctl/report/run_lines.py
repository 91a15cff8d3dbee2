"""The end of a run for a terminal, as rows and lines; all text is printable.

The sentences are those of `run_words` and `run_next`; these are what stands between them.
"""

from dataclasses import dataclass

from drctl.report import run_words
from drctl.report.printable import plain, plural, sentence
from drctl.report.run_data import Became, ReportData, Writes
from drctl.report.run_words import BECAME, length, rpo_in_brief, rto_in_brief, when

_BAD = (
    Became.FAILED,
    Became.UNKNOWN,
    Became.NOT_TAKEN_BACK,
    Became.OWED,
    Became.BEGUN,
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that the run was for, with how it is known."""

    name: str
    value: str
    how: str


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
        Figure("Applications can write to", writes_to(data), writes_how(data)),
        Figure(
            "RTO, from the command on" if rto.since_command else "RTO, writes refused for",
            "not measured" if rto.seconds is None else length(rto.seconds),
            rto_in_brief(data),
        ),
        Figure("RPO, left behind", left_behind(data), rpo_in_brief(data)),
    )


def writes_to(data: ReportData) -> str:
    """A cluster, or what else is true."""
    match data.writes:
        case Writes.TARGET:
            return plain(data.plan.target)
        case Writes.AS_BEFORE:
            return plain(data.plan.source)
        case _:
            return data.writes.value


def writes_how(data: ReportData) -> str:
    """Since when, or what is missing."""
    if data.writes is Writes.TARGET and not data.switched:
        done, total = data.endpoints
        return f"{done} of {plural(total, 'endpoint')} switched"
    if data.writes_since is not None:
        return f"since {when(data.writes_since)} UTC"
    match data.writes:
        case Writes.AS_BEFORE:
            return "as before the run"
        case Writes.UNKNOWN:
            return "look before you act"
        case _:
            return "by this plan"


def left_behind(data: ReportData) -> str:
    """Records, or seconds where nobody knows how many."""
    rpo = data.rpo
    if rpo.lost.known:
        return run_words.estimated(rpo)
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
            sentence(step.taken_back or step.words),
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
    told += [f"owed by {plain(step)}: {sentence(what)}" for step, what in data.owed.items()]
    return tuple(told)
