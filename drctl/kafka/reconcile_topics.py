"""The topics in which `drctl reconcile` stores its progress and quarantined records."""

from drctl.kafka.brokers import ClusterClient
from drctl.kafka.followed_topic import CompactedTopic
from drctl.kafka.own_topics import TIMEOUT_S, Purpose, create, create_compacted
from drctl.kafka.topics import read_topics
from drctl.model.errors import ConfigError, Unknown
from drctl.model.text import plural
from drctl.model.topology import TopicState
from drctl.reconcile.progress import TOPIC, Key, Progress, decode

RECONCILE = Purpose(
    what="the progress of reconciliation",
    page="docs/howto/permissions.md",
    silent="check that its brokers are running; without this topic, progress so far is unknown",
    recreated="run drctl gap again: it detects copied records",
)
_CONFIG = {"segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"}
_NO_EXPIRY = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_OVERHEAD_BYTES = 1 << 16
_DEFAULT_BYTES = 1_048_588
_MAX_NAME = 249


class ReconcileTopic(ClusterClient):
    """Reads progress, and creates the topics."""

    def make(self) -> None:
        """Create the topic of the progress unless it exists.

        Raises:
            ConfigError, Unreachable, Unknown: it cannot be created.
        """
        create_compacted(self._connection, TOPIC, RECONCILE, _CONFIG)

    def kept(self) -> dict[Key, Progress]:
        """All committed progress; none if the topic does not exist.

        Raises:
            ConfigError: this user may not read it.
            Unreachable: the cluster did not answer.
            Unknown: this version of drctl cannot decode it.
        """
        topic = CompactedTopic(self._connection, TOPIC, b"", RECONCILE)
        return decode(topic.values.items()) if topic.catch_up() else {}

    def settled(self) -> dict[Key, Progress]:
        """All progress, after waiting for open transactions.

        Raises:
            ConfigError, Unreachable: as for `kept`.
            Unknown: as for `kept`, or a transaction stays open.
        """
        topic = CompactedTopic(self._connection, TOPIC, b"", RECONCILE)
        if not topic.settle(TIMEOUT_S):
            raise Unknown(
                f"an open transaction in {topic.where} hides the progress so far",
                "run the command again in a minute: brokers abort the transaction of a dead writer",
            )
        return decode(topic.values.items())

    def make_quarantine(self, name: str, like: str, partitions: int) -> None:
        """Create a quarantine topic without retention limits unless it exists.

        Args:
            like: a topic of the cluster whose largest records it must accept.

        Raises:
            ConfigError: this user may not create it, or the existing topic would delete records.
            Unreachable, Unknown: no answer from the cluster, or the topic got no leaders in time.
        """
        if len(name) > _MAX_NAME:
            raise ConfigError(f"topic name {name} is too long", "use --policy export")
        states = read_topics(self._connection, [name, like], self._connection.deadline())
        found = states[name]
        if found is None:
            known = states[like]
            config = known.config if isinstance(known, TopicState) else {}
            limit = int(config.get("max.message.bytes", _DEFAULT_BYTES)) + _OVERHEAD_BYTES
            wanted = {**_NO_EXPIRY, "max.message.bytes": str(limit)}
            create(self._connection, name, RECONCILE, wanted, partitions)
        elif isinstance(found, TopicState):
            _check_quarantine(found, partitions)


def _check_quarantine(state: TopicState, partitions: int) -> None:
    for name, wanted in _NO_EXPIRY.items():
        found = state.config.get(name, wanted)
        if found != wanted:
            raise ConfigError(
                f"topic {state.name} has {name}={found}: it would lose records",
                f"set {name}={wanted} on it",
            )
    if len(state.partitions) < partitions:
        raise ConfigError(
            f"topic {state.name} has {plural(len(state.partitions), 'partition')};"
            f" {partitions} are needed",
            "add partitions to it",
        )
