"""The JSON Schemas: complete, strict, and printed as they are."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from drctl.model.errors import ExitCode
from drctl.model.gap import Counts, GapResult, NotCompared, OrderCounts, PartitionGap, TopicGap
from drctl.model.topology import OffsetRange
from tests.cli.conftest import Run
from tests.cli.documents import FOLDER, check

FILES = sorted(FOLDER.glob("*.json"))


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


def test_a_real_gap_document_fits() -> None:
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
    schema = json.loads((FOLDER / "gap-1.json").read_text(encoding="utf-8"))
    within = document
    for part in path[:-1]:
        within = within[part]
    within[path[-1]] = value
    with pytest.raises(ValidationError):
        Draft202012Validator(schema).validate(document)


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_each_schema_is_printed_and_sound(file: Any, called: Run) -> None:
    name, version = file.stem.rsplit("-", 1)
    text = file.read_text(encoding="utf-8")
    ran = called("schema", f"drctl/{name}/{version}")
    assert (ran.code, ran.stdout, ran.stderr) == (0, text, "")
    schema = json.loads(text)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["properties"]["schema"] == {"const": f"drctl/{name}/{version}"}


def test_a_schema_in_json(called: Run) -> None:
    document = check(called("schema", "gap", "-o", "json").document())
    assert document["version"] == 1
    assert document["json_schema"]["$id"] == "drctl/gap/1"
    assert document == called("schema", "gap/1", "-o", "json").document()


def test_every_object_is_closed() -> None:
    def closed(node: Any) -> bool:
        if isinstance(node, list):
            return all(closed(item) for item in node)
        if not isinstance(node, dict):
            return True
        if node.get("type") == "object" and "properties" in node:
            assert node["additionalProperties"] is False
        return all(closed(inner) for inner in node.values())

    assert FILES
    assert all(closed(json.loads(file.read_text(encoding="utf-8"))) for file in FILES)


def test_errors_may_have_every_exit_code_but_those_of_results() -> None:
    schema = json.loads((FOLDER / "error-1.json").read_text(encoding="utf-8"))
    codes = set(schema["properties"]["error"]["properties"]["code"]["enum"])
    assert codes == {int(code) for code in ExitCode} - {ExitCode.DONE, ExitCode.FOUND}


def test_an_unknown_version(called: Run) -> None:
    for asked in ("gap/99", "gap/x"):
        ran = called("schema", asked)
        assert (ran.code, ran.stdout) == (2, "")
        assert ran.stderr.startswith(f"error: there is no document '{asked}'")


def test_each_document_that_is_named_in_the_code_has_a_schema() -> None:
    package = FOLDER.parent
    named = {
        f"{name}-{version}"
        for source in package.rglob("*.py")
        for name, version in re.findall(
            r'"drctl/([a-z-]+)/(\d+)"', source.read_text(encoding="utf-8")
        )
    }
    assert named == {file.stem for file in FILES}
