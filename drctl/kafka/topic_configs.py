"""Topics as whoever changes them must know them: partitions, replicas, whose each setting is.

A request may be sent for trial: the cluster says what it would do, and does nothing.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import groupby
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from drctl.kafka.brokers import ClusterClient
from drctl.kafka.connection import GRACE_S, Asked, gather, in_chunks, outcome
from drctl.kafka.deadline import Deadline
from drctl.kafka.faults import Fault
from drctl.model.repairs import Alteration, Answers, TopicSetting, TopicShape, WantedTopic
from drctl.model.topology import Unanswered, Unavailable

_CHUNK = 100
_DONE_ALREADY = frozenset({KafkaError.TOPIC_ALREADY_EXISTS})


class _Topics(ClusterClient):
    """The requests of reader and writer: the reader only has them validated."""

    def _created(self, topics: Collection[WantedTopic], **how: Any) -> Answers:
        wanted = [
            NewTopic(
                each.name,
                each.partitions,
                replication_factor=each.replicas,
                config=dict(each.config),
            )
            for each in topics
        ]
        return self._asked("create_topics", wanted, **how)

    def _extended(self, totals: Mapping[str, int], **how: Any) -> Answers:
        wanted = [NewPartitions(name, total) for name, total in totals.items()]
        return self._asked("create_partitions", wanted, **how)

    def _configured(self, changes: Collection[Alteration], **how: Any) -> Answers:
        topics = groupby(sorted(changes, key=_topic), key=_topic)
        wanted = [
            ConfigResource(ResourceType.TOPIC, topic, incremental_configs=list(map(_entry, some)))
            for topic, some in topics
        ]
        return self._asked("incremental_alter_configs", wanted, **how)

    def _asked(self, call: str, wanted: Collection[Any], **how: Any) -> Answers:
        if not wanted:
            return {}
        # Tells whether anybody is there before something is sent.
        self._connection.metadata(self._connection.deadline())
        timeout = self._connection.timeout_s
        found: dict[str, Unavailable | None] = {}
        for chunk in in_chunks(wanted, _CHUNK):
            ask = getattr(self._connection.admin(), call)
            for key, future in ask(chunk, request_timeout=timeout, **how).items():
                name = key.name if isinstance(key, ConfigResource) else str(key)
                found[name] = self._answer(outcome(future, timeout + GRACE_S))
        return found

    def _answer(self, answer: Any) -> Unavailable | None:
        if not isinstance(answer, Fault) or answer.code in _DONE_ALREADY:
            return None
        text = self._connection.redacted(answer.text)
        return Unanswered(text) if answer.retried else Unavailable(text)


class KafkaShapeReader(_Topics):
    """Implements `ShapeReader` of `drctl.model.repairs`; connects on first use."""

    def shapes(self, names: Collection[str]) -> Mapping[str, TopicShape | Unavailable | None]:
        """Each topic; None where there is none.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        deadline = self._connection.deadline()
        metadata = self._connection.metadata(deadline)
        there = [name for name in dict.fromkeys(names) if name in metadata.topics]
        told = gather(self._connection, there, self._ask_settings, deadline)
        found: dict[str, TopicShape | Unavailable | None] = dict.fromkeys(names)
        return found | {name: self._shape(name, metadata, told[name]) for name in there}

    def would_create(self, topics: Collection[WantedTopic]) -> Answers:
        """Whether the cluster would make these; it makes none.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self._created(topics, validate_only=True)

    def would_extend(self, totals: Mapping[str, int]) -> Answers:
        """Whether it would give topics so many partitions; it gives none.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self._extended(totals, validate_only=True)

    def would_configure(self, changes: Collection[Alteration]) -> Answers:
        """Whether it would take these settings; it takes none.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self._configured(changes, validate_only=True)

    def _ask_settings(
        self, names: Collection[str], timeout: float, deadline: Deadline
    ) -> Asked[str]:
        admin = self._connection.admin()
        for chunk in in_chunks(names, _CHUNK):
            resources = [ConfigResource(ResourceType.TOPIC, name) for name in chunk]
            asked = admin.describe_configs(resources, request_timeout=timeout)
            yield from ((resource.name, future) for resource, future in asked.items())

    def _shape(
        self, name: str, metadata: ClusterMetadata, told: Any
    ) -> TopicShape | Unavailable | None:
        if isinstance(told, Fault):
            if told.missing:
                return None
            return Unavailable(f"its settings: {self._connection.redacted(told.text)}")
        parts = metadata.topics[name].partitions
        replicas = min((len(part.replicas) for part in parts.values()), default=0)
        return TopicShape(len(parts), replicas, dict(_settings(told)))


class KafkaShapeWriter(_Topics):
    """Implements `ShapeWriter` of `drctl.model.repairs`; connects on first use."""

    def create(self, topics: Collection[WantedTopic]) -> Answers:
        """Make these; one that is there already is as good as made.

        Raises:
            Unreachable: no broker answered within the deadline; nothing was sent.
        """
        return self._created(topics)

    def extend(self, totals: Mapping[str, int]) -> Answers:
        """Give topics so many partitions.

        Raises:
            Unreachable: no broker answered within the deadline; nothing was sent.
        """
        return self._extended(totals)

    def configure(self, changes: Collection[Alteration]) -> Answers:
        """Change these settings, and no others.

        Raises:
            Unreachable: no broker answered within the deadline; nothing was sent.
        """
        return self._configured(changes)


def _topic(change: Alteration) -> str:
    return change.topic


def _entry(change: Alteration) -> ConfigEntry:
    if change.value is None:
        # librdkafka takes no null; what stands there is not looked at.
        return ConfigEntry(change.key, "", incremental_operation=AlterConfigOpType.DELETE)
    return ConfigEntry(change.key, change.value, incremental_operation=AlterConfigOpType.SET)


def _settings(told: Mapping[str, Any]) -> Iterator[tuple[str, TopicSetting]]:
    own, default = ConfigSource.DYNAMIC_TOPIC_CONFIG.value, ConfigSource.DEFAULT_CONFIG.value
    for key, entry in told.items():
        if entry.value is None or entry.is_sensitive:
            continue
        source = getattr(entry.source, "value", entry.source)
        beneath = entry.value if source != own else _beneath(entry, own)
        yield key, TopicSetting(entry.value, source == own, source == default, beneath)


def _beneath(entry: ConfigEntry, own: int) -> str | None:
    """What the brokers would have a topic do that says nothing itself."""
    others = (each for each in (entry.synonyms or {}).values())
    values = (e.value for e in others if getattr(e.source, "value", e.source) != own)
    return next((str(value) for value in values if value is not None), None)
