"""Single records out of many partitions."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from confluent_kafka import KafkaError

from drctl.model.rows import Row
from drctl.model.topology import PartitionOffsets, Record, TopicPartition, Unavailable
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.offsets import read_offsets
from drctl.systems.kafka.scan_consumer import ScanConsumer
from drctl.systems.kafka.simple_consumer import Fetched, SimpleConsumer

_POLL_S = 0.2
_QUICK_S = 1.0
_LITTLE, _MUCH = 65_536, 1_048_576

Found = dict[TopicPartition, Record | Unavailable]
Read = dict[TopicPartition, Fetched]
Position = tuple[TopicPartition, int]


def read_first_records(
    connection: Connection, positions: Mapping[TopicPartition, int], deadline: Deadline
) -> Found:
    """The first committed record at or after each offset; left out where there is none.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    read, found = _read_first(connection, positions, deadline)
    found |= {p: r for p, f in read.items() if (r := _record(f)) is not None}
    return found


def read_following(
    connection: Connection,
    positions: Mapping[TopicPartition, int],
    number: int,
    deadline: Deadline,
) -> dict[TopicPartition, tuple[Record, ...] | Unavailable]:
    """The first committed records at or after each offset, up to so many of each.

    What is appended after the call began is left out: a partition that is written to has an end.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    offsets = read_offsets(connection, positions, deadline)
    found: dict[TopicPartition, tuple[Record, ...] | Unavailable] = {
        p: o if isinstance(o, Unavailable) else () for p, o in offsets.items()
    }
    waiting = {
        partition: range(max(position, known.log_start), known.last_stable)
        for partition, position in positions.items()
        if isinstance(known := offsets[partition], PartitionOffsets)
        and max(position, known.log_start) < known.last_stable
    }
    if waiting:
        # Perhaps of very many partitions: a call for each record would be too much.
        with ScanConsumer(connection.properties, _LITTLE) as consumer:
            consumer.connect(deadline.remaining)
            found |= _read_several(consumer, waiting, number, deadline)
    found |= {partition: _silence(deadline) for partition in waiting}
    return found


def _read_several(
    consumer: ScanConsumer, waiting: dict[TopicPartition, range], number: int, until: Deadline
) -> dict[TopicPartition, tuple[Record, ...] | Unavailable]:
    """What was read to the end of its offsets, or to the number wanted, waits no more."""
    for partition, offsets in waiting.items():
        consumer.start(partition, offsets.start)
    read: dict[TopicPartition, list[Record]] = defaultdict(list)
    ended: dict[TopicPartition, tuple[Record, ...] | Unavailable] = {}
    while waiting and not until.expired:
        for partition, error, rows in consumer.poll_rows(min(_POLL_S, until.remaining)):
            if partition not in waiting:
                continue
            if error and error != KafkaError._PARTITION_EOF:
                ended[partition] = _refused(partition, error, consumer.text_of(error))
            elif error or _is_last(read[partition], partition, rows, waiting[partition], number):
                ended[partition] = tuple(read[partition])
            else:
                continue
            del waiting[partition]
            consumer.stop(partition)
    for partition in waiting:
        consumer.stop(partition)
    return ended


def _is_last(
    read: list[Record], place: TopicPartition, rows: Sequence[Row], offsets: range, number: int
) -> bool:
    """Add what came of the offsets, up to the number; whether nothing more of it is wanted."""
    for offset, time, key, value, headers in rows:
        if offset in offsets:
            named = tuple((name.decode(errors="replace"), content) for name, content in headers)
            read.append(Record(place.partition, offset, time, key, value, named))
        if offset + 1 >= offsets.stop or len(read) >= number:
            return True
    return False


def read_leader_epochs(
    connection: Connection, positions: Mapping[TopicPartition, int], deadline: Deadline
) -> dict[TopicPartition, int | Unavailable]:
    """The leader epoch in which the committed record at exactly this offset was appended.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    read, unread = _read_first(connection, positions, deadline)
    found: dict[TopicPartition, int | Unavailable] = {}
    for partition, offset in positions.items():
        record = _record(read[partition]) if partition in read else unread.get(partition)
        if isinstance(record, Record) and record.offset == offset:
            found[partition] = read[partition].leader_epoch
        else:
            absent = Unavailable(f"no committed record has offset {offset}")
            found[partition] = record if isinstance(record, Unavailable) else absent
    return found


def _read_first(
    connection: Connection, positions: Mapping[TopicPartition, int], deadline: Deadline
) -> tuple[Read, Found]:
    """What came first from each offset on, and why nothing can be said of the others."""
    offsets = read_offsets(connection, positions, deadline)
    silent: Found = {p: o for p, o in offsets.items() if isinstance(o, Unavailable)}
    wanted = {
        partition: max(position, known.log_start)
        for partition, position in positions.items()
        if isinstance(known := offsets[partition], PartitionOffsets)
        and max(position, known.log_start) < known.last_stable
    }
    read: Read = {}
    # Little of each partition, in case the way is long; where batches are large that is slow.
    for fetch_bytes, until in ((_LITTLE, deadline.sooner(_QUICK_S)), (_MUCH, deadline)):
        if wanted:
            with SimpleConsumer(connection.properties, fetch_bytes) as consumer:
                consumer.connect(deadline.remaining)
                read |= _read_round(consumer, wanted, until)
    silent.update((partition, _silence(deadline)) for partition in wanted)
    return read, silent


def read_records(
    connection: Connection, positions: Sequence[Position], deadline: Deadline
) -> dict[Position, Record | Unavailable]:
    """The committed records at these exact offsets.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    offsets = read_offsets(connection, {partition for partition, _ in positions}, deadline)
    found: dict[Position, Record | Unavailable] = {}
    wanted: dict[TopicPartition, list[int]] = defaultdict(list)
    for partition, offset in dict.fromkeys(positions):
        known = offsets[partition]
        absent = known if isinstance(known, Unavailable) else _absent(partition, offset, known)
        if absent:
            found[partition, offset] = absent
        else:
            wanted[partition].append(offset)
    if wanted:
        with SimpleConsumer(connection.properties, _LITTLE) as consumer:
            consumer.connect(deadline.remaining)
            _read_exact(consumer, wanted, deadline, found)
    return found


def _absent(partition: TopicPartition, offset: int, known: PartitionOffsets) -> Unavailable | None:
    if offset < known.log_start:
        return Unavailable(f"offset {offset} is before the log start offset {known.log_start}")
    if offset >= known.end:
        return Unavailable(f"offset {offset} is not before the end offset {known.end}")
    if offset >= known.last_stable:
        return Unavailable(f"offset {offset} is behind the last stable offset {known.last_stable}")
    return None


def _read_exact(
    consumer: SimpleConsumer,
    wanted: Mapping[TopicPartition, list[int]],
    deadline: Deadline,
    found: dict[Position, Record | Unavailable],
) -> None:
    # A partition can be read from one place at a time: the n-th offset of each at once.
    for offsets in zip_longest(*map(sorted, wanted.values())):
        at = {p: o for p, o in zip(wanted, offsets, strict=True) if o is not None}
        waiting = dict(at)
        read = _read_round(consumer, waiting, deadline)
        for partition, offset in at.items():
            record = _silence(deadline) if partition in waiting else _record(read[partition])
            if record is None or (isinstance(record, Record) and record.offset != offset):
                record = Unavailable(f"no committed record has offset {offset}")
            found[partition, offset] = record


def _read_round(
    consumer: SimpleConsumer, waiting: dict[TopicPartition, int], until: Deadline
) -> Read:
    """Read one record of each; what was decided, if only that there is none, waits no more."""
    for partition, offset in waiting.items():
        consumer.start(partition, offset)
    read: Read = {}
    while waiting and not until.expired:
        for fetched in consumer.poll(min(_POLL_S, until.remaining), waiting):
            if _concerns(fetched, waiting[fetched.partition]):
                del waiting[fetched.partition]
                consumer.stop(fetched.partition)
                read[fetched.partition] = fetched
    for partition in waiting:
        consumer.stop(partition)
    return read


def _silence(deadline: Deadline) -> Unavailable:
    return Unavailable(f"its leader sent nothing within {deadline.total:g} s")


def _concerns(fetched: Fetched, position: int) -> bool:
    # After a stop or a reset, older records may still come out of the queue.
    return fetched.record is None or fetched.record.offset >= position


def _record(fetched: Fetched) -> Record | Unavailable | None:
    """None at the end of the partition."""
    if fetched.record is not None or fetched.error == KafkaError._PARTITION_EOF:
        return fetched.record
    return _refused(fetched.partition, fetched.error, fetched.text)


def _refused(partition: TopicPartition, error: int, text: str) -> Unavailable:
    if error == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        return Unavailable(f"not authorized to read topic {partition.topic}")
    return Unavailable(text)
