"""One cluster: everything that looks at it, and everything that changes it, over one connection.

What somebody asks for is imported then: a command needs little of it.
"""

from collections.abc import Mapping
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import WeakValueDictionary

from drctl.kafka.connection import Connection

if TYPE_CHECKING:
    from drctl.kafka.acls import KafkaAclReader, KafkaAclWriter, KafkaRuleWriter, SharedRules
    from drctl.kafka.anchors_topic import AnchorsTopic, AnchorsTopicReader
    from drctl.kafka.drill import KafkaScratch
    from drctl.kafka.elections import KafkaElectionReader, KafkaElectionWriter
    from drctl.kafka.fence_proof import KafkaFenceProver
    from drctl.kafka.group_offsets import KafkaGroupWriter
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


P = TypeVar("P")


class _Cluster:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection


class _Part(Generic[P]):
    """One of a kind of the package, made for whoever asks; its module is imported then."""

    def __init__(self, module: str, kind: str) -> None:
        self._module = f"drctl.kafka.{module}"
        self._kind = kind

    def __get__(self, cluster: _Cluster, _owner: object) -> P:
        made: P = getattr(import_module(self._module), self._kind)(cluster._connection)
        return made


class KafkaReader(_Cluster):
    """What looks at one cluster: nothing that it gives has a method that writes.

    What it gives connects on first use, may be entered, and keeps the connection open until it is
    closed. A call ends within the connection's timeout (and a moment).
    """

    topics: "_Part[KafkaClusterReader]" = _Part("reader", "KafkaClusterReader")
    """Topics, offsets and single records."""

    groups: "_Part[KafkaGroupReader]" = _Part("groups", "KafkaGroupReader")
    """Consumer groups and what they have committed."""

    acls: "_Part[KafkaAclReader]" = _Part("acls", "KafkaAclReader")
    """Rules about topics, as each broker applies them."""

    shapes: "_Part[KafkaShapeReader]" = _Part("topic_configs", "KafkaShapeReader")
    """Topics, as whoever changes them must know them."""

    producer_ids: "_Part[KafkaProducerIdReader]" = _Part("producer_ids", "KafkaProducerIdReader")
    """Producer ids in use."""

    health: "_Part[KafkaHealthReader]" = _Part("health", "KafkaHealthReader")
    """Brokers, replicas, open transactions, and what this user may do."""

    elections: "_Part[KafkaElectionReader]" = _Part("elections", "KafkaElectionReader")
    """Replicas, and where the log of each ends."""

    survey: "_Part[KafkaSurveyor]" = _Part("survey", "KafkaSurveyor")
    """All there is in the cluster; one thread at a time."""

    anchors: "_Part[AnchorsTopicReader]" = _Part("anchors_topic", "AnchorsTopicReader")
    """The snapshots of offsets that it keeps."""

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

    groups: "_Part[KafkaGroupWriter]" = _Part("group_offsets", "KafkaGroupWriter")
    """Moves what groups have committed, and makes groups of KIP-848 known."""

    acls: "_Part[KafkaAclWriter]" = _Part("acls", "KafkaAclWriter")
    """Adds and removes rules that deny."""

    rules: "_Part[KafkaRuleWriter]" = _Part("acls", "KafkaRuleWriter")
    """Adds and removes rules about topics, of either permission."""

    shapes: "_Part[KafkaShapeWriter]" = _Part("topic_configs", "KafkaShapeWriter")
    """Makes and changes topics."""

    producer_ids: "_Part[KafkaProducerIdWriter]" = _Part("producer_ids", "KafkaProducerIdWriter")
    """Has brokers skip producer ids."""

    elections: "_Part[KafkaElectionWriter]" = _Part("elections", "KafkaElectionWriter")
    """Has leaders elected."""

    canary: "_Part[KafkaCanary]" = _Part("own_topics", "KafkaCanary")
    """Writes a probe record."""

    anchors: "_Part[AnchorsTopic]" = _Part("anchors_topic", "AnchorsTopic")
    """Keeps snapshots of offsets."""

    reconciled: "_Part[ReconcileTopic]" = _Part("reconcile_topics", "ReconcileTopic")
    """Keeps the progress of reconciliation."""

    scratch: "_Part[KafkaScratch]" = _Part("drill", "KafkaScratch")
    """Makes and deletes what drills use."""

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
