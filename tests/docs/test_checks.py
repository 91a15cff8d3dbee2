"""The page about checks says what the registry says."""

import re
from collections.abc import Collection

import pytest

from drctl.checks.check import Family
from drctl.checks.registry import CHECKS, GUARDS
from drctl.model.finding import Status
from drctl.model.loss import Mode
from tests.docs.pages import page, rows

HEADINGS = {
    **{family: f"## {family.value.title()}" for family in Family},
    Family.MIRRORMAKER: "## MirrorMaker 2",
    Family.REPLICATOR: "## Confluent Replicator",
}


@pytest.mark.parametrize("family", Family)
def test_every_check_and_what_it_can_say(family: Family) -> None:
    told = rows(page("docs/checks.md").section(HEADINGS[family]))
    checks = [check for check in CHECKS if check.family is family]
    assert told == tuple((f"`{c.name}`", c.about, ", ".join(c.worse)) for c in checks)


def test_every_guard_and_what_it_may_keep_from() -> None:
    told = rows(page("docs/checks.md").section("## As guards"))
    expected = []
    for name, check in GUARDS.items():
        guards = check.guards
        assert guards is not None
        passed = "yes" if guards.overridable else "no"
        expected.append((f"`{name}`", _modes(guards.modes), _modes(guards.needed), passed))
    assert told == tuple(expected)


def _modes(some: Collection[Mode]) -> str:
    return ", ".join(mode.value for mode in Mode if mode in some) or "-"


def test_every_status() -> None:
    intro = page("docs/checks.md").text.partition("\n## ")[0]
    assert [row[0].strip("`") for row in rows(intro)] == list(Status)


def test_the_readiness_guide_lists_every_check() -> None:
    told = rows(page("docs/readiness.md").section("## All checks"))
    expected = []
    for check in CHECKS:
        heading = HEADINGS[check.family].removeprefix("## ")
        link = f"[{heading}](checks.md#{heading.lower().replace(' ', '-')})"
        expected.append((f"`{check.name}`", link, "yes" if check.guards else "no"))
    assert told == tuple(expected)


def test_every_rule_of_use_is_kept_by_checks_that_there_are() -> None:
    known = {check.name for check in CHECKS} | {"client-..."}
    told = rows(page("docs/readiness.md").section("## Rules of use, and which row keeps them"))
    assert len(told) > 20
    for rule, kept in told:
        names = set(re.findall(r"`([^`]+)`", kept))
        assert names, rule
        assert names <= known, (rule, names - known)
