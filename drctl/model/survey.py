"""Survey of a whole cluster for health checks: brokers, replicas, users, quotas."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from drctl.model.topology import TopicPartition, Unavailable


class Broker(NamedTuple):
    """A live broker.

    Attributes:
        rack: empty if none is configured.
    """

    host: str
    port: int
    rack: str = ""


class Replicas(NamedTuple):
    """The replicas of a partition.

    Attributes:
        leader: broker id; -1 without a leader.
        assigned: the preferred leader first.
        in_sync: the in-sync replicas.
        eligible: replicas out of sync that hold all committed records (KIP-966); None if all
            replicas are in sync, or the brokers do not report it.
    """

    leader: int
    assigned: tuple[int, ...]
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...] | None = None


_OWN_TRANSACTIONAL_IDS = ("drctl.", "drctl-reconcile-")
"""Prefixes of transactional ids of the journal and of reconcile runs; the link's name follows."""


def of_applications(transactional_ids: Iterable[str]) -> tuple[str, ...]:
    """The transactional ids that are not drctl's own."""
    return tuple(each for each in transactional_ids if not each.startswith(_OWN_TRANSACTIONAL_IDS))


@dataclass(frozen=True, slots=True)
class Layout:
    """Brokers and their replicas, including internal topics.

    Attributes:
        brokers: live brokers by node id.
        seconds: response time of the cluster.
    """

    brokers: Mapping[int, Broker]
    partitions: Mapping[TopicPartition, Replicas]
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class BrokerFeatures:
    """The response of one broker to a direct request.

    Attributes:
        supported: highest supported level, by feature.
        finalized: level in use by the cluster, by feature.
    """

    supported: Mapping[str, int] = field(default_factory=dict)
    finalized: Mapping[str, int] = field(default_factory=dict)


Entity = tuple[tuple[str, str | None], ...]
"""The entity of a quota: type and name; None for the default of the type."""

Quotas = Mapping[Entity, Mapping[str, float]]
ByBroker = Mapping[int, BrokerFeatures | Unavailable]
Settings = Mapping[int, Mapping[str, str] | Unavailable]


class ClusterSurveyor(Protocol):
    """Reads the state of a whole cluster."""

    def layout(self) -> Layout:
        """Read brokers and the replicas of all topics that this user may describe.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def features(self) -> ByBroker:
        """Ask each broker directly, all at once.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """

    def settings(self) -> Settings:
        """Each broker's configuration; sensitive values are omitted.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def scram_users(self) -> frozenset[str] | Unavailable:
        """Names of the users with SCRAM credentials.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def quotas(self) -> Quotas | Unavailable:
        """All client quotas.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """

    def transactional_ids(self) -> tuple[str, ...] | Unavailable:
        """All transactional ids that the coordinators know, sorted.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """
