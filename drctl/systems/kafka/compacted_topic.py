"""What a compacted topic of one partition holds: the newest committed value of each key."""

from collections.abc import Iterable

from drctl.model.errors import ConfigError
from drctl.model.topology import TopicState
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.followed_topic import FollowedTopic
from drctl.systems.kafka.own_topics import LEDGER, Purpose


class CompactedTopic(FollowedTopic):
    """The records whose keys begin with `prefix`, kept in memory.

    Attributes:
        values: as of the last `catch_up`.
    """

    def __init__(
        self, connection: Connection, topic: str, prefix: bytes, purpose: Purpose = LEDGER
    ) -> None:
        super().__init__(connection, topic, purpose)
        self._prefix = prefix
        self.values: dict[bytes, bytes] = {}

    def _check(self, state: TopicState) -> None:
        if not state.compacted and "cleanup.policy" in state.config:
            raise ConfigError(
                f"{self.where} has cleanup.policy {state.config['cleanup.policy']}: it would"
                " forget what is kept in it",
                "set its cleanup.policy to compact, or delete it and let drctl make it",
            )

    def _take(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        for key, value in records:
            if key is None or not key.startswith(self._prefix):
                continue
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = value
