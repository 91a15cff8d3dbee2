"""Errors of brokers and librdkafka as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from drctl.model.topology import TopicPartition

_RETRIED = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._DESTROY_BROKER,  # its broker has left the cluster
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
    }
)
# An election is short, but a partition whose only replica is down stays without a leader.
_SETTLES = frozenset(
    {KafkaError.LEADER_NOT_AVAILABLE, KafkaError.REPLICA_NOT_AVAILABLE, KafkaError._NOENT}
)
_MISSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.TOPIC_EXCEPTION,
    }
)
FORBIDDEN = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a request failed.

    Attributes:
        code: the protocol's error code, or librdkafka's own (negative).
        text: the reason, for a person.
    """

    code: int
    text: str

    @property
    def retried(self) -> bool:
        """Whether a retry before the deadline may help."""
        return self.code in _RETRIED

    @property
    def settles(self) -> bool:
        """Whether retries for a short time may help."""
        return self.code in _SETTLES

    @property
    def missing(self) -> bool:
        """Whether the topic or partition does not exist."""
        return self.code in _MISSING

    @property
    def forbidden(self) -> bool:
        """Whether this user is not authorized."""
        return self.code in FORBIDDEN

    @property
    def unanswered(self) -> bool:
        """Whether the request timed out."""
        return self.code in (KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT)


def fault_of(error: BaseException) -> Fault:
    """The fault for an exception of the admin client; other exceptions are raised again."""
    if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
        return Fault(error.args[0].code(), error.args[0].str())
    if isinstance(error, TimeoutError):
        return Fault(KafkaError._TIMED_OUT, "no answer")
    raise error


def protocol_fault(code: int, text: str = "") -> Fault:
    """The fault for an error code in a response."""
    return Fault(code, text or KafkaError(code).str())


def not_described(topic: str) -> str:
    """The reason for a refused description: Kafka does not say whether the topic exists."""
    return f"not authorized to describe topic {topic}: it may exist"


def unknown_topic(name: str) -> Fault:
    """The fault for a topic that is not in the cluster's metadata."""
    text = f"topic {name} does not exist, or is not visible to this user"
    return Fault(KafkaError.UNKNOWN_TOPIC_OR_PART, text)


def leader_of(topics: Mapping[str, Any], place: TopicPartition) -> int | Fault:
    """The broker that leads a partition, from the topics of a cluster's metadata."""
    topic = topics.get(place.topic)
    known = topic.partitions.get(place.partition) if topic else None
    if known is None:
        return Fault(KafkaError.UNKNOWN_TOPIC_OR_PART, f"partition {place} does not exist")
    if known.leader < 0:
        return Fault(KafkaError.LEADER_NOT_AVAILABLE, "the partition has no leader")
    return int(known.leader)
