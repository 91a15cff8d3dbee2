"""The topics that `drctl reconcile` keeps on the cluster that it writes to."""

from drctl.kafka.brokers import ClusterClient
from drctl.kafka.followed_topic import CompactedTopic
from drctl.kafka.own_topics import PATIENCE_S, Purpose, create, create_compacted
from drctl.kafka.topics import read_topics
from drctl.model.errors import ConfigError, Unknown
from drctl.model.topology import TopicState
from drctl.reconcile.progress import TOPIC, Key, Progress, decode

RECONCILE = Purpose(
    what="the progress of reconciliation",
    page="docs/howto/permissions.md",
    silent="check that its brokers are running; without it nobody knows what is done already",
    recreated="run drctl gap again: it detects copied records",
)
_CONFIG = {"segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"}
_KEPT_FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_ROOM = 1 << 16
_USUAL_BYTES = 1_048_588
_LONGEST_NAME = 249


class ReconcileTopic(ClusterClient):
    """Reads progress; makes the topic where somebody is about to write it."""

    def make(self) -> None:
        """Make the topic, unless it is there.

        Raises:
            ConfigError, Unreachable, Unknown: it cannot be made.
        """
        create_compacted(self._connection, TOPIC, RECONCILE, _CONFIG)

    def kept(self) -> dict[Key, Progress]:
        """All progress that counts now; nothing where there is no such topic.

        Raises:
            ConfigError: it may not be read.
            Unreachable: the cluster did not answer.
            Unknown: it holds what this drctl does not understand.
        """
        held = CompactedTopic(self._connection, TOPIC, b"", RECONCILE)
        return decode(held.values.items()) if held.catch_up() else {}

    def settled(self) -> dict[Key, Progress]:
        """The same, once everything that was appended until now is decided.

        Raises:
            ConfigError, Unreachable: likewise.
            Unknown: likewise, or somebody's transaction stays open.
        """
        held = CompactedTopic(self._connection, TOPIC, b"", RECONCILE)
        if not held.settle(PATIENCE_S):
            raise Unknown(
                f"an open transaction in {held.where} hides the progress so far",
                "run the command again in a minute: brokers abort the transaction of a dead writer",
            )
        return decode(held.values.items())

    def make_quarantine(self, name: str, like: str, partitions: int) -> None:
        """Make a quarantine topic that keeps forever, unless it is there.

        Args:
            like: a topic of the cluster whose largest records it must take.

        Raises:
            ConfigError: this user may not, or what is there does not keep forever.
            Unreachable, Unknown: the cluster did not answer, or gave it no leaders.
        """
        if len(name) > _LONGEST_NAME:
            raise ConfigError(f"topic name {name} is too long", "use --policy export")
        states = read_topics(self._connection, [name, like], self._connection.deadline())
        found = states[name]
        if found is None:
            known = states[like]
            config = known.config if isinstance(known, TopicState) else {}
            most = int(config.get("max.message.bytes", _USUAL_BYTES)) + _ROOM
            wanted = {**_KEPT_FOR_EVER, "max.message.bytes": str(most)}
            create(self._connection, name, RECONCILE, wanted, partitions)
        elif isinstance(found, TopicState):
            _check_quarantine(found, partitions)


def _check_quarantine(state: TopicState, partitions: int) -> None:
    for name, wanted in _KEPT_FOR_EVER.items():
        found = state.config.get(name, wanted)
        if found != wanted:
            raise ConfigError(
                f"topic {state.name} has {name}={found}: it would lose records",
                f"set {name}={wanted} on it",
            )
    if len(state.partitions) < partitions:
        raise ConfigError(
            f"topic {state.name} has {len(state.partitions)} partitions, {partitions} are needed",
            "add partitions to it",
        )
