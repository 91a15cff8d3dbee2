"""The output of `drctl doctor` in a terminal: the verdict first, and every check once."""

from dataclasses import replace

import pytest

from drctl.checks.diagnosis import Diagnosis, diagnosed
from drctl.model.finding import Status
from drctl.views.doctor import doctor_table
from tests.checks.observing import observed
from tests.checks.test_causes import AFTER, HALF_WAY
from tests.checks.test_go import HEALTHY
from tests.report.test_gap_table import drawn

CASES = {"healthy": HEALTHY, "after-a-failover": AFTER, "unfinished-run": HALF_WAY}


def shown(found: Diagnosis) -> list[str]:
    return drawn(doctor_table(found), width=2_000).splitlines()


@pytest.mark.parametrize("case", CASES)
def test_every_check_is_listed_with_its_status(case: str) -> None:
    found = diagnosed(observed(CASES[case]))
    lines = shown(found)
    listed = [line.split()[:2] for line in lines[lines.index("All checks") + 1 :]]
    for row in found.rows:
        assert [row.finding.check, row.finding.status.value] in listed


def test_blockers_come_before_warnings_and_both_before_all_checks() -> None:
    found = diagnosed(observed(AFTER))
    lines = shown(found)
    assert lines[0] == "Not ready: a failover would be blocked or would fail"
    places = [lines.index(each) for each in ("Blockers and failures", "Warnings", "All checks")]
    assert places == sorted(places)
    blockers = "\n".join(lines[places[0] : places[1]])
    for row in found.rows:
        if row.refuses and row.finding.cause is None:
            assert row.finding.check in blockers


def test_the_verdict_and_the_next_command_are_repeated_below_all_checks() -> None:
    found = diagnosed(observed(AFTER))
    first, *_, again, names, following, command = shown(found)
    assert again == first == "Not ready: a failover would be blocked or would fail"
    bad = [r.finding.check for r in found.rows if r.refuses or r.finding.status is Status.FAIL]
    assert names == f"Blockers and failures, see above: {', '.join(dict.fromkeys(bad))}"
    assert following == "Next: fix them, and check again"
    assert command == "  drctl doctor --link main"
    repairable = [
        row._replace(finding=replace(row.finding, remedy="copy the settings: drctl doctor --fix"))
        for row in found.rows
    ]
    assert shown(replace(found, rows=tuple(repairable)))[-3:] == [
        "Next: show what drctl can change, fix the rest by hand, and check again",
        "  drctl doctor --link main --fix",
        "  drctl doctor --link main",
    ]


def only(found: Diagnosis, *statuses: Status) -> Diagnosis:
    rows = [row._replace(refuses=False) for row in found.rows if row.finding.status in statuses]
    return replace(found, rows=tuple(rows))


@pytest.mark.parametrize(
    ("statuses", "heading"),
    [((Status.OK,), False), ((Status.OK, Status.WARN), True)],
    ids=["all-ok", "warnings"],
)
def test_ready_with_warnings_and_without(statuses: tuple[Status, ...], heading: bool) -> None:
    lines = shown(only(diagnosed(observed(AFTER)), *statuses))
    assert lines[0] == lines[-1] == "Ready: no blockers"
    assert ("Warnings" in lines) == heading
    assert "Blockers and failures" not in lines


def test_a_cluster_that_did_not_answer_makes_the_verdict_unknown() -> None:
    found = replace(diagnosed(observed(AFTER)), silent=("a", "b"))
    assert "Unknown: a and b did not answer" in shown(found)
