"""A drill changes only its own objects, and deletes all of them."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pytest

from drctl.app.drill_adapters import DrillLinkWriter, _DrillProbeWriter, _OwnGroups, _OwnRules
from drctl.app.link_writer import ClusterLinkWriter
from drctl.drill.cleaning import Left, Ports, Scratch, clean, left_on
from drctl.engine.ports import LinkWriter
from drctl.kafka.connection import Connection
from drctl.kafka.drill import KafkaScratch
from drctl.model.errors import Refused
from drctl.model.groups import Committed
from drctl.model.repairs import Acl, Acls
from drctl.model.topology import TopicPartition, Unavailable

MINE, OTHER = Scratch("20260102t030405z-0a1b2c"), Scratch("20260102t030405z-ffffff")


def rule(topic: str, **changes: str) -> Acl:
    return Acl(topic, "LITERAL", "User:x", "*", "WRITE", "DENY")._replace(**changes)


class Cluster:
    """Has topics and groups; a deleted topic may reappear a few times, as with a replicator."""

    def __init__(self, topics: Iterable[str], groups: Iterable[str], rules: Iterable[Acl]) -> None:
        self.topics, self.known, self.rules = set(topics), set(groups), set(rules)
        self.comes_back = 0
        self.refuses: str = ""

    def ports(self, name: str) -> Ports:
        site: Any = self
        return Ports(name, site, site, site, site, site, site)

    def topic_names(self) -> frozenset[str]:
        return frozenset(self.topics)

    def groups(self, *, incomplete: bool = False) -> tuple[str, ...]:
        return tuple(self.known)

    def acls(self) -> Acls:
        return Acls(True, tuple(self.rules))

    def restore(self, rules: Collection[Acl]) -> dict[Acl, None]:
        self.rules -= set(rules)
        return dict.fromkeys(rules)

    def delete_groups(self, names: Collection[str]) -> dict[str, None]:
        self.known -= set(names)
        return dict.fromkeys(names)

    def delete_topics(self, names: Collection[str]) -> dict[str, Unavailable | None]:
        if self.refuses:
            return {name: Unavailable(self.refuses) for name in names}
        if self.comes_back:
            self.comes_back -= 1
        else:
            self.topics -= set(names)
        return dict.fromkeys(names)


def full() -> Cluster:
    return Cluster(
        ["orders", MINE.topic, OTHER.topic, f"primary.{MINE.topic}"],
        ["app", MINE.group, OTHER.group],
        [rule("orders"), rule(MINE.topic), rule(OTHER.topic)],
    )


def cleaned(source: Cluster, target: Cluster) -> Any:
    mine = frozenset({MINE.drill})
    return clean(source.ports("a"), target.ports("b"), mine, lambda _seconds: None)


def test_only_objects_of_the_drill_are_deleted() -> None:
    source, target = full(), full()
    done = cleaned(source, target)
    assert done.left == []
    assert len(done.gone) == 8
    for cluster in (source, target):
        assert cluster.topics == {"orders", OTHER.topic}
        assert cluster.known == {"app", OTHER.group}
        assert cluster.rules == {rule("orders"), rule(OTHER.topic)}


def test_a_topic_recreated_by_a_replicator_is_deleted_again() -> None:
    target = full()
    target.comes_back = 3
    done = cleaned(full(), target)
    assert (done.left, target.topics) == ([], {"orders", OTHER.topic})


def test_a_topic_that_keeps_reappearing_is_not_reported_as_deleted() -> None:
    target = full()
    target.comes_back = 10**6
    assert f"topic {MINE.topic} of b: reappears after deletion" in cleaned(full(), target).left


def test_objects_that_cannot_be_deleted_are_named() -> None:
    target = full()
    target.refuses = "not allowed"
    assert f"topic {MINE.topic} of b: not allowed" in cleaned(full(), target).left


def test_acls_of_others_do_not_belong_to_a_drill() -> None:
    others = [
        rule(MINE.topic, permission="ALLOW"), rule(MINE.topic, operation="ALL"),
        rule(MINE.topic, pattern="PREFIXED"), rule("*"),
    ]  # fmt: skip
    assert left_on(Cluster([], [], others).ports("a")) == Left("a")


def writer() -> DrillLinkWriter:
    nothing: Any = None
    return DrillLinkWriter(ClusterLinkWriter(nothing, nothing, Path(), {}), MINE.probe_record)


CONFINED = {"groups", "acls", "probe_record", "save_evidence"}


@pytest.mark.parametrize(
    "name", sorted({each for each in vars(LinkWriter) if not each.startswith("_")} - CONFINED)
)
def test_every_other_change_is_refused(name: str) -> None:
    with pytest.raises(Refused, match=f"a drill must not change {name}"):
        getattr(writer(), name)
    assert all(hasattr(writer(), each) for each in CONFINED)


class Untouched:
    """Fails on any request."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} arrived")


NOTHING: Any = Untouched()
PLACE = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    "change",
    [
        lambda: _OwnGroups(NOTHING).commit({"app": {}}),
        lambda: _OwnGroups(NOTHING).commit({MINE.group: {PLACE: Committed(1)}}),
        lambda: _OwnGroups(NOTHING).delete({"app": [PLACE]}),
        lambda: _OwnGroups(NOTHING).delete({MINE.group: [PLACE]}),
        lambda: _OwnRules(NOTHING, lambda: None).deny([rule(MINE.topic), rule("orders")]),
        lambda: _OwnRules(NOTHING, lambda: None).restore([rule("*")]),
        lambda: _DrillProbeWriter(NOTHING, "__drctl_canary").write_probe(MINE.probe_record, "x"),
    ],
)
def test_changes_to_objects_of_others_are_never_sent(change: Any) -> None:
    with pytest.raises(Refused, match="a drill must not touch"):
        change()


def test_temporary_objects_have_reserved_names() -> None:
    scratch = KafkaScratch(Connection("a", {"bootstrap.servers": "127.0.0.1:1"}))
    with pytest.raises(ValueError, match="not of a drill: orders"):
        scratch.make_topic("orders", 1)
    with pytest.raises(ValueError, match="not of a drill: orders"):
        scratch.delete_topics([MINE.topic, "orders"])
    with pytest.raises(ValueError, match="not of a drill: app"):
        scratch.delete_groups(["app"])
