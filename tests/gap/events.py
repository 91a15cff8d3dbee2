"""Change events as Debezium writes them, with and without their schema."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from drctl.model.topology import Record

POSTGRES: Mapping[str, Any] = {
    "version": "3.3.1.Final",
    "connector": "postgresql",
    "name": "shop",
    "ts_ms": 1_763_780_000_123,
    "snapshot": "false",
    "db": "shop",
    "sequence": '["24023119","24023128"]',
    "ts_us": 1_763_780_000_123_456,
    "ts_ns": 1_763_780_000_123_456_000,
    "schema": "public",
    "table": "orders",
    "txId": 571,
    "lsn": 24_023_128,
    "xmin": None,
}
MYSQL: Mapping[str, Any] = {
    "version": "3.3.1.Final",
    "connector": "mysql",
    "name": "shop",
    "ts_ms": 1_763_780_000_000,
    "snapshot": "false",
    "db": "shop",
    "sequence": None,
    "table": "orders",
    "server_id": 223_344,
    "gtid": None,
    "file": "mysql-bin.000003",
    "pos": 484,
    "row": 0,
    "thread": 7,
    "query": None,
}
MONGODB: Mapping[str, Any] = {
    "version": "3.3.1.Final",
    "connector": "mongodb",
    "name": "shop",
    "ts_ms": 1_763_780_000_000,
    "snapshot": "false",
    "db": "shop",
    "sequence": None,
    "collection": "orders",
    "ord": 31,
    "lsid": None,
    "txnNumber": None,
    "wallTime": 1_763_780_000_100,
}
BY_CONNECTOR = {"postgresql": POSTGRES, "mysql": MYSQL, "mongodb": MONGODB}
PLACE = {"postgresql": "lsn", "mysql": "pos", "mongodb": "ord"}
"""The field that increases from event to event."""

_SCHEMA = {
    "type": "struct",
    "name": "shop.public.orders.Envelope",
    "optional": False,
    "fields": [
        {"type": "struct", "optional": True, "field": "before", "fields": []},
        {"type": "struct", "optional": True, "field": "after", "fields": []},
        {"type": "struct", "optional": False, "field": "source", "fields": []},
        {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
    ],
}


def value(
    source: Mapping[str, Any],
    *,
    schema: bool = False,
    sent_ms: int = 1_763_780_000_500,
    **parts: Any,
) -> bytes:
    """Return the value of an event.

    Args:
        sent_ms: the connector's own time, which differs when it sends the event again.
        parts: other parts of the envelope.
    """
    envelope = {
        "before": None,
        "after": {"id": 1, "customer": "Zoë", "total": 12.5},
        "source": dict(source),
        "transaction": None,
        "op": "c",
        "ts_ms": sent_ms,
        **parts,
    }
    document = {"schema": _SCHEMA, "payload": envelope} if schema else envelope
    return json.dumps(document, separators=(",", ":")).encode()


def events(
    connector: str, numbers: Sequence[int], *, schema: bool = False, sent_ms: int = 0
) -> list[tuple[bytes, bytes]]:
    """Return keys and values of the events with these numbers in the database's log."""
    source, place = BY_CONNECTOR[connector], PLACE[connector]
    return [
        (
            json.dumps({"id": number % 7}).encode(),
            value(
                {**source, place: 1_000 + number},
                schema=schema,
                sent_ms=1_763_780_000_500 + sent_ms + number,
                after={"id": number % 7, "number": number},
            ),
        )
        for number in numbers
    ]


def log(pairs: Sequence[tuple[bytes | None, bytes | None]], partition: int = 0) -> list[Record]:
    """Return them as records of a partition."""
    return [
        Record(partition, offset, 1_763_780_001_000 + offset, key, value)
        for offset, (key, value) in enumerate(pairs)
    ]
