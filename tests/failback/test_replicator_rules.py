"""Confluent Replicator both ways: one group id, and copies that say where they come from."""

from typing import Any

import pytest

from drctl.failback.facts import Replication
from drctl.failback.replicator_rules import GUARD, replicator_findings
from drctl.failback.standing_against import Terms, against
from drctl.model.finding import Status
from tests.failback.ways import copying, in_order_to_d, judged

CLASS = "io.confluent.connect.replicator.ReplicatorSourceConnector"
MARKS = {
    "provenance.header.enable": "true",
    "header.converter": "io.confluent.connect.replicator.util.ByteArrayConverter",
}


def one(name: str, **config: str) -> Replication:
    keys = {key.replace("__", "."): value for key, value in config.items()}
    known = {"connector.class": CLASS, "name": name, "topic.whitelist": "orders", **MARKS}
    return copying(name, "STOPPED", None, {**known, **keys})


def told(forward: Replication, reverse: Replication) -> dict[Status, str]:
    found = replicator_findings(forward, reverse)
    return {each.status: f"{each.subject}: {each.reason} | {each.cure}" for each in found}


def test_both_ways_with_one_group_and_headers() -> None:
    assert told(one("copy"), one("copy")) == {}
    same = one("there", src__consumer__group__id="g"), one("back", src__consumer__group__id="g")
    assert told(*same) == {}


def test_another_group_does_not_find_the_translated_position() -> None:
    found = told(one("there"), one("back", offset__start="consumer"))
    assert "different group ids, 'there' there and 'back' back" in found[Status.FAIL]
    assert "set src.consumer.group.id=there on back" in found[Status.FAIL]


def test_where_the_position_comes_from_connect_it_has_to_be_set() -> None:
    found = told(one("there"), one("back"))
    assert list(found) == [Status.WARN]
    assert "copied again unless that is set first" in found[Status.WARN]


@pytest.mark.parametrize(
    ("forward", "reverse", "said"),
    [
        ({"provenance__header__enable": "false"}, {}, "do not say where they come from"),
        ({}, {"header__converter": "SimpleHeaderConverter"}, "may not know its own copies"),
    ],
)
def test_headers_that_are_missing_or_cannot_be_read(
    forward: dict[str, str], reverse: dict[str, str], said: str
) -> None:
    assert said in told(one("copy", **forward), one("copy", **reverse))[Status.WARN]


def test_mirrormaker_is_not_asked_for_them() -> None:
    assert told(copying("there", "STOPPED"), copying("back", "STOPPED")) == {}


def test_it_stands_against_a_way_back() -> None:
    changed: dict[str, Any] = {
        "forward": one("there"),
        "reverse": one("back", offset__start="consumer"),
    }
    found = against(judged(in_order_to_d(), **changed), Terms(("back",)))
    assert [each.check for each in found if each.status is Status.FAIL] == [GUARD]
