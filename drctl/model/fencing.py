"""Fences: DENY ACLs on topics and groups, and the proof that every broker enforces them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from drctl.model.repairs import GROUP, TOPIC, Acl, Acls
from drctl.model.topology import TopicPartition, Unavailable

LITERAL, PREFIXED = "LITERAL", "PREFIXED"
DENY = "DENY"
_ANY_HOST = "*"


PROBE_TOPIC = "__drctl_fence_probe"
"""A name that no topic has: ACLs on it deny nothing, and show whether somebody deletes ACLs."""


class Denied(StrEnum):
    """The operations that a fence denies."""

    WRITE = "WRITE"
    READ = "READ"


class Topics(NamedTuple):
    """A topic or a topic name prefix.

    Attributes:
        pattern: LITERAL or PREFIXED; a literal `*` is every topic.
    """

    name: str
    pattern: str = LITERAL


def denials(
    principals: Iterable[str], topics: Collection[Topics], operations: Collection[Denied]
) -> tuple[Acl, ...]:
    """One DENY rule for each principal, topic and operation, from every host."""
    return tuple(
        Acl(each.name, each.pattern, principal, _ANY_HOST, operation.value, DENY)
        for principal in dict.fromkeys(principals)
        for each in dict.fromkeys(topics)
        for operation in dict.fromkeys(operations)
    )


def group_denial(principal: str, group: str) -> Acl:
    """The rule that denies a principal to join a group, to stay in it and to commit."""
    return Acl(group, LITERAL, principal, _ANY_HOST, Denied.READ.value, DENY, GROUP)


def may_be_of_a_fence(rule: Acl) -> bool:
    """Whether a rule denies what a fence denies."""
    denied = {TOPIC: {*Denied}, GROUP: {Denied.READ}}.get(rule.resource, set())
    return rule.permission == DENY and rule.operation in {each.value for each in denied}


def to_add(wanted: Iterable[Acl], present: Acls) -> tuple[Acl, ...]:
    """The missing rules; only these may be removed later."""
    there = frozenset(present.rules)
    return tuple(rule for rule in dict.fromkeys(wanted) if rule not in there)


_SIGN = "User:drctl-fence-of:"
_EARLIER_SIGN = "User:drctl-fence:"
"""The prefix of earlier builds, which did not distinguish `main` from `main-back`."""


class Owner(NamedTuple):
    """The link that needs a rule.

    Attributes:
        link: its name; describes both candidates if an earlier build left it ambiguous.
        signature: principal prefix of its marker rules.
    """

    link: str
    signature: str


def sign(rule: Acl, link: str) -> Acl:
    """A marker rule without effect, which records that a link needs the given rule.

    Two links may fence the same principal from the same topic, but the rule exists once and must
    stay while either link needs it.

    Args:
        link: its name in drctl.yaml; its failback uses the same.
    """
    return rule._replace(principal=f"{_signature(link)}{rule.principal}")


def signed(rules: Iterable[Acl], present: Iterable[Acl], link: str) -> tuple[Acl, ...]:
    """The rules that an earlier run of the link, or its failback, has set."""
    there = frozenset(present)
    return tuple(rule for rule in rules if link and {rule, sign(rule, link)} <= there)


def rules_of_other_links(present: Iterable[Acl], link: str) -> Mapping[Acl, Owner]:
    """Rules that fences of other links need, each with one such link.

    Markers of earlier builds are ambiguous, so their rules are always kept.
    """
    found: dict[Acl, Owner] = {}
    for rule in present:
        owner = _owner(rule)
        if owner is not None and owner.signature != _signature(link):
            principal = rule.principal.removeprefix(owner.signature)
            found[rule._replace(principal=principal)] = owner
    return found


def _signature(link: str) -> str:
    """The principal prefix of a link; colons in the name are escaped."""
    return f"{_SIGN}{link.replace('%', '%25').replace(':', '%3A')}:"


def _owner(rule: Acl) -> Owner | None:
    """The link of a marker rule; None for other rules."""
    for prefix in (_SIGN, _EARLIER_SIGN):
        if rule.principal.startswith(prefix):
            name, _, _ = rule.principal.removeprefix(prefix).partition(":")
            link = name.replace("%3A", ":").replace("%25", "%")
            if prefix == _EARLIER_SIGN:
                link = f"{name} or {name}-back (signed by an earlier drctl)"
            return Owner(link, f"{prefix}{name}:")
    return None


class Moved(NamedTuple):
    """An end offset that changed between two reads."""

    before: int
    after: int


class LogEnd(NamedTuple):
    """The end offset for consumers, and the leader's log end offset."""

    end: int
    leader: int


@dataclass(frozen=True, slots=True)
class Enforcement:
    """Whether each broker enforces rules, or no longer does.

    Attributes:
        brokers: by broker id, None if this is proven for the broker, else why it is not proven.
        rules: number of rules.
        looks: number of requests.
    """

    brokers: Mapping[int, Unavailable | None]
    rules: int
    looks: int

    @property
    def proven(self) -> bool:
        """Whether it is proven for every broker."""
        return bool(self.brokers) and not self.unproven

    @property
    def unproven(self) -> tuple[str, ...]:
        """What is not proven, as text."""
        return tuple(
            f"not proven on broker {broker}: {why.reason}"
            for broker, why in sorted(self.brokers.items())
            if why is not None
        )


@dataclass(frozen=True, slots=True)
class NoWrites:
    """Whether partitions take no more writes.

    Attributes:
        ends: end offsets that were equal in two reads, `stabilize_s` apart.
        moved: end offsets that changed between the last two reads.
        unread: partitions that could not be read.
        unreplicated: partitions whose leader holds records beyond the end offset.
        unchecked: None, or why the leaders' log end offsets could not be read.
        undecided: partitions with an open transaction.
        looks: number of reads.
    """

    stabilize_s: float
    ends: Mapping[TopicPartition, int]
    moved: Mapping[TopicPartition, Moved] = field(default_factory=dict)
    unread: Mapping[TopicPartition, Unavailable] = field(default_factory=dict)
    unreplicated: Mapping[TopicPartition, LogEnd] = field(default_factory=dict)
    unchecked: Unavailable | None = None
    undecided: tuple[TopicPartition, ...] = ()
    looks: int = 0

    @property
    def proven(self) -> bool:
        """Whether no partition grew; ignores open transactions and `unchecked`."""
        return not self.unproven

    @property
    def unproven(self) -> tuple[str, ...]:
        """What is not proven, as text."""
        return (
            *(
                f"{place} grew from {ends.before} to {ends.after} within {self.stabilize_s:g} s"
                for place, ends in sorted(self.moved.items())
            ),
            *(
                f"{place} ends at {ends.end}, but its leader's log ends at {ends.leader}"
                for place, ends in sorted(self.unreplicated.items())
            ),
            *(f"{place}: {why.reason}" for place, why in sorted(self.unread.items())),
        )


@dataclass(frozen=True, slots=True)
class FenceProof:
    """The proof that topics take no more writes."""

    enforcement: Enforcement
    no_writes: NoWrites

    @property
    def proven(self) -> bool:
        """Whether every broker enforces the fence and no partition grew."""
        return self.enforcement.proven and self.no_writes.proven

    @property
    def unproven(self) -> tuple[str, ...]:
        """What is not proven, as text."""
        return (*self.enforcement.unproven, *self.no_writes.unproven)


class AclReader(Protocol):
    """Reads ACLs."""

    def acls(self) -> Acls | Unavailable:
        """All ACLs, or why they cannot be read.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def enforcement(self, rules: Collection[Acl], topics: Collection[str]) -> Enforcement:
        """Whether each broker has all of these denying rules; waits for it up to the deadline.

        The answer includes brokers that hold replicas of the topics and are down.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def lifted(self, rules: Collection[Acl], topics: Collection[str]) -> Enforcement:
        """Whether each broker has none of these denying rules; waits for it up to the deadline.

        Raises:
            Unreachable: no broker answered within the deadline.
        """


class AclWriter(Protocol):
    """Adds and removes denying rules about topics and groups; no other ones."""

    def deny(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        """Add these rules; for each rule, return None or why it failed."""

    def restore(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        """Remove exactly these rules; for each rule, return None or why it failed."""


class FenceProver(Protocol):
    """Checks whether a fence holds."""

    def prove(self, rules: Collection[Acl], topics: Collection[str]) -> FenceProof:
        """Check that every broker applies the rules, and then that end offsets do not move.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
