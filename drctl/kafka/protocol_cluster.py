"""A cluster as one of its brokers describes it: features, quorum, quotas, ACLs, racks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import NamedTuple

from drctl.formats.primitives import Cursor, compact_string
from drctl.kafka.protocol import (
    CLIENT_ID,
    INT8,
    INT16,
    INT32,
    INT64,
    NO_TAGS,
    NULLABLE_STRING,
    STRING,
    TEXT,
    Api,
    Field,
    Message,
    rows,
)
from drctl.model.repairs import Acl

FEATURES = Api("ApiVersions", 18, 3, True, "2.4")
_VERSIONS = rows(INT16, INT16, INT16)
_LEVELS = rows(STRING, INT16, INT16)
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
    """Ask, with our name and version."""
    return compact_string(CLIENT_ID) + compact_string("1") + NO_TAGS


def read_features(cursor: Cursor) -> Features:
    """The response to `ask_features`.

    Raises:
        Undecodable: it is not such a response.
    """
    # This answer alone has no tags in its header (KIP-511): the first half of its error number,
    # always 0, was read in their place.
    error = cursor.int8()
    if error:
        cursor.fail(f"error {error}")
    _VERSIONS.read(cursor)
    cursor.int32()
    tagged = dict(cursor.tags())
    cursor.end()
    return Features(_levels(tagged.get(_SUPPORTED)), _levels(tagged.get(_FINALIZED)))


def _levels(data: bytes | None) -> dict[str, int]:
    """By feature the higher one of its two numbers, which is the highest level."""
    found = () if data is None else _LEVELS.read(Cursor("features", data))
    return {name: max(numbers) for name, *numbers in found}


DESCRIBE_QUORUM = Api("DescribeQuorum", 55, 0, True, "3.0")
_QUORUM_REQUEST = Message(rows(STRING, rows(INT32)))
_REPLICAS = rows(INT32, INT64)
_QUORUM = Message(
    INT16, rows(STRING, rows(INT32, INT16, INT32, INT32, INT64, _REPLICAS, _REPLICAS))
)
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
    return _QUORUM_REQUEST.write([(_QUORUM_TOPIC, [(0,)])])


def read_quorum(cursor: Cursor) -> Quorum:
    """Who leads.

    Raises:
        Undecodable: it is not such a response.
    """
    error, topics = _QUORUM.read(cursor)
    found = Quorum(error, -1, -1, ())
    for _topic, partitions in topics:
        for _number, error, leader, epoch, _end, voters, _observers in partitions:
            found = Quorum(error, leader, epoch, tuple(node for node, _end in voters))
    return found


DESCRIBE_QUOTAS = Api("DescribeClientQuotas", 48, 1, True, "2.8")
_FLOAT64_STRUCT = Struct(">d")
_FLOAT64 = Field(
    _FLOAT64_STRUCT.pack,
    lambda cursor: _FLOAT64_STRUCT.unpack(cursor.take(_FLOAT64_STRUCT.size))[0],
)
_QUOTAS_REQUEST = Message(rows(), INT8)
_QUOTAS = Message(INT32, INT16, TEXT, rows(rows(STRING, NULLABLE_STRING), rows(STRING, _FLOAT64)))
_NOT_STRICT = 0

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
    return _QUOTAS_REQUEST.write((), _NOT_STRICT)


def read_quotas(cursor: Cursor) -> Quotas:
    """The quotas.

    Raises:
        Undecodable: it is not such a response.
    """
    _throttle_ms, error, text, entries = _QUOTAS.read(cursor)
    limits = {tuple(sorted(entity, key=str)): dict(values) for entity, values in entries}
    return Quotas(error, text, limits)


DESCRIBE_ACLS = Api("DescribeAcls", 29, 2, True, "2.4")
_ACLS_REQUEST = Message(INT8, NULLABLE_STRING, INT8, NULLABLE_STRING, NULLABLE_STRING, INT8, INT8)
_ACLS = Message(INT32, INT16, TEXT, rows(INT8, STRING, INT8, rows(STRING, STRING, INT8, INT8)))

CREATE_ACLS = Api("CreateAcls", 30, 2, True, "2.4")
_RULE = (INT8, STRING, INT8, STRING, STRING, INT8, INT8)
_RULES_REQUEST = Message(rows(*_RULE))
_CREATED = Message(INT32, rows(INT16, TEXT))

DELETE_ACLS = Api("DeleteAcls", 31, 2, True, "2.4")
_DELETED = Message(INT32, rows(INT16, TEXT, rows(INT16, TEXT, *_RULE)))

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
    pattern, operation = _PATTERNS.index("ANY"), OPERATIONS.index("ANY")
    return _ACLS_REQUEST.write(
        _TOPIC, None, pattern, None, None, operation, _PERMISSIONS.index(permission)
    )


def read_acls(cursor: Cursor) -> Listed:
    """The rules.

    Raises:
        Undecodable: it is not such a response.
    """
    _throttle_ms, error, text, resources = _ACLS.read(cursor)
    rules = set()
    for kind, name, pattern, acls in resources:
        if kind != _TOPIC:
            cursor.fail(f"resource type {kind}")
        for principal, host, operation, permission in acls:
            words = _word(OPERATIONS, operation), _word(_PERMISSIONS, permission)
            rules.add(Acl(name, _word(_PATTERNS, pattern), principal, host, *words))
    return Listed(error, text, frozenset(rules))


def _word(words: tuple[str, ...], code: int) -> str:
    # A newer Kafka's is kept apart from all that is known.
    return words[code] if code < len(words) else f"UNKNOWN_{code}"


def create_acls(rules: Iterable[Acl]) -> bytes:
    """Add these."""
    return _RULES_REQUEST.write(map(_rule, rules))


def delete_acls(rules: Iterable[Acl]) -> bytes:
    """Remove exactly these: a filter with every text set matches no other rule."""
    return _RULES_REQUEST.write(map(_rule, rules))


def _rule(rule: Acl) -> tuple[int | str, ...]:
    """As a rule and as a filter alike, whose texts might be null."""
    return (
        _TOPIC,
        rule.name,
        _PATTERNS.index(rule.pattern),
        rule.principal,
        rule.host,
        OPERATIONS.index(rule.operation),
        _PERMISSIONS.index(rule.permission),
    )


def read_created(cursor: Cursor) -> tuple[Changed, ...]:
    """What became of each, in the order of the request.

    Raises:
        Undecodable: it is not such a response.
    """
    _throttle_ms, results = _CREATED.read(cursor)
    return tuple(Changed(error, text) for error, text in results)


def read_deleted(cursor: Cursor) -> tuple[Changed, ...]:
    """What became of each, in the order of the request; one that was not there is no error.

    Raises:
        Undecodable: it is not such a response.
    """
    _throttle_ms, results = _DELETED.read(cursor)
    found = []
    for error, text, matches in results:
        failed = [Changed(error, text) for error, text, *_rule in matches if error]
        found.append(failed[0] if failed and not error else Changed(error, text))
    return tuple(found)


DESCRIBE_CLUSTER = Api("DescribeCluster", 60, 0, True, "2.8")
_CLUSTER_REQUEST = Message(INT8)
_CLUSTER = Message(INT32, INT16, TEXT, STRING, INT32, rows(INT32, STRING, INT32, TEXT), INT32)
_WITH_OPERATIONS = 1


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
    return _CLUSTER_REQUEST.write(_WITH_OPERATIONS)


def read_described(cursor: Cursor) -> DescribedCluster:
    """The response to `describe_cluster`.

    Raises:
        Undecodable: it is not such a response.
    """
    _throttle_ms, error, text, _id, _controller, brokers, allowed = _CLUSTER.read(cursor)
    racks = {node: rack for node, _host, _port, rack in brokers}
    return DescribedCluster(error, text, racks, _operations(allowed))


def _operations(bits: int) -> frozenset[str] | None:
    """A bit for each number of `OPERATIONS`; who may not describe the cluster gets none."""
    if bits <= 0:
        return None
    return frozenset(name for number, name in enumerate(OPERATIONS) if bits >> number & 1)
