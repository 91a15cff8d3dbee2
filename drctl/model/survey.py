"""Survey of a whole cluster for health checks: brokers, replicas, users, quotas."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
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


class Capability(StrEnum):
    """A feature that some Kafka releases or configurations do not have."""

    CONSUMER_GROUPS = "KIP-848 groups"
    ELIGIBLE_LEADERS = "eligible leader replicas"
    QUORUM = "a KRaft quorum"


@dataclass(frozen=True, slots=True)
class BrokerFeatures:
    """The response of one broker to a direct request.

    Attributes:
        supported: highest supported level, by feature.
        finalized: level in use by the cluster, by feature.
        missing: what the broker cannot do.
    """

    supported: Mapping[str, int] = field(default_factory=dict)
    finalized: Mapping[str, int] = field(default_factory=dict)
    missing: frozenset[Capability] = frozenset()


Entity = tuple[tuple[str, str | None], ...]
"""The entity of a quota: type and name; None for the default of the type."""

Quotas = Mapping[Entity, Mapping[str, float]]


class Limit(NamedTuple):
    """One limit of a client quota to set; None removes it."""

    entity: Entity
    key: str
    value: float | None


def quota_of(entity: Entity) -> str:
    """The entity of a quota, for messages."""
    return ", ".join(f"{kind} {name if name is not None else '(default)'}" for kind, name in entity)


class Disks(NamedTuple):
    """The log directories of one broker.

    Attributes:
        total: bytes of its volumes.
        usable: bytes that are free on them.
        sizes: bytes on disk of each replica that it holds.
    """

    total: int
    usable: int
    sizes: Mapping[TopicPartition, int]


LogDirs = Mapping[int, Disks | Unavailable]
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

    def log_dirs(self) -> LogDirs:
        """The disks of each broker; unavailable if the broker does not report their capacity.

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


class QuotaReader(Protocol):
    """Reads client quotas, and validates changes without applying them."""

    def quotas(self) -> Quotas | Unavailable:
        """All client quotas.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def would_set(self, limits: Collection[Limit]) -> Mapping[Limit, Unavailable | None]:
        """Validate limits; for each limit, return None or why the cluster rejects it.

        Raises:
            Unreachable: no broker answered within the deadline.
        """


class QuotaWriter(Protocol):
    """Sets and removes exactly the given limits; idempotent."""

    def set_quotas(self, limits: Collection[Limit]) -> Mapping[Limit, Unavailable | None]:
        """Set limits; for each limit, return None or why it failed.

        Raises:
            Unreachable: no broker answered within the deadline; nothing was sent.
        """
