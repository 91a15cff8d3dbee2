"""What a failback knows of a cluster that was lost and is back: values that go into journals.

Beside them the filter by which a connector leaves out records that drctl copied.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from drctl.formats.provenance import HEADER
from drctl.model.topology import TopicPartition

Offsets = Mapping[TopicPartition, int]
"""An offset in each of some partitions."""


def rows(offsets: Mapping[TopicPartition, Any]) -> list[list[Any]]:
    """As they stand in journals: `[topic, partition, offset]` each."""
    return [[place.topic, place.partition, at] for place, at in sorted(offsets.items())]


def _offsets_of(data: Any) -> Any:
    return {TopicPartition(topic, number): at for topic, number, at in data}


JournaledOffsets = Annotated[Offsets, BeforeValidator(_offsets_of), PlainSerializer(rows)]
"""The type of a field that stands in journals as `rows`."""

OffsetsOrNone = Annotated[
    Mapping[TopicPartition, int | None], BeforeValidator(_offsets_of), PlainSerializer(rows)
]
"""The same, where there may be none."""


@dataclass(frozen=True, slots=True)
class Search:
    """What a full comparison found that only the returned cluster has.

    Attributes:
        folder: of the result of the comparison.
        ends: where the returned cluster's logs ended before anything was replicated to them.
        boundaries: where the records begin, on the surviving cluster, that only it has.
        started: whether the failback has replicated some of these already.
        duplicated: records that the surviving cluster held more often than the returned one.
        aside: records that the surviving cluster had, and has compacted or deleted since.
        id: of the result; the surviving cluster keeps under it what was decided.
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
    def told(self) -> str:
        """Its counts."""
        return f"{self.safe:,} safe, {self.conflicting:,} conflicting, {self.unkeyed:,} unkeyed"


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is to become of the records of a search.

    Attributes:
        folder: of its result.
        result: its id; journals of an older drctl do not name it.
        policy: what becomes of all of them; None where nobody said.
        topics: `TOPIC=POLICY`, for some of them.
        conflicting: what becomes of those of which the surviving cluster has something newer.
        records: how many there are; 0 where that is not known.
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
        due: records that something is still to be done with.
        refused: what is not decided, or must not be done, each in words.
        done: by what became of them, records that are done.
        newer: records that are about to be copied although something newer, which the search did
            not see, was written since.
    """

    due: int
    refused: tuple[str, ...] = ()
    done: Mapping[str, int] = field(default_factory=dict)
    newer: int = 0


@dataclass(frozen=True, slots=True)
class OutstandingAction:
    """An outstanding action: something that a run left to a later one.

    Attributes:
        kind: of the step that left it.
        source: of the run's plan, as the next one.
        fences: whether it is a fence that could not be set, or that something came through.
        groups: that it is about; empty where it is about none, or they are not known.
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
_FILTER, _BY_HEADER = ".transforms.Filter", ".predicates.HasHeaderKey"


def drops_copies(config: Mapping[str, str]) -> bool:
    """Whether a connector leaves out records that have drctl's header."""
    for name in _words(config.get(_TRANSFORMS, "")):
        of = f"{_TRANSFORMS}.{name}."
        predicate = f"{_PREDICATES}.{config.get(of + 'predicate', '')}."
        if (
            config.get(of + "type", "").endswith(_FILTER)
            and config.get(of + "negate", "false").lower() != "true"
            and config.get(predicate + "type", "").endswith(_BY_HEADER)
            and config.get(predicate + "name") == HEADER
        ):
            return True
    return False


def filter_to_add(config: Mapping[str, str]) -> dict[str, str]:
    """The keys that add the filter; existing transforms stay, and come before it."""
    return {
        _TRANSFORMS: ",".join((*_words(config.get(_TRANSFORMS, "")), _NAME)),
        f"{_TRANSFORMS}.{_NAME}.type": f"{_PACKAGE}.Filter",
        f"{_TRANSFORMS}.{_NAME}.predicate": _NAME,
        _PREDICATES: ",".join((*_words(config.get(_PREDICATES, "")), _NAME)),
        f"{_PREDICATES}.{_NAME}.type": f"{_PACKAGE}.predicates.HasHeaderKey",
        f"{_PREDICATES}.{_NAME}.name": HEADER,
    }


def filter_to_take_out(config: Mapping[str, str]) -> dict[str, str | None]:
    """The keys that remove drctl's own filter; whatever a person has added stays."""
    if _NAME not in _words(config.get(_TRANSFORMS, "")):
        return {}
    found: dict[str, str | None] = {}
    for key in (_TRANSFORMS, _PREDICATES):
        left = ",".join(word for word in _words(config.get(key, "")) if word != _NAME)
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
    """The configuration once drctl's own filter is removed."""
    changed = {**config, **filter_to_take_out(config)}
    return {name: value for name, value in changed.items() if value is not None}


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (word.strip() for word in text.split(","))))
