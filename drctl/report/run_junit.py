"""A run as JUnit XML for CI: one case a step.

A run whose exit code is not 0 has a failure or an error here, whatever CI makes of the code.
"""

from collections.abc import Iterator

from drctl.report.junit import Case, Suite, document
from drctl.report.printable import plain, sentence
from drctl.report.run_data import Became, ReportData, Standing, StepReport
from drctl.report.run_json import detail
from drctl.report.run_words import BECAME, circumstances, journal_in_words, verdict

_ELEMENTS = {
    Became.PASSED: "skipped",
    Became.TAKEN_BACK: "skipped",
    Became.NOT_BEGUN: "skipped",
    Became.OWED: "failure",
    Became.FAILED: "failure",
    Became.UNKNOWN: "error",
    Became.BEGUN: "error",
    Became.NOT_TAKEN_BACK: "error",
}


def render(data: ReportData) -> str:
    """The document."""
    return document(
        Suite(
            name=f"{plain(data.plan.name)} {plain(data.plan.link)}",
            began=data.began,
            host=plain(data.attempts[-1].host),
            classname=f"drctl.{plain(data.plan.name)}",
            cases=[_case(step, _result(step, data)) for step in data.steps],
            properties=_properties(data),
            out=_lines(data),
        )
    )


def _result(step: StepReport, data: ReportData) -> str:
    """The element that says what became of it; empty where it was done."""
    if step.became is Became.DONE and step.owed and step.id in data.owed:
        return "failure"
    found = _ELEMENTS.get(step.became, "")
    ended_here = step.id == (data.ending.step or data.steps[-1].id)
    if data.ending.standing is not Standing.DONE and ended_here and found in ("", "skipped"):
        return "error"
    return found


def _properties(data: ReportData) -> Iterator[tuple[str, str]]:
    rto, rpo = data.rto, data.rpo
    yield "run", plain(data.run)
    yield "fingerprint", data.plan.fingerprint
    yield "status", data.ending.standing.value
    yield "rto_seconds", "" if rto.seconds is None else f"{rto.seconds:.3f}"
    yield "rpo_records", "" if rpo.records is None else str(rpo.records)
    yield "rpo_seconds", "" if rpo.seconds is None else f"{rpo.seconds:.3f}"
    yield "rpo_exact", str(rpo.exact).lower()
    yield "journal", journal_in_words(data)


def _case(step: StepReport, found: str) -> Case:
    message = f"{BECAME[step.became]}: {sentence(step.owed or step.words)}".removesuffix(": ")
    text = f"{sentence(step.title)}\n{sentence(detail(step))}".rstrip()
    return Case(plain(step.id), found, message, text, step.became.value, step.seconds or 0.0)


def _lines(data: ReportData) -> str:
    lines = [verdict(data), circumstances(data)]
    for step in data.steps:
        told = sentence(detail(step))
        line = f"{step.number}. {plain(step.id)}: {BECAME[step.became]}: {told}"
        lines.append(line.removesuffix(": "))
    return "\n".join(lines)
