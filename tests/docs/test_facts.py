"""Facts in the pages agree with the code: exit codes, keys, defaults, documents, versions."""

import json
import re
import tomllib
from functools import cache

import pytest

from drctl.cli.gap import Scope
from drctl.config.loading import read
from drctl.gap.freeze import REPLICATION_HEADERS
from drctl.lab.settings import FIRST, USERS, LabSettings
from drctl.model.gap import OrderVerdict, RecordClass
from drctl.views.status_text import PREFIX
from tests.cli.documents import check
from tests.docs.pages import ROOT, Page, page, pages, rows


@pytest.mark.parametrize("each", pages(), ids=lambda each: each.name)
def test_examples_of_configuration_load(each: Page) -> None:
    clusters = "clusters: {primary: {bootstrap: 'a:9092'}, secondary: {bootstrap: 'b:9092'}}\n"
    for block in each.blocks("yaml"):
        text = block if "clusters:" in block else clusters + block
        read(text, each.path)


@pytest.mark.parametrize("each", pages(), ids=lambda each: each.name)
def test_examples_of_documents_match_their_schemas(each: Page) -> None:
    for block in each.blocks("json"):
        check(json.loads(block))


def test_classes_verdicts_and_headers() -> None:
    comparison = page("docs/explanation/comparison.md")
    classes = {row[0] for row in rows(comparison.section("## Classes of source records"))}
    ours = {RecordClass.UNREPLICATED, RecordClass.SUPERSEDED, RecordClass.EXPIRED}
    assert classes == {"replicated", "undecided", *ours}
    verdicts = {row[0] for row in rows(comparison.section("## Would a copy change the order?"))}
    assert verdicts == set(OrderVerdict)
    same = comparison.section("## When two records are equal")
    assert all(f"`{name}`" in same for name in REPLICATION_HEADERS)
    scopes = [row[0] for row in rows(comparison.section("## How much is read"))]
    assert set(Scope) <= {scope.split("`")[1] for scope in scopes if "`" in scope}


def test_columns_of_the_parquet() -> None:
    from drctl.spark import inversions, results

    schemas = f"{results.SCHEMA}, {inversions.SCHEMA}"
    table = [
        row
        for row in rows(page("docs/explanation/comparison.md").section("## The files"))
        if len(row) == 3
    ]
    documented = [
        (name.strip("`"), kind)
        for names, kinds, _ in table
        for name, kind in zip(names.split(", "), kinds.split(", "), strict=True)
    ]
    assert documented == [tuple(column.split()) for column in schemas.split(", ")]


def test_the_lab_is_as_described() -> None:
    lab = page("docs/tutorial/lab.md")
    settings = LabSettings(brokers=3)
    assert f"The base is {settings.port_base} " in lab.text
    documented = " ".join(row[0] for row in rows(lab.section("## Look around")) if "base" in row[0])
    for cluster in ("primary", "secondary"):
        offset = settings.broker_port(cluster, 1) - settings.port_base
        assert f"base + {offset}, {offset + 1}, {offset + 2}" in documented
        assert f"{settings.controller_port(cluster, 1) - settings.port_base}.." in documented
    assert f"base + {settings.connect_port - settings.port_base}" in documented
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


def test_documented_jars_are_those_that_drctl_downloads() -> None:
    from drctl.artifacts.jars import committed_sums

    named = re.findall(r"[\w.-]+\.jar", page("docs/howto/air-gapped.md").section("## Jar files"))
    assert sorted(named) == sorted(committed_sums("spark-connector"))


def test_documented_layers_are_enforced() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    contract = tomllib.loads(text)["tool"]["importlinter"]["contracts"][0]
    layers = [name for layer in contract["layers"] for name in re.findall(r"[\w()]+", layer)]
    enforced = [name for name in layers if not name.startswith("(")]
    documented = [
        row[0].strip("`/")
        for row in rows(page("docs/explanation/architecture.md").section("## Packages"))
    ]
    assert sorted(documented) == sorted(enforced)


ARCHITECTURE = page("docs/explanation/architecture.md")


def test_files_named_in_the_three_examples_exist() -> None:
    traces = ARCHITECTURE.section("## Three values, from the command line to the cluster")
    for trace in traces.strip().split("\n\n"):
        named = re.findall(r"`([a-z_/]+\.py)`", trace)
        assert len(named) >= 10, trace
        assert [name for name in named if not (ROOT / "drctl" / name).is_file()] == []


def test_files_named_in_the_architecture_tables_exist() -> None:
    packages = ARCHITECTURE.section("## Packages")
    for package, text in rows(packages):
        folder = ROOT / "drctl" / package.strip("`/")
        for name in re.findall(r"`([a-z_*]+\.py)`", text):
            assert list(folder.glob(name)), f"{package}: {name}"


@pytest.mark.parametrize("each", pages(), ids=lambda each: each.name)
def test_files_named_in_pages_exist(each: Page) -> None:
    for name in re.findall(r"`([a-z]+/[a-z_/]+\.py)`", each.text):
        assert (ROOT / name).is_file() or (ROOT / "drctl" / name).is_file(), name
    for name in re.findall(r"`((?:drctl|tests)/[a-z_/]+)`", each.text):
        assert (ROOT / name).is_dir(), name


# Settings and calls of other software that pages mention, and counters without their prefix.
FOREIGN = {
    "load-server-state-from-file",
    "produce_batch",
    "producer_byte_rate",
    "send_offsets_to_transaction",
}
COUNTERS = {"passes_total", "failures_total", "moved_total", "written_total"}


@cache
def source() -> str:
    files = (p for name in ("drctl", "runbooks", "bench") for p in (ROOT / name).rglob("*"))
    wanted = (path for path in files if path.suffix in {".py", ".yaml"})
    return "".join(path.read_text(encoding="utf-8") for path in wanted)


@pytest.mark.parametrize("each", pages(), ids=lambda each: each.name)
def test_names_in_the_pages_are_names_in_the_code(each: Page) -> None:
    """Checks, steps, methods, fields and keys in the pages exist."""
    names = {code.removeprefix(PREFIX) for code in each.inline()} - FOREIGN - COUNTERS
    compound = {name for name in names if re.fullmatch(r"[a-z0-9]+([-_][a-z0-9]+)+", name)}
    assert [name for name in sorted(compound) if name not in source()] == []


def test_numbers_in_the_pages() -> None:
    from drctl.gap.comparison import RUNS_A_PARTITION, RUNS_IN_ALL
    from drctl.gap.freeze import DIGEST_ROWS
    from drctl.spark.session import SMALL

    comparison = page("docs/explanation/comparison.md").text
    assert f"{RUNS_A_PARTITION:,} per partition and about {RUNS_IN_ALL:,} in all" in comparison
    digests = page("docs/decisions/0001-digests.md").text
    assert f"About {DIGEST_ROWS:,} buckets for a side" in digests
    assert f"Below {SMALL:,} offsets" in page("docs/decisions/0005-spark-reader.md").text


def test_names_of_the_engine_in_the_decisions() -> None:
    from drctl.engine.kind import StepKind, Trait

    effects = page("docs/decisions/0009-verified-effects.md").text
    named = set(re.findall(r"`([a-z_]+)`", effects)) - {"doctor"}
    assert len(named) == 5
    assert named <= set(dir(StepKind))
    failback = page("docs/decisions/0010-one-failback-plan.md").text
    assert set(re.findall(r"`([A-Z]{5,})`", failback)) <= set(Trait.__members__)


def test_steps_of_the_tables_are_steps_of_the_plans() -> None:
    made = [*(ROOT / "drctl/plans").glob("*.py"), *(ROOT / "drctl/steps").glob("*.py")]
    plans = "".join(path.read_text(encoding="utf-8") for path in made)
    failover, failback = page("docs/explanation/failover.md"), page("docs/explanation/failback.md")
    tables = [
        rows(failover.section("## Planned: both clusters are up")),
        [row[1:] for row in rows(failback.section("## The steps"))],
        [row[1:] for row in rows(failback.section("## A source that lost its records"))],
    ]
    named = {name for table in tables for row in table for name in re.findall(r"`([^`]+)`", row[0])}
    assert len(named) > 30
    parts = {re.sub(r"-(SOURCE|N)$", "", name) for name in named}
    assert [name for name in sorted(parts) if f'"{name}' not in plans] == []
