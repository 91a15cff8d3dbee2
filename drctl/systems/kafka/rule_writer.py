"""Adds rules that allow or deny topics to principals, and takes back what it added.

It asks as `drctl.systems.kafka.acl_writer` does, for the same reasons. What it may not do is widen:
a rule names one topic, or a beginning of names, one principal, and an operation of clients.
"""

from collections.abc import Collection, Mapping

from drctl.model.acls import Acl
from drctl.model.fencing import DENY, LITERAL, PREFIXED
from drctl.systems.closing import Closing
from drctl.systems.kafka.acl_writer import CREATE, DELETE, Answers, KafkaAclWriter

_PERMISSIONS = frozenset({"ALLOW", DENY})
_OPERATIONS = frozenset({"READ", "WRITE"})
_EVERY_TOPIC = "*"


class _Requests(KafkaAclWriter):
    """The same requests, for rules of either permission."""

    def create(self, rules: Collection[Acl]) -> Answers:
        return self._done(rules, CREATE)

    def delete(self, rules: Collection[Acl]) -> Answers:
        return self._done(rules, DELETE)

    def _require(self, rule: Acl) -> None:
        exact = rule.pattern in (LITERAL, PREFIXED) and all(rule)
        known = rule.permission in _PERMISSIONS and rule.operation in _OPERATIONS
        if not exact or not known or rule.name == _EVERY_TOPIC:
            raise ValueError(f"not a rule of a client for some topics: {rule}")


class KafkaRuleWriter(Closing):
    """Implements `RuleWriter` of `drctl.model.repairs`; connects on first use.

    Both calls may be repeated. Each ends within `timeout_s` (and a moment).
    """

    def __init__(self, name: str, properties: Mapping[str, str], *, timeout_s: float = 10) -> None:
        self._requests = _Requests(name, properties, timeout_s=timeout_s)

    def add(self, rules: Collection[Acl]) -> Answers:
        """Add these; by rule None where it is there now, or why it is not.

        Raises:
            ValueError: one of them is about everything, or leaves something open.
            Unreachable: no broker answered within the deadline; nothing was sent.
            ConfigError: the properties cannot be used for connections of our own.
        """
        return self._requests.create(rules)

    def remove(self, rules: Collection[Acl]) -> Answers:
        """Remove exactly these; by rule None where it is gone now, or why it is not.

        Raises:
            ValueError, Unreachable, ConfigError: likewise.
        """
        return self._requests.delete(rules)

    def close(self) -> None:
        """Release connections; may be called again."""
        self._requests.close()
