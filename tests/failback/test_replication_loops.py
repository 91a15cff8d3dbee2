"""Both directions run at once: the failback is refused with the command that stops one."""

from typing import Any

import pytest

from drctl.failback.blockers import Terms, against
from drctl.failback.facts import Facts, Replication, Replicator
from drctl.model.finding import Finding
from tests.failback.failback_orders import PLACE, connector, copying, in_order_to_d, judged

TERMS = Terms(("mm2-back",))
FORWARD = copying("mm2-source", "RUNNING", {PLACE: 100})
BACK = copying("mm2-back", "RUNNING", {PLACE: 100})


def loops_found(facts: Facts | None = None, **changed: Any) -> list[Finding]:
    found = against(judged(facts or in_order_to_d(), **changed), TERMS)
    return [each for each in found if each.check == "replication-loops"]


def test_two_opposite_connectors_are_named_with_the_command_that_stops_one() -> None:
    (found,) = loops_found(forward=FORWARD, reverse=BACK)
    assert found.status == "fail"
    assert found.subject == "connectors mm2-source and mm2-back"
    assert found.reason.endswith("in a loop: orders")
    assert "connectors/mm2-source/stop" in found.remedy
    assert "connectors/mm2-back/stop" in found.remedy


@pytest.mark.parametrize("state", ["STOPPED", "PAUSED"])
def test_with_one_stopped_connector_there_is_no_loop(state: str) -> None:
    assert not loops_found(forward=copying("mm2-source", state, {PLACE: 100}), reverse=BACK)
    assert not loops_found(forward=FORWARD, reverse=copying("mm2-back", state))


def test_an_unconfigured_connector_counts() -> None:
    other = Replicator(connector("somebodys", "RUNNING"), True)
    both = Replication((*copying("mm2-back", "STOPPED").found, other))
    (found,) = loops_found(forward=FORWARD, reverse=both)
    assert "somebodys" in found.subject


@pytest.mark.parametrize(
    "config", [{"topics": "flights"}, {"replication.policy.class": "DefaultReplicationPolicy"}]
)
def test_replication_to_another_topic_is_no_loop(config: dict[str, str]) -> None:
    assert not loops_found(forward=FORWARD, reverse=copying("mm2-back", "RUNNING", {}, config))


REPLICATOR = {
    "connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector",
    "topic.whitelist": "orders",
    "provenance.header.enable": "true",
}


@pytest.mark.parametrize(
    ("forward", "reverse", "loops"),
    [
        ({}, {}, False),
        ({"provenance.header.enable": "false"}, {}, True),
        ({}, {"provenance.header.enable": "false"}, True),
        ({}, {"provenance.header.filter.overrides": "A,.*,-"}, True),
        ({}, {"topic.whitelist": "flights"}, False),
        ({"provenance.header.enable": ""}, {"topic.rename.format": "b.${topic}"}, False),
    ],
)
def test_replicators_skip_copies_only_by_headers_that_both_write(
    forward: dict[str, str], reverse: dict[str, str], loops: bool
) -> None:
    there = copying("mm2-source", "RUNNING", {PLACE: 100}, {**REPLICATOR, **forward})
    back = copying("mm2-back", "RUNNING", {PLACE: 100}, {**REPLICATOR, **reverse})
    assert bool(loops_found(forward=there, reverse=back)) is loops


def test_a_replicator_does_not_recognize_copies_of_mirror_maker() -> None:
    assert loops_found(forward=FORWARD, reverse=copying("mm2-back", "RUNNING", {}, REPLICATOR))
