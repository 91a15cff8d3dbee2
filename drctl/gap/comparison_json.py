"""What a comparer answers, as JSON: it travels back from a Spark application of its own."""

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, get_type_hints

from drctl.gap.comparison import BucketDigest, Comparison, Disorder
from drctl.gap.json_values import plain, reader, restored


def digests_to_json(digests: Sequence[BucketDigest]) -> Any:
    """A table: there may be a hundred thousand of them, and names would be most of the text."""
    columns = [field.name for field in fields(BucketDigest)]
    return {"columns": columns, "rows": list(map(attrgetter(*columns), digests))}


def digests_from_json(data: Any) -> tuple[BucketDigest, ...]:
    """Raises ValueError where the data is no such table."""
    hints = get_type_hints(BucketDigest)
    columns = [field.name for field in fields(BucketDigest)]
    if not isinstance(data, dict) or data.get("columns") != columns:
        raise ValueError("not a table of digests")
    readers = [reader(hints[column]) for column in columns]
    return tuple(
        BucketDigest(*(read(cell) for read, cell in zip(readers, row, strict=True)))
        for row in data["rows"]
    )


def comparison_to_json(comparison: Comparison) -> Any:
    """The outcome of the record-by-record comparison."""
    return plain(comparison)


def disorder_from_json(data: Any) -> Disorder:
    """Raises ValueError where the data is no such outcome."""
    disorder: Disorder = restored(Disorder, data)
    return disorder


def disorder_to_json(disorder: Disorder) -> Any:
    """What stands in another order."""
    return plain(disorder)


def comparison_from_json(data: Any) -> Comparison:
    """Raises ValueError where the data is no such outcome."""
    comparison: Comparison = restored(Comparison, data)
    return comparison
