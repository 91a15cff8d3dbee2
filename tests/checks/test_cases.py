"""Observations and the findings of the checks. DRCTL_REGENERATE=1 writes the expected texts."""

import os
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from drctl.checks.check import Check
from drctl.checks.clients import CLIENT_CHECKS, ClientCheck
from drctl.checks.registry import CHECKS, findings
from drctl.model.finding import Finding, Status
from drctl.model.loss import Mode
from tests.checks.observing import merged, observed

FOLDER = Path(__file__).parent / "cases"
CASES = sorted(FOLDER.glob("*.yaml"))


@cache
def scenarios(path: Path) -> tuple[tuple[str, dict[str, Any], tuple[Finding, ...]], ...]:
    """Return title, observations and findings of each case in the file."""
    document = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    found = []
    for title, change in document["cases"].items():
        case = merged(document["base"], change or {})
        shown = [f for f in findings(observed(case)) if f.check in document["checks"]]
        found.append((title, case, tuple(shown)))
    return tuple(found)


def written(finding: Finding) -> str:
    lines = [f"{finding.status:11} {finding.check}: {finding.subject}: {finding.reason}"]
    for name in ("evidence", "impact", "remedy"):
        text = getattr(finding, name)
        lines += [f"    {name}: {text}"] if text else []
    return "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_findings_of_the_cases(path: Path) -> None:
    rendered = "".join(
        f"== {title}\n" + "".join(written(finding) + "\n" for finding in found)
        for title, _, found in scenarios(path)
    )
    expected = path.with_suffix(".expected")
    if os.environ.get("DRCTL_REGENERATE"):
        expected.write_text(rendered, encoding="utf-8")
    assert rendered == expected.read_text(encoding="utf-8")


@cache
def seen() -> dict[str, set[Status]]:
    """Return the findings of each check over all cases."""
    found: dict[str, set[Status]] = {check.name: set() for check in CHECKS}
    for path in CASES:
        for _, _, reported in scenarios(path):
            for finding in reported:
                found[finding.check].add(finding.status)
    return found


@pytest.mark.parametrize("check", [*CHECKS, *CLIENT_CHECKS], ids=lambda check: check.name)
def test_every_check_can_warn_or_fail(check: Check | ClientCheck) -> None:
    assert set(check.worse) & {Status.WARN, Status.FAIL}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_every_status_of_every_check_occurs(check: Check) -> None:
    assert seen()[check.name] == check.statuses


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_findings_have_impact_and_remedy(path: Path) -> None:
    for title, _, found in scenarios(path):
        for finding in found:
            bad = finding.status in (Status.WARN, Status.FAIL)
            assert bool(finding.impact) or not bad, (title, finding)
            assert bool(finding.remedy) == (finding.status is not Status.OK), (title, finding)
            assert "planted" not in repr(finding), title


@pytest.mark.slow
@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_unobserved_values_are_never_ok(path: Path) -> None:
    for title, case, _ in scenarios(path):
        for mode in Mode:
            alone = {name: case[name] for name in ("link", "links") if name in case}
            reported = findings(observed({**alone, "mode": mode.value}))
            assert not [f for f in reported if f.status is Status.OK], title
            # What is wrong in drctl.yaml itself need not be observed.
            judged = {f.check for f in reported if f.status is not Status.NOT_CHECKED}
            assert judged <= {"fence-not-possible", "connectors-not-configured"}, title


ODD = ("", " ", "-1", "9" * 5_000, "NaN", "1e999", "[", "*", "(.+)+!", "a{99999999999}", "a,b,,")
ODD += ("\ud800\x1b", "a\nb", "${file:/x}", "true", "null", "\x00")


@pytest.mark.slow
def test_any_connector_configuration() -> None:
    """Any value must be judged or reported as not checked, and never cause a bug."""
    random = Random(21)
    known = [case for path in CASES for _, case, _ in scenarios(path)]
    cases = [case for case in known if isinstance(case.get("connectors"), dict)]
    keys = sorted(
        {key for case in cases for each in case["connectors"].values() for key in each or ()}
        - {"kind", "state", "tasks", "stack_trace"}
    )
    for number in range(int(os.environ.get("DRCTL_FUZZ", "400"))):
        case = random.choice(cases)
        name = random.choice(sorted(case["connectors"]) or ["mm2"])
        odd = {random.choice(keys): random.choice(ODD) for _ in range(random.choice((1, 1, 2)))}
        try:
            findings(observed(merged(case, {"connectors": {name: odd}})))
        except Exception as error:
            error.add_note(f"input {number}: {odd}")
            raise


def test_names_are_unique() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)


@pytest.mark.parametrize("change", [{"translate": False}, {"replicator": {"kind": "none"}}])
def test_links_without_translation_by_a_replicator(change: dict[str, Any]) -> None:
    link = {"replicator": {"kind": "mirrormaker2"}, **change}
    names = {finding.check for finding in findings(observed({"link": link}))}
    assert names
    assert not names & {check.name for check in CHECKS if check.family.translates}
