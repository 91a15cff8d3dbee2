"""A whole cluster looked at: brokers, replicas, settings, users, limits; nothing is changed."""

from collections.abc import Callable, Collection
from time import monotonic
from typing import Any, TypeVar

from confluent_kafka import KafkaError
from confluent_kafka.admin import ClusterMetadata, ConfigResource, ResourceType  # type: ignore[attr-defined, unused-ignore]

from drctl.kafka import protocol_cluster as wire
from drctl.kafka.broker_socket import BrokerSocket
from drctl.kafka.brokers import ClusterClient, addresses_in, first_reason
from drctl.kafka.connection import Asked, gather
from drctl.kafka.deadline import Deadline
from drctl.kafka.elections import described
from drctl.kafka.faults import Fault
from drctl.kafka.protocol_producers import LIST_TRANSACTIONS, list_transactions, read_listed
from drctl.model.errors import ConfigError
from drctl.model.survey import Broker, ByBroker, Layout, Quotas, Replicas, Settings
from drctl.model.topology import TopicPartition, Unavailable

T = TypeVar("T")

_USERS = "users"


class KafkaSurveyor(ClusterClient):
    """Implements `ClusterSurveyor` of `drctl.model.survey`; connects on first use.

    Every call ends within `timeout_s` (and a moment). One thread at a time may use it.
    """

    def layout(self) -> Layout:
        """Brokers and replicas of everything that this user may see.

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
        """Each broker, asked alone and all of them at once.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """
        return self._every(
            lambda opened: opened.exchange(wire.FEATURES, wire.ask_features(), wire.read_features)
        )

    def settings(self) -> Settings:
        """Each broker's configuration, as far as it is told; secrets never are.

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
        """Who has a SCRAM credential, by name.

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
            ConfigError: the properties cannot be used for connections of our own.
        """

        def one(opened: BrokerSocket) -> Quotas | Unavailable:
            found = opened.exchange(wire.DESCRIBE_QUOTAS, wire.describe_quotas(), wire.read_quotas)
            if found.error:
                return Unavailable(found.text or KafkaError(found.error).str())
            return found.limits

        return self._brokers.first(one, self._connection.deadline())

    def transactional_ids(self) -> tuple[str, ...] | Unavailable:
        """All that the coordinators know, in use or not, sorted.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """

        def one(opened: BrokerSocket) -> tuple[str, ...] | Unavailable:
            error, listed = opened.exchange(LIST_TRANSACTIONS, list_transactions(()), read_listed)
            if error:
                return Unavailable(f"{opened.address}: {KafkaError(error).str()}")
            return tuple(each.transactional_id for each in listed)

        answers = self._every(one)
        # Each coordinator knows its own: without one of them the list is not whole.
        known = [each for each in answers.values() if not isinstance(each, Unavailable)]
        if len(known) < len(answers):
            return first_reason(answers)
        return tuple(sorted({name for names in known for name in names}))

    def _every(self, one: Callable[[BrokerSocket], T]) -> dict[int, T | Unavailable]:
        deadline = self._connection.deadline()
        addresses = self._brokers.addresses(deadline)
        return self._brokers.ask(dict.fromkeys(addresses, one), addresses, deadline)

    def _eligible(
        self, metadata: ClusterMetadata, deadline: Deadline
    ) -> dict[TopicPartition, tuple[int, ...]]:
        """Of topics with a replica that is behind; nothing where no broker tells."""
        behind = {
            name
            for name, topic in metadata.topics.items()
            if any(len(each.isrs) < len(each.replicas) for each in topic.partitions.values())
        }
        if not behind:
            return {}
        addresses = addresses_in(metadata)
        tasks = dict.fromkeys(addresses, described(behind))
        try:
            answers = self._brokers.ask(tasks, addresses, deadline, enough=bool)
        except ConfigError:
            # Connections of our own are not possible with every way to log in.
            return {}
        known = (each for each in answers.values() if not isinstance(each, Unavailable) and each)
        return {each.place: each.eligible or () for each in next(known, ())}

    def _racks(self, deadline: Deadline) -> dict[int, str]:
        found = self._brokers.described(deadline)
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
