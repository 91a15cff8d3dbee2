"""A drill as JUnit XML: failed exactly when its exit code is not 0."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any
from xml.etree.ElementTree import Element

import pytest

from drctl.drill.result import Result, StepTime
from drctl.model.errors import ExitCode
from drctl.views.junit import drill_to_junit
from drctl.views.run_data import StepStatus
from tests.drill.test_result import AS_BEFORE, CHANGED, GOOD, HIDDEN, SLOW, result
from tests.report import junit

STEPS = (
    StepTime("preflight", "ask", "done", 1.5, "all prechecks passed"),
    StepTime("fence-producers", "fence", "outstanding", None, "the source is dead"),
)
ENDS: tuple[dict[str, Any], ...] = (
    {},
    {"measures": SLOW},
    {"measures": None},
    {"measures": None, "broke_off": "no"},
    {"measures": None, "broke_off": "silent", "unanswered": True},
    {"measures": None, "broke_off": "^C", "interrupted": True},
)


def every() -> Iterator[Result]:
    looks = (AS_BEFORE, CHANGED, HIDDEN, None)
    for end, compared, left in product(ENDS, looks, ((), ("topic x of a",))):
        yield result(steps=STEPS, compared=compared, left=left, **end)


def suite_of(of: Result) -> Element:
    return junit.suite_of(drill_to_junit(of))


def test_it_fails_exactly_if_the_exit_code_is_not_0() -> None:
    seen = set()
    for each in every():
        suite = suite_of(each)
        seen.add(each.exit_code)
        assert (junit.reds(suite) > 0) == (each.exit_code is not ExitCode.DONE), drill_to_junit(
            each
        )
        if each.exit_code in (ExitCode.UNKNOWN, ExitCode.STOPPED, ExitCode.INTERRUPTED):
            assert int(suite.attrib["errors"]), "this exit code is an error in JUnit, not a failure"
    assert seen == {
        ExitCode.DONE, ExitCode.FOUND, ExitCode.STOPPED, ExitCode.UNKNOWN, ExitCode.INTERRUPTED,
    }  # fmt: skip


def test_it_matches_the_common_schemas() -> None:
    bad = "\x1b[2J<b>&\u202e"
    hostile = result(
        steps=(*STEPS, StepTime(bad, bad, "failed", 0.0, bad)),
        broke_off=bad,
        measures=None,
        left=(bad,),
        compared=replace(CHANGED, differences=(bad,)),
    )
    assert int(suite_of(hostile).attrib["tests"]) == 3 + 4


def test_it_has_the_measurements() -> None:
    found = {
        each.attrib["name"]: each.attrib["value"]
        for each in suite_of(result(measures=GOOD)).iter("property")
    }
    assert (found["rto_seconds"], found["rpo_records"], found["verdict"]) == ("4.5", "0", "passed")


@pytest.mark.parametrize("status", StepStatus)
def test_every_result_of_a_step_is_covered(status: StepStatus) -> None:
    suite = suite_of(result(steps=(replace(STEPS[0], status=status.value),)))
    red = status not in (
        StepStatus.DONE,
        StepStatus.OUTSTANDING,
        StepStatus.SKIPPED,
        StepStatus.ROLLED_BACK,
        StepStatus.NOT_STARTED,
    )
    assert (junit.reds(suite) > 0) == red
