"""Exported records as lines of JSON, complete enough to be imported again.

Bytes are Base64. Header names are text; bytes that are not UTF-8 are kept as lone surrogates.
"""

import json
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import islice
from typing import Any

from drctl.model.gap import OrderVerdict
from drctl.model.strict_json import read_json
from drctl.model.topology import TopicPartition
from drctl.reconcile.gap_result import Exported, ExportedSet
from drctl.reconcile.progress import RecordSet

FORMAT = "drctl exported records, version 1"
MANIFEST = "manifest.json"

_AT_ONCE = 100_000


def digest_of(offsets: Iterable[int]) -> str:
    """Return the SHA-256 of the offsets, each as text followed by a line feed."""
    coming, found = iter(offsets), sha256()
    while some := array("q", islice(coming, _AT_ONCE)):
        found.update(b"".join(b"%d\n" % offset for offset in some))
    return found.hexdigest()


def record_set_row(part: ExportedSet) -> dict[str, Any]:
    """Return the manifest entry of a record set."""
    return {
        "topic": part.record_set.place.topic,
        "partition": part.record_set.place.partition,
        "order": part.record_set.order.value,
        "after": part.after,
        "offsets_sha256": part.offsets,
        "records": part.records,
        "gone": part.gone,
    }


def record_set_of(row: Mapping[str, Any]) -> ExportedSet:
    """Parse a manifest entry.

    Raises:
        ValueError: it is not one.
    """
    try:
        place = TopicPartition(str(row["topic"]), int(row["partition"]))
        record_set = RecordSet(place, OrderVerdict(row["order"]))
        counts = int(row["records"]), int(row["gone"])
        part = ExportedSet(record_set, int(row["after"]), str(row["offsets_sha256"]), *counts)
        written = record_set_row(part)
        if [*map(repr, written.values())] != [repr(row[name]) for name in written]:
            raise ValueError("a value has another type")
        if min(counts) < 0:
            raise ValueError("a number of records is negative")
        return part
    except (KeyError, TypeError, OverflowError) as wrong:
        raise ValueError(f"not a part of an export: {wrong!r}") from None


def line_of(record: Exported) -> bytes:
    """Return a record as one line of an export, without the line feed."""
    offset, timestamp_ms, key, value, headers = record.row
    data = {
        "topic": record.place.topic,
        "partition": record.place.partition,
        "offset": offset,
        "target_topic": record.target_topic,
        "timestamp": timestamp_ms,
        "order": record.order.value,
        "key": _text(key),
        "value": _text(value),
        "headers": [[n.decode("utf-8", "surrogateescape"), _text(v)] for n, v in headers],
    }
    return json.dumps(data, separators=(",", ":")).encode("ascii")


def record_of(line: bytes) -> Exported:
    """The record that a line holds.

    Raises:
        ValueError: the line is not one of an export.
    """
    try:
        reported: Mapping[str, Any] = read_json(line)
        headers = tuple(
            (name.encode("utf-8", "surrogateescape"), _bytes(value))
            for name, value in reported["headers"]
        )
        key, value = _bytes(reported["key"]), _bytes(reported["value"])
        row = (int(reported["offset"]), int(reported["timestamp"]), key, value, headers)
        place = TopicPartition(reported["topic"], int(reported["partition"]))
        found = Exported(place, reported["target_topic"], row, OrderVerdict(reported["order"]))
        if line_of(found) != line:
            raise ValueError("not in the form that drctl writes")
        return found
    except (AttributeError, KeyError, OverflowError, TypeError) as wrong:
        raise ValueError(f"not an exported record: {wrong!r}") from None


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text, validate=True)
