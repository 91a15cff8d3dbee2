"""Single records out of many partitions."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from confluent_kafka import KafkaError

from drctl.model.topology import PartitionOffsets, Record, TopicPartition, Unavailable
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.offsets import read_offsets
from drctl.systems.kafka.simple_consumer import Fetched, SimpleConsumer

_POLL_S = 0.2
_QUICK_S = 1.0
_LITTLE, _MUCH = 65_536, 1_048_576

Found = dict[TopicPartition, Record | Unavailable]
Position = tuple[TopicPartition, int]


def read_first_records(
    connection: Connection, positions: Mapping[TopicPartition, int], deadline: Deadline
) -> Found:
    """The first committed record at or after each offset; left out where there is none.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    offsets = read_offsets(connection, positions, deadline)
    found: Found = {p: o for p, o in offsets.items() if isinstance(o, Unavailable)}
    wanted = {
        partition: max(position, known.log_start)
        for partition, position in positions.items()
        if isinstance(known := offsets[partition], PartitionOffsets)
        and max(position, known.log_start) < known.last_stable
    }
    # Little of each partition, in case the way is long; where batches are large that is slow.
    for fetch_bytes, until in ((_LITTLE, deadline.sooner(_QUICK_S)), (_MUCH, deadline)):
        if wanted:
            with SimpleConsumer(connection.properties, fetch_bytes) as consumer:
                consumer.connect(deadline.remaining)
                found |= _read_round(consumer, wanted, until)
    found.update((partition, _silence(deadline)) for partition in wanted)
    return found


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
            record = _silence(deadline) if partition in waiting else read.get(partition)
            if record is None or (isinstance(record, Record) and record.offset != offset):
                record = Unavailable(f"no committed record has offset {offset}")
            found[partition, offset] = record


def _read_round(
    consumer: SimpleConsumer, waiting: dict[TopicPartition, int], until: Deadline
) -> Found:
    """Read one record of each; what was decided, if only that there is none, waits no more."""
    for partition, offset in waiting.items():
        consumer.start(partition, offset)
    found: Found = {}
    while waiting and not until.expired:
        for fetched in consumer.poll(min(_POLL_S, until.remaining), waiting):
            if _concerns(fetched, waiting[fetched.partition]):
                del waiting[fetched.partition]
                consumer.stop(fetched.partition)
                _keep(fetched, found)
    for partition in waiting:
        consumer.stop(partition)
    return found


def _silence(deadline: Deadline) -> Unavailable:
    return Unavailable(f"its leader sent nothing within {deadline.total:g} s")


def _concerns(fetched: Fetched, position: int) -> bool:
    # After a stop or a reset, older records may still come out of the queue.
    return fetched.record is None or fetched.record.offset >= position


def _keep(fetched: Fetched, found: Found) -> None:
    if fetched.record is not None:
        found[fetched.partition] = fetched.record
    elif fetched.error == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        found[fetched.partition] = Unavailable(
            f"not authorized to read topic {fetched.partition.topic}"
        )
    elif fetched.error != KafkaError._PARTITION_EOF:
        found[fetched.partition] = Unavailable(fetched.text)
