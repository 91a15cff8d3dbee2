"""The JSON Schemas: complete, strict, and printed unchanged."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

import drctl
from drctl.model.errors import ExitCode
from drctl.model.gap import Counts, GapResult, NotCompared, OrderCounts, PartitionGap, TopicGap
from drctl.model.topology import OffsetRange
from drctl.views.schemas import names, schema_of
from tests.cli.conftest import Run
from tests.cli.documents import check


def gap() -> dict[str, Any]:
    partitions = (
        PartitionGap(0, OffsetRange(0, 9), OffsetRange(0, 7), Counts(unreplicated=2),
                     OrderCounts(safe=1, unkeyed=1), 12, ((3, 4),), 1, 0, 1, 2),
        PartitionGap(1, OffsetRange(0, 0), None, Counts()),
    )  # fmt: skip
    topics = (TopicGap("orders", "orders", partitions, ("LogAppendTime",)),)
    missing = (NotCompared("x", None, "gone"), NotCompared("y", 3, "no leader"))
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    return GapResult(
        "main", "full", "a", "id-a", "b", "id-b", when, 1.5, "out", topics, missing
    ).to_json()


def test_a_real_gap_document_is_valid() -> None:
    document = check(json.loads(json.dumps(gap())))
    assert document["order"]["inversions"] is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("extra",), 1),
        (("totals", "extra"), 1),
        (("topics", 0, "partitions", 0, "extra"), 1),
        (("scope",), "half"),
        (("complete",), "yes"),
        (("totals", "unreplicated"), -1),
        (("topics", 0, "partitions", 0, "ranges", 0), [1, 2, 3]),
        (("schema",), "drctl/gap/2"),
    ],
)
def test_the_schema_of_gap_is_strict(path: tuple[str | int, ...], value: object) -> None:
    document = json.loads(json.dumps(gap()))
    schema = schema_of("gap")
    within = document
    for part in path[:-1]:
        within = within[part]
    within[path[-1]] = value
    with pytest.raises(ValidationError):
        Draft202012Validator(schema).validate(document)


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_each_schema_is_printed_and_valid(name: str, called: Run) -> None:
    ran = called("schema", f"drctl/{name}/1")
    assert (ran.code, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == json.loads(json.dumps(schema_of(name)))


@pytest.mark.parametrize("name", names())
def test_each_schema_is_valid(name: str) -> None:
    schema = json.loads(json.dumps(schema_of(name)))
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"drctl/{name}/1"
    assert schema["properties"]["schema"] == {"const": f"drctl/{name}/1"}


def test_a_schema_in_json(called: Run) -> None:
    document = check(called("schema", "gap", "-o", "json").document())
    assert document["version"] == 1
    assert document["json_schema"]["$id"] == "drctl/gap/1"
    assert document == called("schema", "gap/1", "-o", "json").document()


def test_without_a_name_all_names_are_listed(called: Run) -> None:
    ran = called("schema")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.split() == list(names())
    document = check(called("schema", "-o", "json").document())
    assert document["names"] == list(names())


def test_objects_allow_no_other_fields() -> None:
    def closed(node: Any) -> bool:
        if isinstance(node, list):
            return all(closed(item) for item in node)
        if not isinstance(node, dict):
            return True
        if node.get("type") == "object" and "properties" in node:
            assert node["additionalProperties"] is False
        return all(closed(inner) for inner in node.values())

    assert names()
    assert all(closed(schema_of(name)) for name in names())


def test_errors_may_have_every_exit_code_except_those_of_results() -> None:
    codes = set(schema_of("error")["$defs"]["ErrorBody"]["properties"]["code"]["enum"])
    assert codes == {int(code) for code in ExitCode} - {ExitCode.DONE, ExitCode.FOUND}


def test_an_unknown_version(called: Run) -> None:
    for asked in ("gap/99", "gap/x"):
        ran = called("schema", asked)
        assert (ran.code, ran.stdout) == (2, "")
        assert ran.stderr.startswith(f"error: unknown document '{asked}'")


def test_each_document_named_in_the_code_has_a_schema() -> None:
    named = {
        name
        for source in Path(drctl.__file__).parent.rglob("*.py")
        for name in re.findall(r'"drctl/([a-z-]+)/1"', source.read_text(encoding="utf-8"))
    }
    assert named == set(names())
