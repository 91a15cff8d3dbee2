"""A topic followed: its records as they come, for as long as somebody wants them."""

from collections.abc import Callable, Iterator, Mapping

from confluent_kafka import KafkaError

from drctl.model.errors import Unknown, Unreachable
from drctl.model.ports import ClusterReader
from drctl.model.rows import Chunk
from drctl.model.topology import TopicPartition, TopicState
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.scan_consumer import ScanConsumer

_POLL_S = 0.2
_LOOK_EVERY_S = 5.0
_CONNECT_S = 1.0
_BEGINNING = -2

_ENDS = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.TOPIC_AUTHORIZATION_FAILED})


class TopicTail:
    """Reads on where a reader with an end stopped; belongs to no group.

    Args:
        cluster: is asked now and then whether the topic is still the same one.
        warn: told once when the cluster falls silent, and once when it answers again.
    """

    def __init__(
        self,
        cluster: ClusterReader,
        properties: Mapping[str, str],
        topic: TopicState,
        warn: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._properties = properties
        self._topic = topic
        self._warn = warn
        self._silent = False

    def chunks(self, positions: Mapping[int, int]) -> Iterator[Chunk]:
        """What comes from these offsets on, and from the beginning of partitions that are new.

        Raises:
            Unknown: the topic is gone or made anew, or records were deleted before they were read.
        """
        known = set(positions)
        look = Deadline.after(_LOOK_EVERY_S)
        with ScanConsumer(self._properties) as consumer:
            consumer.connect(_CONNECT_S)
            for number, offset in positions.items():
                consumer.start(TopicPartition(self._topic.name, number), offset)
            while True:
                yield from self._come(consumer)
                if look.expired:
                    for number in self._partitions() - known:
                        consumer.start(TopicPartition(self._topic.name, number), _BEGINNING)
                        known.add(number)
                    look = Deadline.after(_LOOK_EVERY_S)

    def _come(self, consumer: ScanConsumer) -> Iterator[Chunk]:
        for partition, error, rows in consumer.poll_rows(_POLL_S):
            if not error:
                yield Chunk(*partition, rows)
            elif error in _ENDS:
                raise Unknown(
                    f"{self._where}: partition {partition.partition} cannot be followed any more:"
                    f" {consumer.text_of(error)}",
                    "begin again: records may have been deleted before they were read",
                )

    def _partitions(self) -> set[int]:
        """Those that it has now; none where the cluster does not answer."""
        name = self._topic.name
        try:
            state = self._cluster.topics([name])[name]
        except Unreachable as error:
            if not self._silent:
                self._warn(f"{error.message}; waiting for it")
            self._silent = True
            return set()
        if self._silent:
            self._warn(f"cluster {self._cluster.name} answers again")
        self._silent = False
        if state is None or (
            isinstance(state, TopicState) and state.topic_id != self._topic.topic_id
        ):
            raise Unknown(f"{self._where} was deleted, or made anew", "begin again")
        return set(state.partitions) if isinstance(state, TopicState) else set()

    @property
    def _where(self) -> str:
        return f"topic {self._topic.name} of {self._cluster.name}"
