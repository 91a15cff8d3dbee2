"""A gap result as it is read back: what was compared, and how many records are to be decided."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drctl.model.errors import Refused
from drctl.model.gap import SCHEMA
from drctl.model.topology import OffsetRange, TopicPartition
from drctl.reconcile.progress import Lane
from drctl.reconcile.rows import Tally

_ANEW = "run `drctl gap` again and give its folder"
_NOT_IDENTITY = frozenset({"out", "seconds"})


@dataclass(frozen=True, slots=True)
class FoundPartition:
    """What was found in one partition of the source.

    Attributes:
        target_range: None where the target had no such partition.
        whole: whether all of the source's log was compared, from its start.
        newer_on_target: whether the target may hold something newer than an unreplicated record.
    """

    place: TopicPartition
    target_topic: str
    source_range: OffsetRange
    target_range: OffsetRange | None
    unreplicated: int
    whole: bool
    newer_on_target: bool


@dataclass(frozen=True, slots=True)
class FoundGap:
    """A gap result.

    Attributes:
        id: made of all that the result says: progress is kept by it.
        not_compared: what the result does not cover, in words; empty where it is complete.
    """

    id: str
    link: str
    source: str
    source_id: str
    target: str
    target_id: str
    started: str
    partitions: tuple[FoundPartition, ...]
    not_compared: tuple[str, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of all topics, as the source has them."""
        return tuple(dict.fromkeys(p.place.topic for p in self.partitions))


def read_gap(text: str, where: str) -> FoundGap:
    """What `gap.json` says.

    Args:
        where: the folder, for messages.

    Raises:
        Refused: it is no gap result that can be acted upon.
    """
    try:
        data = json.loads(text)
        if data.get("schema") != SCHEMA:
            raise Refused(f"{where} holds no gap result, but {data.get('schema')!r}", _ANEW)
        return _found(data)
    except (ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise Refused(f"gap.json of {where} is damaged: {wrong!r}", _ANEW) from None


def check_rows(gap: FoundGap, tallies: Mapping[Lane, Tally], where: str) -> None:
    """See that the records that are listed are those that were counted.

    Raises:
        Refused: they are not.
    """
    listed: Counter[TopicPartition] = Counter()
    for lane, tally in tallies.items():
        listed[lane.place] += tally.records
    counted = Counter({p.place: p.unreplicated for p in gap.partitions if p.unreplicated})
    if listed != counted:
        place = min(p for p in listed | counted if listed[p] != counted[p])
        raise Refused(
            f"{where} lists {listed[place]} unreplicated records of {place}, gap.json counted"
            f" {counted[place]}: it is damaged",
            _ANEW,
        )


def _found(data: Mapping[str, Any]) -> FoundGap:
    partitions = tuple(
        _partition(topic, partition)
        for topic in data["topics"]
        for partition in topic["partitions"]
    )
    return FoundGap(
        _identity(data),
        data["link"],
        data["source"]["cluster"],
        data["source"]["id"],
        data["target"]["cluster"],
        data["target"]["id"],
        data["started"],
        partitions,
        tuple(_not_compared(data)),
    )


def _identity(data: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in data.items() if name not in _NOT_IDENTITY}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _partition(topic: Mapping[str, Any], data: Mapping[str, Any]) -> FoundPartition:
    source = OffsetRange(*map(int, data["source_range"]))
    target = data["target_range"]
    window = data["window"]
    return FoundPartition(
        TopicPartition(topic["topic"], int(data["partition"])),
        topic["target_topic"],
        source,
        None if target is None else OffsetRange(*map(int, target)),
        int(data["unreplicated"]),
        window is None or bool(window["whole"]),
        _newer(data, source),
    )


def _newer(data: Mapping[str, Any], source: OffsetRange) -> bool:
    """Careful: a marker of a transaction at the end of the source counts like a record."""
    if not data["unreplicated"]:
        return False
    tail = data["ranges_total"] == 1 and data["ranges"][0][1] == source.end - 1
    return bool(data["only_on_target"]) or not tail


def _not_compared(data: Mapping[str, Any]) -> list[str]:
    found = []
    for item in data["not_compared"]:
        which = "" if item["partition"] is None else f"-{item['partition']}"
        found.append(f"{item['topic']}{which}: {item['reason']}")
    if undecided := data["totals"]["undecided"]:
        found.append(f"{undecided} offsets of the source lay behind an open transaction")
    return found
