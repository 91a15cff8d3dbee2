"""Read offset ranges of many partitions in this process: exactly the requested offsets."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from drctl.gap.comparison import ScanFailed, Side
from drctl.kafka.deadline import Deadline
from drctl.kafka.simple_consumer import FETCH_BYTES, SimpleConsumer
from drctl.model.topology import Chunk, OffsetRange, Row, TopicPartition, TopicRanges

TIMEOUT_S = 20.0
"""How long all partitions may be silent; a leader election takes up to half of that time."""

PARTITIONS_AT_ONCE = 16
OFFSETS_AT_ONCE = 50_000
"""At least so many partitions are read at once; more while together they have fewer offsets.

Brokers are slow if thousands are. And two readers of the same partitions return the same ones at
about the same time, so that few records wait for their counterparts (`pairing`).
"""

_POLL_S = 0.1
_CONNECT_S = 1.0
_FETCH_WAIT = "fetch.wait.max.ms"
_SMALL_GAP = 200
"""If no more offsets than this are between two ranges, they are read and dropped, not skipped."""

_TRANSIENT = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT})


@dataclass(frozen=True, slots=True)
class LogSource:
    """A cluster to read from.

    Attributes:
        cluster: its name in drctl.yaml.
        properties: librdkafka properties, including secrets.
    """

    cluster: str
    properties: Mapping[str, str]


class KafkaRangeReader:
    """Reads one cluster's logs without a consumer group.

    Args:
        fetch_bytes: how much of each partition to fetch at once, compressed.
    """

    def __init__(
        self, source: LogSource, *, timeout_s: float = TIMEOUT_S, fetch_bytes: int = FETCH_BYTES
    ) -> None:
        self._source = source
        self._timeout_s = timeout_s
        self._fetch_bytes = fetch_bytes

    def read(self, ranges: TopicRanges, *, uncommitted: bool = False) -> Iterator[Chunk]:
        """Every committed record of these ranges, in order within each partition.

        Args:
            uncommitted: whether to include records of aborted or open transactions.

        Raises:
            ScanFailed: an offset was deleted, or a leader stopped sending.
            ConfigError: librdkafka rejects the properties.
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
            # With the user's setting, a broker may wait that long for more bytes.
            timeout_s = self._timeout_s + int(source.properties.get(_FETCH_WAIT, 0)) / 1000
            yield from Scan(source.cluster, consumer, waiting, timeout_s).chunks()


class KafkaLogReader:
    """Implements `drctl.gap.held.LogReader`."""

    def __init__(self, sources: Mapping[Side, LogSource], *, timeout_s: float = TIMEOUT_S) -> None:
        self._readers = {
            side: KafkaRangeReader(source, timeout_s=timeout_s) for side, source in sources.items()
        }

    def read(self, side: Side, ranges: TopicRanges) -> Iterator[Chunk]:
        """Every committed record of these ranges, in order within each partition.

        Raises:
            ScanFailed: an offset was deleted, or a leader stopped sending.
            ConfigError: librdkafka rejects the properties.
        """
        return self._readers[side].read(ranges)


@dataclass(slots=True)
class Reading:
    """The progress in one partition.

    Attributes:
        left: the ranges still to read, the current one last.
        span: number of offsets of all ranges.
        log_end: the end offset of its log, if known.
    """

    left: list[OffsetRange]
    position: int = 0
    end: int = 0
    log_end: int | None = None
    span: int = field(init=False)

    def __post_init__(self) -> None:
        """Start with the first range."""
        self.span = sum(each.span for each in self.left)
        self.position, self.end = self.left[-1]

    def advance(self) -> bool:
        """Continue to the next range, if there is one."""
        self.left.pop()
        if self.left:
            self.position, self.end = self.left[-1]
        return bool(self.left)


class Scan:
    """One consumer, and the ranges that it still has to read."""

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
        self._not_started = deque(waiting)
        self._offsets = 0  # of the started partitions
        self._timeout_s = timeout_s

    def chunks(self) -> Iterator[Chunk]:
        """All records of all ranges."""
        silence = Deadline.after(self._timeout_s)
        while self._waiting:
            self._start_more()
            before, received = len(self._waiting), False
            for chunk in self._batch():
                received = True
                yield chunk
            if received or len(self._waiting) < before:
                silence = Deadline.after(self._timeout_s)
            elif silence.expired:
                raise self._silent()

    def _start_more(self) -> None:
        """Start partitions in place of those that are complete."""
        while self._not_started and (
            len(self._waiting) - len(self._not_started) < PARTITIONS_AT_ONCE
            or self._offsets < OFFSETS_AT_ONCE
        ):
            partition = self._not_started.popleft()
            reading = self._waiting[partition]
            self._offsets += reading.span
            self._consumer.start(partition, reading.position)

    def _batch(self) -> Iterator[Chunk]:
        """The records received by now."""
        for partition, error, rows in self._consumer.poll_rows(_POLL_S):
            reading = self._waiting.get(partition)
            if reading is None:
                continue  # already complete
            if error:
                self._ended(partition, reading, error, rows[0][0])
            elif wanted := self._wanted(partition, reading, rows):
                yield Chunk(partition.topic, partition.partition, wanted)

    def _wanted(
        self, partition: TopicPartition, reading: Reading, rows: list[Row]
    ) -> Sequence[Row]:
        """The rows in the ranges that were not returned before."""
        if reading.position <= rows[0][0] and rows[-1][0] < reading.end:
            self._advance(partition, reading, rows[-1][0] + 1)
            return rows
        wanted = []
        for row in rows:
            offset = row[0]
            if offset >= reading.end and not self._advance(partition, reading, offset):
                break
            if offset >= reading.position:  # after a jump, older rows may still arrive
                wanted.append(row)
                if not self._advance(partition, reading, offset + 1):
                    break
        return wanted

    def _advance(self, partition: TopicPartition, reading: Reading, offset: int) -> bool:
        """Note that everything before this offset was read; return whether there is more."""
        while reading.end <= offset:
            if not reading.advance():
                del self._waiting[partition]
                self._offsets -= reading.span
                self._consumer.stop(partition)
                return False
            if reading.position > offset + _SMALL_GAP:
                self._consumer.jump(partition, reading.position)
        reading.position = max(reading.position, offset)
        return True

    def _ended(self, partition: TopicPartition, reading: Reading, error: int, offset: int) -> None:
        """Handle the end of a partition, or an error.

        Raises:
            ScanFailed: the partition cannot be read further.
        """
        if error == KafkaError._PARTITION_EOF:
            reading.log_end = offset
            # The last offsets may have no record: transaction markers, or compacted ones.
            self._advance(partition, reading, offset)
        elif error == KafkaError._AUTO_OFFSET_RESET:
            raise self._failed(partition, f"offset {reading.position} was deleted")
        elif error not in _TRANSIENT:
            raise self._failed(partition, self._consumer.text_of(error))

    def _silent(self) -> ScanFailed:
        partition, reading = next(iter(self._waiting.items()))
        if reading.log_end is not None:
            why = f"its log ends at offset {reading.log_end}, before {reading.end}"
        else:
            why = f"no data from its leader within {self._timeout_s:g} s"
        return self._failed(partition, f"{why} (read up to offset {reading.position})")

    def _failed(self, partition: TopicPartition, why: str) -> ScanFailed:
        return ScanFailed(f"{self._cluster}: {partition}: {why}")
