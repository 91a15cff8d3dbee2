"""Documents: created from a value, frozen, and written as JSON."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

import pytest

from drctl.model.document import OPTIONAL, Count, Document, From, Name, as_json
from drctl.model.topology import OffsetRange
from drctl.views.schemas import json_schema


class Color(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Row:
    topic: str
    lag: int | None
    began: datetime
    color: Color = Color.RED
    ranges: tuple[OffsetRange, ...] = (OffsetRange(3, 5),)


class RowDocument(Document):
    """A row.

    Attributes:
        records: number of records; null if unknown.
    """

    read = From(Row)
    topic: Name
    records: Count | None = read(lambda row: row.lag)
    began: datetime
    color: Color
    ranges: tuple[tuple[Count, Count], ...]
    from_: str = "here"
    note: Annotated[str | None, OPTIONAL] = None


class Rows(Document):
    """All rows."""

    SCHEMA = "drctl/rows/1"
    rows: tuple[RowDocument, ...]


AT = datetime(2026, 3, 5, 14, 20, 7, tzinfo=UTC)


def test_a_document_is_read_from_a_value() -> None:
    document = Rows(rows=RowDocument.each([Row("a", 3, AT), Row("b", None, AT)]))
    assert document.to_json() == {
        "schema": "drctl/rows/1",
        "rows": [
            {
                "topic": topic,
                "records": records,
                "began": "2026-03-05T14:20:07.000+00:00",
                "color": "red",
                "ranges": [[3, 5]],
                "from": "here",
            }
            for topic, records in (("a", 3), ("b", None))
        ],
    }
    noted = RowDocument.of(Row("a", 3, AT), note="odd")
    assert noted.to_json()["note"] == "odd"


def test_its_schema_is_made_of_the_same_fields() -> None:
    schema = json_schema(Rows)
    row = schema["$defs"]["RowDocument"]
    assert schema["$id"] == "drctl/rows/1"
    assert schema["properties"]["schema"] == {"const": "drctl/rows/1"}
    assert row["required"] == ["topic", "records", "began", "color", "ranges", "from"]
    assert row["properties"]["records"] == {
        "type": ["integer", "null"],
        "minimum": 0,
        "description": "number of records; null if unknown",
    }
    assert row["properties"]["color"] == {"enum": ["red"]}
    assert row["properties"]["note"] == {"type": "string"}


def test_it_is_frozen_and_whole() -> None:
    document = RowDocument.of(Row("a", 3, AT))
    with pytest.raises(AttributeError, match="frozen"):
        document.topic = "b"  # type: ignore[misc]
    with pytest.raises(TypeError, match="missing or unknown fields: other, rows"):
        Rows(other=())  # type: ignore[call-arg]


def test_dataclasses_are_written_as_they_are() -> None:
    assert as_json({"row": Row("a", None, AT)})["row"]["ranges"] == [[3, 5]]
