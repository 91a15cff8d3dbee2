"""The prose of the page about checks agrees with the code."""

import re

from drctl.checks.registry import CHECKS
from drctl.model.finding import Status
from scripts.reference import HEADINGS
from tests.docs.pages import page, rows

PAGE = page("docs/reference/checks.md")


def test_every_status() -> None:
    intro = PAGE.text.partition("<!-- generated")[0]
    assert [row[0].strip("`") for row in rows(intro)] == list(Status)


def test_every_check_has_a_row_under_its_family() -> None:
    for check in CHECKS:
        section = PAGE.section(f"## {HEADINGS[check.family]}")
        assert f"| `{check.name}` |" in section, check.name


def test_rules_name_existing_checks() -> None:
    known = {check.name for check in CHECKS} | {"client-..."}
    documented = rows(PAGE.section("## Rules of use, and which check verifies them"))
    assert len(documented) > 20
    for rule, kept in documented:
        names = set(re.findall(r"`([^`]+)`", kept))
        assert names, rule
        assert names <= known, (rule, names - known)


def test_notes_name_existing_checks() -> None:
    known = {check.name for check in CHECKS}
    named = re.findall(r"^- \*\*`([^`]+)`", PAGE.section("## Notes"), re.MULTILINE)
    assert len(named) > 5
    assert set(named) <= known
