"""Values of a failback that are stored in journals, and drctl's connector filter.

The filter is a Connect transform that makes a connector skip records that drctl copied.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from drctl.config.mirrors import skips_header
from drctl.formats.provenance import HEADER
from drctl.model.topology import TopicPartition

Offsets = Mapping[TopicPartition, int]
"""An offset for each partition that is listed."""


def rows(offsets: Mapping[TopicPartition, Any]) -> list[list[Any]]:
    """Return offsets as stored in journals: a list of `[topic, partition, offset]`."""
    return [[place.topic, place.partition, at] for place, at in sorted(offsets.items())]


def _offsets_of(data: Any) -> Any:
    return {TopicPartition(topic, number): at for topic, number, at in data}


JournaledOffsets = Annotated[Offsets, BeforeValidator(_offsets_of), PlainSerializer(rows)]
"""The type of a field that is stored in journals as `rows`."""

OffsetsOrNone = Annotated[
    Mapping[TopicPartition, int | None], BeforeValidator(_offsets_of), PlainSerializer(rows)
]
"""Like `JournaledOffsets`, with None for partitions without an offset."""


@dataclass(frozen=True, slots=True)
class Search:
    """Records that only the recovered cluster has, as a full comparison found them.

    Attributes:
        folder: directory of the comparison's result.
        ends: end offsets on the recovered cluster before reverse replication.
        boundaries: by partition of the surviving cluster, the first offset that only it has.
        started: whether the failback has replicated part of these records already.
        duplicated: number of extra copies of records on the surviving cluster.
        aside: number of records that the surviving cluster had and has compacted or deleted.
        id: id of the result; decisions are stored under it on the surviving cluster.
    """

    folder: str
    unreplicated: int
    safe: int
    conflicting: int
    unkeyed: int
    ends: JournaledOffsets
    boundaries: JournaledOffsets
    started: bool = False
    duplicated: int = 0
    aside: int = 0
    id: str = ""

    @property
    def summary(self) -> str:
        """The counts as text."""
        return f"{self.safe:,} safe, {self.conflicting:,} conflicting, {self.unkeyed:,} unkeyed"


@dataclass(frozen=True, kw_only=True)
class ReconcileRequest:
    """The decisions on the records of a search.

    Attributes:
        folder: directory of the comparison's result.
        result: id of the result; absent from journals of older versions.
        policy: policy for all records; None if none was given.
        topics: `TOPIC=POLICY` for single topics.
        conflicting: policy for records with a newer record on the surviving cluster.
        records: number of records; 0 if unknown.
    """

    folder: str
    result: str = ""
    policy: str | None
    topics: tuple[str, ...]
    conflicting: str
    records: int = 0


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The status of decisions on the records of a search.

    Attributes:
        due: number of records that are not processed yet.
        refused: why records are undecided or cannot be processed.
        done: number of processed records, by action.
        newer: number of records to be copied although a newer record was written after the
            search.
    """

    due: int
    refused: tuple[str, ...] = ()
    done: Mapping[str, int] = field(default_factory=dict)
    newer: int = 0


@dataclass(frozen=True, slots=True)
class OutstandingAction:
    """An action that a run left to a later run.

    Attributes:
        kind: kind of the step that left it.
        source: source cluster of that run's plan.
        target: target cluster of that run's plan.
        fences: whether a fence could not be set, or records arrived in spite of it.
        groups: consumer groups that the action concerns; empty if there are none or unknown.
    """

    run: str
    what: str
    kind: str
    source: str
    target: str
    fences: bool = False
    groups: tuple[str, ...] = ()


_NAME = "drctlCopies"
_TRANSFORMS, _PREDICATES = "transforms", "predicates"
_PACKAGE = "org.apache.kafka.connect.transforms"


def drops_copies(config: Mapping[str, str]) -> bool:
    """Whether a connector skips records with drctl's header."""
    return skips_header(config, HEADER)


def filter_to_add(config: Mapping[str, str]) -> dict[str, str]:
    """Configuration keys that add the filter after existing transforms."""
    return {
        _TRANSFORMS: ",".join((*_names(config.get(_TRANSFORMS, "")), _NAME)),
        f"{_TRANSFORMS}.{_NAME}.type": f"{_PACKAGE}.Filter",
        f"{_TRANSFORMS}.{_NAME}.predicate": _NAME,
        _PREDICATES: ",".join((*_names(config.get(_PREDICATES, "")), _NAME)),
        f"{_PREDICATES}.{_NAME}.type": f"{_PACKAGE}.predicates.HasHeaderKey",
        f"{_PREDICATES}.{_NAME}.name": HEADER,
    }


def filter_to_remove(config: Mapping[str, str]) -> dict[str, str | None]:
    """Configuration keys that remove drctl's filter; other transforms are kept."""
    if _NAME not in _names(config.get(_TRANSFORMS, "")):
        return {}
    found: dict[str, str | None] = {}
    for key in (_TRANSFORMS, _PREDICATES):
        left = ",".join(word for word in _names(config.get(key, "")) if word != _NAME)
        found[key] = left or None
        found |= {name: None for name in config if name.startswith(f"{key}.{_NAME}.")}
    return found


def is_own_change(key: str, value: str | None) -> bool:
    """Whether a change of a connector's configuration adds or removes drctl's filter."""
    if key in (_TRANSFORMS, _PREDICATES):
        return value is None or isinstance(value, str)
    own = key.startswith((f"{_TRANSFORMS}.{_NAME}.", f"{_PREDICATES}.{_NAME}."))
    return own and value in (None, filter_to_add({}).get(key))


def without_own_filter(config: Mapping[str, str]) -> dict[str, str]:
    """The configuration without drctl's filter."""
    changed = {**config, **filter_to_remove(config)}
    return {name: value for name, value in changed.items() if value is not None}


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (word.strip() for word in text.split(","))))
