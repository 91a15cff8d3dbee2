"""Renamed copies: what replicates them back under their own names, and what does not."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from drctl.failback.blockers import Terms, against, how_to_name, misnamed
from drctl.failback.facts import Cluster
from drctl.failback.unread_copies import CopiedRecords, Copy, held_back
from drctl.model.finding import Status
from drctl.model.groups import Committed
from drctl.model.topology import OffsetRange, TopicPartition
from drctl.offsets.applying import Wanted
from tests.failback.failback_orders import (
    PLACE,
    PRIMARY,
    TARGET_END,
    THERE,
    copying,
    in_order_to_d,
    judged,
)

COPY = TopicPartition("primary.orders", 0)
NAMES = {"primary.orders": "orders"}
TERMS = Terms(("mm2-back",))
ROUTED = {
    "topics": r"primary\.orders",
    "transforms": "rename",
    "transforms.rename.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.rename.regex": r"primary\.(.*)",
    "transforms.rename.replacement": "$1",
}
DEFAULT = {
    "replication.policy.class": "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
    "source.cluster.alias": "secondary",
    "target.cluster.alias": "primary",
}


def failing(config: Mapping[str, str], target: Cluster | None = None, **terms: Any) -> str:
    """Return what blocks the failback of `primary.orders`."""
    there = target or Cluster(THERE, {COPY: OffsetRange(0, TARGET_END)})
    facts = replace(
        in_order_to_d(),
        on_target=there,
        names=NAMES,
        reverse=copying("mm2-back", "STOPPED", None, config),
        forward=copying("mm2-source", "STOPPED", {PLACE: 100}),
    )
    found = against(judged(facts), replace(TERMS, **terms))
    return "; ".join(
        f"{each.check}: {each.reason} | {each.remedy}"
        for each in found
        if each.status is Status.FAIL
    )


def test_a_connector_that_restores_topic_names_may_start() -> None:
    assert failing(ROUTED) == ""


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (DEFAULT, "primary.orders is not replicated"),
        ({}, "primary.orders goes to primary.orders, not to orders"),
        ({**ROUTED, "topics": "orders"}, "primary.orders is not replicated"),
        ({**ROUTED, "transforms.rename.regex": "primary"}, "goes to primary.orders"),
        ({**DEFAULT, "target.cluster.alias": "home"}, "goes to secondary.primary.orders"),
    ],
)
def test_any_other_connector_is_refused_with_its_settings(
    config: Mapping[str, str], expected: str
) -> None:
    failures = failing(config)
    assert expected in failures
    assert r"topics=primary\.orders; " in failures
    assert r"transforms.rename.regex=primary\.(.*); transforms.rename.replacement=$1" in failures


def test_unpredictable_names_are_checked_once_it_runs() -> None:
    own = {**ROUTED, "transforms.rename.type": "com.example.Router"}
    assert misnamed(own, NAMES)[1] != ()
    assert failing(own) == ""
    only = {**ROUTED, "transforms.rename.predicate": "new"}
    assert "predicate" in misnamed(only, NAMES)[1][0]


def test_suggested_settings_are_minimal() -> None:
    assert "transforms" not in how_to_name("back", {"orders": "orders"})
    assert "transforms" not in how_to_name("back", {"a.x": "x", "b.y": "y"})


def test_records_under_the_links_own_name_are_not_replicated_back() -> None:
    def beside(end: int) -> Cluster:
        return Cluster(
            THERE, {COPY: OffsetRange(0, TARGET_END)}, beside={PLACE: OffsetRange(0, end)}
        )

    assert "orders (its copy: primary.orders)" in failing(ROUTED, beside(5))
    assert failing(ROUTED, beside(0)) == ""
    assert failing(ROUTED, beside(5), elsewhere=frozenset({"orders"})) == ""


def test_a_source_smaller_than_its_copies_has_lost_records() -> None:
    facts = replace(
        in_order_to_d(),
        on_source=replace(PRIMARY, logs={PLACE: OffsetRange(0, 99)}),
        on_target=Cluster(THERE, {COPY: OffsetRange(0, TARGET_END)}),
        names=NAMES,
        reverse=copying("mm2-back", "STOPPED", None, ROUTED),
    )
    reasons = [each.reason for each in against(judged(facts), TERMS) if each.check == "source-lost"]
    assert reasons == ["it has lost records: orders-0 ends at 99 but was replicated up to 100"]


def test_a_groups_offset_is_limited_by_its_offset_in_the_copies() -> None:
    wanted = Wanted("app", PLACE, Committed(30))
    committed = {"app": {COPY: Committed(15)}}
    brought = CopiedRecords({COPY: 20}, {COPY: (Copy(20, 10),)})
    (found,) = held_back([wanted], committed, brought, lambda name: f"primary.{name}")
    assert found.to == Committed(10)
