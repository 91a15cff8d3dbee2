"""Which commands a site lets runbooks run."""

from pathlib import Path

import pytest

from drctl.config.loading import read
from drctl.runbook.site import Site, site_of

CONFIG = """clusters: {a: {bootstrap: "a:1"}, b: {bootstrap: "b:1"}}
runbooks: ours
commands:
  - [systemctl, restart, "*"]
  - [kafka-topics.sh, --describe, "..."]
  - [true]
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return site_of(read(CONFIG.replace("[true]", '["true"]'), tmp_path / "drctl.yaml"), ["doctor"])


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("systemctl restart mm2", True),
        ("systemctl restart", False),
        ("systemctl restart mm2 kafka", False),
        ("systemctl restart --now", False),
        ("systemctl stop mm2", False),
        ("kafka-topics.sh --describe", True),
        ("kafka-topics.sh --describe a b", True),
        ("kafka-topics.sh --describe a --delete", False),
        ("kafka-topics.sh --delete", False),
        ("true", True),
        ("true true", False),
        ("/bin/true", False),
    ],
)
def test_word_by_word(site: Site, line: str, allowed: bool) -> None:
    assert site.allows(line.split()) is allowed


def test_what_is_not_known_refuses_nothing_and_an_empty_list_everything() -> None:
    assert Site().allows(["rm"])
    assert not Site(()).allows(["rm"])


def test_guards_are_the_checks_and_those_that_are_named(site: Site) -> None:
    assert {"doctor", "mm2-topics"} <= site.prechecks


def test_the_folder_of_the_sites_own_starts_from_the_configuration(tmp_path: Path) -> None:
    text = CONFIG.replace("[true]", '["true"]')
    assert read(text, tmp_path / "drctl.yaml").runbooks == tmp_path / "ours"
    assert read(text.replace("runbooks: ours\n", ""), tmp_path / "drctl.yaml").runbooks is None
