"""The one reader of `gap.json`: what `GapResult.to_json` wrote, in this version or before."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from drctl.model.gap import (
    SCHEMA,
    Counts,
    Forgotten,
    GapResult,
    LedgerUse,
    NotCompared,
    OrderCounts,
    PartitionGap,
    TopicGap,
    Window,
)
from drctl.model.gap_order import Inversion, OrderScope
from drctl.model.topology import OffsetRange

_NOT_IDENTITY = frozenset({"out", "seconds"})


@dataclass(frozen=True, slots=True)
class KeptGap:
    """A result as it was kept; its histogram and examples are only on its page.

    Attributes:
        id: made of all that the document says: `drctl reconcile` keeps its progress by it.
    """

    id: str
    result: GapResult


def read_document(document: Any) -> KeptGap:
    """From the JSON of a `gap.json`.

    Raises:
        ValueError: it is none, or is damaged; why, in words.
    """
    try:
        if document["schema"] != SCHEMA:
            raise ValueError(f"its schema is {document['schema']!r}")
        return KeptGap(_identity(document), _result(document))
    except (KeyError, TypeError, AttributeError) as wrong:
        raise ValueError(f"it is damaged: {wrong!r}") from wrong


def _identity(data: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in data.items() if name not in _NOT_IDENTITY}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _result(data: Mapping[str, Any]) -> GapResult:
    source, target = data["source"], data["target"]
    started = datetime.fromisoformat(data["started"])
    if started.tzinfo is None:
        raise ValueError("nobody knows in which time zone it began")
    return GapResult(
        link=str(data["link"]),
        scope=str(data["scope"]),
        source=str(source["cluster"]),
        source_id=str(source["id"]),
        target=str(target["cluster"]),
        target_id=str(target["id"]),
        started=started,
        seconds=float(data["seconds"]),
        out=str(data["out"]),
        topics=tuple(map(_topic, data["topics"])),
        not_compared=tuple(
            NotCompared(each["topic"], each["partition"], each["reason"])
            for each in data["not_compared"]
        ),
        ledger=_ledger(data["ledger"]),
        # Earlier versions knew no order but that of keys, and looked at no other records.
        within=OrderScope(data["order"].get("within", OrderScope.KEY)),
        inversions=_inversions(data.get("inversions")),
    )


def _topic(data: Mapping[str, Any]) -> TopicGap:
    return TopicGap(
        topic=str(data["topic"]),
        target_topic=str(data["target_topic"]),
        partitions=tuple(_partition(str(data["topic"]), each) for each in data["partitions"]),
        notes=tuple(data["notes"]),
        # Earlier versions did not keep the ids, and older brokers have none.
        topic_id=data.get("topic_id") or "",
        target_topic_id=data.get("target_topic_id") or "",
    )


def _partition(topic: str, data: Mapping[str, Any]) -> PartitionGap:
    source, target = _range(data["source_range"]), data["target_range"]
    there = None if target is None else _range(target)
    return PartitionGap(
        partition=int(data["partition"]),
        source_range=source,
        target_range=there,
        counts=Counts(*(int(data[field.name]) for field in fields(Counts))),
        order=OrderCounts(
            int(data["safe"]),
            int(data["conflicting"]),
            int(data["unkeyed"]),
            data.get("inversions"),
        ),
        bytes=int(data["bytes"]),
        ranges=tuple((int(first), int(last)) for first, last in data["ranges"]),
        ranges_total=int(data["ranges_total"]),
        misplaced=int(data["misplaced"]),
        repeated=int(data.get("repeated", 0)),  # results from before it was counted
        oldest_timestamp=data["oldest_timestamp"],
        newest_timestamp=data["newest_timestamp"],
        window=_window(topic, data, source, there),
    )


def _range(data: Any) -> OffsetRange:
    start, end = data
    return OffsetRange(int(start), int(end))


def _window(
    topic: str, data: Mapping[str, Any], source: OffsetRange, target: OffsetRange | None
) -> Window | None:
    window = data["window"]
    if window is None:
        return None
    return Window(
        topic,
        int(data["partition"]),
        source.start,
        target.start if target else 0,
        window["position"],
        window["evidence"],
        int(window["margin"]),
        bool(window["whole"]),
    )


def _ledger(data: Any) -> LedgerUse | None:
    if data is None:
        return None
    forgotten = tuple(Forgotten(**each) for each in data["forgotten"])
    return LedgerUse(**{**data, "forgotten": forgotten})


def _inversions(data: Any) -> tuple[Inversion, ...] | None:
    return None if data is None else tuple(Inversion(**each) for each in data)
