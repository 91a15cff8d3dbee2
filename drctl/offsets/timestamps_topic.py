"""`__consumer_timestamps` on a cluster: what there is to read, and reading it to a frozen end."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from drctl.model.errors import Unknown
from drctl.model.ports import ClusterReader
from drctl.model.rows import Chunk
from drctl.model.topology import (
    OffsetRange,
    PartitionOffsets,
    TopicPartition,
    TopicState,
    Unavailable,
)
from drctl.offsets.trail import RangeReader
from drctl.wire.consumer_timestamps import TOPIC

_MISSING = (
    "name the cluster on which the consumers run with --cluster; the topic is made by consumers"
    " that have Confluent's ConsumerTimestampsInterceptor, or use drctl.consumer (docs/consumer.md)"
)
_FORBIDDEN = f"grant READ and DESCRIBE on topic {TOPIC}"
_RUN_AGAIN = "see that all brokers run, and run it again"


@dataclass(frozen=True, slots=True)
class Extent:
    """What the topic held at one moment.

    Attributes:
        ranges: what is there to be read, by partition.
        incomplete: what cannot be read, in words for a person.
    """

    topic: TopicState
    ranges: Mapping[int, OffsetRange]
    incomplete: tuple[str, ...]

    @property
    def offsets(self) -> int:
        """How many there are at most."""
        return sum(held.span for held in self.ranges.values())

    @property
    def ends(self) -> dict[int, int]:
        """Where reading goes on."""
        return {partition: held.end for partition, held in self.ranges.items()}


def freeze(cluster: ClusterReader) -> Extent:
    """Look at the topic.

    Raises:
        Unknown: there is none, it may not be read, or none of its partitions can be.
        Unreachable: no broker answered within the deadline.
    """
    where = f"topic {TOPIC} of {cluster.name}"
    state = cluster.topics([TOPIC])[TOPIC]
    if state is None:
        raise Unknown(f"cluster {cluster.name} has no topic {TOPIC}", _MISSING)
    if isinstance(state, Unavailable):
        forbidden = "authorized" in state.reason
        raise Unknown(f"{where}: {state.reason}", _FORBIDDEN if forbidden else _RUN_AGAIN)
    if not state.readable:
        raise Unknown(f"{where} may not be read by this user", _FORBIDDEN)
    offsets = cluster.offsets([TopicPartition(TOPIC, number) for number in state.partitions])
    ranges, incomplete = {}, []
    for (_, number), found in sorted(offsets.items()):
        if isinstance(found, Unavailable):
            incomplete.append(f"partition {number} cannot be read: {found.reason}")
            continue
        ranges[number] = OffsetRange(found.log_start, found.last_stable)
        if found.last_stable < found.end:
            incomplete.append(_undecided(number, found))
    if not ranges:
        raise Unknown(f"{where} cannot be read: {incomplete[0]}", _RUN_AGAIN)
    return Extent(state, ranges, tuple(incomplete))


def read_frozen(
    reader: RangeReader, extent: Extent, progress: Callable[[int], None]
) -> Iterator[Chunk]:
    """All committed records, those of a partition in order.

    Args:
        progress: told how many offsets are done.

    Raises:
        ScanFailed: something could not be read to its end.
    """
    ranges = {number: held for number, held in extent.ranges.items() if held.span}
    done, position = 0, {number: held.start for number, held in ranges.items()}
    wanted = {number: (held,) for number, held in ranges.items()}
    for chunk in reader.read({TOPIC: wanted}) if wanted else ():
        behind = chunk.rows[-1][0] + 1
        done, position[chunk.partition] = done + behind - position[chunk.partition], behind
        progress(done)
        yield chunk


def _undecided(number: int, offsets: PartitionOffsets) -> str:
    left = offsets.end - offsets.last_stable
    return (
        f"partition {number}: a transaction is open, the {left} offsets from"
        f" {offsets.last_stable} on cannot be read yet"
    )
