"""The page about runbooks agrees with the code; `yml` blocks are runbooks or a pipeline."""

import shlex
from pathlib import Path
from typing import get_args

import pytest
import yaml

from drctl.config.loading import read as read_config
from drctl.model.plan import Duty
from drctl.runbook.allowlist import allowlist_of
from drctl.runbook.linting import lint
from drctl.runbook.reading import listing
from drctl.runbook.schema import ACTION_KEYS, KEYS, ParameterType
from drctl.runbook.specs import SPECS
from drctl.runbook.when import FACTS
from drctl.steps.waiting import CONDITIONS
from tests.docs.pages import Page, page, pages, rows

PAGE = page("docs/reference/runbook-steps.md")


def table(heading: str, first: str = "") -> list[tuple[str, ...]]:
    """Return the rows of a section's table whose first row begins like this."""
    found: list[list[tuple[str, ...]]] = [[]]
    for row in rows(PAGE.section(heading)):
        if found[-1] and len(row) != len(found[-1][-1]):
            found.append([])
        found[-1].append(row)
    return next(each for each in found if each[0][0].strip("`").startswith(first))


def words(cell: str) -> list[str]:
    return [word.strip("`") for word in cell.split(", ") if word]


def test_every_kind_and_its_settings() -> None:
    documented = {
        row[0].strip("`"): words(row[2]) for row in table("## Kinds of steps", "preflight")
    }
    ours = {
        kind: [field.alias or name for name, field in spec.model.model_fields.items()]
        for kind, spec in SPECS.items()
    }
    assert {kind: sorted(names) for kind, names in documented.items()} == {
        kind: sorted(names) for kind, names in ours.items()
    }


def test_every_condition() -> None:
    assert [row[0].strip("`") for row in table("## Kinds of steps", "source")] == list(CONDITIONS)


def test_every_fact_and_its_values() -> None:
    documented = {row[0].strip("`"): row[1] for row in table("## When")}
    assert list(documented) == list(FACTS)
    assert all(
        tuple(words(documented[name])) == fact.values for name, fact in FACTS.items() if fact.values
    )


def test_every_type_of_parameter_every_key_and_every_duty() -> None:
    types = [row[0].strip("`") for row in table("## Parameters")]
    assert tuple(types) == get_args(ParameterType)
    keys = table("## Keys of a step")
    documented = {word for row in keys for word in row[0].replace("one of ", "").split(", ")}
    assert {word.strip("`") for word in documented} == set(KEYS["steps"])
    duties = next(row[1] for row in keys if row[0] == "`duty`")
    assert all(f"`{duty}`" in duties for duty in Duty)
    assert all(f"`{key}" in PAGE.section("## Keys of a step") for key in ACTION_KEYS)


def test_every_runbook_that_ships() -> None:
    section = page("docs/howto/runbooks.md").section("## Use one that ships with drctl")
    documented = {row[0].strip("`") for row in rows(section)}
    assert documented == {each.name for each in listing()}


def blocks() -> list[tuple[Page, str]]:
    return [(each, block) for each in pages() for block in each.blocks("yml")]


def test_there_is_a_runbook_and_a_pipeline() -> None:
    firsts = {block.partition(":")[0] for _, block in blocks()}
    assert firsts == {"name", "steps"}


@pytest.mark.parametrize("block", [b for _, b in blocks() if b.startswith("name:")])
def test_examples_of_runbooks_are_valid(block: str, tmp_path: Path) -> None:
    path = tmp_path / f"{yaml.safe_load(block)['name']}.yaml"
    path.write_text(block)
    clusters = "clusters: {a: {bootstrap: 'a:1'}, b: {bootstrap: 'b:1'}}\n"
    (allowed,) = PAGE.blocks("yaml")
    allowlist = allowlist_of(read_config(clusters + allowed, tmp_path / "drctl.yaml"))
    assert lint(path, allowlist).lines == ()


def test_the_pipeline_runs_commands_of_drctl() -> None:
    from tests.docs.test_command_lines import parse

    (block,) = [b for _, b in blocks() if b.startswith("steps:")]
    lines = [step["run"] for step in yaml.safe_load(block)["steps"]]
    assert len(lines) == 4
    for line in lines:
        first, *rest = shlex.split(line.partition(" > ")[0])
        assert first == "drctl"
        parse(rest)
