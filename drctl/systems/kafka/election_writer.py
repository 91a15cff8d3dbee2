"""Has the controller of a cluster elect leaders."""

from collections.abc import Collection, Mapping, Sequence

from confluent_kafka import KafkaError

from drctl.elections.ports import Declined, Kind
from drctl.model.errors import Unknown
from drctl.model.topology import TopicPartition, Unavailable
from drctl.systems.closing import Closing
from drctl.systems.kafka.brokers import Brokers
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.election_questions import CHUNK, election
from drctl.systems.kafka.requests import in_chunks
from drctl.wire.leader_elections import Election

_NOT_NEEDED = KafkaError.ELECTION_NOT_NEEDED
_NO_ANSWER = frozenset({KafkaError.REQUEST_TIMED_OUT, KafkaError.NOT_CONTROLLER})


class KafkaElectionWriter(Closing):
    """Implements `ElectionWriter` of `drctl.elections.ports`."""

    def __init__(self, name: str, properties: Mapping[str, str], *, timeout_s: float = 30) -> None:
        self._connection = Connection(name, properties, timeout_s)
        self._brokers = Brokers(self._connection)

    def elect(
        self, kind: Kind, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Unavailable | None]:
        """Ask the controller; by partition None where it did, or why it did not.

        Raises:
            Unknown: no answer came; some may have been elected.
        """
        deadline = self._connection.deadline()
        found: dict[TopicPartition, Unavailable | None] = {}
        for chunk in in_chunks(places, CHUNK):
            found |= self._elect(kind, chunk, deadline)
        return found

    def close(self) -> None:
        """Release connections; may be called again."""
        self._connection.close()

    def _elect(
        self, kind: Kind, places: Sequence[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, Unavailable | None]:
        """Through one broker after the other: what is asked for twice is held once."""
        silent: list[str] = []
        addresses = self._brokers.addresses(deadline)
        for number, node in enumerate(sorted(addresses)):
            share = deadline.remaining / (len(addresses) - number)
            task = election(kind, places, share)
            here = deadline.sooner(share)
            answer = self._brokers.ask({node: task}, addresses, here)[node]
            if isinstance(answer, Unavailable):
                silent.append(answer.reason)
            elif answer.error not in _NO_ANSWER:
                return _outcomes(answer, places)
            else:
                silent.append(KafkaError(answer.error).str())
        raise Unknown(f"cluster {self._connection.name}: {'; '.join(silent)}", "look before acting")


def _outcomes(
    answer: Election, places: Sequence[TopicPartition]
) -> dict[TopicPartition, Unavailable | None]:
    if answer.error:
        return dict.fromkeys(places, Declined(KafkaError(answer.error).str()))
    # The controller leaves out partitions for which there was nothing to do.
    found: dict[TopicPartition, Unavailable | None] = dict.fromkeys(places, None)
    for row in answer.partitions:
        text = row.text or KafkaError(row.error).str()
        no = Declined(text) if row.error and row.error != _NOT_NEEDED else None
        found[TopicPartition(row.topic, row.partition)] = no
    return found
