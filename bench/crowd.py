"""Groups that fail over: their topics on both clusters, and their committed offsets."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from bench.filling import Appender, create_topics
from bench.process import WrongAnswer
from bench.records import Message, chunks
from bench.stage import Stage
from drctl.kafka.connection import Connection
from drctl.kafka.group_offsets import KafkaGroupWriter
from drctl.kafka.groups import KafkaGroupReader
from drctl.lab.cluster import LabCluster
from drctl.model.groups import Committed, Positions
from drctl.model.topology import TopicPartition, Unavailable

_SEED = 20_260_102
_AT_THE_END = 0.25
_NEVER_COPIED = 20


@dataclass(slots=True)
class Log:
    """A partition of the source.

    Attributes:
        times: timestamps of its records, by offset.
        skipped: number of first records that are not on the target; offsets there are lower by it.
    """

    times: list[int] = field(default_factory=list)
    skipped: int = 0

    def exact(self, offset: int) -> int:
        """Return the target offset of a source offset."""
        return offset - self.skipped


Logs = dict[TopicPartition, Log]


@dataclass(frozen=True, slots=True)
class Crowd:
    """Groups with a committed offset in every partition of one topic each.

    Attributes:
        name: prefix of its topics and groups.
        partitions: per topic.
        records: per topic.
        whole: whether the target has all records, so that offsets are equal.
    """

    name: str
    groups: int
    topics: int
    partitions: int
    records: int
    whole: bool = False

    @property
    def lost(self) -> int:
        """Number of a topic's first records that were deleted before replication began."""
        return 0 if self.whole else self.records // _NEVER_COPIED

    @property
    def names(self) -> list[str]:
        """Its topics."""
        return [f"{self.name}-{number:03}" for number in range(self.topics)]

    @property
    def shape(self) -> str:
        """Its size, for the names of rows."""
        return f"{self.groups:,} groups x {self.partitions:,} partitions"


@dataclass(frozen=True, slots=True)
class World:
    """The data that was written.

    Attributes:
        positions: committed offsets of each group on the source.
    """

    crowd: Crowd
    logs: Mapping[TopicPartition, Log]
    positions: Mapping[str, Mapping[TopicPartition, int]]

    @property
    def places(self) -> Iterator[tuple[str, TopicPartition, int]]:
        """All committed offsets on the source."""
        for group, positions in self.positions.items():
            for place, offset in positions.items():
                yield group, place, offset

    def read_again(self, found: Mapping[str, Mapping[TopicPartition, int]]) -> int:
        """Count the records that all groups read again if they resume at these offsets.

        Raises:
            WrongAnswer: an offset is missing or would skip records.
        """
        total = 0
        for group, place, offset in self.places:
            position = found.get(group, {}).get(place)
            behind = None if position is None else self.logs[place].exact(offset) - position
            if behind is None or behind < 0:
                raise WrongAnswer(f"{group} in {place}: {position} for the source's {offset}")
            total += behind
        return total


def made(stage: Stage, crowd: Crowd) -> World:
    """Write topics to both clusters, and commit offsets on the source.

    Raises:
        Stopped: a cluster rejects them.
    """
    logs: Logs = {}
    for cluster in (stage.source, stage.target):
        create_topics(cluster, crowd.names, crowd.partitions)
    source, target = Appender(stage.source), Appender(stage.target)
    for topic in crowd.names:
        for first, messages in chunks(crowd.records, stage.start_ms, partitions=crowd.partitions):
            source.append(topic, messages)
            target.append(topic, list(copied(topic, first, messages, crowd, logs)))
    source.finish()
    target.finish()
    world = World(crowd, logs, drawn_positions(crowd, logs))
    commit(stage.source, world.positions)
    return world


def commit(cluster: LabCluster, wanted: Mapping[str, Mapping[TopicPartition, int]]) -> None:
    """Commit offsets.

    Raises:
        WrongAnswer: the cluster rejects an offset.
    """
    connection = Connection(cluster.name, cluster.client_properties(), timeout_s=60)
    with KafkaGroupWriter(connection) as writer:
        answers = writer.commit({group: _committed(places) for group, places in wanted.items()})
    if any(failed for places in answers.values() for failed in places.values()):
        raise WrongAnswer(f"{cluster.name} rejected offset commits")


def committed(cluster: LabCluster, groups: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
    """Read the committed offsets of each group.

    Raises:
        WrongAnswer: a group cannot be read.
    """
    found: dict[str, dict[TopicPartition, int]] = {}
    with KafkaGroupReader(Connection(cluster.name, cluster.client_properties())) as reader:
        for group, positions in reader.committed(list(groups)).items():
            if isinstance(positions, Unavailable):
                raise WrongAnswer(f"{group}: {positions.reason}")
            found[group] = {place: position.offset for place, position in positions.items()}
    return found


def forget(cluster: LabCluster, world: World) -> None:
    """Delete all committed offsets of the groups."""
    known = {
        group: list(places)
        for group, places in committed(cluster, world.positions).items()
        if places
    }
    with KafkaGroupWriter(Connection(cluster.name, cluster.client_properties())) as writer:
        writer.delete(known)
    if left := sum(map(len, committed(cluster, world.positions).values())):
        raise WrongAnswer(f"{left} committed offsets were not deleted on {cluster.name}")


def copied(
    topic: str, first: int, messages: list[Message], crowd: Crowd, logs: Logs
) -> Iterator[Message]:
    """Yield what replication copies, and record the timestamps."""
    for number, message in enumerate(messages, first):
        log = logs.setdefault(TopicPartition(topic, message.partition), Log())
        log.times.append(message.timestamp_ms)
        if number >= crowd.lost:
            yield message
        else:
            log.skipped += 1


def drawn_positions(
    crowd: Crowd, logs: Mapping[TopicPartition, Log]
) -> dict[str, dict[TopicPartition, int]]:
    """Draw offsets: a quarter at the end; lags below 10 as often as lags from 100 to 1,000."""
    random = Random(_SEED)
    found = {}
    for number in range(crowd.groups):
        topic = crowd.names[number % crowd.topics]
        mine = sorted(place for place in logs if place.topic == topic)
        found[f"{crowd.name}-app-{number:04}"] = {
            place: _position(random, logs[place]) for place in mine
        }
    return found


def _position(random: Random, log: Log) -> int:
    end, held = len(log.times), len(log.times) - log.skipped
    if held < 2 or random.random() < _AT_THE_END:
        return end
    return end - min(held - 1, int(held ** random.random()))


def _committed(positions: Mapping[TopicPartition, int]) -> Positions:
    return {place: Committed(offset) for place, offset in positions.items()}
