"""Keeping principals away from topics by denying ACLs, and what proves that every broker obeys."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from drctl.model.repairs import Acl, Acls
from drctl.model.topology import TopicPartition, Unavailable

LITERAL, PREFIXED = "LITERAL", "PREFIXED"
DENY = "DENY"
_ANY_HOST = "*"


class Denied(StrEnum):
    """What a fence keeps principals from; the words are Kafka's operations."""

    WRITE = "WRITE"
    READ = "READ"


class Topics(NamedTuple):
    """One topic, or all whose names begin alike.

    Attributes:
        pattern: LITERAL, or PREFIXED; a literal `*` is every topic.
    """

    name: str
    pattern: str = LITERAL


def denials(
    principals: Iterable[str], topics: Collection[Topics], operations: Collection[Denied]
) -> tuple[Acl, ...]:
    """One rule for each principal, topic and operation, from every host."""
    return tuple(
        Acl(each.name, each.pattern, principal, _ANY_HOST, operation.value, DENY)
        for principal in dict.fromkeys(principals)
        for each in dict.fromkeys(topics)
        for operation in dict.fromkeys(operations)
    )


def to_add(wanted: Iterable[Acl], present: Acls) -> tuple[Acl, ...]:
    """Those that are not there yet: only they are ours to remove afterwards."""
    there = frozenset(present.rules)
    return tuple(rule for rule in dict.fromkeys(wanted) if rule not in there)


_SIGN = "User:drctl-fence-of:"
_EARLIER_SIGN = "User:drctl-fence:"
"""As earlier builds signed: `main` and a link called `main-back` signed alike."""


class Owner(NamedTuple):
    """For whom a rule is there.

    Attributes:
        link: its name, in words where an earlier build left it open which of two it is.
        signature: what the principals of its signs begin with.
    """

    link: str
    signature: str


def sign(rule: Acl, link: str) -> Acl:
    """A rule that denies nobody anything: it says that a link's fence rests on that one.

    Two links may fence the same principal from the same topic, and a rule is there once: it must
    stay for as long as either needs it. Whoever looks at the cluster sees for whom.

    Args:
        link: its name in drctl.yaml, which its failback signs with, too.
    """
    return rule._replace(principal=f"{_signature(link)}{rule.principal}")


def signed(rules: Iterable[Acl], present: Iterable[Acl], link: str) -> tuple[Acl, ...]:
    """Those of these that an earlier run of the link, or its failback, has set."""
    there = frozenset(present)
    return tuple(rule for rule in rules if link and {rule, sign(rule, link)} <= there)


def rules_of_other_links(present: Iterable[Acl], link: str) -> Mapping[Acl, Owner]:
    """Rules on which fences of other links rest, each with one of those.

    What an earlier build has signed may be another link's, whatever its name: nobody lifts it.
    """
    found: dict[Acl, Owner] = {}
    for rule in present:
        owner = _owner(rule)
        if owner is not None and owner.signature != _signature(link):
            principal = rule.principal.removeprefix(owner.signature)
            found[rule._replace(principal=principal)] = owner
    return found


def _signature(link: str) -> str:
    """A name ends at the first colon: no name looks like another one with a principal."""
    return f"{_SIGN}{link.replace('%', '%25').replace(':', '%3A')}:"


def _owner(rule: Acl) -> Owner | None:
    """Who signed with this rule; None where it is no sign."""
    for prefix in (_SIGN, _EARLIER_SIGN):
        if rule.principal.startswith(prefix):
            name, _, _ = rule.principal.removeprefix(prefix).partition(":")
            link = name.replace("%3A", ":").replace("%25", "%")
            if prefix == _EARLIER_SIGN:
                link = f"{name} or {name}-back (signed by an earlier drctl)"
            return Owner(link, f"{prefix}{name}:")
    return None


class Moved(NamedTuple):
    """An end offset that was not the same in two looks."""

    before: int
    after: int


class LogEnd(NamedTuple):
    """Where a partition ends for consumers, and where its leader's own log does."""

    end: int
    leader: int


@dataclass(frozen=True, slots=True)
class Enforcement:
    """Which brokers apply rules, or no longer do.

    Attributes:
        brokers: by id None where every rule is as wanted, or why that is not known to be so.
        rules: how many were looked for.
        looks: how many times a broker was asked.
    """

    brokers: Mapping[int, Unavailable | None]
    rules: int
    looks: int

    @property
    def proven(self) -> bool:
        """Whether every broker does; never where there are none."""
        return bool(self.brokers) and not self.unproven

    @property
    def unproven(self) -> tuple[str, ...]:
        """What is missing, in words for a person."""
        return tuple(
            f"not proven on broker {broker}: {why.reason}"
            for broker, why in sorted(self.brokers.items())
            if why is not None
        )


@dataclass(frozen=True, slots=True)
class NoWrites:
    """Whether partitions still grow.

    Attributes:
        ends: end offsets that were the same in two looks, `settle_s` apart.
        moved: those that were not, in the last two looks.
        unread: those that could not be asked.
        unreplicated: partitions whose leader holds records beyond the end, which count later.
        unchecked: None, or why the leaders' own log ends could not be asked for.
        undecided: partitions with an open transaction.
        looks: how many times all were asked.
    """

    settle_s: float
    ends: Mapping[TopicPartition, int]
    moved: Mapping[TopicPartition, Moved] = field(default_factory=dict)
    unread: Mapping[TopicPartition, Unavailable] = field(default_factory=dict)
    unreplicated: Mapping[TopicPartition, LogEnd] = field(default_factory=dict)
    unchecked: Unavailable | None = None
    undecided: tuple[TopicPartition, ...] = ()
    looks: int = 0

    @property
    def proven(self) -> bool:
        """Whether nothing grew; open transactions and what is `unchecked` count not against it."""
        return not self.unproven

    @property
    def unproven(self) -> tuple[str, ...]:
        """What is missing, in words for a person."""
        return (
            *(
                f"{place} grew from {ends.before} to {ends.after} within {self.settle_s:g} s"
                for place, ends in sorted(self.moved.items())
            ),
            *(
                f"{place} ends at {ends.end}, its leader's log at {ends.leader}"
                for place, ends in sorted(self.unreplicated.items())
            ),
            *(f"{place}: {why.reason}" for place, why in sorted(self.unread.items())),
        )


@dataclass(frozen=True, slots=True)
class FenceProof:
    """That nothing is written any more, as far as it could be seen."""

    enforcement: Enforcement
    no_writes: NoWrites

    @property
    def proven(self) -> bool:
        """Whether every broker applies the fence, and nothing has grown behind it."""
        return self.enforcement.proven and self.no_writes.proven

    @property
    def unproven(self) -> tuple[str, ...]:
        """What is missing, in words for a person."""
        return (*self.enforcement.unproven, *self.no_writes.unproven)


class AclReader(Protocol):
    """Looks at the ACLs of topics; changes none."""

    def acls(self) -> Acls | Unavailable:
        """All rules about topics, or why they cannot be seen.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def enforcement(self, rules: Collection[Acl], topics: Collection[str]) -> Enforcement:
        """Whether each broker has all of these denying rules; waits for it up to the deadline.

        Asked are all brokers, and those that hold replicas of the topics and are not there.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def lifted(self, rules: Collection[Acl], topics: Collection[str]) -> Enforcement:
        """Whether each broker has none of them any more; waits for it up to the deadline.

        Raises:
            Unreachable: no broker answered within the deadline.
        """


class AclWriter(Protocol):
    """Adds and removes denying rules about topics; no other ones."""

    def deny(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        """Add these; by rule None where it is there now, or why it is not."""

    def restore(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        """Remove exactly these; by rule None where it is gone now, or why it is not."""


class FenceProver(Protocol):
    """Says whether a fence holds."""

    def prove(self, rules: Collection[Acl], topics: Collection[str]) -> FenceProof:
        """Every broker applies the rules, and then the topics' end offsets do not move.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
