"""Offset ranges of many partitions, read by this process: never more, never less than asked for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError

from drctl.gap.comparison import ScanFailed, Side
from drctl.kafka.deadline import Deadline
from drctl.kafka.simple_consumer import FETCH_BYTES, SimpleConsumer
from drctl.model.topology import Chunk, OffsetRange, Row, TopicPartition, TopicRanges

PATIENCE_S = 20.0
"""How long no partition may give anything; an election of leaders takes half of it."""

_POLL_S = 0.1
_CONNECT_S = 1.0
_WAIT = "fetch.wait.max.ms"
_SMALL_GAP = 200
"""Offsets between two ranges that are read through, not jumped over."""

_PASSING = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT})


@dataclass(frozen=True, slots=True)
class LogSource:
    """Where to read.

    Attributes:
        cluster: its name in drctl.yaml.
        properties: of librdkafka, secrets included.
    """

    cluster: str
    properties: Mapping[str, str]


class KafkaRangeReader:
    """Reads one cluster's logs with consumers that belong to no group.

    Args:
        fetch_bytes: how much of each partition to ask for at once, packed as the log has it.
    """

    def __init__(
        self, source: LogSource, *, timeout_s: float = PATIENCE_S, fetch_bytes: int = FETCH_BYTES
    ) -> None:
        self._source = source
        self._patience_s = timeout_s
        self._fetch_bytes = fetch_bytes

    def read(self, ranges: TopicRanges, *, uncommitted: bool = False) -> Iterator[Chunk]:
        """Every committed record of these ranges, those of a partition in order.

        Args:
            uncommitted: whether to read records whose transaction was aborted or is open, too.

        Raises:
            ScanFailed: an offset is gone, or its broker gives nothing any more.
            ConfigError: librdkafka does not take the properties.
        """
        waiting = {
            TopicPartition(topic, partition): Reading(wanted)
            for topic, partitions in ranges.items()
            for partition, runs in partitions.items()
            if (wanted := [r for r in reversed(runs) if r.span])
        }
        source = self._source
        if not waiting:
            return
        with SimpleConsumer(
            source.properties, self._fetch_bytes, uncommitted=uncommitted
        ) as consumer:
            consumer.connect(_CONNECT_S)
            # A broker may wait that long for more bytes, if the user wants it to.
            timeout_s = self._patience_s + int(source.properties.get(_WAIT, 0)) / 1000
            yield from Scan(source.cluster, consumer, waiting, timeout_s).chunks()


class KafkaLogReader:
    """Implements `drctl.gap.held.LogReader`."""

    def __init__(self, sources: Mapping[Side, LogSource], *, timeout_s: float = PATIENCE_S) -> None:
        self._readers = {
            side: KafkaRangeReader(source, timeout_s=timeout_s) for side, source in sources.items()
        }

    def read(self, side: Side, ranges: TopicRanges) -> Iterator[Chunk]:
        """Every committed record of these ranges, those of a partition in order.

        Raises:
            ScanFailed: an offset is gone, or its broker gives nothing any more.
            ConfigError: librdkafka does not take the properties.
        """
        return self._readers[side].read(ranges)


@dataclass(slots=True)
class Reading:
    """How far a partition is.

    Attributes:
        left: its ranges, the current one last.
        log_end: where its log ended, as far as is known.
    """

    left: list[OffsetRange]
    position: int = 0
    end: int = 0
    log_end: int | None = None

    def __post_init__(self) -> None:
        """Begin with the first range."""
        self.position, self.end = self.left[-1]

    def advance(self) -> bool:
        """Continue to the next range, if there is one."""
        self.left.pop()
        if self.left:
            self.position, self.end = self.left[-1]
        return bool(self.left)


class Scan:
    """One consumer and what it has still to read."""

    def __init__(
        self,
        cluster: str,
        consumer: SimpleConsumer,
        waiting: dict[TopicPartition, Reading],
        timeout_s: float,
    ) -> None:
        self._cluster = cluster
        self._consumer = consumer
        self._waiting = waiting
        self._patience_s = timeout_s

    def chunks(self) -> Iterator[Chunk]:
        """All records of all ranges."""
        for partition, reading in self._waiting.items():
            self._consumer.start(partition, reading.position)
        heard = Deadline.after(self._patience_s)
        while self._waiting:
            before, came = len(self._waiting), False
            for chunk in self._batch():
                came = True
                yield chunk
            if came or len(self._waiting) < before:
                heard = Deadline.after(self._patience_s)
            elif heard.expired:
                raise self._silent()

    def _batch(self) -> Iterator[Chunk]:
        """What has come by now."""
        for partition, error, rows in self._consumer.poll_rows(_POLL_S):
            reading = self._waiting.get(partition)
            if reading is None:
                continue  # read to its end already
            if error:
                self._ended(partition, reading, error, rows[0][0])
            elif wanted := self._wanted(partition, reading, rows):
                yield Chunk(partition.topic, partition.partition, wanted)

    def _wanted(
        self, partition: TopicPartition, reading: Reading, rows: list[Row]
    ) -> Sequence[Row]:
        """Those of the ranges to read that did not come before."""
        if reading.position <= rows[0][0] and rows[-1][0] < reading.end:
            self._seen(partition, reading, rows[-1][0] + 1)
            return rows
        wanted = []
        for row in rows:
            offset = row[0]
            if offset >= reading.end and not self._seen(partition, reading, offset):
                break
            if offset >= reading.position:  # after a jump, older ones may still come
                wanted.append(row)
                if not self._seen(partition, reading, offset + 1):
                    break
        return wanted

    def _seen(self, partition: TopicPartition, reading: Reading, offset: int) -> bool:
        """Everything before this offset has come; whether there is more to read."""
        while reading.end <= offset:
            if not reading.advance():
                del self._waiting[partition]
                self._consumer.stop(partition)
                return False
            if reading.position > offset + _SMALL_GAP:
                self._consumer.jump(partition, reading.position)
        reading.position = max(reading.position, offset)
        return True

    def _ended(self, partition: TopicPartition, reading: Reading, error: int, offset: int) -> None:
        """Nothing more comes for now, or ever.

        Raises:
            ScanFailed: it cannot continue.
        """
        if error == KafkaError._PARTITION_EOF:
            reading.log_end = offset
            # Its last offsets may hold no record: markers of transactions, or what was compacted.
            self._seen(partition, reading, offset)
        elif error == KafkaError._AUTO_OFFSET_RESET:
            raise self._failed(partition, f"offset {reading.position} was deleted")
        elif error not in _PASSING:
            raise self._failed(partition, self._consumer.text_of(error))

    def _silent(self) -> ScanFailed:
        partition, reading = next(iter(self._waiting.items()))
        if reading.log_end is not None:
            why = f"its log ends at offset {reading.log_end}, before {reading.end}"
        else:
            why = f"no data from its leader within {self._patience_s:g} s"
        return self._failed(partition, f"{why} (read up to offset {reading.position})")

    def _failed(self, partition: TopicPartition, why: str) -> ScanFailed:
        return ScanFailed(f"{self._cluster}: {partition}: {why}")
