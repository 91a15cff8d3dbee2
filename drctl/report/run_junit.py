"""A run as JUnit XML for CI: one case a step.

A run whose exit code is not 0 has a failure or an error here, whatever CI makes of the code.
What stands here is what the schemas of Ant, Surefire and Jenkins have in common.
"""

from datetime import UTC
from xml.etree.ElementTree import Element, SubElement, indent, tostring

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
    results = [_result(step, data) for step in data.steps]
    suites = Element("testsuites")
    suite = SubElement(
        suites,
        "testsuite",
        id="0",
        package="drctl",
        name=f"{plain(data.plan.name)} {plain(data.plan.link)}",
        timestamp=f"{data.began.astimezone(UTC):%Y-%m-%dT%H:%M:%S}",
        hostname=plain(data.attempts[-1].host),
        tests=str(len(results)),
        failures=str(results.count("failure")),
        errors=str(results.count("error")),
        skipped=str(results.count("skipped")),
        time=f"{sum(step.seconds or 0 for step in data.steps):.3f}",
    )
    _properties(suite, data)
    for step, result in zip(data.steps, results, strict=True):
        _case(suite, step, result, data)
    SubElement(suite, "system-out").text = _lines(data)
    SubElement(suite, "system-err").text = ""
    indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(suites, encoding="unicode")}\n'


def _result(step: StepReport, data: ReportData) -> str:
    """The element that says what became of it; empty where it was done."""
    if step.became is Became.DONE and step.owed and step.id in data.owed:
        return "failure"
    found = _ELEMENTS.get(step.became, "")
    ended_here = step.id == (data.ending.step or data.steps[-1].id)
    if data.ending.standing is not Standing.DONE and ended_here and found in ("", "skipped"):
        return "error"
    return found


def _properties(suite: Element, data: ReportData) -> None:
    told = SubElement(suite, "properties")
    rto, rpo = data.rto, data.rpo
    for name, value in (
        ("run", plain(data.run)),
        ("fingerprint", data.plan.fingerprint),
        ("status", data.ending.standing.value),
        ("rto_seconds", "" if rto.seconds is None else f"{rto.seconds:.3f}"),
        ("rpo_records", "" if rpo.records is None else str(rpo.records)),
        ("rpo_seconds", "" if rpo.seconds is None else f"{rpo.seconds:.3f}"),
        ("rpo_exact", str(rpo.exact).lower()),
        ("journal", journal_in_words(data)),
    ):
        SubElement(told, "property", name=name, value=value)


def _case(suite: Element, step: StepReport, result: str, data: ReportData) -> None:
    case = SubElement(
        suite,
        "testcase",
        classname=f"drctl.{plain(data.plan.name)}",
        name=plain(step.id),
        time=f"{step.seconds or 0:.3f}",
    )
    if not result:
        return
    message = f"{BECAME[step.became]}: {sentence(step.owed or step.words)}".removesuffix(": ")
    told = SubElement(case, result, message=message)
    if result != "skipped":
        told.set("type", step.became.value)
    told.text = f"{sentence(step.title)}\n{sentence(detail(step))}".rstrip()


def _lines(data: ReportData) -> str:
    lines = [verdict(data), circumstances(data)]
    for step in data.steps:
        told = sentence(detail(step))
        line = f"{step.number}. {plain(step.id)}: {BECAME[step.became]}: {told}"
        lines.append(line.removesuffix(": "))
    return "\n".join(lines)
