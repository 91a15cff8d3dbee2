"""A whole cluster, as far as nobody needs it in a hurry: its brokers, replicas, users, limits."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from drctl.model.topology import TopicPartition, Unavailable


class Broker(NamedTuple):
    """A broker that is there.

    Attributes:
        rack: empty where it names none.
    """

    host: str
    port: int
    rack: str = ""


class Replicas(NamedTuple):
    """Where a partition is kept.

    Attributes:
        leader: -1 where there is none.
        assigned: the preferred leader first.
        in_sync: the in-sync replicas.
        eligible: out of sync, and yet they hold all that was committed (KIP-966); None where nobody
            asked, for all are in sync, or the brokers do not tell.
    """

    leader: int
    assigned: tuple[int, ...]
    in_sync: tuple[int, ...]
    eligible: tuple[int, ...] | None = None


_OWN_TRANSACTIONAL_IDS = ("drctl.", "drctl-reconcile-")
"""Of the journal, and of records that are reconciled: the link's name follows."""


def of_applications(transactional_ids: Iterable[str]) -> tuple[str, ...]:
    """Those that drctl does not use itself."""
    return tuple(each for each in transactional_ids if not each.startswith(_OWN_TRANSACTIONAL_IDS))


@dataclass(frozen=True, slots=True)
class Layout:
    """Brokers, and what they hold; internal topics included.

    Attributes:
        brokers: by node id.
        seconds: that the cluster took to answer.
    """

    brokers: Mapping[int, Broker]
    partitions: Mapping[TopicPartition, Replicas]
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class BrokerFeatures:
    """What one broker answered when it was asked alone.

    Attributes:
        supported: the highest level that it knows, by feature.
        finalized: the level that its cluster works at.
    """

    supported: Mapping[str, int] = field(default_factory=dict)
    finalized: Mapping[str, int] = field(default_factory=dict)


Entity = tuple[tuple[str, str | None], ...]
"""Whom a quota is for: kind and name; None for the default of its kind."""

Quotas = Mapping[Entity, Mapping[str, float]]
ByBroker = Mapping[int, BrokerFeatures | Unavailable]
Settings = Mapping[int, Mapping[str, str] | Unavailable]


class ClusterSurveyor(Protocol):
    """Looks at a whole cluster, from outside; changes nothing."""

    def layout(self) -> Layout:
        """Brokers and replicas of everything that this user may see.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def features(self) -> ByBroker:
        """Each broker, asked alone and all of them at once.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """

    def settings(self) -> Settings:
        """Each broker's configuration, as far as it is told; secrets never are.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def scram_users(self) -> frozenset[str] | Unavailable:
        """Who has a SCRAM credential, by name.

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
        """All that the coordinators know, in use or not, sorted.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """
