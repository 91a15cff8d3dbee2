"""What blocks a failback, and what does not."""

from dataclasses import replace
from typing import Any

import pytest

from drctl.failback.blockers import Terms, against
from drctl.failback.facts import Cluster, Copies, Decision, Replication, ReverseStart
from drctl.model.finding import Status
from drctl.model.health import ClusterHealth, Shortage
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable
from drctl.reconcile.policy import Action, Policies
from drctl.steps.failback import OVERRIDABLE
from tests.failback.failback_orders import (
    HERE,
    PLACE,
    SILENT,
    THERE,
    WHOLE,
    copying,
    endpoint,
    gap,
    in_order_to_d,
    judged,
    partition,
)

CONNECTORS = ("mm2-back",)
TERMS = Terms(CONNECTORS)


def failing(**changed: Any) -> dict[str, str]:
    """Return the reasons of failed prechecks by name."""
    found = against(judged(in_order_to_d(), **changed), TERMS)
    by_check: dict[str, str] = {}
    for each in found:
        if each.status is Status.FAIL:
            by_check[each.check] = f"{by_check.get(each.check, '')}{each.reason} | {each.remedy}"
    return by_check


def test_nothing_blocks_a_failback_in_order() -> None:
    (found,) = against(judged(in_order_to_d()), TERMS)
    assert (found.status, found.reason) == (Status.OK, "steps are in order; step e is next")


def test_what_the_run_repairs_itself_does_not_block() -> None:
    found = against(
        judged(in_order_to_d(), forward=copying("mm2-source", "RUNNING", {PLACE: 100})), TERMS
    )
    assert [(each.check, each.status) for each in found] == [("step-order", Status.WARN)]


def test_a_cluster_that_does_not_answer_is_named_alone() -> None:
    assert list(failing(on_source=SILENT)) == ["cluster-unreachable"]


OFFLINE = replace(WHOLE, offline=(PLACE,))
UNDER = replace(WHOLE, under_min_isr=(Shortage(PLACE, 1, 2),))
BEHIND = replace(WHOLE, under_replicated=(Shortage(PLACE, 2, 3),), absent=(3,))


@pytest.mark.parametrize(
    ("health", "words"),
    [(OFFLINE, "has no leader (orders-0)"), (UNDER, "below min.insync.replicas (orders-0)")],
)
def test_a_source_that_takes_no_records_is_refused_before_anything_is_done(
    health: ClusterHealth, words: str
) -> None:
    failed = failing(health=health)
    assert list(failed) == ["source-unhealthy"]
    assert words in failed["source-unhealthy"]
    assert "restart the brokers of primary" in failed["source-unhealthy"]
    assert "source-unhealthy" in OVERRIDABLE, "the precheck cannot be overridden"


@pytest.mark.parametrize(
    ("health", "words"),
    [
        (BEHIND, "not healthy: 1 broker is down (3); 1 partition is not in sync (orders-0)"),
        (SILENT, "health unknown: "),
        (replace(WHOLE, unknown={"orders": SILENT}), "min.insync.replicas of orders is unknown"),
    ],
)
def test_an_incomplete_source_that_accepts_records_is_reported(
    health: ClusterHealth | Unavailable, words: str
) -> None:
    found, *_ = against(judged(in_order_to_d(), health=health), TERMS)
    assert (found.check, found.status) == ("source-unhealthy", Status.WARN)
    assert words in found.reason


def test_clients_on_the_primary_are_not_moved() -> None:
    assert (
        "no clients to fail back" in failing(endpoints=(endpoint("primary"),))["clients-on-source"]
    )


@pytest.mark.parametrize("logs", [{}, {PLACE: OffsetRange(0, 0)}, {PLACE: OffsetRange(0, 99)}])
def test_a_source_with_fewer_records_than_its_copies_has_lost_records(logs: Any) -> None:
    blocker = failing(on_source=Cluster(HERE, logs))["source-lost"]
    assert "was replicated up to 100" in blocker
    assert "copied from secondary; show the plan: drctl failback --link main --rebuild" in blocker


def test_records_of_other_links_are_no_loss() -> None:
    others = {PLACE: 100, TopicPartition("of-another-link", 0): 5}
    assert failing(forward=copying("mm2-source", "STOPPED", others)) == {}


def test_unreadable_records_do_not_count_as_lost() -> None:
    dark = Cluster(HERE, {PLACE: Unavailable("no leader")})
    assert "source-lost" not in failing(on_source=dark)


def test_a_connector_that_is_missing_is_created_stopped() -> None:
    failed = failing(reverse=Replication((), CONNECTORS))["reverse-replication"]
    assert '"initial_state": "STOPPED"' in failed
    assert failing(reverse=Unavailable("no worker"))["reverse-replication"].startswith("no worker")


def test_a_connector_that_did_not_start_at_the_boundary_is_stopped_first() -> None:
    failed = failing(reverse=copying("mm2-back", "RUNNING"))
    assert "$CONNECT/connectors/mm2-back/stop" in failed["reverse-replication"]


def test_known_workers_appear_in_the_command() -> None:
    running = judged(in_order_to_d(), reverse=copying("mm2-back", "RUNNING"))
    found = against(running, replace(TERMS, connect="http://c:8083"))
    remedies = [each.remedy for each in found if each.check == "reverse-replication"]
    assert remedies == ["curl -s -X PUT http://c:8083/connectors/mm2-back/stop"]


def test_a_connector_without_a_worker_is_stopped_and_restarted() -> None:
    lost = judged(in_order_to_d(), reverse=copying("mm2-back", "UNASSIGNED"))
    found = against(lost, replace(TERMS, connect="http://c:8083"))
    remedies = [each.remedy for each in found if each.check == "reverse-replication"]
    url = "http://c:8083/connectors/mm2-back"
    assert remedies == [f"curl -s -X PUT {url}/stop && curl -s -X POST {url}/restart"]


def test_harm_that_no_step_repairs_refuses() -> None:
    grown = Cluster(HERE, {PLACE: OffsetRange(0, 150)})
    started = {"on_source": grown, "reverse_start": {PLACE: ReverseStart.START}}
    assert "from the beginning" in failing(**started)["step-order"]
    came = Copies({PLACE: frozenset({100})})
    assert "copied back" in failing(returned_copies=came)["step-order"]


def test_manual_replication_needs_no_connector() -> None:
    facts = replace(in_order_to_d(), reverse=Unavailable("drctl.yaml names no workers"))
    assert [each.status for each in against(judged(facts), Terms())] == [Status.OK]


ADDRESSES = {"into": frozenset({"one:9092"}), "out_of": frozenset({"two:9092"})}
NAMED = "producer.override.bootstrap.servers"
TO_PRIMARY = {
    "target.cluster.bootstrap.servers": "one:9092",
    "target.cluster.security.protocol": "SASL_SSL",
    "target.cluster.sasl.jaas.config": "secret",
    "target.cluster.alias": "primary",
}


def written(workers: str | Unavailable = THERE, **config: str) -> list[Any]:
    """Return what is reported about the connector's target."""
    back = copying("mm2-back", "STOPPED", config={**TO_PRIMARY, **config})
    back = replace(back, workers=workers, **ADDRESSES)
    found = against(judged(in_order_to_d(), reverse=back), TERMS)
    return [each for each in found if each.check == "reverse-writes"]


def test_a_connector_that_would_write_to_the_workers_own_cluster_is_refused() -> None:
    """MirrorMaker 2 on Connect writes with the worker's producer, whatever its target says."""
    (blocker,) = written()
    assert blocker.status is Status.FAIL
    assert "writes to secondary, not to primary" in blocker.reason
    assert f"{NAMED}=one:9092" in blocker.remedy
    assert "producer.override.sasl.jaas.config" in blocker.remedy
    assert "producer.override.security.protocol" in blocker.remedy
    assert "connector.client.config.override.policy=All" in blocker.remedy
    assert "secret" not in blocker.remedy
    assert "another cluster (id-3)" in written("id-3")[0].reason
    assert "reverse-writes" in OVERRIDABLE, (
        "the precheck cannot be overridden although the worker may name another cluster"
    )


def test_a_connector_with_its_own_producer_is_identified_by_addresses() -> None:
    assert written(**{NAMED: "one:9092,elsewhere:1"}) == []
    (wrong,) = written(HERE, **{NAMED: "two:9092"})
    assert (wrong.status, "writes to secondary" in wrong.reason) == (Status.FAIL, True)
    (unknown,) = written(**{NAMED: "inside:19092"})
    assert (unknown.status, "cluster unknown" in unknown.reason) == (Status.WARN, True)


def test_a_worker_on_the_primary_writes_to_it() -> None:
    assert written(HERE) == []
    (unknown,) = written(Unavailable("no worker answered"))
    assert (unknown.status, "cluster unknown" in unknown.reason) == (Status.WARN, True)


def undecided(policies: Policies, **changed: Any) -> list[str]:
    """Blockers for unreplicated records without a decision: ten records, one without a key."""
    found = against(judged(in_order_to_d(), **changed), replace(TERMS, policies=policies))
    undecided_findings = [each for each in found if each.check == "records-undecided"]
    assert all(each.status is Status.FAIL for each in undecided_findings)
    return [f"{each.reason} | {each.remedy}" for each in undecided_findings]


NO_POLICY = Policies(Action.REFUSE)
CONFLICTING = gap(partition(safe=6, conflicting=3))


def test_undecided_missing_records_refuse_before_any_fence() -> None:
    (blocker,) = undecided(NO_POLICY)
    assert "10 records exist only on primary (9 safe, 0 conflicting, 1 unkeyed)" in blocker
    assert "no policy for 10 records" in blocker
    assert "--policy copy|quarantine|export|discard" in blocker
    assert "drctl reconcile gap/main-1" in blocker
    (some,) = undecided(NO_POLICY, decided={"result-1": {Decision("safe", "copy"): 4}})
    assert "no policy for 6 records" in some
    (conflicting,) = undecided(Policies(Action.COPY), gaps=(CONFLICTING,))
    assert "3 conflicting: set --conflicting" in conflicting
    (other,) = undecided(Policies(None, {"flights": Action.COPY}))
    assert "10 without a policy" in other


def test_undecidable_records_still_refuse_if_others_are_decided() -> None:
    """Two records of an earlier incident, which may conflict by now."""
    settled = {
        "decided": {"result-0": {Decision("conflicting", "quarantine"): 2}},
        "left_missing": {CONFLICTING.partitions[0].place: ((90, 101),)},
    }
    (blocker,) = undecided(Policies(Action.COPY), gaps=(CONFLICTING,), **settled)
    assert "at least 1 conflicting: set --conflicting" in blocker
    settled["left_missing"] = {CONFLICTING.partitions[0].place: ((90, 102),)}
    assert undecided(Policies(Action.COPY), gaps=(CONFLICTING,), **settled) == []


def test_without_decisions_no_copies_are_searched() -> None:
    unsought = Unavailable("60,000 offsets are too many to look through for it")
    (blocker,) = undecided(NO_POLICY, drctl_copies=unsought)
    assert "no policy for 10 records" in blocker
    by_another = {"result-0": {Decision("safe", "copy"): 10}}
    assert undecided(NO_POLICY, drctl_copies=unsought, decided=by_another) == []
    assert undecided(NO_POLICY, drctl_copies=unsought, decided=Unavailable("it hung up")) == []


def test_decisions_on_all_records_do_not_block() -> None:
    assert undecided(Policies(Action.COPY)) == []
    assert undecided(Policies(Action.COPY, {}, Action.QUARANTINE), gaps=(CONFLICTING,)) == []
    assert undecided(Policies(None, {"orders": Action.DISCARD})) == []
    assert undecided(NO_POLICY, decided={"result-1": {Decision("safe", "copy"): 10}}) == []
    assert undecided(NO_POLICY, gaps=()) == [], "a blocker without a search result"
    resumed = against(judged(in_order_to_d()), TERMS)
    assert [each.check for each in resumed] == ["step-order"], (
        "a resumed failback was blocked for missing decisions"
    )
