"""Confluent Replicator in both directions: one group id, and copies with provenance headers."""

import json
from contextlib import closing
from typing import Any

import pytest

from drctl.config.schema import ConnectorsConfig
from drctl.connect.client import ConnectReader
from drctl.failback.blockers import Terms, against, replicator_findings
from drctl.failback.facts import Replication
from drctl.failback.observers.replication import observe_replication
from drctl.model.finding import Status
from drctl.model.topology import Unavailable
from drctl.steps.failback import BOTH_WAYS, OVERRIDABLE
from tests.connect.scripted_worker import Answer, scripted_worker
from tests.failback.failback_orders import PLACE, copying, in_order_to_d, judged

NO_ENDS: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
CLASS = "io.confluent.connect.replicator.ReplicatorSourceConnector"
MARKS = {
    "provenance.header.enable": "true",
    "header.converter": "io.confluent.connect.replicator.util.ByteArrayConverter",
}


def one(name: str, **config: str) -> Replication:
    keys = {key.replace("__", "."): value for key, value in config.items()}
    known = {"connector.class": CLASS, "name": name, "topic.whitelist": "orders", **MARKS}
    return copying(name, "STOPPED", None, {**known, **keys})


def by_status(forward: Replication, reverse: Replication) -> dict[Status, str]:
    found = replicator_findings(forward, reverse)
    return {each.status: f"{each.subject}: {each.reason} | {each.remedy}" for each in found}


def test_both_directions_with_one_group_and_headers() -> None:
    assert by_status(one("copy"), one("copy")) == {}
    same = one("there", src__consumer__group__id="g"), one("back", src__consumer__group__id="g")
    assert by_status(*same) == {}


def test_another_group_does_not_find_the_translated_offset() -> None:
    found = by_status(one("there"), one("back", offset__start="consumer"))
    assert "group ids differ: 'there' forward, 'back' reverse" in found[Status.FAIL]
    assert "set src.consumer.group.id=there on back" in found[Status.FAIL]


def test_an_offset_stored_by_connect_must_be_set() -> None:
    found = by_status(one("there"), one("back"))
    assert list(found) == [Status.WARN]
    assert "copied again unless they are set first" in found[Status.WARN]


@pytest.mark.parametrize(
    ("forward", "reverse", "message"),
    [
        ({"provenance__header__enable": "false"}, {}, "have no provenance header"),
        ({}, {"header__converter": "SimpleHeaderConverter"}, "may not recognize its own copies"),
        ({}, {"provenance__header__enable": "false"}, "does not check provenance headers"),
    ],
)
@pytest.mark.parametrize(("start", "status"), [("connect", Status.WARN), ("consumer", Status.FAIL)])
def test_headers_that_are_missing_or_cannot_be_read(
    forward: dict[str, str], reverse: dict[str, str], message: str, start: str, status: Status
) -> None:
    """Start offsets set by a person are exact; translated ones precede the first new record."""
    found = by_status(one("copy", **forward), one("copy", offset__start=start, **reverse))
    assert list(found) == [status]
    assert message in found[status]
    assert "offset.start=connect" in found[status] or "header.converter=io" in found[status]


def answer(**connectors: dict[str, str]) -> Answer:
    """Return a worker's response with these connectors, all STOPPED."""
    listed = {
        name: {
            "info": {"name": name, "type": "source", "config": config, "tasks": []},
            "status": {
                "name": name,
                "connector": {"state": "STOPPED", "worker_id": "w:8083"},
                "tasks": [],
                "type": "source",
            },
        }
        for name, config in connectors.items()
    }
    kept = [{"partition": {"topic": "orders", "partition": 0}, "offset": {"offset": 100}}]

    def answered(path: str) -> tuple[int, bytes]:
        found: object = {"offsets": kept} if path.endswith("/offsets") else listed
        return 200, json.dumps(found).encode()

    return answered


@pytest.mark.parametrize(
    ("back", "failing"),
    [
        ({}, ()),
        ({"src.consumer.group.id": "another"}, ("group ids differ",)),
        ({"provenance.header.enable": "false"}, ("does not check provenance headers",)),
        ({"header.converter": "x.SimpleHeaderConverter"}, ("may not recognize its own copies",)),
    ],
)
def test_replicators_of_workers_are_checked_against_the_rules(
    back: dict[str, str], failing: tuple[str, ...]
) -> None:
    """By HTTP, as Connect lists connectors: only the class shows that they are Replicators."""
    there = {"connector.class": CLASS, "name": "there", "src.consumer.group.id": "copy", **MARKS}
    config = {**there, "name": "back", "offset.start": "consumer", **back}
    with (
        scripted_worker(answer(there=there, back=config)) as url,
        closing(ConnectReader(url)) as workers,
    ):
        forward, reverse = (
            observe_replication(workers, ConnectorsConfig(source=name), NO_ENDS, lambda: ["orders"])
            for name in ("there", "back")
        )
    assert [each.positions for each in (*forward.copying, *reverse.copying)] == [{PLACE: 100}] * 2
    assert isinstance(reverse.workers, Unavailable), "the worker's cluster must be unknown"
    found = against(judged(in_order_to_d(), forward=forward, reverse=reverse), Terms())
    assert [each.check for each in found if each.status is Status.FAIL] == [BOTH_WAYS] * len(
        failing
    )
    reasons = [each.reason for each in found if each.status is Status.FAIL]
    assert all(words in reason for words, reason in zip(failing, reasons, strict=True))
    assert BOTH_WAYS in OVERRIDABLE, "the precheck cannot be overridden"


def test_mirrormaker_needs_no_such_headers() -> None:
    assert by_status(copying("there", "STOPPED"), copying("back", "STOPPED")) == {}


def test_a_violated_rule_blocks_a_failback() -> None:
    changed: dict[str, Any] = {
        "forward": one("there"),
        "reverse": one("back", offset__start="consumer"),
    }
    found = against(judged(in_order_to_d(), **changed), Terms(("back",)))
    assert [each.check for each in found if each.status is Status.FAIL] == [BOTH_WAYS]
