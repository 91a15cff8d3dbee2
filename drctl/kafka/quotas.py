"""Client quotas: read them, and set or restore single limits."""

from collections.abc import Collection, Iterable, Mapping
from struct import Struct
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from drctl.kafka.brokers import BrokerSocket, ClusterClient, NotRetriable
from drctl.kafka.protocol import (
    INT8,
    INT16,
    NULLABLE_STRING,
    STRING,
    TEXT,
    THROTTLE,
    Api,
    Field,
    body_reader,
    body_writer,
    rows,
)
from drctl.model.survey import Entity, Limit, Quotas
from drctl.model.topology import Unanswered, Unavailable

DESCRIBE_QUOTAS = Api("DescribeClientQuotas", 48, 1, True, "2.8")
ALTER_QUOTAS = Api("AlterClientQuotas", 49, 1, True, "2.8")


class DescribedQuotas(NamedTuple):
    """The response to DescribeClientQuotas.

    Attributes:
        error: Kafka's error code; 0 for success.
        limits: limits by entity and key.
    """

    error: int
    text: str
    limits: Quotas


def _quotas(error: int, text: str, entries: Iterable[tuple[Any, Any]]) -> DescribedQuotas:
    limits = {_entity(entity): dict(values) for entity, values in entries}
    return DescribedQuotas(error, text, limits)


def _entity(parts: Iterable[tuple[str, str | None]]) -> Entity:
    return tuple(sorted(parts, key=str))


_DOUBLE = Struct(">d")
_FLOAT64 = Field(_DOUBLE.pack, lambda cursor: _DOUBLE.unpack(cursor.take(_DOUBLE.size))[0])
_NOT_STRICT = 0
ALL_QUOTAS = body_writer(rows(), INT8)((), _NOT_STRICT)
"""The body of a request for all quotas."""

_ENTITY = rows(STRING, NULLABLE_STRING)
read_quotas = body_reader(_quotas, THROTTLE, INT16, TEXT, rows(_ENTITY, rows(STRING, _FLOAT64)))
_ALTERED = body_writer(rows(_ENTITY, rows(STRING, _FLOAT64, INT8)), INT8)


class QuotaResult(NamedTuple):
    """The result for one entity; error 0 for success."""

    error: int
    text: str
    entity: Entity


def _results(entries: Iterable[tuple[int, str, Any]]) -> tuple[QuotaResult, ...]:
    return tuple(QuotaResult(error, text, _entity(entity)) for error, text, entity in entries)


read_altered = body_reader(_results, THROTTLE, rows(INT16, TEXT, _ENTITY))


def alter_quotas(limits: Iterable[Limit], *, validate_only: bool) -> bytes:
    """Set these limits; a limit of None is removed."""
    wanted: dict[Entity, list[tuple[str, float, bool]]] = {}
    for each in limits:
        operation = each.key, each.value or 0.0, each.value is None
        wanted.setdefault(each.entity, []).append(operation)
    return _ALTERED(wanted.items(), validate_only)


def all_quotas(broker: BrokerSocket) -> Quotas | Unavailable:
    """All client quotas, from one broker."""
    found = broker.exchange(DESCRIBE_QUOTAS, ALL_QUOTAS, read_quotas)
    if found.error:
        return Unavailable(found.text or KafkaError(found.error).str())
    return found.limits


_TRIED = 3
Answers = Mapping[Limit, Unavailable | None]


class _Quotas(ClusterClient):
    """Base of the reader, which only validates changes, and of the writer, which makes them."""

    def _alter(self, limits: Collection[Limit], *, validate_only: bool) -> Answers:
        """Send all limits to one broker; the next one is asked if it does not answer."""
        if not limits:
            return {}
        body = alter_quotas(limits, validate_only=validate_only)

        def ask(broker: BrokerSocket) -> tuple[QuotaResult, ...]:
            return broker.exchange(ALTER_QUOTAS, body, read_altered)

        deadline = self._connection.deadline()
        addresses = self._brokers.addresses(deadline)
        last = Unavailable("the cluster has no brokers")
        for node, address in sorted(addresses.items())[:_TRIED]:
            share = deadline.sooner(self._connection.timeout_s / 2)
            answer = self._brokers.ask({node: ask}, {node: address}, share)[node]
            if not isinstance(answer, Unavailable):
                results = {each.entity: each for each in answer}
                return {each: self._answer(results.get(each.entity)) for each in limits}
            last = answer
        why = last if isinstance(last, NotRetriable) else Unanswered(last.reason)
        return dict.fromkeys(limits, why)

    def _answer(self, result: QuotaResult | None) -> Unavailable | None:
        if result is None:
            return Unanswered("the broker's response does not mention this quota")
        if not result.error:
            return None
        if result.error == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            why = "this user may not change quotas; grant it ALTER_CONFIGS on the cluster"
            return Unavailable(why)
        text = result.text or KafkaError(result.error).str()
        return Unavailable(self._connection.redacted(text))


class KafkaQuotaReader(_Quotas):
    """Implements `QuotaReader` of `drctl.model.survey`."""

    def quotas(self) -> Quotas | Unavailable:
        """All client quotas.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        return self._brokers.first(all_quotas, self._connection.deadline())

    def would_set(self, limits: Collection[Limit]) -> Answers:
        """Validate limits; for each limit, return None or why the cluster rejects it.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        return self._alter(limits, validate_only=True)


class KafkaQuotaWriter(_Quotas):
    """Implements `QuotaWriter` of `drctl.model.survey`; idempotent."""

    def set_quotas(self, limits: Collection[Limit]) -> Answers:
        """Set or remove exactly these limits; for each limit, return None or why it failed.

        Raises:
            Unreachable: no broker answered within the deadline; nothing was sent.
            ConfigError: drctl's own connections do not support the properties.
        """
        return self._alter(limits, validate_only=False)
