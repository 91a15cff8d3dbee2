"""JUnit XML for CI: what the schemas of Ant, Surefire and Jenkins have in common."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from xml.etree.ElementTree import Element, SubElement, indent, tostring


@dataclass(frozen=True, slots=True)
class Case:
    """One case.

    Attributes:
        found: the element that says what became of it: failure, error, skipped; empty where all
            is well.
        kind: of a failure or an error.
    """

    name: str
    found: str = ""
    message: str = ""
    text: str = ""
    kind: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Suite:
    """All of it; every text has to be printable.

    Attributes:
        began: UTC.
        classname: of every case.
        properties: names and values.
        out: what stands in `system-out`.
    """

    name: str
    began: datetime
    host: str
    classname: str
    cases: Sequence[Case]
    properties: Iterable[tuple[str, str]]
    out: str


def document(told: Suite) -> str:
    """The XML."""
    found = [case.found for case in told.cases]
    suites = Element("testsuites")
    suite = SubElement(
        suites,
        "testsuite",
        id="0",
        package="drctl",
        name=told.name,
        timestamp=f"{told.began.astimezone(UTC):%Y-%m-%dT%H:%M:%S}",
        hostname=told.host,
        tests=str(len(found)),
        failures=str(found.count("failure")),
        errors=str(found.count("error")),
        skipped=str(found.count("skipped")),
        time=f"{sum(case.seconds for case in told.cases):.3f}",
    )
    properties = SubElement(suite, "properties")
    for name, value in told.properties:
        SubElement(properties, "property", name=name, value=value)
    for case in told.cases:
        _add(suite, case, told.classname)
    SubElement(suite, "system-out").text = told.out
    SubElement(suite, "system-err").text = ""
    indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(suites, encoding="unicode")}\n'


def _add(suite: Element, case: Case, classname: str) -> None:
    element = SubElement(
        suite, "testcase", classname=classname, name=case.name, time=f"{case.seconds:.3f}"
    )
    if not case.found:
        return
    told = SubElement(element, case.found, message=case.message)
    if case.found != "skipped":
        told.set("type", case.kind)
    told.text = case.text
