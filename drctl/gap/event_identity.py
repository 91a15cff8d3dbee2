"""What makes a change event the one it is: its place in the database's own log, not in Kafka's.

Debezium writes that place into the `source` block of every event. A connector that crashed goes
on before the last event it had sent; what it then sends again has the same place once more.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xxhash import xxh3_128_intdigest

from drctl.model.strict_json import is_too_deep

NOTHING = "\x00"
"""Stands for a field that is null or absent; no field holds it."""

COMMON = ("connector", "name")
ENVELOPE = ("before", "after", "updateDescription", "message", "op")


@dataclass(frozen=True, slots=True)
class Source:
    """What names an event of one kind of database.

    Attributes:
        place: fields of the source block that say where it was in the log; all must be there.
        more: further fields of it.
        content: parts of the envelope that are the same whenever the log is read again: several
            events may have one place.
    """

    place: tuple[str, ...]
    more: tuple[str, ...]
    content: tuple[str, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """All that is taken from the source block."""
        return (*COMMON, *self.place, *self.more)


_ROW = ("op", "before", "after", "message")
_BINLOG = Source(("file", "pos"), ("row", "server_id", "gtid", "db", "table"), _ROW)

SOURCES: Mapping[str, Source] = {
    "postgresql": Source(("lsn",), ("txId", "db", "schema", "table"), _ROW),
    "mysql": _BINLOG,
    "mariadb": _BINLOG,
    # `after` may be looked up when the event is read: not the same a second time.
    "mongodb": Source(
        ("ord",),
        ("sec", "ts_ms", "h", "tord", "stxnid", "lsid", "txnNumber", "rs", "db", "collection"),
        ("op", "updateDescription"),
    ),
}
"""By the connector's own name for itself."""

FIELDS = tuple(dict.fromkeys(name for source in SOURCES.values() for name in source.fields))
"""Everything that is read of source blocks."""


@dataclass(frozen=True, slots=True)
class Event:
    """A change event.

    Attributes:
        digest: of its identity, 128 bits.
        words: where it was in the database's log, for people.
    """

    digest: int
    words: str


def event_of(key: bytes | None, value: bytes | None) -> Event | None:
    """The event in a record, JSON with or without schema; None where there is none to be told."""
    envelope = _envelope(value)
    block = envelope.get("source")
    if not isinstance(block, dict):
        return None
    source = SOURCES.get(_text(block.get("connector")))
    if source is None:
        return None
    told = {name: _text(block.get(name)) for name in source.fields}
    if any(told[name] == NOTHING for name in source.place):
        return None
    content = (_text(envelope.get(name)) for name in source.content)
    parts = (*told.values(), *content, "" if key is None else key.hex(), str(key is None))
    digest = xxh3_128_intdigest("\x01".join(parts).encode("utf-8", "surrogatepass"))
    return Event(digest, _words(told, _text(envelope.get("op"))))


def _envelope(value: bytes | None) -> Mapping[str, Any]:
    try:
        if value and is_too_deep(value.decode()):
            return {}
        told = json.loads(value or b"null", parse_int=str, parse_float=str, parse_constant=str)
    except ValueError:
        return {}
    if not isinstance(told, dict):
        return {}
    payload = told.get("payload")
    return payload if isinstance(payload, dict) else told


def _text(value: Any) -> str:
    if value is None:
        return NOTHING
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _words(told: Mapping[str, str], op: str) -> str:
    known = {**told, "op": op}
    return " ".join(f"{name}={text}" for name, text in known.items() if text != NOTHING)
