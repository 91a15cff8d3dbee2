"""`drctl reconcile --policy copy` on a tail, beside a producer that has the records at hand."""

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.evidence import remove
from bench.filling import Appender, create_topics
from bench.process import DRCTL, WrongAnswer
from bench.records import Message, chunks
from bench.rows import Ratio, Row, Target
from bench.stage import Stage, cluster_section
from bench.watching import watched
from drctl.reconcile.progress import TOPIC as PROGRESS

PART = "reconcile"

_TOPIC = "bench-tail"
_WANTED = Target(0.7, at_least=True)
_DEADLINE_S = 1800


@dataclass(frozen=True, slots=True)
class Copied:
    """A run that copied everything.

    Attributes:
        process_s: from the start of the process to its end; run_s: from the first thing it wrote
            down to what it read back.
        megabytes: the most memory that it ever held.
    """

    process_s: float
    run_s: float
    megabytes: float


def measure(stage: Stage, records: int, rounds: int) -> Iterator[Row]:
    """A row for the producer, and rows for drctl's time and memory.

    Raises:
        WrongAnswer: not every record was copied.
    """
    config = _configured(stage, rounds)
    create_topics(stage.source, [_TOPIC])
    source, tail = Appender(stage.source), list[Message]()
    for _, messages in chunks(records, stage.start_ms):
        source.append(_TOPIC, messages)
        tail += messages
    source.finish()
    plain, copied = [], []
    for number in range(rounds):
        create_topics(stage.target, [f"{_TOPIC}.plain-{number}", f"{_TOPIC}.{number}"])
        plain.append(_produced(stage, f"{_TOPIC}.plain-{number}", tail))
        copied.append(_reconciled(stage, config, number, records))
        stage.tell(f"plain producer {plain[-1]:.1f} s, drctl reconcile {copied[-1].run_s:.1f} s")
    remove(stage, PROGRESS)
    yield from _rows(records, plain, copied)


def _rows(records: int, plain: Sequence[float], copied: Sequence[Copied]) -> Iterator[Row]:
    name = f"{records:,} records"
    first = Row(PART, f"{name}: plain producer", tuple(plain), records=records)
    yield first
    run = Row(PART, f"{name}: drctl reconcile", tuple(c.run_s for c in copied), records=records)
    ratio = Ratio(first.value / run.value, "rate / plain producer's", _WANTED)
    yield Row(PART, run.name, run.samples, records=records, ratio=ratio)
    yield Row(PART, f"{name}: its process", tuple(c.process_s for c in copied), records=records)
    yield Row(PART, f"{name}: peak of its process", tuple(c.megabytes for c in copied), unit="MB")


def _configured(stage: Stage, rounds: int) -> Path:
    """A link for each round: what was copied once would not be missing again."""
    document: dict[str, Any] = {
        "clusters": {c.name: cluster_section(c) for c in (stage.source, stage.target)},
        "links": {
            f"round-{number}": {
                "from": "primary",
                "to": "secondary",
                "topics": [_TOPIC],
                "replicator": {"kind": "none", "rename": f"${{topic}}.{number}"},
            }
            for number in range(rounds)
        },
        "spark": {"from_offsets": 100_000_000},
    }
    config = stage.folder / "reconcile.yaml"
    config.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return config


def _produced(stage: Stage, topic: str, tail: list[Message]) -> float:
    began, target = time.perf_counter(), Appender(stage.target)
    target.append(topic, tail)
    target.finish()
    return time.perf_counter() - began


def _reconciled(stage: Stage, config: Path, number: int, records: int) -> Copied:
    out = stage.folder / f"tail-{number}"
    line = [str(DRCTL), "--config", str(config), "-o", "json"]
    gap = [*line, "gap", "--link", f"round-{number}", "--scope", "full", "--out", str(out)]
    subprocess.run(gap, capture_output=True, timeout=_DEADLINE_S, check=False)
    words = ["reconcile", str(out), "--policy", "copy", "--conflicting", "copy"]
    said = stage.folder / "reconcile.err"
    began = time.perf_counter()
    with (
        said.open("wb") as stderr,
        subprocess.Popen(
            [*line, *words, "--execute", "--yes"], stdout=subprocess.PIPE, stderr=stderr
        ) as process,
        watched(process.pid) as peak,
    ):
        try:
            told, _ = process.communicate(timeout=_DEADLINE_S)
        finally:
            process.kill()
    taken = time.perf_counter() - began
    found: dict[str, Any] = json.loads(told)
    if process.returncode or found["totals"]["done"] != records:
        raise WrongAnswer(f"drctl reconcile ended with {process.returncode}: {told[-1000:]!r}")
    return Copied(taken, found["seconds"], peak.megabytes)
