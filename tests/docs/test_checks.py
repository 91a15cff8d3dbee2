"""The page about checks says what the registry says."""

import pytest

from drctl.checks.check import Family
from drctl.checks.registry import CHECKS
from drctl.model.finding import Status
from tests.docs.pages import page, rows

HEADINGS = {Family.MIRRORMAKER: "## MirrorMaker 2", Family.REPLICATOR: "## Confluent Replicator"}


@pytest.mark.parametrize("family", Family)
def test_every_check_and_what_it_can_say(family: Family) -> None:
    told = rows(page("docs/checks.md").section(HEADINGS[family]))
    checks = [check for check in CHECKS if check.family is family]
    assert told == tuple((f"`{c.name}`", c.about, ", ".join(c.worse)) for c in checks)


def test_every_status() -> None:
    intro = page("docs/checks.md").text.partition("\n## ")[0]
    assert [row[0].strip("`") for row in rows(intro)] == list(Status)
