"""One cluster: everything that looks at it, and everything that changes it, over one connection.

What somebody asks for is imported then: a command needs little of it.
"""

from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from drctl.kafka.connection import Connection

if TYPE_CHECKING:
    from drctl.kafka.acls import KafkaAclReader, KafkaAclWriter, KafkaRuleWriter, SharedRules
    from drctl.kafka.anchors_topic import AnchorsTopic, AnchorsTopicReader
    from drctl.kafka.drill import KafkaScratch
    from drctl.kafka.elections import KafkaElectionReader, KafkaElectionWriter
    from drctl.kafka.fence_proof import KafkaFenceProver
    from drctl.kafka.group_writer import KafkaGroupWriter
    from drctl.kafka.groups import KafkaGroupReader
    from drctl.kafka.health import KafkaHealthReader
    from drctl.kafka.journal_reader import JournalTopicReader
    from drctl.kafka.journal_topic import JournalTopic
    from drctl.kafka.ledger_topic import TopicLedger, TopicLedgerReader
    from drctl.kafka.own_topics import KafkaCanary
    from drctl.kafka.producer_ids import KafkaProducerIdReader, KafkaProducerIdWriter
    from drctl.kafka.reader import KafkaClusterReader
    from drctl.kafka.reconcile_copier import TransactionalCopier
    from drctl.kafka.reconcile_topics import ReconcileTopic
    from drctl.kafka.survey import KafkaSurveyor
    from drctl.kafka.topic_configs import KafkaShapeReader, KafkaShapeWriter


class _Cluster:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection


class KafkaReader(_Cluster):
    """What looks at one cluster: nothing that it gives has a method that writes.

    What it gives connects on first use, may be entered, and keeps the connection open until it is
    closed. A call ends within the connection's timeout (and a moment).
    """

    @property
    def topics(self) -> "KafkaClusterReader":
        """Topics, offsets and single records."""
        from drctl.kafka.reader import KafkaClusterReader

        return KafkaClusterReader(self._connection)

    @property
    def groups(self) -> "KafkaGroupReader":
        """Consumer groups and what they have committed."""
        from drctl.kafka.groups import KafkaGroupReader

        return KafkaGroupReader(self._connection)

    @property
    def acls(self) -> "KafkaAclReader":
        """Rules about topics, as each broker applies them."""
        from drctl.kafka.acls import KafkaAclReader

        return KafkaAclReader(self._connection)

    @property
    def shapes(self) -> "KafkaShapeReader":
        """Topics, as whoever changes them must know them."""
        from drctl.kafka.topic_configs import KafkaShapeReader

        return KafkaShapeReader(self._connection)

    @property
    def producer_ids(self) -> "KafkaProducerIdReader":
        """Producer ids in use."""
        from drctl.kafka.producer_ids import KafkaProducerIdReader

        return KafkaProducerIdReader(self._connection)

    @property
    def health(self) -> "KafkaHealthReader":
        """Brokers, replicas, open transactions, and what this user may do."""
        from drctl.kafka.health import KafkaHealthReader

        return KafkaHealthReader(self._connection)

    @property
    def elections(self) -> "KafkaElectionReader":
        """Replicas, and where the log of each ends."""
        from drctl.kafka.elections import KafkaElectionReader

        return KafkaElectionReader(self._connection)

    @property
    def survey(self) -> "KafkaSurveyor":
        """All there is in the cluster; one thread at a time."""
        from drctl.kafka.survey import KafkaSurveyor

        return KafkaSurveyor(self._connection)

    @property
    def anchors(self) -> "AnchorsTopicReader":
        """The snapshots of offsets that it keeps."""
        from drctl.kafka.anchors_topic import AnchorsTopicReader

        return AnchorsTopicReader(self._connection)

    def fence(self, settle_s: float) -> "KafkaFenceProver":
        """What proves that nothing is written to topics; end offsets must stay for so long."""
        from drctl.kafka.fence_proof import KafkaFenceProver

        return KafkaFenceProver(self._connection, settle_s=settle_s)

    def journal(self, link: str, key: bytes) -> "JournalTopicReader":
        """The journals of a link's runs; signed where there is a key."""
        from drctl.kafka.journal_reader import JournalTopicReader

        return JournalTopicReader(self._connection, link, key=key)

    def ledger(self, topic: str) -> "TopicLedgerReader":
        """What earlier comparisons read."""
        from drctl.kafka.ledger_topic import TopicLedgerReader

        return TopicLedgerReader(self._connection, topic)


class KafkaWriter(_Cluster):
    """What changes one cluster; likewise."""

    @property
    def groups(self) -> "KafkaGroupWriter":
        """Moves what groups have committed, and makes groups of KIP-848 known."""
        from drctl.kafka.group_writer import KafkaGroupWriter

        return KafkaGroupWriter(self._connection)

    @property
    def acls(self) -> "KafkaAclWriter":
        """Adds and removes rules that deny."""
        from drctl.kafka.acls import KafkaAclWriter

        return KafkaAclWriter(self._connection)

    @property
    def rules(self) -> "KafkaRuleWriter":
        """Adds and removes rules about topics, of either permission."""
        from drctl.kafka.acls import KafkaRuleWriter

        return KafkaRuleWriter(self._connection)

    @property
    def shapes(self) -> "KafkaShapeWriter":
        """Makes and changes topics."""
        from drctl.kafka.topic_configs import KafkaShapeWriter

        return KafkaShapeWriter(self._connection)

    @property
    def producer_ids(self) -> "KafkaProducerIdWriter":
        """Has brokers skip producer ids."""
        from drctl.kafka.producer_ids import KafkaProducerIdWriter

        return KafkaProducerIdWriter(self._connection)

    @property
    def elections(self) -> "KafkaElectionWriter":
        """Has leaders elected."""
        from drctl.kafka.elections import KafkaElectionWriter

        return KafkaElectionWriter(self._connection)

    @property
    def canary(self) -> "KafkaCanary":
        """Writes a probe record."""
        from drctl.kafka.own_topics import KafkaCanary

        return KafkaCanary(self._connection)

    @property
    def anchors(self) -> "AnchorsTopic":
        """Keeps snapshots of offsets."""
        from drctl.kafka.anchors_topic import AnchorsTopic

        return AnchorsTopic(self._connection)

    @property
    def reconciled(self) -> "ReconcileTopic":
        """Keeps the progress of reconciliation."""
        from drctl.kafka.reconcile_topics import ReconcileTopic

        return ReconcileTopic(self._connection)

    @property
    def scratch(self) -> "KafkaScratch":
        """Makes and deletes what drills use."""
        from drctl.kafka.drill import KafkaScratch

        return KafkaScratch(self._connection)

    def shared_acls(self, link: str) -> "SharedRules":
        """The same as `acls`, which leaves what fences of other links rest on."""
        from drctl.kafka.acls import KafkaAclReader, KafkaAclWriter, SharedRules

        return SharedRules(KafkaAclWriter(self._connection), KafkaAclReader(self._connection), link)

    def journal(self, link: str, key: bytes) -> "JournalTopic":
        """Keeps the journals of a link's runs; signs them where there is a key."""
        from drctl.kafka.journal_topic import JournalTopic

        return JournalTopic(self._connection, link, key=key)

    def ledger(self, topic: str) -> "TopicLedger":
        """Keeps what comparisons read."""
        from drctl.kafka.ledger_topic import TopicLedger

        return TopicLedger(self._connection, topic)

    def copier(self, link: str) -> "TransactionalCopier":
        """Appends copies of a link's records; whoever did so before is fenced by its entry."""
        from drctl.kafka.reconcile_copier import TransactionalCopier

        return TransactionalCopier(self._connection, link)


_OPEN: WeakValueDictionary[object, Connection] = WeakValueDictionary()
_LOCK = Lock()


class KafkaCluster:
    """One cluster; whoever looks at it or changes it in this process shares one connection.

    Args:
        properties: of its client, secrets in clear.
    """

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        key = name, frozenset(properties.items())
        with _LOCK:
            self._connection = _OPEN.get(key) or Connection(name, properties)
            _OPEN[key] = self._connection

    def reader(self, timeout_s: float = 10) -> KafkaReader:
        """What looks at it; each call may take as long as this."""
        return KafkaReader(self._connection.within(timeout_s))

    def writer(self, timeout_s: float = 10) -> KafkaWriter:
        """What changes it; likewise."""
        return KafkaWriter(self._connection.within(timeout_s))

    def present(self, timeout_s: float) -> None:
        """See whether it is there now, whatever this run knows of it.

        Raises:
            NotLetIn: somebody is there, and does not let drctl in.
            Unreachable: it did not answer.
        """
        connection = Connection(self._connection.name, self._connection.properties, timeout_s)
        try:
            connection.present()
        finally:
            connection.close()
