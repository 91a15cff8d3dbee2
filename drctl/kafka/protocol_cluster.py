"""A cluster as one of its brokers describes it (KIP-700): racks, and what the asker may do."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from drctl.formats.primitives import Cursor, compact_nullable_string, compact_string, int32
from drctl.kafka.protocol import CLIENT_ID, NO_TAGS, Api, compact_array, each
from drctl.model.repairs import Acl

FEATURES = Api("ApiVersions", 18, 3, True, "2.4")

_SUPPORTED, _FINALIZED = 0, 2


@dataclass(frozen=True, slots=True)
class Features:
    """What one broker says.

    Attributes:
        supported: the highest level that it knows, by feature.
        finalized: the level that its cluster works at.
    """

    supported: Mapping[str, int] = field(default_factory=dict)
    finalized: Mapping[str, int] = field(default_factory=dict)


def ask_features() -> bytes:
    """Ask, and say who does."""
    return compact_string(CLIENT_ID) + compact_string("1") + NO_TAGS


def read_features(cursor: Cursor) -> Features:
    """The answer to `ask_features`.

    Raises:
        Undecodable: it is no such answer.
    """
    # This answer alone has no tags in its header (KIP-511): the first half of its error number,
    # always 0, was read in their place.
    error = cursor.int8()
    if error:
        cursor.fail(f"error {error}")
    for _ in range(cursor.varint() - 1):
        cursor.take(6)
        cursor.tags()
    cursor.int32()
    tagged = dict(cursor.tags())
    cursor.end()
    return Features(_levels(tagged.get(_SUPPORTED)), _levels(tagged.get(_FINALIZED)))


def _levels(data: bytes | None) -> dict[str, int]:
    if data is None:
        return {}
    return dict(each(Cursor("features", data), _level))


def _level(cursor: Cursor) -> tuple[str, int]:
    """One feature; of the two numbers behind its name one is the highest level."""
    name, numbers = cursor.compact_string(), (cursor.int16(), cursor.int16())
    cursor.tags()
    return name, max(numbers)


DESCRIBE_QUORUM = Api("DescribeQuorum", 55, 0, True, "3.0")

_QUORUM_TOPIC = "__cluster_metadata"


class Quorum(NamedTuple):
    """What the leader says.

    Attributes:
        error: Kafka's number; 0 where there is none.
        leader: the active controller; -1 where there is none.
    """

    error: int
    leader: int
    epoch: int
    voters: tuple[int, ...]


def describe_quorum() -> bytes:
    """Ask who leads."""
    partition = int32(0) + NO_TAGS
    topic = compact_string(_QUORUM_TOPIC) + compact_array([partition]) + NO_TAGS
    return compact_array([topic]) + NO_TAGS


def read_quorum(cursor: Cursor) -> Quorum:
    """Who leads.

    Raises:
        Undecodable: it is no such answer.
    """
    found = Quorum(cursor.int16(), -1, -1, ())
    for _ in range(cursor.varint() - 1):
        cursor.compact_string()
        for _ in range(cursor.varint() - 1):
            found = _partition(cursor)
        cursor.tags()
    cursor.tags()
    cursor.end()
    return found


def _partition(cursor: Cursor) -> Quorum:
    cursor.int32()
    error, leader, epoch = cursor.int16(), cursor.int32(), cursor.int32()
    cursor.int64()
    voters, _observers = _replicas(cursor), _replicas(cursor)
    cursor.tags()
    return Quorum(error, leader, epoch, voters)


def _replicas(cursor: Cursor) -> tuple[int, ...]:
    found = []
    for _ in range(cursor.varint() - 1):
        found.append(cursor.int32())
        cursor.int64()
        cursor.tags()
    return tuple(found)


DESCRIBE_QUOTAS = Api("DescribeClientQuotas", 48, 1, True, "2.8")

_FLOAT64 = Struct(">d")

Entity = tuple[tuple[str, str | None], ...]
"""Kind and name, as in (("user", "app"),); None for the default of its kind."""


class Quotas(NamedTuple):
    """What a broker answers.

    Attributes:
        error: Kafka's number; 0 where there is none.
        limits: by whom, the limits by their key.
    """

    error: int
    text: str
    limits: Mapping[Entity, Mapping[str, float]]


def describe_quotas() -> bytes:
    """Ask for all of them."""
    every = compact_array(())
    return every + b"\0" + NO_TAGS


def read_quotas(cursor: Cursor) -> Quotas:
    """The answer.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    error, text = cursor.int16(), cursor.compact_nullable_string()
    limits = dict(each(cursor, _entry))
    cursor.tags()
    cursor.end()
    return Quotas(error, text or "", limits)


def _entry(cursor: Cursor) -> tuple[Entity, Mapping[str, float]]:
    entity, values = each(cursor, _part), dict(each(cursor, _limit))
    cursor.tags()
    return tuple(sorted(entity, key=str)), values


def _part(cursor: Cursor) -> tuple[str, str | None]:
    found = cursor.compact_string(), cursor.compact_nullable_string()
    cursor.tags()
    return found


def _limit(cursor: Cursor) -> tuple[str, float]:
    name = cursor.compact_string()
    value: float = _FLOAT64.unpack(cursor.take(8))[0]
    cursor.tags()
    return name, value


DESCRIBE_ACLS = Api("DescribeAcls", 29, 2, True, "2.4")
CREATE_ACLS = Api("CreateAcls", 30, 2, True, "2.4")
DELETE_ACLS = Api("DeleteAcls", 31, 2, True, "2.4")

OPERATIONS = (
    "UNKNOWN",
    "ANY",
    "ALL",
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "CREATE_TOKENS",
    "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
)
"""By Kafka's number."""

_PERMISSIONS = ("UNKNOWN", "ANY", "DENY", "ALLOW")
_PATTERNS = ("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED")
_TOPIC = 2


class Listed(NamedTuple):
    """A broker's answer.

    Attributes:
        error: Kafka's number; 0 where there is none.
        text: why, for a person; may be empty.
    """

    error: int
    text: str
    rules: frozenset[Acl]


class Changed(NamedTuple):
    """What became of one rule.

    Attributes:
        error: Kafka's number; 0 where there is none.
        text: why, for a person; may be empty.
    """

    error: int
    text: str


def describe_acls(permission: str = "ANY") -> bytes:
    """Ask for the rules about topics: all of them, or those of a permission."""
    anything = compact_nullable_string(None)
    pattern, operation = _PATTERNS.index("ANY"), OPERATIONS.index("ANY")
    last = bytes((operation, _PERMISSIONS.index(permission)))
    return bytes((_TOPIC,)) + anything + bytes((pattern,)) + anything + anything + last + NO_TAGS


def read_acls(cursor: Cursor) -> Listed:
    """The rules.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    error, text = cursor.int16(), cursor.compact_nullable_string() or ""
    rules = frozenset(rule for some in each(cursor, _resource) for rule in some)
    cursor.tags()
    cursor.end()
    return Listed(error, text, rules)


def create_acls(rules: Iterable[Acl]) -> bytes:
    """Add these."""
    return compact_array(map(_written, rules)) + NO_TAGS


def delete_acls(rules: Iterable[Acl]) -> bytes:
    """Remove exactly these: nothing is left open that would match another."""
    return compact_array(map(_written, rules)) + NO_TAGS


def read_created(cursor: Cursor) -> tuple[Changed, ...]:
    """What became of each, in the order of the request.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    found = each(cursor, _changed)
    cursor.tags()
    cursor.end()
    return found


def read_deleted(cursor: Cursor) -> tuple[Changed, ...]:
    """What became of each, in the order of the request; one that was not there is no error.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    found = each(cursor, _deleted)
    cursor.tags()
    cursor.end()
    return found


def _written(rule: Acl) -> bytes:
    """As a rule and as a filter alike, whose texts might be null."""
    return b"".join(
        (
            bytes((_TOPIC,)),
            compact_string(rule.name),
            bytes((_PATTERNS.index(rule.pattern),)),
            compact_string(rule.principal),
            compact_string(rule.host),
            bytes((OPERATIONS.index(rule.operation), _PERMISSIONS.index(rule.permission))),
            NO_TAGS,
        )
    )


def _changed(cursor: Cursor) -> Changed:
    found = Changed(cursor.int16(), cursor.compact_nullable_string() or "")
    cursor.tags()
    return found


def _deleted(cursor: Cursor) -> Changed:
    found = Changed(cursor.int16(), cursor.compact_nullable_string() or "")
    failed = [match for match in each(cursor, _match) if match.error]
    cursor.tags()
    return failed[0] if failed and not found.error else found


def _match(cursor: Cursor) -> Changed:
    found = Changed(cursor.int16(), cursor.compact_nullable_string() or "")
    cursor.int8()
    cursor.compact_string()
    cursor.int8()
    cursor.compact_string()
    cursor.compact_string()
    cursor.take(2)
    cursor.tags()
    return found


def _resource(cursor: Cursor) -> tuple[Acl, ...]:
    kind = cursor.int8()
    if kind != _TOPIC:
        cursor.fail(f"resource type {kind}")
    name, pattern = cursor.compact_string(), _word(_PATTERNS, cursor.int8())
    found = each(cursor, lambda c: _rule(c, name, pattern))
    cursor.tags()
    return found


def _rule(cursor: Cursor, name: str, pattern: str) -> Acl:
    principal, host = cursor.compact_string(), cursor.compact_string()
    operation, permission = cursor.int8(), cursor.int8()
    cursor.tags()
    words = _word(OPERATIONS, operation), _word(_PERMISSIONS, permission)
    return Acl(name, pattern, principal, host, *words)


def _word(words: tuple[str, ...], code: int) -> str:
    # A newer Kafka's is kept apart from all that is known.
    return words[code] if code < len(words) else f"UNKNOWN_{code}"


DESCRIBE_CLUSTER = Api("DescribeCluster", 60, 0, True, "2.8")


class DescribedCluster(NamedTuple):
    """What the broker says.

    Attributes:
        error: Kafka's number; 0 where there is none.
        text: why, for a person; may be empty.
        racks: by broker; empty where it has none.
        operations: what the asker may do with the cluster itself; None where that is not told.
    """

    error: int
    text: str
    racks: Mapping[int, str]
    operations: frozenset[str] | None


def describe_cluster() -> bytes:
    """Ask for all of it."""
    return b"\x01" + NO_TAGS


def read_described(cursor: Cursor) -> DescribedCluster:
    """The answer to `describe_cluster`.

    Raises:
        Undecodable: it is no such answer.
    """
    cursor.int32()
    error, text = cursor.int16(), cursor.compact_nullable_string() or ""
    cursor.compact_string()
    cursor.int32()
    racks = dict(each(cursor, _rack))
    allowed = cursor.int32()
    cursor.tags()
    cursor.end()
    return DescribedCluster(error, text, racks, _operations(allowed))


def _rack(cursor: Cursor) -> tuple[int, str]:
    node = cursor.int32()
    cursor.compact_string()
    cursor.int32()
    rack = cursor.compact_nullable_string()
    cursor.tags()
    return node, rack or ""


def _operations(bits: int) -> frozenset[str] | None:
    """A bit for each number of `OPERATIONS`; who may not describe the cluster gets none."""
    if bits <= 0:
        return None
    return frozenset(name for number, name in enumerate(OPERATIONS) if bits >> number & 1)
