"""Whether a cluster can take over: its controller, brokers and partitions; open transactions."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from drctl.model.errors import ConfigError, ExitCode, Unreachable
from drctl.model.topology import TopicPartition, Unavailable


class AuthenticationFailed(Unreachable):
    """Authentication or TLS failed.

    Not a sign that the cluster is lost: correct drctl's credentials.
    """

    exit_code = ExitCode.USAGE

    @property
    def kind(self) -> str:
        """For scripts it is an error of the configuration like any other."""
        return ConfigError.__name__


NEITHER_RESPONDS = "neither cluster responds to this host"
CHECK_NETWORK = (
    "check this host's network, VPN, DNS and firewall first; then check that the brokers are"
    " running, and check bootstrap and security.protocol of both clusters in drctl.yaml"
)


class NoClusterResponds(Unreachable):
    """Neither cluster of a link responds to this host; nothing was changed.

    Args:
        reasons: why each of them did not respond: the messages of `Unreachable`.
    """

    def __init__(self, reasons: Iterable[str]) -> None:
        super().__init__(f"{NEITHER_RESPONDS}: {brief_reasons(reasons)}", CHECK_NETWORK)


def brief_reasons(reasons: Iterable[str]) -> str:
    """The messages of unreachable clusters: each attempt and its cause, the address only once."""
    return "; ".join(map(_brief, reasons))


_SILENT = re.compile(r"(cluster \S+) \([^)]*\) (did not answer) within [^;]*")


def brief_silence(text: str) -> str:
    """The text without the address, deadline and error that it states for a silent cluster."""
    return _SILENT.sub(r"\1 \2", text)


def _brief(reason: str) -> str:
    what, colon, why = reason.removeprefix("cluster ").partition(": ")
    return f"{what}{colon}{why.rpartition(': ')[2]}"


@dataclass(frozen=True, slots=True)
class Silent(Unavailable):
    """No answer: the cluster may be down."""


@dataclass(frozen=True, slots=True)
class Locked(Unavailable):
    """The cluster answers, but rejects drctl's login."""


ALTER = "ALTER"
"""On the cluster: adding and removing ACLs."""


class RightsReader(Protocol):
    """Reads this user's permissions."""

    def operations(self) -> frozenset[str] | Unavailable:
        """Allowed operations on the cluster, or why they are unknown.

        Raises:
            Unreachable: no broker answered within the deadline.
        """


class Controller(NamedTuple):
    """The active controller, as the metadata quorum names it."""

    node: int
    epoch: int


class Shortage(NamedTuple):
    """A partition with too few replicas in sync.

    Attributes:
        wanted: the required number: `min.insync.replicas`, or all replicas.
    """

    partition: TopicPartition
    in_sync: int
    wanted: int


@dataclass(frozen=True, slots=True)
class ClusterHealth:
    """Health of a cluster and some of its topics.

    Attributes:
        controller: the controller, or why it is unknown.
        brokers: live brokers.
        absent: brokers that hold replicas of the topics and are not live.
        partitions: number of partitions checked.
        missing: topics that do not exist, or that this user may not describe.
        offline: partitions without a leader.
        under_min_isr: partitions that reject records with acks=all.
        under_replicated: partitions with a replica out of sync.
        unknown: topics whose `min.insync.replicas` could not be read.
    """

    cluster_id: str
    controller: Controller | Unavailable
    brokers: tuple[int, ...]
    absent: tuple[int, ...] = ()
    partitions: int = 0
    missing: tuple[str, ...] = ()
    offline: tuple[TopicPartition, ...] = ()
    under_min_isr: tuple[Shortage, ...] = ()
    under_replicated: tuple[Shortage, ...] = ()
    unknown: Mapping[str, Unavailable] = field(default_factory=dict)

    @property
    def writable(self) -> bool:
        """Whether every partition is known to accept records with acks=all."""
        return not (self.missing or self.offline or self.under_min_isr or self.unknown)


class OpenTransaction(NamedTuple):
    """An open transaction, which holds back a partition's last stable offset.

    Attributes:
        since: offset of its first record in the partition.
        timestamp_ms: timestamp of its last record there, UTC; -1 if unknown.
        transactional_id: empty if no coordinator knows the producer.
        state: the coordinator's state; empty if none knows it.
        hanging: no coordinator will ever end it; None if not every broker answered.
        coordinator_epoch: epoch of the coordinator that last ended a transaction of this producer
            in the partition.
    """

    producer_id: int
    epoch: int
    since: int
    timestamp_ms: int
    transactional_id: str = ""
    state: str = ""
    hanging: bool | None = None
    coordinator_epoch: int = -1


OpenTransactions = Mapping[TopicPartition, tuple[OpenTransaction, ...] | Unavailable]
"""By partition; partitions without an open transaction are left out."""


@dataclass(frozen=True, slots=True)
class BlockingTransaction:
    """An open transaction of a partition, with the attributes of `OpenTransaction`."""

    topic: str
    partition: int
    producer_id: int
    epoch: int
    since: int
    timestamp_ms: int
    transactional_id: str = ""
    hanging: bool | None = None

    @classmethod
    def at(cls, place: TopicPartition, found: OpenTransaction) -> "BlockingTransaction":
        """An open transaction with its partition."""
        return cls(
            *place,
            *(found.producer_id, found.epoch, found.since, found.timestamp_ms),
            *(found.transactional_id, found.hanging),
        )

    @property
    def place(self) -> TopicPartition:
        """Its partition."""
        return TopicPartition(self.topic, self.partition)

    def is_still(self, found: OpenTransaction) -> bool:
        """Whether an open transaction of the partition is this one."""
        same = (self.producer_id, self.epoch, self.since)
        return (found.producer_id, found.epoch, found.since) == same


class TransactionWriter(Protocol):
    """Aborts transactions."""

    def abort(
        self, transactions: Collection[BlockingTransaction]
    ) -> Mapping[BlockingTransaction, Unavailable | None]:
        """Abort transactions that are still as given; leave all others alone.

        Returns:
            For each transaction, None if it was aborted or had already ended, else why not.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for this.
        """


class HealthReader(Protocol):
    """Reads the health of a cluster."""

    def health(
        self, topics: Collection[str], known: Mapping[str, Mapping[str, str]] | None = None
    ) -> ClusterHealth:
        """The health of the cluster and these topics.

        Args:
            known: topic configurations that were already read.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def open_transactions(self, partitions: Collection[TopicPartition]) -> OpenTransactions:
        """Which transactions are open in these partitions, and which of them hang.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for this.
        """
