"""Which groups and principals a consumer fence denies, and how many requests it sends."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import cast

import pytest

from drctl.engine.kind import Facts
from drctl.engine.ports import LinkReader
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState, Positions
from drctl.model.repairs import GROUP, Acl, Acls
from drctl.model.topology import TopicPartition, Unavailable
from drctl.steps.fences import FENCE_CONSUMERS, AclFenceIntent, AclFenceSettings

APP, OTHER = "User:app", "User:other"
ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 0)
SILENT = Unavailable("its coordinator did not answer")


def group(name: str, protocol: GroupProtocol = GroupProtocol.CLASSIC) -> Group:
    return Group(name, protocol, GroupState.EMPTY)


def allow(principal: str, name: str, pattern: str = "LITERAL", resource: str = GROUP) -> Acl:
    return Acl(name, pattern, principal, "*", "READ", "ALLOW", resource)


@dataclass
class Source:
    """A cluster with groups; counts requests.

    Attributes:
        known: groups by name.
        elsewhere: groups that also have an offset in a topic outside the link.
    """

    known: Mapping[str, Group | Unavailable]
    elsewhere: Collection[str] = ()
    rules: tuple[Acl, ...] = ()
    asked: Counter[str] = field(default_factory=Counter)

    def topics(self) -> tuple[str, ...]:
        return ("orders",)

    def acls(self, name: str = "") -> "Source | Acls":
        self.asked["acls"] += not name
        return self if name else Acls(True, self.rules)

    def link_groups(self, name: str, *, incomplete: bool = False) -> tuple[str, ...]:
        self.asked["listed"] += 1
        return tuple(sorted(self.known))

    def groups(self, name: str) -> "Source":
        return self

    def described(self, names: Collection[str]) -> Mapping[str, Group | Unavailable]:
        self.asked["described"] += 1
        return {name: self.known[name] for name in names}

    def committed(self, names: Collection[str]) -> Mapping[str, Positions]:
        self.asked["committed"] += 1
        places = {name: [ORDERS, *([AUDIT] if name in self.elsewhere else [])] for name in names}
        return {name: dict.fromkeys(found, Committed(5)) for name, found in places.items()}

    def fenced(self, groups: str = "classic", *principals: str) -> AclFenceIntent:
        settings = AclFenceSettings(
            cluster="p", stabilize_seconds=1, principals=principals or (APP,), groups=groups
        )
        return FENCE_CONSUMERS.check(settings, Facts(), cast(LinkReader, self))


def denied(intent: AclFenceIntent) -> set[tuple[str, str]]:
    """Return principals and groups."""
    return {(rule.principal, rule.name) for rule in intent.rules if rule.resource == GROUP}


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_the_cluster_is_asked_as_often_for_a_thousand_groups_as_for_one(count: int) -> None:
    names = [f"g-{number}" for number in range(count)]
    source = Source({name: group(name) for name in names})
    assert denied(source.fenced()) == {(APP, name) for name in names}
    once = min(count, 1)
    assert +source.asked == +Counter(acls=1, listed=1, described=once, committed=once)


def test_groups_that_a_fence_would_harm_are_left_to_the_fence_on_topics() -> None:
    modern = group("modern", GroupProtocol.CONSUMER)
    known = {"classic": group("classic"), "modern": modern, "both": group("both"), "lost": SILENT}
    source = Source(known, elsewhere=["both"])
    intent = source.fenced()
    assert denied(intent) == {(APP, "classic")}
    assert intent.open_groups == (
        "both: it also consumes audit, which the link does not replicate",
        "lost: its coordinator did not answer",
        "modern: its members (KIP-848) would fail, and have to be restarted",
    )
    assert denied(source.fenced("all")) == {(APP, name) for name in known}
    assert denied(source.fenced("none")) == set()


@pytest.mark.parametrize(
    ("rules", "principals"),
    [
        ((), {APP, OTHER}),
        ([allow(APP, "billing")], {APP}),
        ([allow(APP, "bill", "PREFIXED"), allow(OTHER, "shipping")], {APP}),
        ([allow("User:*", "*")], {APP, OTHER}),
        ([allow("User:third", "billing")], set()),
        ([allow("User:third", "bill", "PREFIXED")], set()),
        ([allow("User:third", "*")], set()),
        ([allow("User:third", "shipping"), allow("User:third", "bill")], {APP, OTHER}),
        ([allow(APP, "billing", resource="TOPIC")], {APP, OTHER}),
    ],
)
def test_principals_that_may_join_a_group_are_denied_all_if_no_rule_names_it(
    rules: Collection[Acl], principals: set[str]
) -> None:
    source = Source({"billing": group("billing")}, rules=tuple(rules))
    assert denied(source.fenced("classic", APP, OTHER)) == {(who, "billing") for who in principals}
