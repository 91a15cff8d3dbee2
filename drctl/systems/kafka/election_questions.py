"""What one broker is asked of partitions and their leaders; a connection is given."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from confluent_kafka import KafkaError

from drctl.elections.ports import Kind
from drctl.model.health import Controller
from drctl.model.topology import TopicPartition, Unavailable
from drctl.systems.kafka.broker_socket import BrokerSocket
from drctl.systems.kafka.requests import in_chunks
from drctl.wire.described_partitions import (
    DESCRIBE_PARTITIONS,
    Described,
    Next,
    describe_partitions,
    read_partitions,
)
from drctl.wire.epoch_ends import EPOCH_ENDS, EpochEnd, ask_epoch_ends, read_epoch_ends
from drctl.wire.leader_elections import (
    ELECT_LEADERS,
    PREFERRED,
    UNCLEAN,
    Election,
    elect_leaders,
    read_election,
)
from drctl.wire.log_ends import LIST_OFFSETS, End, ask_log_ends, read_log_ends
from drctl.wire.quorum import DESCRIBE_QUORUM, describe_quorum, read_quorum

CHUNK = 2000
_NUMBERS = {Kind.PREFERRED: PREFERRED, Kind.UNCLEAN: UNCLEAN}


def described(
    topics: Collection[str] | None,
) -> Callable[[BrokerSocket], tuple[Described, ...] | None]:
    """All pages of a broker's answer; None where it is too old to be asked."""

    def run(opened: BrokerSocket) -> tuple[Described, ...] | None:
        if DESCRIBE_PARTITIONS not in opened:
            return None
        if topics is not None and not topics:
            return ()
        found: list[Described] = []
        since: Next | None = None
        while True:
            body = describe_partitions(sorted(set(topics or ())), since)
            answer = opened.exchange(DESCRIBE_PARTITIONS, body, read_partitions)
            found += answer.partitions
            since = answer.following
            if since is None:
                return tuple(found)

    return run


def own_ends(places: Collection[TopicPartition]) -> Callable[[BrokerSocket], list[End]]:
    """Where the broker's own logs of these partitions end."""

    def run(opened: BrokerSocket) -> list[End]:
        rows: list[End] = []
        for chunk in in_chunks(places, CHUNK):
            rows += opened.exchange(LIST_OFFSETS, ask_log_ends(_by_topic(chunk)), read_log_ends)
        return rows

    return run


def epoch_ends(epochs: Mapping[TopicPartition, int]) -> Callable[[BrokerSocket], list[EpochEnd]]:
    """Where the records up to these epochs end; the broker leads the partitions."""

    def run(opened: BrokerSocket) -> list[EpochEnd]:
        topics: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for place, epoch in epochs.items():
            topics[place.topic].append((place.partition, epoch))
        return list(opened.exchange(EPOCH_ENDS, ask_epoch_ends(topics), read_epoch_ends))

    return run


def election(
    kind: Kind, places: Sequence[TopicPartition], patience_s: float
) -> Callable[[BrokerSocket], Election]:
    """An election; the broker passes it on to the controller."""
    body = elect_leaders(_NUMBERS[kind], _by_topic(places), int(patience_s * 1000))

    def run(opened: BrokerSocket) -> Election:
        return opened.exchange(ELECT_LEADERS, body, read_election)

    return run


def ask_controller(opened: BrokerSocket) -> Controller | Unavailable:
    """Who controls the cluster, as the metadata quorum says."""
    found = opened.exchange(DESCRIBE_QUORUM, describe_quorum(), read_quorum)
    if found.error:
        return Unavailable(KafkaError(found.error).str())
    if found.leader < 0:
        return Unavailable("the metadata quorum has no leader")
    return Controller(found.leader, found.epoch)


def _by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in places:
        topics[topic].append(partition)
    return topics
