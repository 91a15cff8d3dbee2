"""Makes and deletes what a drill has of its own on one cluster; refuses every other name."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined, unused-ignore]

from drctl.drill.names import drill_of
from drctl.model.errors import ConfigError, Unknown, Unreachable
from drctl.model.topology import Unavailable
from drctl.systems.closing import Closing
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.faults import Fault
from drctl.systems.kafka.requests import GRACE_S, outcome

_REPLICAS = 3
_PATIENCE_S = 30.0
_PAUSE_S = 0.2
_GONE = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_NO_GROUP = frozenset({KafkaError.GROUP_ID_NOT_FOUND})
# A member that was killed is in its group until its session ends.
_STILL_READ = frozenset({KafkaError.NON_EMPTY_GROUP})

Ask = Callable[[list[str]], Mapping[str, Any]]


class KafkaScratch(Closing):
    """Implements `drctl.drill.ports.ScratchMaker`; connects on first use."""

    def __init__(self, name: str, properties: Mapping[str, str], *, timeout_s: float = 10) -> None:
        self._connection = Connection(name, properties, timeout_s)

    def make_topic(self, name: str, partitions: int) -> None:
        """Make it, and see that it is led.

        Raises:
            ConfigError: this user may not.
            Unreachable: the cluster did not answer.
            Unknown: it has no leaders in time.
            ValueError: it is not called as drills call topics.
        """
        _require_ours([name])
        brokers = len(self._connection.nodes(self._connection.deadline()).brokers)
        new = NewTopic(name, partitions, replication_factor=min(_REPLICAS, brokers))
        asked = self._connection.admin().create_topics([new], operation_timeout=_PATIENCE_S)
        done = outcome(asked[name], _PATIENCE_S + GRACE_S)
        if isinstance(done, Fault) and done.code != KafkaError.TOPIC_ALREADY_EXISTS:
            told = f"topic {name} of {self._connection.name} cannot be made"
            message = f"{told}: {self._connection.redacted(done.text)}"
            if done.retried:
                raise Unreachable(message, "see that its brokers run")
            raise ConfigError(message, "grant CREATE, READ, WRITE and DELETE on it (docs/drill.md)")
        self._await_leaders(name, partitions)

    def delete_topics(self, names: Collection[str]) -> Mapping[str, Unavailable | None]:
        """By name None where it is gone, or why it is not.

        Raises:
            ValueError: one of them is not called as drills call topics.
        """

        def ask(chosen: list[str]) -> Mapping[str, Any]:
            asked: Mapping[str, Any] = self._connection.admin().delete_topics(
                chosen, operation_timeout=_PATIENCE_S
            )
            return asked

        return self._deleted(names, ask, _GONE)

    def delete_groups(self, names: Collection[str]) -> Mapping[str, Unavailable | None]:
        """By name None where it is gone, or why it is not.

        Raises:
            ValueError: one of them is not called as drills call groups.
        """

        def ask(chosen: list[str]) -> Mapping[str, Any]:
            asked: Mapping[str, Any] = self._connection.admin().delete_consumer_groups(
                chosen, request_timeout=_PATIENCE_S
            )
            return asked

        return self._deleted(names, ask, _NO_GROUP)

    def close(self) -> None:
        """Release connections; may be called again."""
        self._connection.close()

    def _deleted(
        self, names: Collection[str], ask: Ask, gone: frozenset[int]
    ) -> Mapping[str, Unavailable | None]:
        _require_ours(names)
        found: dict[str, Unavailable | None] = {}
        pending, deadline = sorted(set(names)), Deadline.after(_PATIENCE_S)
        while pending:
            for name, future in ask(pending).items():
                done = outcome(future, _PATIENCE_S + GRACE_S)
                failed = isinstance(done, Fault) and done.code not in gone
                found[name] = Unavailable(self._connection.redacted(done.text)) if failed else None
                if not failed or not (done.retried or done.code in _STILL_READ):
                    pending = [each for each in pending if each != name]
            if deadline.expired:
                break
            self._connection.wait(_PAUSE_S if pending else 0)
        return found

    def _await_leaders(self, name: str, partitions: int) -> None:
        deadline = Deadline.after(_PATIENCE_S)
        while not deadline.expired:
            known = self._connection.metadata(deadline).topics.get(name)
            leaders = [each.leader for each in known.partitions.values()] if known else []
            if len(leaders) == partitions and min(leaders) >= 0:
                return
            self._connection.wait(_PAUSE_S)
        raise Unknown(
            f"topic {name} of {self._connection.name} has no leaders after {_PATIENCE_S:g} s",
            "see that its brokers run",
        )


def _require_ours(names: Collection[str]) -> None:
    """Nothing of anybody else is ever deleted here, whatever is asked."""
    for name in names:
        if drill_of(name) is None:
            raise ValueError(f"not of a drill: {name}")
