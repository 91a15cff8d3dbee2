"""ACLs about topics: asked for, added, removed."""

from collections.abc import Iterable
from typing import NamedTuple

from drctl.model.acls import Acl
from drctl.wire.broker_requests import NO_TAGS, Api, compact_array, each
from drctl.wire.cursor import Cursor
from drctl.wire.primitives import compact_nullable_string, compact_string

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
