"""What prevents drctl from rebuilding a cluster, and what shows that a rebuild is needed."""

from datetime import UTC, datetime
from typing import Any

import pytest

from drctl.engine.failback_state import filter_to_add
from drctl.failback.blockers import Terms, against
from drctl.failback.facts import Cluster, JournaledRun, Replication, ReverseStart
from drctl.model.finding import Finding, Status
from drctl.model.topology import OffsetRange, Unavailable
from tests.failback.failback_orders import (
    DROP,
    HERE,
    PLACE,
    copying,
    endpoint,
    in_order_to_d,
    judged,
)

COST = "about 130 records are copied from secondary, 1.2 KB by the newest of them"
TERMS = Terms(("mm2-back",), rebuilding=True, impact=COST)
EMPTY = Cluster(HERE, {})
REPLICATOR = "io.confluent.connect.replicator.ReplicatorSourceConnector"


def found(terms: Terms = TERMS, **changed: Any) -> dict[str, Finding]:
    known: dict[str, Any] = {"on_source": EMPTY, **changed}
    return {each.check: each for each in against(judged(in_order_to_d(), **known), terms)}


@pytest.mark.parametrize("logs", [{}, {PLACE: OffsetRange(0, 0)}, {PLACE: OffsetRange(0, 99)}])
def test_the_loss_is_reported_with_its_cost(logs: Any) -> None:
    finding = found(on_source=Cluster(HERE, logs))["source-lost"]
    assert (finding.status, finding.impact) == (Status.WARN, COST)
    assert "was replicated up to 100" in finding.reason


def test_a_cluster_without_a_loss_is_refused() -> None:
    finding = found(on_source=in_order_to_d().on_source)["source-intact"]
    assert finding.status is Status.FAIL
    assert "drctl failback without --rebuild" in finding.remedy


def test_a_rebuild_that_did_not_complete_may_be_repeated() -> None:
    unfinished = JournaledRun("20261122-again", "rebuild", "stopped", refilling=True)
    moved = JournaledRun("20261121-main", "failover-planned", "done", left=datetime.now(UTC))
    known = {"on_source": in_order_to_d().on_source}
    finding = found(journal=(unfinished, moved), **known)["source-lost"]
    assert (finding.status, finding.impact) == (Status.WARN, COST)
    assert "run 20261122-again began to copy everything to it" in finding.reason
    assert found(journal=(moved, unfinished), **known)["source-intact"].status is Status.FAIL


def test_an_empty_cluster_is_evidence_without_connect() -> None:
    unknown = Unavailable("drctl.yaml names no workers")
    finding = found(forward=unknown)["source-lost"]
    assert "never had a record of the link; secondary has 130" in finding.reason
    half = Cluster(HERE, {PLACE: OffsetRange(0, 99)})
    assert found(forward=unknown, on_source=half)["source-intact"].status is Status.FAIL
    deleted = Cluster(HERE, {PLACE: OffsetRange(110, 110)})
    assert found(on_source=deleted)["source-intact"].status is Status.FAIL


def test_an_empty_cluster_needs_a_rebuild() -> None:
    known = judged(in_order_to_d(), on_source=EMPTY, forward=Unavailable("no workers"))
    by_check = {each.check: each for each in against(known, Terms())}
    assert by_check["source-lost"].status is Status.FAIL
    assert "drctl failback --link main --rebuild" in by_check["source-lost"].remedy


def test_records_replicated_too_early_are_deleted_unless_clients_use_them() -> None:
    started = {
        "on_source": Cluster(HERE, {PLACE: OffsetRange(0, 50)}),
        "reverse_start": {PLACE: ReverseStart.START},
    }
    assert all(each.status is Status.WARN for each in found(**started).values())
    led = found(endpoints=(endpoint("primary"),))
    assert led["clients-on-source"].status is Status.FAIL


def test_a_connector_with_a_filter_would_not_replicate_everything() -> None:
    finding = found(reverse=copying("mm2-back", "STOPPED", **DROP))["copies-excluded"]
    assert finding.status is Status.FAIL
    assert "remove the filter" in finding.remedy
    own = {"config": filter_to_add({})}
    assert "copies-excluded" not in found(reverse=copying("mm2-back", "STOPPED", **own))


def replicator(name: str, **config: str) -> Replication:
    keys = {key.replace("__", "."): value for key, value in config.items()}
    known = {"connector.class": REPLICATOR, "name": name, "topic.whitelist": "orders"}
    return copying(name, "STOPPED", {PLACE: 100} if name == "there" else None, {**known, **keys})


def test_a_replicator_with_provenance_headers_would_skip_its_copies() -> None:
    """Records that came from the recovered cluster are those that it needs."""
    ways = {"forward": replicator("there")}
    marked = {**ways, "reverse": replicator("back", provenance__header__enable="true")}
    finding = found(Terms(rebuilding=True, impact=COST), **marked)["copies-excluded"]
    assert finding.status is Status.FAIL
    assert f"provenance.header.filter.overrides={HERE},.*,-" in finding.remedy
    more = {"provenance__header__enable": "true", "provenance__header__filter__overrides": "x,y,-"}
    passed = {**ways, "reverse": replicator("back", **more)}
    assert "copies-excluded" not in found(Terms(rebuilding=True, impact=COST), **passed)


def test_a_replicator_that_starts_at_the_translated_offset_skips_earlier_records() -> None:
    """Other failbacks need one group for both directions; a rebuild must not have it."""
    group = {"src__consumer__group__id": "g"}
    ways = {
        "forward": replicator("there", **group),
        "reverse": replicator("back", **group, offset__start="consumer"),
    }
    by_check = found(Terms(rebuilding=True, impact=COST), **ways)
    assert "starts at the translated offsets of group 'g'" in by_check["copies-excluded"].reason
    assert "replicator-both-ways" not in by_check
    others = {**ways, "reverse": replicator("back", offset__start="consumer")}
    assert "copies-excluded" not in found(Terms(rebuilding=True, impact=COST), **others)
