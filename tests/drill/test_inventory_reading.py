"""What an inventory records of two clusters and Connect, and what did not respond."""

from types import SimpleNamespace
from typing import Any

from drctl.drill.inventory import Holding, connect_holding, holding
from drctl.engine.ports import ConnectorState
from drctl.model.errors import Unreachable, UsageError
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState, Member
from drctl.model.repairs import Acl, Acls
from drctl.model.topology import TopicPartition, TopicState, Unavailable

OURS = "drctl-drill-20260102t030405z-0a1b2c-records"
AT = {TopicPartition("orders", 0): Committed(5)}
RULE = Acl("orders", "PREFIXED", "User:app", "10.0.0.1", "WRITE", "DENY")


def group(state: GroupState, *members: Member) -> Group:
    return Group("g", GroupProtocol.CLASSIC, state, members)


def look(**changes: Any) -> Holding:
    given: dict[str, Any] = {
        "topics": {"orders": TopicState("orders", {0: 1}, {"retention.ms": "1"}, True, "x")},
        "rules": Acls(True, (RULE, RULE._replace(name=OURS))),
        "groups": {"app": group(GroupState.EMPTY)},
        "committed": {"app": AT},
        "settings": {1: {"a": "b"}},
        "users": frozenset({"app"}),
        "quotas": {(("user", None),): {"producer_byte_rate": 2.0}},
        **changes,
    }
    site: Any = SimpleNamespace(
        topic_names=lambda: {*given["topics"], OURS, "__consumer_offsets"},
        topics=lambda names: {name: given["topics"][name] for name in names},
    )
    groups: Any = SimpleNamespace(
        groups=lambda: [*given["groups"], OURS.removesuffix("-records")],
        described=lambda names: {name: given["groups"][name] for name in names},
        committed=lambda names: {name: given["committed"][name] for name in names},
    )
    acls: Any = SimpleNamespace(acls=lambda: given["rules"])
    survey: Any = SimpleNamespace(
        settings=lambda: given["settings"],
        scram_users=lambda: given["users"],
        quotas=lambda: given["quotas"],
    )
    return holding(site, groups, acls, survey)


def test_everything_except_objects_of_drills() -> None:
    found = look()
    assert found.things == {
        "topic": {"orders": "1 partition, id x"},
        "ACL": {"DENY WRITE on orders* to User:app from 10.0.0.1": ""},
        "broker": {"1": ""},
        "SCRAM user": {"app": ""},
        "quota": {"producer_byte_rate of user <default>": "2"},
    }
    assert found.settings == {"topic orders": {"retention.ms": "1"}, "broker 1": {"a": "b"}}
    assert (found.groups, found.active, found.hidden) == ({"app": AT}, frozenset(), frozenset())


def test_members_are_those_that_were_observed() -> None:
    there = group(GroupState.STABLE, Member("c", "h"))
    assert look(groups={"app": there}).active == {"app"}
    for why_undetermined in (Unavailable("no answer"), group(GroupState.UNKNOWN)):
        found = look(groups={"app": why_undetermined})
        assert found.active == frozenset(), (
            "changes of its offsets would be attributed to its members"
        )
        assert list(found.unseen) == ["group app"]
        found = look(groups={"app": why_undetermined}, committed={"app": {}})
        assert (found.unseen, found.groups) == ({}, {"app": {}}), (
            "a group without offsets has nothing to move"
        )


def test_missing_responses_are_recorded() -> None:
    no = Unavailable("no")
    found = look(topics={"orders": no}, rules=no, committed={"app": no}, settings=no, users=no)
    assert found.unseen == {"topic orders": "no", "ACL": "no", "group app": "no"}
    assert found.barred == {"broker": "no", "SCRAM user": "no"}
    without_replicas = TopicState("orders", {0: 1}, {}, True, "x")
    found = look(topics={"orders": without_replicas}, settings={1: no})
    assert set(found.barred) == {"settings of topic orders", "settings of broker 1"}


class Workers:
    """Connectors, one with an unreadable configuration and one that was just deleted."""

    def names(self) -> list[str]:
        return ["gone", "mm2", "odd"]

    def state(self, name: str) -> ConnectorState:
        if name == "gone":
            raise UsageError("no such connector")
        return ConnectorState(name, "RUNNING")

    def config(self, name: str) -> dict[str, str]:
        if name == "odd":
            raise Unreachable("no answer")
        return {"password": "hush"}

    def offsets(self, name: str) -> list[Any]:
        raise AssertionError(name)


def test_connectors_are_compared_by_state_and_digest() -> None:
    found = connect_holding(Workers())
    (words,) = found.things["connector"].values()
    assert words.startswith("RUNNING, configuration ")
    assert "hush" not in words
    assert found.unseen == {"connector odd": "no answer"}


def test_unreachable_workers_do_not_count_as_unchanged() -> None:
    class Silent(Workers):
        def names(self) -> list[str]:
            raise Unreachable("no answer")

    assert connect_holding(Silent()).unseen == {"connector": "no answer"}
    assert set(connect_holding(None).barred) == {"connector"}
