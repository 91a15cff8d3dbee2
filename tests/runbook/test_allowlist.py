"""Which commands runbooks may run."""

from pathlib import Path

import pytest

from drctl.config.loading import read
from drctl.runbook.allowlist import Allowlist, allowlist_of

CONFIG = """clusters: {a: {bootstrap: "a:1"}, b: {bootstrap: "b:1"}}
runbooks: ours
commands:
  - [systemctl, restart, "*"]
  - [kafka-topics.sh, --describe, "..."]
  - [true]
"""


@pytest.fixture
def allowlist(tmp_path: Path) -> Allowlist:
    return allowlist_of(
        read(CONFIG.replace("[true]", '["true"]'), tmp_path / "drctl.yaml"), ["doctor"]
    )


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
def test_word_by_word(allowlist: Allowlist, line: str, allowed: bool) -> None:
    assert allowlist.allows(line.split()) is allowed


def test_without_a_configuration_all_commands_are_allowed_and_with_an_empty_list_none() -> None:
    assert Allowlist().allows(["rm"])
    assert not Allowlist(()).allows(["rm"])


def test_prechecks_are_the_registered_checks_and_those_given(allowlist: Allowlist) -> None:
    assert {"doctor", "mm2-topics"} <= allowlist.prechecks


def test_the_runbook_folder_is_relative_to_the_configuration(tmp_path: Path) -> None:
    text = CONFIG.replace("[true]", '["true"]')
    assert read(text, tmp_path / "drctl.yaml").runbooks == tmp_path / "ours"
    assert read(text.replace("runbooks: ours\n", ""), tmp_path / "drctl.yaml").runbooks is None
