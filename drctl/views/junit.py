"""JUnit XML for CI: the subset that Ant, Surefire and Jenkins share."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from drctl.drill.result import Result, worse
from drctl.views.drill_text import VERDICTS, figures, untouched
from drctl.views.run_data import ReportData, RunStatus, StepReport, StepStatus
from drctl.views.run_json import detail
from drctl.views.run_words import STEP_STATUS, circumstances, journal_in_words, verdict
from drctl.views.text import plain, sentence


@dataclass(frozen=True, slots=True)
class Case:
    """A test case.

    Attributes:
        found: the element with the result: failure, error or skipped; empty if it passed.
        kind: the type of the failure or error.
    """

    name: str
    found: str = ""
    message: str = ""
    text: str = ""
    kind: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Suite:
    """A test suite; every text must be printable.

    Attributes:
        classname: class name of every case.
        properties: names and values.
        out: the text of `system-out`.
    """

    name: str
    began: datetime
    host: str
    classname: str
    cases: Sequence[Case]
    properties: Iterable[tuple[str, str]]
    out: str


def document(found: Suite) -> str:
    """Render a suite as XML."""
    elements = [case.found for case in found.cases]
    suites = Element("testsuites")
    suite = SubElement(
        suites,
        "testsuite",
        id="0",
        package="drctl",
        name=found.name,
        timestamp=f"{found.began.astimezone(UTC):%Y-%m-%dT%H:%M:%S}",
        hostname=found.host,
        tests=str(len(elements)),
        failures=str(elements.count("failure")),
        errors=str(elements.count("error")),
        skipped=str(elements.count("skipped")),
        time=f"{sum(case.seconds for case in found.cases):.3f}",
    )
    properties = SubElement(suite, "properties")
    for name, value in found.properties:
        SubElement(properties, "property", name=name, value=value)
    for case in found.cases:
        _add(suite, case, found.classname)
    SubElement(suite, "system-out").text = found.out
    SubElement(suite, "system-err").text = ""
    indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(suites, encoding="unicode")}\n'


def _add(suite: Element, case: Case, classname: str) -> None:
    element = SubElement(
        suite, "testcase", classname=classname, name=case.name, time=f"{case.seconds:.3f}"
    )
    if not case.found:
        return
    result = SubElement(element, case.found, message=case.message)
    if case.found != "skipped":
        result.set("type", case.kind)
    result.text = case.text


_OF_DRILL = {
    StepStatus.DONE: "",
    # With an injected fault, fencing the dead source is always left as an outstanding action.
    StepStatus.OUTSTANDING: "skipped",
    StepStatus.SKIPPED: "skipped",
    StepStatus.ROLLED_BACK: "skipped",
    StepStatus.NOT_STARTED: "skipped",
    StepStatus.FAILED: "failure",
}


def drill_to_junit(result: Result) -> str:
    """Render the result of a drill as JUnit XML."""
    return document(
        Suite(
            name=f"drill {plain(result.link)}",
            began=result.began,
            host="localhost",
            classname="drctl.drill",
            cases=[*_drill_steps(result), *_drill_results(result)],
            properties=_drill_properties(result),
            out="\n".join(_drill_lines(result)),
        )
    )


def _drill_case(name: str, found: str, lines: Sequence[str], seconds: float = 0.0) -> Case:
    texts = [sentence(line).removesuffix(": ") for line in lines] if found else [""]
    return Case(plain(name), found, texts[0], "\n".join(texts), plain(name), seconds)


def _drill_steps(result: Result) -> Iterator[Case]:
    for step in result.steps:
        found = _OF_DRILL.get(StepStatus(step.status), "error")
        yield _drill_case(step.id, found, (f"{step.status}: {step.detail}",), step.seconds or 0.0)


def _drill_results(result: Result) -> Iterator[Case]:
    """Yield one case for each reason for which a drill can fail."""
    yield _drill_case(
        "run-completed", _broke_off(result), (result.broke_off or "nothing was measured",)
    )
    if result.measures is None:
        yield _drill_case("within-policy", "skipped", ("nothing was measured",))
    else:
        lines = worse(result.measures, result.limits)
        yield _drill_case("within-policy", "failure" if lines else "", lines)
    compared = result.compared
    if compared is None:
        yield _drill_case(
            "other-resources-unchanged", "error", (result.not_compared or untouched(result),)
        )
    elif compared.unseen:
        unseen = (*compared.unseen, *compared.differences)
        yield _drill_case("other-resources-unchanged", "error", unseen)
    else:
        found = "failure" if compared.differences else ""
        yield _drill_case("other-resources-unchanged", found, compared.differences)
    yield _drill_case("resources-deleted", "error" if result.left else "", result.left)


def _broke_off(result: Result) -> str:
    if result.unanswered or result.interrupted:
        return "error"
    return "failure" if result.broke_off or result.measures is None else ""


def _drill_properties(result: Result) -> Iterator[tuple[str, str]]:
    measures = result.measures
    for name, value in (
        ("drill", result.scratch.drill),
        ("verdict", result.verdict.value),
        ("exit_code", int(result.exit_code)),
        ("mode", result.mode),
        ("inject", result.inject),
        ("rto_seconds", measures and measures.outage.seconds),
        ("rpo_records", measures and measures.loss.missing),
        ("rpo_seconds", measures and measures.loss.seconds),
        ("reread", measures and measures.translation.reread),
        ("skipped", measures and measures.translation.skipped),
    ):
        yield name, "" if value is None else str(value)


def _drill_lines(result: Result) -> Iterator[str]:
    yield f"drill {result.scratch.drill} over link {plain(result.link)}: {VERDICTS[result.verdict]}"
    yield from (f"{each.name}: {each.value}, {each.how}" for each in figures(result))
    yield from map(sentence, result.reasons)
    yield sentence(untouched(result))


_OF_RUN = {
    StepStatus.SKIPPED: "skipped",
    StepStatus.ROLLED_BACK: "skipped",
    StepStatus.NOT_STARTED: "skipped",
    StepStatus.OUTSTANDING: "failure",
    StepStatus.FAILED: "failure",
    StepStatus.UNKNOWN: "error",
    StepStatus.STARTED: "error",
    StepStatus.NOT_ROLLED_BACK: "error",
}


def run_to_junit(data: ReportData) -> str:
    """Render the report of a run as JUnit XML."""
    return document(
        Suite(
            name=f"{plain(data.plan.name)} {plain(data.plan.link)}",
            began=data.began,
            host=plain(data.attempts[-1].host),
            classname=f"drctl.{plain(data.plan.name)}",
            cases=[_run_case(step, _run_element(step, data)) for step in data.steps],
            properties=_run_properties(data),
            out=_run_lines(data),
        )
    )


def _run_element(step: StepReport, data: ReportData) -> str:
    """Return the element with the result of a step; empty if it was done."""
    if step.status is StepStatus.DONE and step.outstanding and step.id in data.outstanding:
        return "failure"
    found = _OF_RUN.get(step.status, "")
    ended_here = step.id == (data.ending.step or data.steps[-1].id)
    if data.ending.status is not RunStatus.DONE and ended_here and found in ("", "skipped"):
        return "error"
    return found


def _run_properties(data: ReportData) -> Iterator[tuple[str, str]]:
    rto, rpo = data.rto, data.rpo
    yield "run", plain(data.run)
    yield "fingerprint", data.plan.fingerprint
    yield "status", data.ending.status.value
    yield "rto_seconds", "" if rto.seconds is None else f"{rto.seconds:.3f}"
    yield "rpo_records", "" if rpo.records is None else str(rpo.records)
    yield "rpo_seconds", "" if rpo.seconds is None else f"{rpo.seconds:.3f}"
    yield "rpo_exact", str(rpo.exact).lower()
    yield "journal", journal_in_words(data)


def _run_case(step: StepReport, found: str) -> Case:
    message = (
        f"{STEP_STATUS[step.status]}: {sentence(step.outstanding or step.message)}".removesuffix(
            ": "
        )
    )
    text = f"{sentence(step.title)}\n{sentence(detail(step))}".rstrip()
    return Case(plain(step.id), found, message, text, step.status.value, step.seconds or 0.0)


def _run_lines(data: ReportData) -> str:
    lines = [verdict(data), circumstances(data)]
    for step in data.steps:
        line = (
            f"{step.number}. {plain(step.id)}: {STEP_STATUS[step.status]}: {sentence(detail(step))}"
        )
        lines.append(line.removesuffix(": "))
    return "\n".join(lines)
