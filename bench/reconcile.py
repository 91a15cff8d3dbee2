"""`drctl reconcile --policy copy` on a tail, compared with a producer.

The producer is confluent-kafka's, idempotent (so acks=all), with lz4. It writes the same records as
drctl: same keys, values, partitions, timestamps and header, all prepared in memory. It reads and
compares nothing, and has no transactions. A second one writes no header.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, repeat
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench.evidence import remove
from bench.filling import PRODUCER, QUIET, Appender, create_topics
from bench.memory import FLAT
from bench.process import WrongAnswer, drctl
from bench.records import PARTITIONS, Message, chunks
from bench.rows import Ratio, Row, Target, paired
from bench.stage import Stage, link_over
from drctl.formats import provenance
from drctl.model.topology import TopicPartition
from drctl.reconcile.executing import stamp_of
from drctl.reconcile.progress import TOPIC as PROGRESS

PART = "reconcile"

_TOPIC = "bench-tail"
_WANTED = Target(0.7, at_least=True)
_DEADLINE_S = 1800
_CLUSTER = "x" * 22
"""As long as a Kafka cluster id."""

_WAITING, _LOOK_EVERY = 200_000, 20_000


@dataclass(frozen=True, slots=True)
class Copied:
    """A run that copied everything.

    Attributes:
        process_s: duration of the process; run_s: from its first journal entry to its verification.
        core_s: CPU time of the process.
        megabytes: peak memory.
    """

    process_s: float
    run_s: float
    core_s: float
    megabytes: float


def measure(stage: Stage, records: int, rounds: int, sizes: Sequence[int] = ()) -> Iterator[Row]:
    """Measure both producers, and drctl's time and memory.

    Args:
        sizes: records of additional runs of drctl, one run each.

    Raises:
        WrongAnswer: not every record was copied.
    """
    names = [f"{_TOPIC}.{number}" for number in range(rounds)]
    config = _configured(stage, _TOPIC, names)
    tail = [message for messages in _written(stage, _TOPIC, records) for message in messages]
    stamped, bare, copied = list[float](), list[float](), list[Copied]()
    for number in range(rounds):
        theirs = [f"{_TOPIC}.{kind}-{number}" for kind in ("stamped", "bare")]
        create_topics(stage.target, [*theirs, names[number]])
        stamped.append(_produced(stage, theirs[0], tail, _stamps(tail)))
        bare.append(_produced(stage, theirs[1], tail, repeat(None)))
        copied.append(_reconciled(stage, config, names[number], records))
        stage.tell(
            f"plain producer {stamped[-1]:.1f} s, without the header {bare[-1]:.1f} s,"
            f" drctl reconcile {copied[-1].run_s:.1f} s"
        )
    yield from _rows(records, stamped, bare, copied)
    del tail
    yield from _larger(stage, sorted(sizes))
    remove(stage, PROGRESS)


def _rows(
    records: int, stamped: Sequence[float], bare: Sequence[float], copied: Sequence[Copied]
) -> Iterator[Row]:
    name = f"{records:,} records"
    runs, whole = tuple(c.run_s for c in copied), tuple(c.process_s for c in copied)
    yield Row(PART, f"{name}: plain producer", tuple(stamped), records=records)
    yield Row(PART, f"{name}: plain producer without the header", tuple(bare), records=records)
    for what, theirs, meaning, target in (
        ("drctl reconcile", stamped, "rate / plain producer's", _WANTED),
        ("drctl reconcile, headers included", bare, "rate / without the header", None),
    ):
        ratio = Ratio(paired(theirs, runs), meaning, target)
        yield Row(PART, f"{name}: {what}", runs, records=records, ratio=ratio)
    yield Row(PART, f"{name}: its process", whole, records=records)
    spent = tuple(c.core_s for c in copied)
    yield Row(PART, f"{name}: CPU time of its process", spent, unit="core s")
    yield Row(PART, f"{name}: peak of its process", tuple(c.megabytes for c in copied), unit="MB")


def _larger(stage: Stage, sizes: Sequence[int]) -> Iterator[Row]:
    """Measure one run of each size: time, and memory with its ratio to that of the smallest."""
    peaks = list[float]()
    for size in sizes:
        source = f"{_TOPIC}-{size}"
        target = f"{source}.0"
        config = _configured(stage, source, [target])
        for _ in _written(stage, source, size):
            pass
        create_topics(stage.target, [target])
        copied = _reconciled(stage, config, target, size)
        peaks.append(copied.megabytes)
        stage.tell(f"{size:,} records: {copied.run_s:.1f} s, {copied.megabytes:.0f} MB")
        name = f"{size:,} records"
        yield Row(PART, f"{name}: drctl reconcile", (copied.run_s,), records=size)
        flat = Ratio(peaks[-1] / peaks[0], f"{size:,} / {sizes[0]:,}", FLAT)
        ratio = flat if len(peaks) > 1 else None
        yield Row(PART, f"{name}: peak of its process", (peaks[-1],), "MB", ratio=ratio)


def _written(stage: Stage, topic: str, records: int) -> Iterator[Sequence[Message]]:
    """Write the records to a new topic of the source, and yield them in chunks."""
    create_topics(stage.source, [topic])
    source = Appender(stage.source)
    for _, messages in chunks(records, stage.start_ms):
        source.append(topic, messages)
        yield messages
    source.finish()


def _configured(stage: Stage, source: str, targets: Sequence[str]) -> Path:
    """Write a link to each of these topics, because copied records are no longer missing."""
    links = {
        target: link_over(source, replicator={"kind": "none", "rename": f"${{topic}}.{number}"})
        for number, target in enumerate(targets)
    }
    return stage.configured(source, links, spark={"from_offsets": 100_000_000})


def _stamps(tail: Sequence[Message]) -> list[list[tuple[str, bytes]]]:
    """The provenance header of each record, as drctl would write it."""
    stamps = [stamp_of(_CLUSTER, TopicPartition(_TOPIC, n)) for n in range(PARTITIONS)]
    offsets = [count() for _ in stamps]
    return [
        [(provenance.HEADER, stamps[m.partition]((next(offsets[m.partition]), m.timestamp_ms)))]
        for m in tail
    ]


def _produced(stage: Stage, topic: str, tail: Sequence[Message], headers: Iterable[Any]) -> float:
    """Measure the time until all records are stored."""
    began = time.perf_counter()
    producer = Producer({**stage.target.client_properties(), **PRODUCER}, logger=QUIET)
    produce = producer.produce
    for number, (message, header) in enumerate(zip(tail, headers, strict=False)):
        key, value, partition, timestamp = message
        produce(topic, value, key, partition, timestamp=timestamp, headers=header)
        if not number % _LOOK_EVERY:
            while len(producer) > _WAITING:
                producer.poll(0.05)
    left = producer.flush(_DEADLINE_S)
    taken = time.perf_counter() - began
    if left:
        raise WrongAnswer(f"the plain producer did not write {left} records")
    return taken


def _reconciled(stage: Stage, config: Path, link: str, records: int) -> Copied:
    out = stage.folder / f"gap-{link}"
    drctl(config, "gap", "--link", link, "--scope", "full", "--out", str(out), codes=(0, 1))
    words = ("reconcile", str(out), "--policy", "copy", "--conflicting", "copy")
    done = drctl(config, *words, "--execute", "--yes")
    if (copied := done.document["totals"]["done"]) != records:
        raise WrongAnswer(f"drctl reconcile copied {copied} of {records} records")
    return Copied(done.seconds, done.document["seconds"], done.core_seconds, done.megabytes)
