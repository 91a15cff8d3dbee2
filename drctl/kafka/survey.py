"""Inventory of a whole cluster: brokers, replicas, settings, users and quotas."""

from collections.abc import Collection
from dataclasses import replace
from time import monotonic
from typing import Any, NamedTuple

from confluent_kafka import KafkaError
from confluent_kafka.admin import ClusterMetadata, ConfigResource, ResourceType  # type: ignore[attr-defined, unused-ignore]

from drctl.formats.primitives import Cursor, compact_string
from drctl.kafka.brokers import BrokerSocket, ClusterClient, addresses_in, first_reason
from drctl.kafka.connection import Asked, gather
from drctl.kafka.deadline import Deadline
from drctl.kafka.elections import DESCRIBE_PARTITIONS, DESCRIBE_QUORUM, partitions_task
from drctl.kafka.faults import Fault
from drctl.kafka.health import describe_cluster
from drctl.kafka.producer_ids import LIST_TRANSACTIONS, list_transactions, read_listed
from drctl.kafka.protocol import (
    CLIENT_ID,
    INT8,
    INT16,
    INT32,
    INT64,
    NO_TAGS,
    STRING,
    THROTTLE,
    Api,
    Read,
    array,
    body_reader,
    body_writer,
    rows,
    skipped,
    topic_rows,
)
from drctl.kafka.quotas import all_quotas
from drctl.model.errors import ConfigError
from drctl.model.survey import (
    Broker,
    BrokerFeatures,
    ByBroker,
    Capability,
    Disks,
    Layout,
    LogDirs,
    Quotas,
    Replicas,
    Settings,
)
from drctl.model.topology import TopicPartition, Unavailable

FEATURES = Api("ApiVersions", 18, 3, True, "2.4")
LOG_DIRS = Api("DescribeLogDirs", 35, 4, True, "3.3")
DESCRIBE_CONSUMER_GROUPS = Api("ConsumerGroupDescribe", 69, 0, True, "3.7")

_REQUESTS = {
    Capability.CONSUMER_GROUPS: DESCRIBE_CONSUMER_GROUPS,
    Capability.ELIGIBLE_LEADERS: DESCRIBE_PARTITIONS,
    Capability.QUORUM: DESCRIBE_QUORUM,
}
_ELIGIBLE_LEADERS = "eligible.leader.replicas.version"
_ANY_GROUP = "drctl"

_VERSIONS = rows(INT16, INT16, INT16)
_LEVELS = rows(STRING, INT16, INT16)
_SUPPORTED, _FINALIZED = 0, 2

FEATURES_REQUEST = compact_string(CLIENT_ID) + compact_string("1") + NO_TAGS
"""The body of the request: drctl's name and version."""


def read_features(cursor: Cursor) -> BrokerFeatures:
    """Read a broker's features.

    Raises:
        Undecodable: the response is malformed, or an error.
    """
    # Only this response has no tags in its header (KIP-511). The first byte of the error code,
    # always 0, was read as the tags.
    error = cursor.int8()
    if error:
        cursor.fail(f"error {error}")
    _VERSIONS.read(cursor)
    cursor.int32()
    tagged = dict(cursor.tags())
    cursor.end()
    return BrokerFeatures(_levels(tagged.get(_SUPPORTED)), _levels(tagged.get(_FINALIZED)))


def _levels(data: bytes | None) -> dict[str, int]:
    """The highest level of each feature."""
    found = () if data is None else _LEVELS.read(Cursor("features", data))
    return {name: max(levels) for name, *levels in found}


_GROUPS_REQUEST = body_writer(array(STRING), INT8)


def describe_consumer_group(name: str) -> bytes:
    """Request the description of a KIP-848 group."""
    return _GROUPS_REQUEST((name,), 0)


def read_group_error(cursor: Cursor) -> int:
    """The error code of the first group; the rest of the response is not read.

    Raises:
        Undecodable: the response is malformed, or has no group.
    """
    cursor.int32()
    if cursor.varint() < 2:
        cursor.fail("no group")
    return cursor.int16()


class _LogDir(NamedTuple):
    """One log directory of a broker; both sizes are -1 if the broker does not report them."""

    error: int
    partitions: tuple[tuple[TopicPartition, int], ...]
    total: int
    usable: int


ALL_LOG_DIRS = body_writer(array(STRING))(None)
"""The body of a request for all replicas of a broker."""


def _size(topic: str, partition: int, size: int) -> tuple[TopicPartition, int]:
    return TopicPartition(topic, partition), size


_SIZES = topic_rows(INT32, INT64, skipped(INT64), skipped(INT8), into=_size)
_DIRS = rows(INT16, skipped(STRING), _SIZES, INT64, INT64, into=_LogDir)
read_log_dirs: Read[tuple[int, tuple[_LogDir, ...]]] = body_reader(
    lambda error, dirs: (error, dirs), THROTTLE, INT16, _DIRS
)

_USERS = "users"


class KafkaSurveyor(ClusterClient):
    """Implements `ClusterSurveyor` of `drctl.model.survey`; not thread-safe.

    Every call ends within about `timeout_s`.
    """

    def layout(self) -> Layout:
        """Brokers, and the replicas of all topics that this user may see.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        began, deadline = monotonic(), self._connection.deadline()
        metadata = self._connection.metadata(deadline)
        seconds = monotonic() - began
        racks, eligible = self._racks(deadline), self._eligible(metadata, deadline)
        return Layout(
            {
                node: Broker(str(each.host), int(each.port), racks.get(node, ""))
                for node, each in metadata.brokers.items()
            },
            {
                (place := TopicPartition(name, number)): Replicas(
                    each.leader, tuple(each.replicas), tuple(each.isrs), eligible.get(place)
                )
                for name, topic in metadata.topics.items()
                for number, each in topic.partitions.items()
            },
            seconds,
        )

    def features(self) -> ByBroker:
        """The features of each broker.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        return self._brokers.ask_all(_features, self._connection.deadline())

    def settings(self) -> Settings:
        """Each broker's configuration, as far as it is reported, without secrets.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        deadline = self._connection.deadline()
        nodes = tuple(self._connection.nodes(deadline).brokers)
        answers = gather(self._connection, nodes, self._ask_settings, deadline)
        return {
            node: Unavailable(self._connection.redacted(answer.text))
            if isinstance(answer, Fault)
            else {
                key: entry.value
                for key, entry in answer.items()
                if entry.value is not None and not entry.is_sensitive
            }
            for node, answer in answers.items()
        }

    def scram_users(self) -> frozenset[str] | Unavailable:
        """The names of all users with SCRAM credentials.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        deadline = self._connection.deadline()
        self._connection.nodes(deadline)
        found = gather(self._connection, [_USERS], self._ask_users, deadline)[_USERS]
        if isinstance(found, Fault):
            return Unavailable(self._connection.redacted(found.text))
        return frozenset(map(str, found))

    def quotas(self) -> Quotas | Unavailable:
        """All client quotas.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        return self._brokers.first(all_quotas, self._connection.deadline())

    def log_dirs(self) -> LogDirs:
        """The disks of each broker; unavailable if the broker does not report their capacity.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        return self._brokers.ask_all(_disks, self._connection.deadline())

    def transactional_ids(self) -> tuple[str, ...] | Unavailable:
        """All transactional ids that the coordinators know, in use or not, sorted.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """

        def ask(broker: BrokerSocket) -> tuple[str, ...] | Unavailable:
            error, listed = broker.exchange(LIST_TRANSACTIONS, list_transactions(()), read_listed)
            if error:
                return Unavailable(f"{broker.address}: {KafkaError(error).str()}")
            return tuple(each.transactional_id for each in listed)

        answers = self._brokers.ask_all(ask, self._connection.deadline())
        # Each coordinator knows only its own: without one of them the list is incomplete.
        known = [each for each in answers.values() if not isinstance(each, Unavailable)]
        if len(known) < len(answers):
            return first_reason(answers)
        return tuple(sorted({name for names in known for name in names}))

    def _eligible(
        self, metadata: ClusterMetadata, deadline: Deadline
    ) -> dict[TopicPartition, tuple[int, ...]]:
        """Eligible leader replicas in topics with an out-of-sync replica; empty if unknown."""
        out_of_sync = {
            name
            for name, topic in metadata.topics.items()
            if any(len(each.isrs) < len(each.replicas) for each in topic.partitions.values())
        }
        if not out_of_sync:
            return {}
        addresses = addresses_in(metadata)
        tasks = dict.fromkeys(addresses, partitions_task(out_of_sync))
        try:
            answers = self._brokers.ask(tasks, addresses, deadline, enough=bool)
        except ConfigError:
            # drctl's own connections do not support every SASL mechanism.
            return {}
        known = (each for each in answers.values() if not isinstance(each, Unavailable) and each)
        return {each.place: each.eligible or () for each in next(known, ())}

    def _racks(self, deadline: Deadline) -> dict[int, str]:
        found = describe_cluster(self._connection, self._brokers, deadline)
        return {} if isinstance(found, Unavailable) else dict(found.racks)

    def _ask_users(self, names: Collection[str], timeout: float, _by: Deadline) -> Asked[str]:
        asked: Any = self._connection.admin().describe_user_scram_credentials(
            request_timeout=timeout
        )
        return ((name, asked) for name in names)

    def _ask_settings(self, nodes: Collection[int], timeout: float, _by: Deadline) -> Asked[int]:
        resources = [ConfigResource(ResourceType.BROKER, str(node)) for node in nodes]
        asked = self._connection.admin().describe_configs(resources, request_timeout=timeout)
        return zip(nodes, asked.values(), strict=True)


def _features(broker: BrokerSocket) -> BrokerFeatures:
    found = broker.exchange(FEATURES, FEATURES_REQUEST, read_features)
    missing = {capability for capability, api in _REQUESTS.items() if api not in broker}
    # Brokers also list requests whose feature is disabled: a group protocol (KIP-848), eligible
    # leader replicas (KIP-966).
    if DESCRIBE_CONSUMER_GROUPS in broker:
        request = describe_consumer_group(_ANY_GROUP)
        error = broker.exchange(DESCRIBE_CONSUMER_GROUPS, request, read_group_error)
        if error == KafkaError.UNSUPPORTED_VERSION:
            missing.add(Capability.CONSUMER_GROUPS)
    if not found.finalized.get(_ELIGIBLE_LEADERS):
        missing.add(Capability.ELIGIBLE_LEADERS)
    return replace(found, missing=frozenset(missing))


def _disks(broker: BrokerSocket) -> Disks | Unavailable:
    error, dirs = broker.exchange(LOG_DIRS, ALL_LOG_DIRS, read_log_dirs)
    error = error or next((each.error for each in dirs if each.error), 0)
    if error:
        return Unavailable(f"{broker.address}: {KafkaError(error).str()}")
    if not dirs or any(min(each.total, each.usable) < 0 for each in dirs):
        return Unavailable(f"{broker.address} does not report the capacity of its disks")
    sizes = dict(row for each in dirs for row in each.partitions)
    # Two log directories may be on one volume: count each capacity once.
    volumes = {(each.total, each.usable) for each in dirs}
    total, usable = (sum(values) for values in zip(*volumes, strict=True))
    return Disks(total, usable, sizes)
