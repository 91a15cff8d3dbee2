"""A drill as JUnit XML for CI: a case for each step, and one for each thing that it has to show.

A drill whose exit code is not 0 has a failure or an error here, and one that ends with 0 has none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from drctl.drill.judging import worse
from drctl.drill.result import Result
from drctl.report.drill_lines import VERDICTS, figures, untouched
from drctl.report.printable import plain, sentence
from drctl.report.run_data import Became

_OF_STEPS = {
    Became.DONE: "",
    # A fence that a dead source cannot have is owed in every such rehearsal.
    Became.OWED: "skipped",
    Became.PASSED: "skipped",
    Became.TAKEN_BACK: "skipped",
    Became.NOT_BEGUN: "skipped",
    Became.FAILED: "failure",
}


@dataclass(frozen=True, slots=True)
class _Case:
    """One case; `found` is the element that says what became of it, empty where all is well."""

    name: str
    found: str = ""
    lines: Sequence[str] = ()
    seconds: float = 0.0


def render(result: Result) -> str:
    """The document."""
    cases = [*_steps(result), *_shown(result)]
    found = [case.found for case in cases]
    suites = Element("testsuites")
    suite = SubElement(
        suites,
        "testsuite",
        id="0",
        package="drctl",
        name=f"drill {plain(result.link)}",
        timestamp=f"{result.began.astimezone(UTC):%Y-%m-%dT%H:%M:%S}",
        hostname="localhost",
        tests=str(len(cases)),
        failures=str(found.count("failure")),
        errors=str(found.count("error")),
        skipped=str(found.count("skipped")),
        time=f"{sum(case.seconds for case in cases):.3f}",
    )
    _properties(suite, result)
    for case in cases:
        _add(suite, case)
    SubElement(suite, "system-out").text = "\n".join(_told(result))
    SubElement(suite, "system-err").text = ""
    indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(suites, encoding="unicode")}\n'


def _steps(result: Result) -> Iterator[_Case]:
    for step in result.steps:
        found = _OF_STEPS.get(Became(step.status), "error")
        yield _Case(step.id, found, (f"{step.status}: {step.detail}",), step.seconds or 0.0)


def _shown(result: Result) -> Iterator[_Case]:
    """What each number that it can exit with stands for."""
    yield _Case("goes-through", _broke_off(result), (result.broke_off or "nothing was measured",))
    if result.measures is None:
        yield _Case("within-policy", "skipped", ("nothing was measured",))
    else:
        lines = worse(result.measures, result.limits)
        yield _Case("within-policy", "failure" if lines else "", lines)
    compared = result.compared
    if compared is None:
        yield _Case("all-else-as-before", "error", (result.not_compared or untouched(result),))
    elif compared.unseen:
        yield _Case("all-else-as-before", "error", (*compared.unseen, *compared.differences))
    else:
        found = "failure" if compared.differences else ""
        yield _Case("all-else-as-before", found, compared.differences)
    yield _Case("leaves-nothing", "error" if result.left else "", result.left)


def _broke_off(result: Result) -> str:
    if result.unanswered or result.interrupted:
        return "error"
    return "failure" if result.broke_off or result.measures is None else ""


def _properties(suite: Element, result: Result) -> None:
    measures = result.measures
    told = SubElement(suite, "properties")
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
        SubElement(told, "property", name=name, value="" if value is None else str(value))


def _add(suite: Element, case: _Case) -> None:
    element = SubElement(
        suite,
        "testcase",
        classname="drctl.drill",
        name=plain(case.name),
        time=f"{case.seconds:.3f}",
    )
    if not case.found:
        return
    lines = [sentence(line).removesuffix(": ") for line in case.lines]
    told = SubElement(element, case.found, message=lines[0])
    if case.found != "skipped":
        told.set("type", plain(case.name))
    told.text = "\n".join(lines)


def _told(result: Result) -> Iterator[str]:
    yield f"drill {result.scratch.drill} over link {plain(result.link)}: {VERDICTS[result.verdict]}"
    yield from (f"{each.name}: {each.value}, {each.how}" for each in figures(result))
    yield from map(sentence, result.reasons)
    yield sentence(untouched(result))
