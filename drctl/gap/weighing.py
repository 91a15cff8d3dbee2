"""About how many bytes a run will read, from a few records of its largest partitions."""

from collections.abc import Sequence

from drctl.gap.comparison import Reads, Side, span_of
from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, Record, TopicPartition, Unavailable

PARTITIONS = 16
RECORDS = 8
"""Looked at in the middle of what is read of each partition."""


def sampled_bytes(source: ClusterReader, reads: Reads) -> int | None:
    """Of keys and values, uncompressed, both sides; None where nothing could be looked at.

    Raises:
        Unreachable: the source did not answer.
    """
    spans = {
        TopicPartition(topic, partition): runs
        for topic, partitions in reads[Side.SOURCE].items()
        for partition, runs in partitions.items()
    }
    largest = sorted(spans, key=lambda place: -_span(spans[place]))[:PARTITIONS]
    found = source.following({place: _middle(spans[place]) for place in largest}, RECORDS)
    sizes = [
        _size(record)
        for records in found.values()
        if not isinstance(records, Unavailable)
        for record in records
    ]
    return round(sum(sizes) / len(sizes) * span_of(reads)) if sizes else None


def _middle(runs: Sequence[OffsetRange]) -> int:
    widest = max(runs, key=lambda run: run.span)
    return (widest.start + widest.end) // 2


def _span(runs: Sequence[OffsetRange]) -> int:
    return sum(run.span for run in runs)


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")
