"""A cluster as one of its brokers describes it: features, quorum, quotas, ACLs, racks."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

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
    THROTTLE,
    Api,
    Field,
    Read,
    alone,
    answer_of,
    request_of,
    rows,
    skipped,
)
from drctl.model.repairs import Acl
from drctl.model.survey import BrokerFeatures, Quotas

FEATURES = Api("ApiVersions", 18, 3, True, "2.4")
_VERSIONS = rows(INT16, INT16, INT16)
_LEVELS = rows(STRING, INT16, INT16)
_SUPPORTED, _FINALIZED = 0, 2


def ask_features() -> bytes:
    """Ask, with our name and version."""
    return compact_string(CLIENT_ID) + compact_string("1") + NO_TAGS


def read_features(cursor: Cursor) -> BrokerFeatures:
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
    return BrokerFeatures(_levels(tagged.get(_SUPPORTED)), _levels(tagged.get(_FINALIZED)))


def _levels(data: bytes | None) -> dict[str, int]:
    """By feature the higher one of its two numbers, which is the highest level."""
    found = () if data is None else _LEVELS.read(Cursor("features", data))
    return {name: max(numbers) for name, *numbers in found}


DESCRIBE_QUORUM = Api("DescribeQuorum", 55, 0, True, "3.0")
_REPLICAS = skipped(rows(INT32, INT64))
_LED = (skipped(INT32), INT16, INT32, INT32, skipped(INT64), _REPLICAS, _REPLICAS)
_QUORUM_TOPIC = "__cluster_metadata"


class Quorum(NamedTuple):
    """What the leader says.

    Attributes:
        error: Kafka's number; 0 where there is none.
        leader: the active controller; -1 where there is none.
    """

    error: int
    leader: int = -1
    epoch: int = -1


def _quorum(error: int, topics: Sequence[tuple[str, Sequence[Quorum]]]) -> Quorum:
    return next((led for _topic, some in topics for led in some), Quorum(error))


describe_quorum = partial(request_of(rows(STRING, rows(INT32))), [(_QUORUM_TOPIC, [(0,)])])
"""Ask who leads."""

read_quorum = answer_of(_quorum, INT16, rows(STRING, rows(*_LED, into=Quorum)))

DESCRIBE_QUOTAS = Api("DescribeClientQuotas", 48, 1, True, "2.8")
_DOUBLE = Struct(">d")
FLOAT64 = Field(_DOUBLE.pack, lambda cursor: _DOUBLE.unpack(cursor.take(_DOUBLE.size))[0])
_NOT_STRICT = 0


class DescribedQuotas(NamedTuple):
    """What a broker answers.

    Attributes:
        error: Kafka's number; 0 where there is none.
        limits: by whom, the limits by their key.
    """

    error: int
    text: str
    limits: Quotas


def _quotas(error: int, text: str, entries: Iterable[tuple[Any, Any]]) -> DescribedQuotas:
    limits = {tuple(sorted(entity, key=str)): dict(values) for entity, values in entries}
    return DescribedQuotas(error, text, limits)


describe_quotas = partial(request_of(rows(), INT8), (), _NOT_STRICT)
"""Ask for all of them."""

_QUOTA = rows(rows(STRING, NULLABLE_STRING), rows(STRING, FLOAT64))
read_quotas = answer_of(_quotas, THROTTLE, INT16, TEXT, _QUOTA)

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


_ACLS_REQUEST = request_of(
    *(INT8, NULLABLE_STRING, INT8, NULLABLE_STRING, NULLABLE_STRING, INT8, INT8)
)


def describe_acls(permission: str = "ANY") -> bytes:
    """Ask for the rules about topics: all of them, or those of a permission."""
    pattern, operation = _PATTERNS.index("ANY"), OPERATIONS.index("ANY")
    return _ACLS_REQUEST(
        _TOPIC, None, pattern, None, None, operation, _PERMISSIONS.index(permission)
    )


def _read_type(cursor: Cursor) -> int:
    kind = cursor.int8()
    return kind if kind == _TOPIC else cursor.fail(f"resource type {kind}")


_TOPICS_ONLY = skipped(Field(INT8.write, _read_type))


def _listed(error: int, text: str, resources: Iterable[tuple[Any, ...]]) -> Listed:
    rules = set()
    for name, pattern, acls in resources:
        for principal, host, operation, permission in acls:
            words = _word(OPERATIONS, operation), _word(_PERMISSIONS, permission)
            rules.add(Acl(name, _word(_PATTERNS, pattern), principal, host, *words))
    return Listed(error, text, frozenset(rules))


def _word(words: tuple[str, ...], code: int) -> str:
    # A newer Kafka's is kept apart from all that is known.
    return words[code] if code < len(words) else f"UNKNOWN_{code}"


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


_RULE = (INT8, STRING, INT8, STRING, STRING, INT8, INT8)
_RULES_REQUEST = request_of(rows(*_RULE))


def write_acls(rules: Iterable[Acl]) -> bytes:
    """Add these, or remove exactly these: a filter with every text set matches no other rule."""
    return _RULES_REQUEST(map(_rule, rules))


def _deleted(error: int, text: str, matches: Sequence[Changed]) -> Changed:
    failed = [each for each in matches if each.error]
    return failed[0] if failed and not error else Changed(error, text)


read_acls = answer_of(
    _listed,
    THROTTLE,
    INT16,
    TEXT,
    rows(_TOPICS_ONLY, STRING, INT8, rows(STRING, STRING, INT8, INT8)),
)

read_created: Read[tuple[Changed, ...]] = answer_of(
    alone, THROTTLE, rows(INT16, TEXT, into=Changed)
)
"""What became of each, in the order of the request."""

_MATCHES = rows(INT16, TEXT, *map(skipped, _RULE), into=Changed)
read_deleted: Read[tuple[Changed, ...]] = answer_of(
    alone, THROTTLE, rows(INT16, TEXT, _MATCHES, into=_deleted)
)
"""What became of each, in the order of the request; one that was not there is no error."""

DESCRIBE_CLUSTER = Api("DescribeCluster", 60, 0, True, "2.8")
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


def _cluster(
    error: int, text: str, racks: Iterable[tuple[int, str]], bits: int
) -> DescribedCluster:
    """A bit for each number of `OPERATIONS`; who may not describe the cluster gets none."""
    allowed = frozenset(name for number, name in enumerate(OPERATIONS) if bits >> number & 1)
    return DescribedCluster(error, text, dict(racks), allowed if bits > 0 else None)


describe_cluster = partial(request_of(INT8), _WITH_OPERATIONS)
"""Ask for all of it."""

_BROKERS = rows(INT32, skipped(STRING), skipped(INT32), TEXT)
read_described = answer_of(
    _cluster, THROTTLE, INT16, TEXT, skipped(STRING), skipped(INT32), _BROKERS, INT32
)
