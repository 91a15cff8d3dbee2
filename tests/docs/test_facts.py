"""Facts that the pages state are those of the code: codes, keys, defaults, documents, versions."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from drctl.cli.gap import Scope
from drctl.config.loading import read
from drctl.config.schema import ConfigFile
from drctl.gap.freeze import REPLICATION_HEADERS
from drctl.lab.settings import FIRST, USERS, LabSettings
from drctl.model.errors import ExitCode
from drctl.model.gap import OrderVerdict, RecordClass
from drctl.views.schemas import names
from tests.cli.documents import check
from tests.docs.pages import ROOT, Page, page, pages, rows

REQUIRED = "required"


@pytest.mark.parametrize("name", ["README.md", "docs/commands.md"])
def test_the_table_of_exit_codes(name: str) -> None:
    told = {int(row[0]): row for row in rows(page(name).section("## Exit codes"))}
    assert set(told) == set(ExitCode)
    if len(told[0]) == 3:
        assert {code: row[1] for code, row in told.items()} == {c: c.name for c in ExitCode}


def sections_of(annotation: Any) -> Iterator[tuple[str, type[BaseModel]]]:
    """The models inside a field, with what stands between its name and theirs."""
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            between = {Mapping: ".NAME", tuple: "[]"}.get(_origin(annotation), "")
            yield between, part


def _origin(annotation: Any) -> Any:
    origin = get_origin(annotation)
    return Mapping if isinstance(origin, type) and issubclass(origin, Mapping) else origin


def keys_of(model: type[BaseModel], given: Any = None, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every key that holds a value, with its default; of a section that has one, from there."""
    for name, field in model.model_fields.items():
        here = f"{path}{field.alias or name}"
        if name == "endpoints":
            # The keys of each kind are on a page of their own: tests/endpoints/test_registry.py.
            yield f"{here}[].kind", REQUIRED
            continue
        default = getattr(given, name) if given is not None else _default(field)
        inner = list(sections_of(field.annotation))
        for between, section in inner:
            known = default if isinstance(default, section) else None
            yield from keys_of(section, known, f"{here}{between}.")
        if not inner:
            yield here, default


def _default(field: FieldInfo) -> Any:
    return REQUIRED if field.is_required() else field.get_default(call_default_factory=True)


def plain(default: Any) -> Any:
    """As YAML would read it."""
    if isinstance(default, Mapping):
        return dict(default)
    return list(default) if isinstance(default, tuple) else default


def test_every_key_of_the_configuration_and_its_default() -> None:
    told = {}
    for key, default, _ in rows(page("docs/configuration.md").section("## Keys")):
        text = default.strip("`")
        told[key.strip("`")] = None if default == "none" else yaml.safe_load(text)
    assert told == {key: plain(default) for key, default in keys_of(ConfigFile)}


def test_the_walk_over_the_schema_sees_all_kinds_of_sections() -> None:
    keys = dict(keys_of(ConfigFile))
    assert keys["clusters.NAME.bootstrap"] == REQUIRED
    assert keys["links.NAME.endpoints[].kind"] == REQUIRED
    assert keys["links.NAME.replicator.reverse.connectors.source"] is None
    assert keys["spark.master"] == "local[*]"


@pytest.mark.parametrize("each", pages(), ids=lambda each: each.name)
def test_examples_of_configuration_load(each: Page) -> None:
    clusters = "clusters: {primary: {bootstrap: 'a:9092'}, secondary: {bootstrap: 'b:9092'}}\n"
    for block in each.blocks("yaml"):
        text = block if "clusters:" in block else clusters + block
        read(text, each.path)


@pytest.mark.parametrize("each", pages(), ids=lambda each: each.name)
def test_examples_of_documents_fit_their_schemas(each: Page) -> None:
    for block in each.blocks("json"):
        check(json.loads(block))


def test_every_document_is_listed_and_the_larger_ones_are_shown() -> None:
    contract = page("docs/commands.md")
    listed = {row[0].strip("`") for row in rows(contract.section("## JSON documents"))}
    assert listed == {f"drctl/{name}/1" for name in names()}
    shown = {json.loads(block)["schema"] for block in contract.blocks("json")}
    assert listed - shown == {"drctl/version/1", "drctl/help/1"}


def test_scopes_classes_verdicts_and_headers() -> None:
    contract, gap = page("docs/commands.md"), page("docs/gap.md")
    assert f"--scope {'|'.join(Scope)}" in contract.inline()
    classes = {row[0] for row in rows(gap.section("## What becomes of a source record"))}
    ours = {RecordClass.UNREPLICATED, RecordClass.SUPERSEDED, RecordClass.EXPIRED}
    assert classes == {"replicated", "undecided", *ours}
    verdicts = {row[0] for row in rows(gap.section("## What copying would do to order"))}
    assert verdicts == set(OrderVerdict)
    same = gap.section("## When two records are the same")
    assert all(f"`{name}`" in same for name in REPLICATION_HEADERS)


def test_columns_of_the_parquet() -> None:
    from drctl.spark import compare, results

    schemas = f"{results.SCHEMA}, {compare.SCHEMA}"
    table = [row for row in rows(page("docs/gap.md").section("## The files")) if len(row) == 3]
    told = [
        (name.strip("`"), kind)
        for names, kinds, _ in table
        for name, kind in zip(names.split(", "), kinds.split(", "), strict=True)
    ]
    assert told == [tuple(column.split()) for column in schemas.split(", ")]


def test_the_lab_is_as_described() -> None:
    lab = page("docs/lab.md")
    settings = LabSettings(brokers=3)
    assert f"The base is {settings.port_base} " in lab.text
    told = " ".join(row[0] for row in rows(lab.section("## Look around")) if "base" in row[0])
    for cluster in ("primary", "secondary"):
        offset = settings.broker_port(cluster, 1) - settings.port_base
        assert f"base + {offset}, {offset + 1}, {offset + 2}" in told
        assert f"{settings.controller_port(cluster, 1) - settings.port_base}.." in told
    assert f"base + {settings.connect_port - settings.port_base}" in told
    users = [row[0].strip("`") for row in rows(lab.section("## Look around"))]
    assert {*USERS, FIRST} < set(users)


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for each in pages():
        blocks = "\n".join(each.blocks("sh"))
        named = re.findall(r"^make ([a-z-]+)", "\n".join([blocks, *each.inline()]), re.MULTILINE)
        assert set(named) <= targets, each.name


def test_the_readme_begins_with_the_two_commands() -> None:
    blocks = [block.strip() for block in page("README.md").blocks("sh")]
    assert blocks[:2] == ["make demo", "make test"]
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_newest_heading_of_the_changelog_is_the_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    newest = re.search(r"^## \[([^\]]+)\]", page("CHANGELOG.md").text, re.MULTILINE)
    assert newest
    assert newest[1] == project["version"]


def test_jars_are_those_that_drctl_would_fetch() -> None:
    from drctl.artifacts.jars import committed_sums

    named = re.findall(r"[\w.-]+\.jar", page("README.md").section("## Spark elsewhere"))
    assert sorted(named) == sorted(committed_sums("spark-connector"))


def test_layers_are_those_that_are_enforced() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contract = tomllib.loads(text)["tool"]["importlinter"]["contracts"][0]
    layers = [name for layer in contract["layers"] for name in re.findall(r"[\w()]+", layer)]
    enforced = [name for name in layers if not name.startswith("(")]
    told = [row[0].strip("`/") for row in rows(page("docs/architecture.md").section("## Packages"))]
    assert sorted(told) == sorted(enforced)


def test_files_that_the_architecture_names_exist() -> None:
    named = set(
        re.findall(r"`(?:drctl/)?([a-z_]+/[a-z_/]+\.py)`", page("docs/architecture.md").text)
    )
    ours = {name for name in named if (ROOT / "drctl" / name.split("/")[0]).is_dir()}
    assert len(ours) > 30
    assert [name for name in sorted(ours) if not (ROOT / "drctl" / name).is_file()] == []


def test_numbers_in_the_decisions() -> None:
    from drctl.gap.comparison import RUNS_A_PARTITION, RUNS_IN_ALL
    from drctl.gap.freeze import DIGEST_ROWS
    from drctl.spark.session import SMALL

    told = {p.path.name[:4]: p.text for p in pages() if p.name.startswith("docs/decisions/0")}
    assert f"About {DIGEST_ROWS:,} buckets for a side" in told["0003"]
    assert f"first {RUNS_A_PARTITION:,} runs (`RUNS_A_PARTITION`)" in told["0007"]
    assert f"more than {RUNS_IN_ALL // RUNS_A_PARTITION} partitions have gaps" in told["0007"]
    assert f"about {RUNS_IN_ALL:,} are listed" in told["0007"]
    assert f"Below {SMALL:,} offsets" in told["0016"]
