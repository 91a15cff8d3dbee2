"""One cluster: all readers and writers, over one shared connection.

Modules are imported on first use: most commands need few of them.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Generic, TypeVar

from drctl.host import connections
from drctl.kafka.connection import Connection

if TYPE_CHECKING:
    from drctl.kafka.acls import KafkaAclReader, KafkaAclWriter, KafkaRuleWriter, SharedRules
    from drctl.kafka.drill import KafkaScratch
    from drctl.kafka.elections import KafkaElectionReader, KafkaElectionWriter
    from drctl.kafka.fence_proof import KafkaFenceProver
    from drctl.kafka.group_offsets import KafkaGroupWriter
    from drctl.kafka.groups import KafkaGroupReader
    from drctl.kafka.health import KafkaHealthReader
    from drctl.kafka.journal_reader import JournalTopicReader
    from drctl.kafka.journal_topic import JournalTopic
    from drctl.kafka.ledger_topic import TopicLedger, TopicLedgerReader
    from drctl.kafka.open_transactions import KafkaTransactionWriter
    from drctl.kafka.own_topics import KafkaProbeWriter
    from drctl.kafka.producer_ids import KafkaProducerIdReader, KafkaProducerIdWriter
    from drctl.kafka.quotas import KafkaQuotaReader, KafkaQuotaWriter
    from drctl.kafka.reader import KafkaClusterReader
    from drctl.kafka.reconcile_copier import TransactionalCopier
    from drctl.kafka.reconcile_topics import ReconcileTopic
    from drctl.kafka.survey import KafkaSurveyor
    from drctl.kafka.topic_configs import KafkaShapeReader, KafkaShapeWriter
    from drctl.kafka.tracked_offsets_topic import TrackedOffsetsReader, TrackedOffsetsTopic


P = TypeVar("P")


class _Cluster:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection


class _Part(Generic[P]):
    """Descriptor that imports a module and creates its reader or writer on access."""

    def __init__(self, module: str, kind: str) -> None:
        self._module = f"drctl.kafka.{module}"
        self._kind = kind

    def __get__(self, cluster: _Cluster, _owner: object) -> P:
        made: P = getattr(import_module(self._module), self._kind)(cluster._connection)
        return made


class KafkaReader(_Cluster):
    """Read access to one cluster; nothing here can write.

    Each reader connects on first use and is a context manager. A call ends within about the
    connection's timeout.
    """

    topics: "_Part[KafkaClusterReader]" = _Part("reader", "KafkaClusterReader")
    """Topics, offsets and single records."""

    groups: "_Part[KafkaGroupReader]" = _Part("groups", "KafkaGroupReader")
    """Consumer groups and their committed offsets."""

    acls: "_Part[KafkaAclReader]" = _Part("acls", "KafkaAclReader")
    """Topic ACLs, as each broker enforces them."""

    shapes: "_Part[KafkaShapeReader]" = _Part("topic_configs", "KafkaShapeReader")
    """Topic partitions, replicas and configurations."""

    quotas: "_Part[KafkaQuotaReader]" = _Part("quotas", "KafkaQuotaReader")
    """Client quotas."""

    producer_ids: "_Part[KafkaProducerIdReader]" = _Part("producer_ids", "KafkaProducerIdReader")
    """Producer ids in use."""

    health: "_Part[KafkaHealthReader]" = _Part("health", "KafkaHealthReader")
    """Brokers, replicas, open transactions, and this user's permissions."""

    elections: "_Part[KafkaElectionReader]" = _Part("elections", "KafkaElectionReader")
    """Replicas and their log end offsets."""

    survey: "_Part[KafkaSurveyor]" = _Part("survey", "KafkaSurveyor")
    """Inventory of the whole cluster; not thread-safe."""

    tracked_offsets: "_Part[TrackedOffsetsReader]" = _Part(
        "tracked_offsets_topic", "TrackedOffsetsReader"
    )
    """Tracked offsets stored in this cluster."""

    def fence(self, stabilize_s: float) -> "KafkaFenceProver":
        """Proves that topics take no writes: end offsets must be unchanged for `stabilize_s`."""
        from drctl.kafka.fence_proof import KafkaFenceProver

        return KafkaFenceProver(self._connection, stabilize_s=stabilize_s)

    def journal(self, link: str, key: bytes) -> "JournalTopicReader":
        """Journals of a link's runs; signed if there is a key."""
        from drctl.kafka.journal_reader import JournalTopicReader

        return JournalTopicReader(self._connection, link, key=key)

    def ledger(self, topic: str) -> "TopicLedgerReader":
        """Results of earlier comparisons."""
        from drctl.kafka.ledger_topic import TopicLedgerReader

        return TopicLedgerReader(self._connection, topic)


class KafkaWriter(_Cluster):
    """Write access to one cluster."""

    groups: "_Part[KafkaGroupWriter]" = _Part("group_offsets", "KafkaGroupWriter")
    """Commits and deletes group offsets; creates KIP-848 groups."""

    acls: "_Part[KafkaAclWriter]" = _Part("acls", "KafkaAclWriter")
    """Adds and removes DENY ACLs."""

    rules: "_Part[KafkaRuleWriter]" = _Part("acls", "KafkaRuleWriter")
    """Adds and removes topic ACLs, ALLOW or DENY."""

    shapes: "_Part[KafkaShapeWriter]" = _Part("topic_configs", "KafkaShapeWriter")
    """Creates and alters topics."""

    quotas: "_Part[KafkaQuotaWriter]" = _Part("quotas", "KafkaQuotaWriter")
    """Sets client quotas."""

    producer_ids: "_Part[KafkaProducerIdWriter]" = _Part("producer_ids", "KafkaProducerIdWriter")
    """Advances producer ids."""

    transactions: "_Part[KafkaTransactionWriter]" = _Part(
        "open_transactions", "KafkaTransactionWriter"
    )
    """Aborts transactions."""

    elections: "_Part[KafkaElectionWriter]" = _Part("elections", "KafkaElectionWriter")
    """Triggers leader elections."""

    probe_record: "_Part[KafkaProbeWriter]" = _Part("own_topics", "KafkaProbeWriter")
    """Writes a probe record."""

    tracked_offsets: "_Part[TrackedOffsetsTopic]" = _Part(
        "tracked_offsets_topic", "TrackedOffsetsTopic"
    )
    """Stores tracked offsets."""

    reconciled: "_Part[ReconcileTopic]" = _Part("reconcile_topics", "ReconcileTopic")
    """Stores the progress of reconciliation."""

    scratch: "_Part[KafkaScratch]" = _Part("drill", "KafkaScratch")
    """Creates and deletes the resources of drills."""

    def shared_acls(self, link: str) -> "SharedRules":
        """Like `acls`, but keeps rules that fences of other links need."""
        from drctl.kafka.acls import KafkaAclReader, KafkaAclWriter, SharedRules

        return SharedRules(KafkaAclWriter(self._connection), KafkaAclReader(self._connection), link)

    def journal(self, link: str, key: bytes) -> "JournalTopic":
        """Writes the journals of a link's runs; signed if there is a key."""
        from drctl.kafka.journal_topic import JournalTopic

        return JournalTopic(self._connection, link, key=key)

    def ledger(self, topic: str) -> "TopicLedger":
        """Stores the results of comparisons."""
        from drctl.kafka.ledger_topic import TopicLedger

        return TopicLedger(self._connection, topic)

    def copier(self, link: str, marks: Sequence[tuple[str, bytes]] = ()) -> "TransactionalCopier":
        """Appends copies of a link's records; fences an earlier copier on entry.

        Args:
            marks: headers that each copy gets in addition to drctl's own.
        """
        from drctl.kafka.reconcile_copier import TransactionalCopier

        return TransactionalCopier(self._connection, link, marks)


class KafkaCluster:
    """One cluster; all of its users share one connection until the command ends.

    Args:
        properties: client properties, with secrets in plain text.
    """

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        key = name, frozenset(properties.items())
        self._connection = connections.shared(key, lambda: Connection(name, properties))

    def reader(self, timeout_s: float = 10) -> KafkaReader:
        """Read access with this timeout per call."""
        return KafkaReader(self._connection.within(timeout_s))

    def writer(self, timeout_s: float = 10) -> KafkaWriter:
        """Write access with this timeout per call."""
        return KafkaWriter(self._connection.within(timeout_s))

    def present(self, timeout_s: float) -> None:
        """Check that the cluster answers now, ignoring earlier results.

        Raises:
            AuthenticationFailed: it answers and rejects the login.
            Unreachable: it did not answer.
        """
        connection = Connection(self._connection.name, self._connection.properties, timeout_s)
        try:
            connection.present()
        finally:
            connection.close()
