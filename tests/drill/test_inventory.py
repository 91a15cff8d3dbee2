"""Changes outside a drill are named; unreadable state is never reported as a change."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from drctl.drill.inventory import NEVER, Compared, Holding, Inventory, compared
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition

PLACE = TopicPartition("orders", 0)
THINGS = {
    "topic": {"orders": "3 partitions, id x"},
    "ACL": {"DENY WRITE on orders to User:app": ""},
    "broker": {"1": ""},
    "SCRAM user": {"app": ""},
    "quota": {"producer_byte_rate of user app": "1"},
}
SETTINGS = {"topic orders": {"retention.ms": "1"}, "broker 1": {"log.retention.ms": "5"}}
BEFORE = Holding(
    THINGS,
    SETTINGS,
    {"idle": {PLACE: Committed(5)}, "busy": {PLACE: Committed(7)}},
    frozenset({"busy"}),
)
CONNECT = Holding({"connector": {"mm2": "RUNNING", "sink": "RUNNING"}})
WAS = Inventory({"a": BEFORE}, CONNECT)


def looked(after: Holding, connect: Holding = CONNECT) -> Compared:
    return compared(WAS, Inventory({"a": after}, connect))


def having(kind: str, things: Mapping[str, str]) -> Holding:
    return replace(BEFORE, things={**THINGS, kind: things})


def without(kind: str, **hidden: Mapping[str, str]) -> Holding:
    things = {name: each for name, each in THINGS.items() if name != kind}
    return replace(BEFORE, things=things, **hidden)


def test_nothing_changed() -> None:
    found = compared(WAS, WAS)
    assert (found.differences, found.moved, found.counted, found.unseen) == ((), 0, 9, ())
    assert found.not_compared == NEVER


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        (
            having("topic", {"orders": "4 partitions, id x", "new": "1"}),
            ("a: topic new was added", "a: topic orders: 3 partitions, id x -> 4 partitions, id x"),
        ),
        (having("topic", {}), ("a: topic orders was removed",)),
        (having("ACL", {}), ("a: ACL DENY WRITE on orders to User:app was removed",)),
        (having("broker", {}), ("a: broker 1 was removed",)),
        (having("SCRAM user", {"app": "", "x": ""}), ("a: SCRAM user x was added",)),
        (
            having("quota", {"producer_byte_rate of user app": "2"}),
            ("a: quota producer_byte_rate of user app: 1 -> 2",),
        ),
        (
            replace(BEFORE, settings={**SETTINGS, "topic orders": {"retention.ms": "2"}}),
            ("a: setting of topic orders retention.ms: 1 -> 2",),
        ),
        (
            replace(BEFORE, settings={**SETTINGS, "broker 1": {}}),
            ("a: setting of broker 1 log.retention.ms was removed",),
        ),
        (
            replace(BEFORE, groups={**BEFORE.groups, "idle": {PLACE: Committed(6)}}),
            ("a: offset of group idle in orders-0: 5 -> 6",),
        ),
    ],
)
def test_each_change_is_named(after: Holding, lines: tuple[str, ...]) -> None:
    found = looked(after)
    assert (found.differences, found.unseen) == (lines, ())


def test_connectors_of_others_are_compared_too() -> None:
    after = Holding({"connector": {"mm2": "RUNNING"}})
    assert looked(BEFORE, after).differences == ("connector sink was removed",)


def test_members_move_their_own_positions() -> None:
    found = looked(replace(BEFORE, groups={**BEFORE.groups, "busy": {PLACE: Committed(9)}}))
    assert (found.differences, found.moved) == ((), 1)


@pytest.mark.parametrize(
    ("after", "line"),
    [
        (without("ACL", unseen={"ACL": "not allowed"}), "a: ACL: not allowed"),
        (
            replace(having("topic", {}), unseen={"topic orders": "no answer"}),
            "a: topic orders: no answer",
        ),
        (
            replace(BEFORE, groups={}, unseen={"group idle": "no", "group busy": "no"}),
            "a: group idle: no",
        ),
        # Unreadable although the first inventory could read it: not just a missing permission.
        (without("quota", barred={"quota": "no"}), "a: quota: no"),
        (
            replace(BEFORE, settings={}, barred={"settings of topic orders": "no"}),
            "a: settings of topic orders: no",
        ),
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_unreadable_state_is_not_a_difference(after: Holding, line: str, first: bool) -> None:
    both = [WAS, Inventory({"a": after}, CONNECT)]
    found = compared(*both[::-1]) if first else compared(*both)
    assert found.differences == ()
    reported = (*found.unseen, *found.not_compared)
    assert line in reported
    assert (line in found.unseen) or (first and after.barred)


def test_missing_permissions_are_reported_without_an_action() -> None:
    barred = Inventory({"a": without("quota", barred={"quota": "not authorized"})}, CONNECT)
    found = compared(barred, barred)
    assert (found.differences, found.unseen) == ((), ())
    assert found.not_compared == (*NEVER, "a: quota: not authorized")
