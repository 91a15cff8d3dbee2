"""Reads snapshot and translation documents for `drctl offsets apply`.

Errors name the file, the line, the path in the document and the fix.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path as File
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from drctl.config.problems import Mark, Path, Problem, config_error
from drctl.model.errors import ConfigError, UsageError
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState, Member
from drctl.model.strict_json import read_json
from drctl.model.topology import TopicPartition
from drctl.offsets.applying import BasedOn, Bounds, Wanted
from drctl.offsets.snapshot import Filters, GroupSnapshot, Snapshot
from drctl.offsets.translating import NEVER

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def place_of(text: str, path: Path) -> Mark:
    """Return line and column of the value at a path in valid JSON text.

    If it does not exist, return those of the innermost value around it.
    """
    at = _skip(text, 0)
    for part in path:
        inner = next((place for key, place in _children(text, at) if key == part), None)
        if inner is None:
            break
        at = inner
    before = text[:at]
    return Mark(before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1)


def _children(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    """Yield the key or index and the position of each child of the value at this position."""
    end = {"{": "}", "[": "]"}.get(text[at], "")
    at = _skip(text, at + 1)
    number = 0
    while end and text[at] != end:
        key: str | int = number
        if end == "}":
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        yield key, at
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        at = _skip(text, at + 1) if text[at] == "," else at
        number += 1


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


SNAPSHOT = "drctl/offsets-snapshot/1"
TRANSLATIONS = "drctl/offsets/1"
_MOST_SHOWN = 10
_MOST_MEMBERS = 1_000_000
_FIX = "create it again with `drctl offsets snapshot` or `drctl offsets translate -o json`"
_REPEATED = "duplicate group and partition"


_Model = TypeVar("_Model", bound=BaseModel)


class _Closed(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class _Open(BaseModel):
    """Part of the output of `translate`; fields that `apply` does not need are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


def _is_text(value: Any) -> str:
    # Metadata may hold lone surrogates, which pydantic's own str does not accept.
    if not isinstance(value, str):
        raise ValueError("must be a string")
    return value


_Name = Annotated[str, Field(min_length=1)]
_Text = Annotated[Any, AfterValidator(_is_text)]
_Offset = Annotated[int, Field(ge=0, lt=2**63)]
_Number = Annotated[int, Field(ge=0, lt=2**31)]


class _CommittedOffset(_Closed):
    topic: _Name
    partition: _Number
    offset: _Offset
    leader_epoch: Annotated[int, Field(ge=-1, lt=2**31)]
    metadata: _Text


class _Group(_Closed):
    group: _Name
    protocol: Literal["classic", "consumer", "share", "streams", "unknown"]
    state: str
    members: Annotated[int, Field(ge=0, le=_MOST_MEMBERS)]
    committed_offsets: list[_CommittedOffset]


class _Unread(_Closed):
    group: _Name
    reason: str


class _Cluster(_Closed):
    name: str
    id: Annotated[str, Field(min_length=1)]


class _Patterns(_Closed):
    groups: list[str]
    topics: list[str]


class _Snapshot(_Closed):
    schema_: Annotated[str, Field(alias="schema")]
    cluster: _Cluster
    taken: str
    seconds: float
    out: str
    filters: _Patterns
    totals: dict[str, Any]
    groups: list[_Group]
    unavailable: list[_Unread]


class _Side(_Open):
    cluster: str
    id: Annotated[str, Field(min_length=1)]


class _Row(_Open):
    group: _Name
    topic: _Name
    partition: _Number
    target_topic: _Name | None
    target_offset: _Offset | None
    rereads_at_most: Annotated[int, Field(ge=0)] | None
    skips_at_most: Annotated[int, Field(ge=0)] | None
    rereads_likely: Annotated[int, Field(ge=0)] | None = None
    skips_only_if: str | None = None
    method: str | None = None
    evidence: str = ""
    age_seconds: Annotated[float, Field(ge=0)] | None = None
    blocked: str | None


class _Translations(_Open):
    schema_: Annotated[str, Field(alias="schema")]
    to: str = ""
    target: _Side | None = None
    rows: list[_Row]


@dataclass(frozen=True, slots=True)
class TranslationDocument:
    """A document with schema `drctl/offsets/1`.

    Attributes:
        target: name of the target cluster; empty if unknown.
        target_id: its cluster id; empty if unknown.
        rows: the wanted offsets.
    """

    target: str
    target_id: str
    rows: tuple[Wanted, ...]


def read_document(file: File) -> Snapshot | TranslationDocument:
    """Read the document in a file.

    Raises:
        UsageError: the file cannot be read, or is not a supported document.
        ConfigError: the document is invalid.
    """
    text, data = _content(file)
    kind = data.get("schema") if isinstance(data, dict) else None
    if kind == SNAPSHOT:
        return _snapshot(file, text, data)
    if kind == TRANSLATIONS:
        return _translations(file, text, data)
    raise UsageError(
        f"{file}: schema is {kind!r}, not {SNAPSHOT} or {TRANSLATIONS}"
        if isinstance(kind, str)
        else f"{file}: no field `schema`",
        "use a file from `drctl offsets snapshot` or `drctl offsets translate -o json`",
    )


def _content(file: File) -> tuple[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
        return text, read_json(text)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", "check --from") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text: {error.reason}", _FIX) from None
    except json.JSONDecodeError as error:
        where = Mark(error.lineno, error.colno)
        raise config_error(str(file), [Problem(where, (), error.msg)], _FIX) from None
    except ValueError as error:
        raise ConfigError(f"{file}: {error}", _FIX) from None


def _snapshot(file: File, text: str, data: Any) -> Snapshot:
    found = _validated(_Snapshot, file, text, data)
    groups: list[GroupSnapshot] = []
    problems: list[tuple[Path, str]] = []
    seen: set[str] = set()
    for number, each in enumerate(found.groups):
        if each.group in seen:
            problems.append((("groups", number), "duplicate group"))
        seen.add(each.group)
        committed: dict[TopicPartition, Committed] = {}
        for at, row in enumerate(each.committed_offsets):
            place = TopicPartition(row.topic, row.partition)
            if place in committed:
                problems.append((("groups", number, "committed_offsets", at), _REPEATED))
            committed[place] = Committed(row.offset, row.leader_epoch, row.metadata)
        members = (Member("", ""),) * each.members
        protocol = GroupProtocol(each.protocol)
        known = each.state in list(GroupState)
        state = GroupState(each.state) if known else GroupState.UNKNOWN
        group = Group(each.group, protocol, state, members)
        groups.append(GroupSnapshot(group, committed))
    try:
        taken = datetime.fromisoformat(found.taken)
    except ValueError:
        problems.append((("taken",), "not a time such as 2026-03-05T14:20:07+00:00"))
    if problems:
        raise _wrong(file, text, problems)
    filters = Filters(tuple(found.filters.groups), tuple(found.filters.topics))
    unread = {each.group: each.reason for each in found.unavailable}
    name, cluster_id = found.cluster.name, found.cluster.id
    return Snapshot(name, cluster_id, taken, filters, tuple(groups), unread)


def _translations(file: File, text: str, data: Any) -> TranslationDocument:
    found = _validated(_Translations, file, text, data)
    rows: list[Wanted] = []
    problems: list[tuple[Path, str]] = []
    seen: set[tuple[str, TopicPartition]] = set()
    for number, row in enumerate(found.rows):
        if row.blocked == NEVER:
            continue
        wanted = _wanted(row)
        key = wanted.group, wanted.partition
        if key in seen and wanted.to is not None:
            problems.append((("rows", number), _REPEATED))
        seen.add(key)
        rows.append(wanted)
    if problems:
        raise _wrong(file, text, problems)
    name, cluster_id = found.to, found.target.id if found.target else ""
    return TranslationDocument(name, cluster_id, tuple(rows))


def _wanted(row: _Row) -> Wanted:
    blocked = row.blocked or ""
    if row.target_offset is None or row.target_topic is None:
        source = TopicPartition(row.target_topic or row.topic, row.partition)
        return Wanted(row.group, source, None, blocked=blocked or "not translated")
    bounds = Bounds(
        row.rereads_at_most, row.skips_at_most, row.rereads_likely, row.skips_only_if or ""
    )
    place = TopicPartition(row.target_topic, row.partition)
    based_on = BasedOn(row.method or "", row.evidence, row.age_seconds)
    to = Committed(row.target_offset)
    return Wanted(row.group, place, to, bounds, blocked, based_on=based_on)


def _validated(model: type[_Model], file: File, text: str, data: Any) -> _Model:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = [
            (tuple("schema" if part == "schema_" else part for part in each["loc"]), each["msg"])
            for each in error.errors()
        ]
        raise _wrong(file, text, problems) from None


def _wrong(file: File, text: str, problems: Sequence[tuple[Path, str]]) -> ConfigError:
    reported = [Problem(place_of(text, path), path, why) for path, why in problems[:_MOST_SHOWN]]
    return config_error(str(file), reported, _FIX)
