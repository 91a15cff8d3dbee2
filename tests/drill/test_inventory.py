"""What changed beside a drill is named, each piece; members of groups move their positions."""

from dataclasses import replace

from drctl.drill.inventory import Holding, Inventory, compared
from drctl.model.acls import Acl
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition

RULE = Acl("orders", "LITERAL", "User:app", "*", "WRITE", "DENY")
PLACE = TopicPartition("orders", 0)
BEFORE = Holding(
    {"orders": "3 partitions, id x"},
    {"orders": {"retention.ms": "1"}},
    frozenset({RULE}),
    {"idle": {PLACE: Committed(5)}, "busy": {PLACE: Committed(7)}},
    frozenset({"busy"}),
)


def differences(after: Holding, connector: str = "RUNNING") -> tuple[str, ...]:
    was = Inventory({"a": BEFORE}, {"mm2": "RUNNING"})
    return compared(was, Inventory({"a": after}, {"mm2": connector})).differences


def test_nothing_changed() -> None:
    found = compared(Inventory({"a": BEFORE}), Inventory({"a": BEFORE}))
    assert (found.differences, found.moved, found.counted) == ((), 0, 4)


def test_each_change_is_named() -> None:
    assert differences(replace(BEFORE, topics={"orders": "4 partitions, id x", "new": "1"})) == (
        "a: topic new is new",
        "a: topic orders: 3 partitions, id x -> 4 partitions, id x",
    )
    assert differences(replace(BEFORE, topics={})) == ("a: topic orders is gone",)
    assert differences(replace(BEFORE, settings={"orders": {"retention.ms": "2"}})) == (
        "a: setting of orders retention.ms: 1 -> 2",
    )
    assert differences(replace(BEFORE, rules=frozenset())) == (
        "a: rule DENY WRITE on orders to User:app is gone",
    )
    moved = {**BEFORE.groups, "idle": {PLACE: Committed(6)}}
    assert differences(replace(BEFORE, groups=moved)) == (
        "a: position of group idle in orders-0: 5 -> 6",
    )
    assert differences(BEFORE, "STOPPED") == ("connector mm2: RUNNING -> STOPPED",)


def test_members_move_their_own_positions() -> None:
    after = replace(BEFORE, groups={**BEFORE.groups, "busy": {PLACE: Committed(9)}})
    found = compared(Inventory({"a": BEFORE}), Inventory({"a": after}))
    assert (found.differences, found.moved) == ((), 1)


def test_what_could_not_be_seen_is_said() -> None:
    after = replace(BEFORE, unseen=("rules: not allowed",))
    found = compared(Inventory({"a": BEFORE}), Inventory({"a": after}))
    assert found.unseen == ("a: rules: not allowed",)
