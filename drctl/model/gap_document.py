"""Reads `gap.json`, as written by `GapResult.to_json` of this or an earlier version."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar, get_type_hints

from drctl.model.gap import (
    Counts,
    DiscardedDigests,
    Engine,
    GapDocument,
    GapResult,
    Inversion,
    LedgerUse,
    NotCompared,
    OrderCounts,
    OrderScope,
    PartitionGap,
    TopicGap,
    Window,
)
from drctl.model.topology import OffsetRange

T = TypeVar("T")

_NOT_IDENTITY = frozenset({"out", "seconds", "engine"})


@dataclass(frozen=True, slots=True)
class KeptGap:
    """A stored gap result, without its histogram and examples.

    Attributes:
        id: digest of the document; `drctl reconcile` stores its progress under it.
    """

    id: str
    result: GapResult


def read_document(document: Any) -> KeptGap:
    """Parse the JSON of a `gap.json`.

    Raises:
        ValueError: it is not a gap result, or is damaged.
    """
    try:
        if not isinstance(document, dict):
            raise ValueError("it is damaged: not an object")
        if document["schema"] != GapDocument.SCHEMA:
            raise ValueError(f"its schema is {document['schema']!r}")
        return KeptGap(_identity(document), _result(document))
    except (KeyError, TypeError, AttributeError, ArithmeticError) as wrong:
        raise ValueError(f"it is damaged: {wrong!r}") from wrong


def _identity(data: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in data.items() if name not in _NOT_IDENTITY}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _result(data: Mapping[str, Any]) -> GapResult:
    source, target = data["source"], data["target"]
    started = datetime.fromisoformat(data["started"])
    if started.tzinfo is None:
        raise ValueError("its start time has no time zone")
    return GapResult(
        link=_text(data["link"]),
        reverse_of=None if (forward := data.get("reverse_of")) is None else _text(forward),
        scope=_text(data["scope"]),
        source=_text(source["cluster"]),
        source_id=_text(source["id"]),
        target=_text(target["cluster"]),
        target_id=_text(target["id"]),
        started=started,
        seconds=_seconds(data["seconds"]),
        out=_text(data["out"]),
        topics=tuple(map(_topic, data["topics"])),
        not_compared=tuple(
            NotCompared(_text(each["topic"]), _optional(each["partition"]), _text(each["reason"]))
            for each in data["not_compared"]
        ),
        ledger=_ledger(data["ledger"]),
        # Earlier versions only compared the order of keys.
        within=OrderScope(data["order"].get("within", OrderScope.KEY)),
        inversions=_inversions(data.get("inversions")),
        # Missing in documents of earlier versions.
        engine=Engine(data.get("engine") or Engine.AUTO),
    )


def _topic(data: Mapping[str, Any]) -> TopicGap:
    return TopicGap(
        topic=_text(data["topic"]),
        target_topic=_text(data["target_topic"]),
        partitions=tuple(_partition(_text(data["topic"]), each) for each in data["partitions"]),
        notes=tuple(map(_text, data["notes"])),
        # Missing in documents of earlier versions, and with older brokers.
        topic_id=_text(data.get("topic_id") or ""),
        target_topic_id=_text(data.get("target_topic_id") or ""),
    )


def _partition(topic: str, data: Mapping[str, Any]) -> PartitionGap:
    source, target = _range(data["source_range"]), data["target_range"]
    there = None if target is None else _range(target)
    ranges = tuple((_whole(first), _whole(last)) for first, last in data["ranges"])
    if bool(ranges) != bool(data["ranges_total"]):
        raise ValueError("it is damaged: wrong number of ranges")
    return PartitionGap(
        partition=_whole(data["partition"]),
        source_range=source,
        target_range=there,
        counts=Counts(*(_whole(data[field.name]) for field in fields(Counts))),
        order=OrderCounts(
            _whole(data["safe"]),
            _whole(data["conflicting"]),
            _whole(data["unkeyed"]),
            _optional(data.get("inversions")),
        ),
        bytes=_whole(data["bytes"]),
        ranges=ranges,
        ranges_total=_whole(data["ranges_total"]),
        misplaced=_whole(data["misplaced"]),
        repeated=_whole(data.get("repeated", 0)),  # results from before it was counted
        oldest_timestamp=_optional(data["oldest_timestamp"]),
        newest_timestamp=_optional(data["newest_timestamp"]),
        window=_window(topic, data, source, there),
    )


def _range(data: Any) -> OffsetRange:
    start, end = data
    return OffsetRange(_whole(start), _whole(end))


def _window(
    topic: str, data: Mapping[str, Any], source: OffsetRange, target: OffsetRange | None
) -> Window | None:
    window = data["window"]
    if window is None:
        return None
    return Window(
        topic,
        _whole(data["partition"]),
        source.start,
        target.start if target else 0,
        _optional(window["position"]),
        _text(window["evidence"]),
        _whole(window["margin"]),
        bool(window["whole"]),
    )


def _ledger(data: Any) -> LedgerUse | None:
    if data is None:
        return None
    discarded = tuple(_made(DiscardedDigests, each) for each in data["discarded"])
    return _made(LedgerUse, {**data, "discarded": discarded})


def _inversions(data: Any) -> tuple[Inversion, ...] | None:
    return None if data is None else tuple(_made(Inversion, each) for each in data)


def _made(kind: Callable[..., T], data: Mapping[str, Any]) -> T:
    """Build a dataclass from JSON, converting each field to its type."""
    hints, fields = get_type_hints(kind), dict(data)
    for name in fields:
        if read := _READ.get(hints[name]):
            fields[name] = read(fields[name])
    return kind(**fields)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"it is damaged: {value!r} is not text")
    return value


def _whole(value: object) -> int:
    """Offsets, counts and timestamps have 64 bits."""
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"it is damaged: {value!r} is not an integer")
    return value


def _optional(value: object) -> int | None:
    return None if value is None else _whole(value)


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"it is damaged: {value!r} is not a number")
    return float(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"it is damaged: {value!r} is not a boolean")
    return value


_READ: Mapping[Any, Callable[[object], object]] = {
    str: _text,
    int: _whole,
    bool: _flag,
    int | None: _optional,
}
