"""What ACLs allow, by the rules of Kafka's own authorizer."""

from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum

from drctl.model.acls import Acl

# An operation that is allowed allows these, too.
_IMPLIED = {"DESCRIBE": frozenset({"READ", "WRITE", "DELETE", "ALTER"})}
_ANY, _EVERYBODY = "*", "User:*"


class Access(StrEnum):
    """From where a principal may do something."""

    YES = "allowed"
    SOME_HOSTS = "allowed from some hosts"
    NO = "not allowed"


class RuleBook:
    """Rules by whom and what they are about: very many of them, and very many topics."""

    def __init__(self, rules: Iterable[Acl]) -> None:
        self._exact: dict[tuple[str, str], list[Acl]] = defaultdict(list)
        self._prefixed: dict[str, list[Acl]] = defaultdict(list)
        for rule in rules:
            if rule.pattern == "PREFIXED":
                self._prefixed[rule.principal].append(rule)
            else:
                self._exact[rule.principal, rule.name].append(rule)

    def concerning(self, principal: str, topic: str) -> list[Acl]:
        """Those that count when a principal does something with a topic."""
        found: list[Acl] = []
        for who in dict.fromkeys((principal, _EVERYBODY)):
            for name in dict.fromkeys((topic, _ANY)):
                found += self._exact.get((who, name), ())
            found += (r for r in self._prefixed.get(who, ()) if topic.startswith(r.name))
        return found


def access(rules: Iterable[Acl], principal: str, operation: str, topic: str) -> Access:
    """Whether the rules let a principal do something with a topic; a denial always wins."""
    mine = [rule for rule in rules if _concerns(rule, principal, topic)]
    denying = [r for r in mine if r.permission == "DENY" and r.operation in (operation, "ALL")]
    enough = {operation, "ALL"} | _IMPLIED.get(operation, frozenset())
    allowing = [r for r in mine if r.permission == "ALLOW" and r.operation in enough]
    if not allowing or any(rule.host == _ANY for rule in denying):
        return Access.NO
    everywhere = not denying and any(rule.host == _ANY for rule in allowing)
    return Access.YES if everywhere else Access.SOME_HOSTS


def _concerns(rule: Acl, principal: str, topic: str) -> bool:
    if rule.principal not in (principal, _EVERYBODY):
        return False
    if rule.pattern == "PREFIXED":
        return topic.startswith(rule.name)
    return rule.name in (topic, _ANY)
