"""Read and change topics: partitions, replicas, and settings with their source.

Changes can be sent with validate_only: the cluster checks them, and changes nothing.
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
_ALREADY_DONE = frozenset({KafkaError.TOPIC_ALREADY_EXISTS})


class _Topics(ClusterClient):
    """Base of the reader, which only validates changes, and of the writer, which makes them."""

    def _create(self, topics: Collection[WantedTopic], **how: Any) -> Answers:
        wanted = [
            NewTopic(
                each.name,
                each.partitions,
                replication_factor=each.replicas,
                config=dict(each.config),
            )
            for each in topics
        ]
        return self._send("create_topics", wanted, **how)

    def _add_partitions(self, totals: Mapping[str, int], **how: Any) -> Answers:
        wanted = [NewPartitions(name, total) for name, total in totals.items()]
        return self._send("create_partitions", wanted, **how)

    def _alter(self, changes: Collection[Alteration], **how: Any) -> Answers:
        topics = groupby(sorted(changes, key=_topic), key=_topic)
        wanted = [
            ConfigResource(
                ResourceType.TOPIC, topic, incremental_configs=list(map(_entry, of_topic))
            )
            for topic, of_topic in topics
        ]
        return self._send("incremental_alter_configs", wanted, **how)

    def _send(self, call: str, wanted: Collection[Any], **how: Any) -> Answers:
        if not wanted:
            return {}
        # Fails if the cluster is unreachable, before anything is sent.
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
        if not isinstance(answer, Fault) or answer.code in _ALREADY_DONE:
            return None
        text = self._connection.redacted(answer.text)
        return Unanswered(text) if answer.retried else Unavailable(text)


class KafkaShapeReader(_Topics):
    """Implements `ShapeReader` of `drctl.model.repairs`."""

    def shapes(self, names: Collection[str]) -> Mapping[str, TopicShape | Unavailable | None]:
        """Each topic; None if it does not exist.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        deadline = self._connection.deadline()
        metadata = self._connection.metadata(deadline)
        existing = [name for name in dict.fromkeys(names) if name in metadata.topics]
        configs = gather(self._connection, existing, self._ask_settings, deadline)
        found: dict[str, TopicShape | Unavailable | None] = dict.fromkeys(names)
        return found | {name: self._shape(name, metadata, configs[name]) for name in existing}

    def would_create(self, topics: Collection[WantedTopic]) -> Answers:
        """Validate the creation of topics without creating any.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self._create(topics, validate_only=True)

    def would_extend(self, totals: Mapping[str, int]) -> Answers:
        """Validate these partition counts without adding any.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self._add_partitions(totals, validate_only=True)

    def would_configure(self, changes: Collection[Alteration]) -> Answers:
        """Validate these settings without changing any.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self._alter(changes, validate_only=True)

    def _ask_settings(
        self, names: Collection[str], timeout: float, deadline: Deadline
    ) -> Asked[str]:
        admin = self._connection.admin()
        for chunk in in_chunks(names, _CHUNK):
            resources = [ConfigResource(ResourceType.TOPIC, name) for name in chunk]
            asked = admin.describe_configs(resources, request_timeout=timeout)
            yield from ((resource.name, future) for resource, future in asked.items())

    def _shape(
        self, name: str, metadata: ClusterMetadata, config: Any
    ) -> TopicShape | Unavailable | None:
        if isinstance(config, Fault):
            if config.missing:
                return None
            why = self._connection.redacted(config.text)
            return Unavailable(f"its settings cannot be read: {why}")
        parts = metadata.topics[name].partitions
        replicas = min((len(part.replicas) for part in parts.values()), default=0)
        return TopicShape(len(parts), replicas, dict(_settings(config)))


class KafkaShapeWriter(_Topics):
    """Implements `ShapeWriter` of `drctl.model.repairs`."""

    def create(self, topics: Collection[WantedTopic]) -> Answers:
        """Create these topics; one that exists counts as created.

        Raises:
            Unreachable: no broker answered within the deadline; nothing was sent.
        """
        return self._create(topics)

    def extend(self, totals: Mapping[str, int]) -> Answers:
        """Extend topics to these partition counts.

        Raises:
            Unreachable: no broker answered within the deadline; nothing was sent.
        """
        return self._add_partitions(totals)

    def configure(self, changes: Collection[Alteration]) -> Answers:
        """Change only these settings.

        Raises:
            Unreachable: no broker answered within the deadline; nothing was sent.
        """
        return self._alter(changes)


def _topic(change: Alteration) -> str:
    return change.topic


def _entry(change: Alteration) -> ConfigEntry:
    if change.value is None:
        # librdkafka rejects null; the value is ignored.
        return ConfigEntry(change.key, "", incremental_operation=AlterConfigOpType.DELETE)
    return ConfigEntry(change.key, change.value, incremental_operation=AlterConfigOpType.SET)


def _settings(config: Mapping[str, Any]) -> Iterator[tuple[str, TopicSetting]]:
    own, default = ConfigSource.DYNAMIC_TOPIC_CONFIG.value, ConfigSource.DEFAULT_CONFIG.value
    for key, entry in config.items():
        if entry.value is None or entry.is_sensitive:
            continue
        source = getattr(entry.source, "value", entry.source)
        inherited = entry.value if source != own else _inherited(entry, own)
        yield key, TopicSetting(entry.value, source == own, source == default, inherited)


def _inherited(entry: ConfigEntry, own: int) -> str | None:
    """The value that applies if the topic does not set it."""
    synonyms = (entry.synonyms or {}).values()
    values = (e.value for e in synonyms if getattr(e.source, "value", e.source) != own)
    return next((str(value) for value in values if value is not None), None)
