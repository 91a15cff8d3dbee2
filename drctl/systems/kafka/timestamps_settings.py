"""The `timestamps.*` settings of a consumer that writes consumer timestamps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

_PREFIX = "timestamps."
_PRODUCER = "timestamps.producer."
NUMBERS = {
    "timestamps.topic.num.partitions": "partitions",
    "timestamps.topic.replication.factor": "replicas",
    "timestamps.topic.max.per.partition": "per_partition",
    "timestamps.value.bytes": "value_bytes",
    "timestamps.close.timeout.ms": "close_timeout_ms",
}
_VALUE_BYTES = (8, 16)

# How to reach the cluster: what a consumer and a producer have in common.
_SHARED = (
    *("bootstrap.servers", "metadata.broker.list", "client.id", "client.dns.lookup", "oauth_cb"),
    *("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "https.", "socket."),
    *("broker.address.", "reconnect.", "api.version.", "metadata.recovery.", "connections."),
)


@dataclass(frozen=True, slots=True)
class TimestampSettings:
    """How timestamps are kept and written.

    Attributes:
        producer: of the cluster that gets them; by default the one that is consumed from.
        partitions: of the topic, if it has to be made.
        replicas: likewise.
        per_partition: how many consumed records of a partition are remembered until the commit.
        value_bytes: 16, or 8 for Replicator before 5.4.
        close_timeout_ms: how long closing may wait for the last ones to be written.
    """

    producer: Mapping[str, Any] = field(repr=False)
    partitions: int = 50
    replicas: int = 3
    per_partition: int = 10_000
    value_bytes: int = 16
    close_timeout_ms: int = 5_000


def split(config: Mapping[str, Any]) -> tuple[TimestampSettings, dict[str, Any]]:
    """These settings, and the configuration of the consumer that is left.

    Raises:
        ValueError: there is no such setting, or it cannot have this value.
    """
    consumer = {name: value for name, value in config.items() if not name.startswith(_PREFIX)}
    producer = {name: value for name, value in consumer.items() if name.startswith(_SHARED)}
    numbers: dict[str, int] = {}
    for name, value in config.items():
        if name.startswith(_PRODUCER):
            producer[name.removeprefix(_PRODUCER)] = value
        elif name.startswith(_PREFIX):
            numbers[_field(name)] = _number(name, value)
    if numbers.get("value_bytes", _VALUE_BYTES[0]) not in _VALUE_BYTES:
        raise ValueError("timestamps.value.bytes is 8 or 16")
    return TimestampSettings(producer, **numbers), consumer


def _field(name: str) -> str:
    if name not in NUMBERS:
        near = get_close_matches(name, NUMBERS, n=1)
        raise ValueError(f"there is no setting {name}" + (f": {near[0]}?" if near else ""))
    return NUMBERS[name]


def _number(name: str, value: object) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name} must be a number from 1 on, not {value!r}")
    return int(text)
