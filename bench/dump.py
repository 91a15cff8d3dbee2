"""`drctl dump-consumer-timestamps` on millions of records: time and memory."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.evidence import remove
from bench.filling import Appender, create_topics
from bench.process import WrongAnswer, line
from bench.records import CHUNK, Message
from bench.rows import Ratio, Row, Target
from bench.stage import Stage
from bench.watching import watched
from drctl.formats.consumer_timestamps import (
    TOPIC,
    ConsumerTimestamp,
    GroupPartition,
    encode_key,
    encode_value,
)

PART = "dump"
KEYS = 4000
"""1,000 groups with 4 partitions each."""

FLAT = Target(1.2)

_PARTITIONS = 50  # as Replicator creates the topic
_PIPE = 1 << 20


@dataclass(frozen=True, slots=True)
class Kind:
    """How the topic was written.

    Attributes:
        keys: number of keys for a number of records.
    """

    title: str
    keys: Callable[[int], int]


FEW = Kind(f"{KEYS:,} keys", lambda records: min(KEYS, records))
OWN = Kind("a key each", lambda records: records)


@dataclass(frozen=True, slots=True)
class Dumped:
    """A run that wrote the expected number of rows.

    Attributes:
        megabytes: peak memory.
    """

    seconds: float
    megabytes: float


def measure(stage: Stage, sizes: Sequence[int]) -> Iterator[Row]:
    """Measure time and memory for each kind of topic and each size.

    Raises:
        WrongAnswer: a run wrote too few rows, or old ones.
    """
    config = stage.configured("dump", {})
    for kind in (FEW, OWN):
        runs: dict[tuple[str, int], Dumped] = {}
        for size in _grown(stage, kind, sizes):
            runs["the newest of each", size] = _run(stage, config, kind.keys(size), size)
            if kind is FEW:
                runs["--all", size] = _run(stage, config, size, size, "--all")
        yield from _rows(kind, runs)
    remove(stage, TOPIC)


def _grown(stage: Stage, kind: Kind, sizes: Sequence[int]) -> Iterator[int]:
    """Create the topic and write up to each size in turn."""
    remove(stage, TOPIC)
    create_topics(stage.target, [TOPIC], _PARTITIONS)
    appender, written = Appender(stage.target), 0
    for size in sorted(sizes):
        stage.tell(f"writing {size - written:,} records of {TOPIC}, {kind.title}")
        for first in range(written, size, CHUNK):
            numbers = range(first, min(first + CHUNK, size))
            appender.append(TOPIC, messages(kind.keys(max(sizes)), numbers, stage.start_ms))
        appender.finish()
        written = size
        yield size


def messages(keys: int, numbers: range, start_ms: int) -> list[Message]:
    """Build records with these numbers: keys in turns, timestamps one millisecond apart."""
    return [
        Message(
            encode_key(GroupPartition(f"orders-app-{key // 4:07}", "orders", key % 4)),
            encode_value(ConsumerTimestamp(start_ms + number, 0, 8)),
            key % _PARTITIONS,
            start_ms + number,
        )
        for number in numbers
        for key in (number % keys,)
    ]


def _rows(kind: Kind, runs: dict[tuple[str, int], Dumped]) -> Iterator[Row]:
    smallest, most = (pick(size for _, size in runs) for pick in (min, max))
    for (what, size), run in runs.items():
        name = f"dump-consumer-timestamps, {size:,} records, {kind.title}, {what}"
        yield Row(PART, name, (run.seconds,), records=size)
        ratio = None
        if size == most > smallest:
            meaning = f"{most:,} records / {smallest:,}"
            grown = run.megabytes / runs[what, smallest].megabytes
            ratio = Ratio(grown, meaning, FLAT if kind is FEW else None)
        yield Row(PART, f"{name}: peak of its process", (run.megabytes,), "MB", ratio=ratio)


def _run(stage: Stage, config: Path, rows: int, records: int, *words: str) -> Dumped:
    given = line(config, "dump-consumer-timestamps", "--cluster", stage.target.name, *words)
    stderr_file = stage.folder / "dump.err"
    began = time.perf_counter()
    with (
        stderr_file.open("wb") as stderr,
        subprocess.Popen(given, stdout=subprocess.PIPE, stderr=stderr, cwd=stage.folder) as process,
        watched(process.pid) as peak,
    ):
        try:
            written, last = _counted(process)
            code = process.wait()
        finally:
            process.kill()
    taken = time.perf_counter() - began
    stage.tell(f"{records:,} records, {rows:,} rows: {taken:.1f} s, {peak.megabytes:.0f} MB")
    newest = stage.start_ms + records - rows
    if code or written != rows or json.loads(last)["timestamp_ms"] < newest:
        stderr_text = stderr_file.read_text(encoding="utf-8", errors="replace")[-1000:]
        raise WrongAnswer(f"{written} rows, not {rows}, exit code {code}: {last!r} {stderr_text}")
    return Dumped(taken, peak.megabytes)


def _counted(process: "subprocess.Popen[bytes]") -> tuple[int, bytes]:
    """Number of output lines, and the last line."""
    assert process.stdout is not None
    lines, rest = 0, b""
    while chunk := process.stdout.read(_PIPE):
        lines += chunk.count(b"\n")
        rest = (rest + chunk)[-_PIPE:]
    return lines, rest.rstrip(b"\n").rpartition(b"\n")[2]
