"""The generated parts of the reference are what scripts/reference.py makes."""

import re
from pathlib import Path

import pytest

from drctl.cli.commands import COMMANDS
from drctl.cli.help_pages import reference
from drctl.config.schema import ConfigFile
from drctl.model.errors import ExitCode
from drctl.runbook.specs import SPECS
from drctl.views.schemas import names
from scripts.reference import BLOCKS, PAGES, PRINTED_BY, keys_of, page
from tests.docs.pages import page as written
from tests.docs.pages import rows

REFERENCE = sorted(PAGES.glob("*.md"))


@pytest.mark.parametrize("path", REFERENCE, ids=lambda path: path.name)
def test_generated_parts_are_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == page(path), "run: python -m scripts.reference"


def test_every_part_is_on_a_page() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in REFERENCE)
    assert sorted(re.findall(r"<!-- generated: ([a-z-]+) -->", text)) == sorted(BLOCKS)


def test_a_page_edited_by_hand_is_detected() -> None:
    path = PAGES / "metrics.md"
    text = path.read_text(encoding="utf-8")
    assert "drctl_status_up" in page(path)
    assert text.replace("drctl_status_up", "drctl_status_on") != page(path)


def test_every_key_is_described() -> None:
    documented = rows(written("docs/reference/configuration.md").text)
    assert [row for row in documented if len(row) != 3 or not all(row)] == []
    assert {key for key, _ in keys_of(ConfigFile)} <= {row[0].strip("`") for row in documented}


def test_the_schema_walk_covers_all_kinds_of_sections() -> None:
    keys = dict(keys_of(ConfigFile))
    assert keys["clusters.NAME.bootstrap"] == "required"
    assert keys["links.NAME.endpoints[].kind"] == "required"
    assert keys["links.NAME.replicator.reverse.connectors.source"] is None
    assert keys["spark.master"] == "local[*]"


def test_every_exit_code_and_step_kind_is_described() -> None:
    generated, _, _ = written("docs/reference/exit-codes.md").text.partition("<!-- end -->")
    codes = rows(generated)
    assert [int(row[0]) for row in codes] == list(ExitCode)
    assert all(all(row) for row in codes)
    steps = rows(written("docs/reference/runbook-steps.md").text)
    kinds = {row[0].strip("`"): row[1] for row in steps}
    assert [kind for kind in SPECS if not kinds[kind]] == []


def test_commands_describe_their_exit_codes() -> None:
    codes = {each.path: [code for code, _ in each.exit_codes] for each in reference()}
    assert {str(int(code)) for code in ExitCode} == set(codes["drctl"])
    changing = ("failover", "failback", "resume", "reconcile", "offsets apply", "elect unclean")
    assert all({"0", "3", "4", "5"} <= set(codes[f"drctl {name}"]) for name in changing)


def test_every_document_has_a_command() -> None:
    assert sorted(PRINTED_BY) == sorted(names())
    first = {words.split()[0].rstrip(",") for words in PRINTED_BY.values()}
    assert first - set(COMMANDS) <= {"every", "COMMAND", "--version"}
