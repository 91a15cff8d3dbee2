"""The ten cases of a failback, judged on facts."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from drctl.failback.answer import OrderDocument, Verdict
from drctl.failback.blockers import Terms, against
from drctl.failback.facts import (
    NO_WORKERS,
    Cluster,
    Copies,
    Decision,
    Facts,
    GroupState,
    JournaledRun,
    Replication,
    Replicator,
    ReverseStart,
    Stopped,
)
from drctl.failback.gap_results import GapEvidence, Sample
from drctl.failback.record_steps import Tally
from drctl.model.errors import ExitCode
from drctl.model.gap import OrderScope
from drctl.model.topology import OffsetRange, Unavailable
from tests.failback.failback_orders import (
    BOUNDARY,
    DROP,
    FENCED,
    HERE,
    LOST_END,
    NOTHING_MISSING,
    OPEN,
    PLACE,
    SILENT,
    TARGET_END,
    THERE,
    after_failback,
    back_gap,
    before_incident,
    connector,
    copying,
    endpoint,
    gap,
    in_order_to_d,
    in_order_to_e,
    in_order_to_h,
    judged,
    partition,
    states,
)

CLOSED = JournaledRun("r1", "failback", "stopped", fenced=gap().started - timedelta(minutes=1))
"""A run has fenced the primary before the comparison."""

SECONDARY_AT_END = Cluster(THERE, {PLACE: OffsetRange(0, TARGET_END)})
GROWN = Cluster(HERE, {PLACE: OffsetRange(0, LOST_END + 7)})


def test_all_in_order_up_to_the_decision() -> None:
    found = judged(in_order_to_d())
    assert (states(found), found.verdict, found.next) == ("DDDDNNNNNNN", Verdict.OK, "e")
    assert found.tally is not None
    assert (found.tally.safe, found.tally.conflicting, found.tally.unkeyed) == (9, 0, 1)
    assert "on both clusters was not compared" in found.steps["d"].why


def test_all_in_order_once_everything_is_reconciled() -> None:
    found = judged(in_order_to_e())
    assert (states(found), found.verdict, found.next) == ("DDDDDNDNNNN", Verdict.OK, "f")


def test_all_in_order_once_reverse_replication_has_caught_up() -> None:
    found = judged(in_order_to_h())
    assert (states(found), found.verdict, found.next) == ("DDDDDDDDNNN", Verdict.OK, "i")
    assert "reverse replication has since added records" in found.steps["c"].why


def test_forward_replication_running_again() -> None:
    found = judged(in_order_to_d(), forward=copying("mm2-source", "RUNNING"))
    assert (found.verdict, found.next) == (Verdict.VIOLATED, "b")
    assert "appends old records" in found.steps["b"].why
    assert found.verdict.exit_code is ExitCode.REFUSED


def test_forward_replication_running_again_before_any_step() -> None:
    """No other step is done, and this is still the worst finding."""
    found = judged(in_order_to_d(), fence=OPEN, gaps=(), forward=copying("mm2-source", "RUNNING"))
    assert (found.verdict, found.next) == (Verdict.VIOLATED, "b")


def test_forward_replication_that_ran_and_stopped_again() -> None:
    """The source is unchanged; an unreplicated record on the target reveals it."""
    since = {"gap/main-1": "offset 100 of orders-0 was missing, and is on secondary by now"}
    found = judged(in_order_to_d(), copied_since=since)
    assert (states(found)[:4], found.verdict, found.next) == ("DDNN", Verdict.VIOLATED, "c")
    again = gap(NOTHING_MISSING, where="gap/main-2")
    assert judged(in_order_to_d(), copied_since=since, gaps=(again, gap())).verdict is Verdict.OK
    nightly = gap(partition(only_on_target=0))
    assert judged(in_order_to_d(), copied_since=since, gaps=(nightly,)).verdict is Verdict.OK


def test_a_user_supplied_command_reports_unmanaged_replication() -> None:
    blind = replace(in_order_to_d(), forward=Unavailable("drctl.yaml names no Connect workers"))
    assert judged(blind).steps["b"].observed == "unknown"
    held = judged(blind, stopped=Stopped(True, "the site's command says that it is stopped"))
    assert (states(held)[:5], held.verdict) == ("DDDDN", Verdict.OK)
    running = judged(blind, stopped=Stopped(False, "the site's command says that it is not"))
    assert (running.verdict, running.next) == (Verdict.VIOLATED, "b")
    silent = judged(blind, stopped=Unavailable("look.sh was ended after 30 s"))
    assert silent.steps["b"].observed == "unknown"
    assert "look.sh" in silent.steps["b"].why


def test_a_user_supplied_command_reports_that_replication_runs_after_the_failback() -> None:
    blind = replace(after_failback(), forward=Unavailable("drctl.yaml names no Connect workers"))
    runs = judged(blind, stopped=Stopped(False, "the site's command says that it is not stopped"))
    assert (states(runs), runs.violations) == ("DDDDDDDDDDU", ())
    stopped = judged(blind, stopped=Stopped(True, "the site's command says that it is stopped"))
    assert (states(stopped), stopped.next) == ("DDDDDDDDDNU", "j")


LED_BACK = JournaledRun("20261122-main", "failback", "done", switched_back=True)
LED_AWAY = JournaledRun("r2", "failover-planned", "done", left=datetime(2026, 11, 23, tzinfo=UTC))


def test_a_failback_completed_by_the_journal_is_over() -> None:
    found = judged(after_failback(), journal=(LED_BACK,))
    assert (states(found), found.verdict, found.next) == ("D" * 11, Verdict.OK, None)
    assert found.verdict.exit_code is ExitCode.DONE
    reason = "journal: run 20261122-main failed back and verified every group"
    assert reason in found.steps["k"].why
    refused = JournaledRun("20261123-main", "failover-planned", "refused")
    assert judged(after_failback(), journal=(refused, LED_BACK)).next is None
    for since in (LED_AWAY, JournaledRun("r2", "failback", "not ended", in_progress=True)):
        assert (
            "by the journal"
            not in judged(after_failback(), journal=(since, LED_BACK)).steps["k"].why
        )


def test_a_complete_failback_needs_no_comparison_on_this_machine() -> None:
    """A CI runner has no results; quarantined records are missing in any of them."""
    for facts in (replace(after_failback(), gaps=(), reverse_gaps=(), diverged=SILENT), over()):
        found = judged(facts, journal=(LED_BACK,))
        assert (states(found), found.verdict, found.next) == ("D" * 11, Verdict.OK, None)


def test_a_complete_failback_of_a_link_without_endpoints_or_workers() -> None:
    bare = replace(after_failback(), endpoints=(), forward=NO_WORKERS, reverse=NO_WORKERS)
    found = judged(bare, journal=(LED_BACK,))
    assert (states(found), found.verdict, found.next) == ("D" * 11, Verdict.OK, None)
    silent = judged(bare, journal=(LED_BACK,), forward=SILENT)
    assert (silent.verdict, set(silent.unknown)) == (Verdict.UNKNOWN, {"j"})


def test_a_complete_failback_with_outstanding_actions_names_them() -> None:
    unfinished = replace(LED_BACK, outstanding=("restart consumers of readers",))
    found = judged(after_failback(), journal=(unfinished,))
    assert (found.verdict, found.next) == (Verdict.OK, "k")
    assert "1 outstanding action, see Journal" in found.steps["k"].why


def test_observed_differences_outweigh_the_journal() -> None:
    diverged = "offset 100 of orders-0 on secondary is not what follows on primary"
    found = judged(after_failback(), diverged=diverged, journal=(LED_BACK,))
    assert found.verdict is not Verdict.OK
    down = judged(after_failback(), on_target=SILENT, journal=(LED_BACK,))
    assert down.verdict is Verdict.UNKNOWN


def test_without_an_incident_there_is_nothing_to_fail_back() -> None:
    for facts in (
        before_incident(),
        replace(before_incident(), endpoints=()),
        replace(before_incident(), forward=NO_WORKERS, reverse=NO_WORKERS),
        replace(before_incident(), fence=SILENT),
        # A nightly comparison, and the state after an earlier failback.
        replace(before_incident(), gaps=(gap(replace(NOTHING_MISSING, only_on_target=0)),)),
    ):
        found = judged(facts)
        assert (found.verdict, found.next, found.violations) == (Verdict.OK, None, ())
        assert found.seen.not_needed


@pytest.mark.parametrize(
    "trace",
    [
        {"journal": (LED_AWAY,)},
        {"journal": SILENT},
        {"journal": (JournaledRun("r2", "failback", "not ended", in_progress=True),)},
        {"fence": FENCED},
        {"forward": copying("mm2-source", "STOPPED", {PLACE: 100})},
        {"forward": SILENT},
        {"reverse": copying("mm2-back", "STOPPED", {PLACE: 130})},
        {"gaps": (gap(),), "boundaries": {PLACE: BOUNDARY}},
        {"drctl_copies": Copies({PLACE: frozenset({3})})},
        {"endpoints": (endpoint("secondary"),)},
        {"endpoints": (SILENT,)},
        {"on_target": SILENT},
        {"endpoints": (), "forward": NO_WORKERS},
        {"endpoints": (), "groups": (GroupState("readers", ("secondary",), {}),)},
        {"endpoints": (), "groups": SILENT},
    ],
)
def test_no_incident_is_verified_and_not_assumed(trace: dict[str, Any]) -> None:
    found = judged(before_incident(), **trace)
    assert not found.seen.not_needed
    assert found.next is not None


PRIMARY_DOWN: dict[str, Any] = {"on_source": SILENT, "health": SILENT, "fence": SILENT}
"""Without endpoints, only what a case adds shows where clients are."""
BLIND = replace(before_incident(), endpoints=(), groups=SILENT, **PRIMARY_DOWN)


@pytest.mark.parametrize(
    "silent",
    [
        {},
        {"groups": (GroupState("readers", (), {}, SILENT.reason),)},
        {"on_target": SILENT, "journal": SILENT},
        {"endpoints": (SILENT,)},
        {"endpoints": (endpoint("primary"), SILENT)},
        {"endpoints": (endpoint(None),)},
        {"forward": NO_WORKERS, "stopped": Stopped(False, "it is not stopped")},
        # The state after the last failback.
        {
            "journal": (LED_BACK,),
            "endpoints": (SILENT,),
            "reverse": copying("b", "STOPPED", {PLACE: 9}),
        },
        {"reverse": copying("mm2-back", "STOPPED", SILENT)},
        {"gaps": (gap(replace(NOTHING_MISSING, only_on_target=0)),)},
    ],
)
def test_running_replication_is_no_violation_without_evidence_of_a_move(
    silent: dict[str, Any],
) -> None:
    found = judged(BLIND, **silent)
    assert (found.verdict, found.next, found.violations) == (Verdict.UNKNOWN, "i", ())
    assert found.steps["b"].observed == "unknown"
    assert "cannot tell whether clients have left primary" in found.seen.unclear


@pytest.mark.parametrize(
    "sign",
    [
        {"journal": (LED_AWAY,)},
        {"journal": (LED_AWAY, LED_BACK)},
        {"journal": (JournaledRun("r2", "unknown", "damaged"),)},
        {"journal": (JournaledRun("r2", "failback", "not ended", in_progress=True),)},
        {"journal": SILENT, "on_target": SILENT, "local_journal": (LED_AWAY,)},
        {"endpoints": (endpoint("secondary"),)},
        {"endpoints": (SILENT, endpoint("secondary"))},
        {"groups": (GroupState("readers", ("secondary",), {}, SILENT.reason),)},
        {"reverse": copying("mm2-back", "RUNNING")},
        {"reverse": copying("mm2-back", "STOPPED", {PLACE: 130})},
        {"fence": FENCED},
        {"gaps": (gap(),), "boundaries": {PLACE: BOUNDARY}},
        {"journal": (LED_BACK,), "endpoints": (SILENT,), "fence": FENCED},
    ],
)
def test_running_replication_is_a_violation_with_evidence_of_a_move(sign: dict[str, Any]) -> None:
    found = judged(BLIND, **sign)
    assert (found.verdict, found.next) == (Verdict.VIOLATED, "b")
    assert not found.seen.unclear


def test_unknown_clients_are_reported_before_a_failback() -> None:
    blind = judged(before_incident(), endpoints=(), groups=SILENT)
    (finding,) = (each for each in against(blind, Terms()) if each.check == "step-order")
    assert (finding.status, finding.reason) == ("warn", blind.seen.unclear)


def test_no_gap_result() -> None:
    found = judged(in_order_to_d(), gaps=())
    assert (states(found)[:5], found.verdict, found.next) == ("DDNNN", Verdict.OK, "c")
    assert found.tally is None
    assert OrderDocument.of(found).to_json()["records"]["safe"] is None


def test_no_gap_result_before_reverse_replication_started() -> None:
    found = judged(
        in_order_to_d(), gaps=(), reverse=copying("mm2-back", "RUNNING"), on_source=GROWN
    )
    assert (found.verdict, found.next) == (Verdict.VIOLATED, "c")


def test_a_primary_that_has_changed_since() -> None:
    moved = replace(in_order_to_d(), on_source=GROWN, reverse_start={PLACE: ReverseStart.ELSEWHERE})
    found = judged(moved, journal=(CLOSED,))
    assert found.steps["c"].observed == "not-done"
    assert "primary was written to: orders-0 ended at 110, now at 117" in found.steps["c"].why
    assert found.tally is None, "an outdated result was used"
    assert (found.verdict, found.next) == (Verdict.VIOLATED, "c")
    assert found.steps["f"].observed == "not-done", "replication that never ran counts as started"
    unfenced = judged(moved, journal=(CLOSED,), fence=OPEN)
    assert (unfenced.verdict, unfenced.next) == (Verdict.VIOLATED, "a")


def test_a_comparison_from_before_the_fence_is_repeated_without_a_violation() -> None:
    """Applications wrote to the recovered primary until it was fenced."""
    early = judged(in_order_to_d(), fence=OPEN)
    assert (states(early)[:5], early.verdict, early.next) == ("NDNNN", Verdict.OK, "a")
    assert "repeat it after step a" in early.steps["c"].why
    assert "10 records are not replicated" in early.steps["c"].why
    assert early.violations == ()
    (finding,) = against(early, Terms())
    assert (finding.check, finding.status) == ("step-order", "ok")

    wrote = judged(in_order_to_d(), fence=OPEN, on_source=GROWN)
    assert (wrote.verdict, wrote.next) == (Verdict.OK, "a")
    fenced_after = judged(in_order_to_d(), on_source=GROWN)
    assert (states(fenced_after)[:4], fenced_after.next) == ("DDNN", "c")
    assert "repeat the comparison: " in fenced_after.steps["c"].why
    later = replace(CLOSED, fenced=gap().started + timedelta(minutes=1))
    assert judged(in_order_to_d(), on_source=GROWN, journal=(later,)).verdict is Verdict.OK

    again = gap(partition(source=OffsetRange(0, LOST_END + 7), unreplicated=17))
    assert judged(in_order_to_d(), on_source=GROWN, gaps=(again, gap())).next == "e"


def test_steps_based_on_a_comparison_from_before_the_fence_are_violations() -> None:
    found = judged(in_order_to_e(), fence=OPEN)
    assert (found.verdict, found.next) == (Verdict.VIOLATED, "a")
    assert "step e happened before step c" in found.violations[0].message


def test_a_result_from_before_the_failover_is_only_outdated() -> None:
    """A nightly run found no new records on the target: this proves and violates nothing."""
    nightly = gap(partition(only_on_target=0, unreplicated=0))
    found = judged(in_order_to_d(), on_source=GROWN, gaps=(nightly,))
    assert (states(found)[:4], found.verdict, found.next) == ("DDNN", Verdict.OK, "c")


def test_records_deleted_on_the_primary_are_not_new_ones() -> None:
    nightly = gap(partition(only_on_target=5, unreplicated=0))
    seen = {"on_source": GROWN, "gaps": (nightly,)}
    found = judged(in_order_to_d(), boundaries={PLACE: TARGET_END}, **seen)
    assert (states(found)[:4], found.verdict, found.next) == ("DDNN", Verdict.OK, "c")
    new = judged(in_order_to_d(), boundaries={PLACE: 125}, journal=(CLOSED,), **seen)
    assert new.verdict is Verdict.VIOLATED
    assert not judged(in_order_to_d(), boundaries=SILENT, **seen).violations, (
        "an unknown boundary counts as a violation"
    )


def test_writers_to_the_primary_are_not_guessed() -> None:
    ran = copying("mm2-back", "STOPPED", {PLACE: 117})
    found = judged(
        in_order_to_d(), on_source=GROWN, reverse_start={PLACE: ReverseStart.ELSEWHERE}, reverse=ran
    )
    assert found.steps["f"].observed == "unknown"
    assert "another producer wrote it" in found.steps["f"].why
    assert found.verdict is Verdict.UNKNOWN


def test_a_primary_that_grew_during_reverse_replication_is_unknown() -> None:
    found = judged(in_order_to_h(), reverse_start={PLACE: ReverseStart.ELSEWHERE})
    assert (found.verdict, found.next) == (Verdict.UNKNOWN, "c")
    assert "cannot tell" in found.steps["c"].why


def test_partly_reconciled_records() -> None:
    some = Copies({PLACE: frozenset({100, 101, 102, 104})})
    found = judged(in_order_to_d(), drctl_copies=some)
    assert "in progress: unreplicated records with a copy: 4 of 10" in found.steps["e"].why
    assert (found.verdict, found.next) == (Verdict.OK, "e")
    late = judged(in_order_to_h(), drctl_copies=some)
    assert (late.verdict, late.next) == (Verdict.VIOLATED, "e")


def test_decisions_are_read_from_the_target() -> None:
    """Quarantined and discarded records are not in the target's own topics."""
    kept = {Decision("safe", "quarantine"): 9, Decision("unkeyed", "discard"): 1}
    found = judged(in_order_to_d(), decided={"result-1": kept})
    assert found.steps["e"].why == (
        "unreplicated records with a decision: all 10 (9 quarantined, 1 discarded)"
    )
    assert states(found)[4:7] == "DND", "without copies there is nothing to exclude"
    half = judged(in_order_to_d(), decided={"result-1": {Decision("safe", "copy"): 4}})
    assert (
        half.steps["e"].why
        == "in progress: unreplicated records with a decision: 4 of 10 (4 copied)"
    )
    other = judged(in_order_to_d(), decided={"another": kept})
    assert other.steps["e"].observed == "not-done", "a decision on another result counts"


def test_a_decision_on_an_older_result_of_the_same_logs_counts() -> None:
    """A later result lists discarded records as missing and undecided."""
    later = gap(where="gap/main-2", id="result-2")
    kept = {Decision("safe", "discard"): 10}
    found = judged(in_order_to_d(), gaps=(later, gap()), decided={"result-1": kept})
    assert found.steps["e"].observed == "done"


def test_records_left_missing_by_earlier_results_are_decided() -> None:
    """From an earlier incident: a newer result lists them again beside new ones."""
    before = {"result-0": {Decision("safe", "quarantine"): 10}}
    old = judged(in_order_to_d(), decided=before, left_missing={PLACE: ((90, 109),)})
    assert old.steps["e"].observed == "done"
    assert (
        "unreplicated records quarantined or discarded with earlier results: all 10"
        in old.steps["e"].why
    )
    some = judged(in_order_to_d(), decided=before, left_missing={PLACE: ((0, 20), (90, 103))})
    assert (some.steps["e"].observed, some.next) == ("not-done", "e")
    assert "quarantined or discarded with earlier results: 4 of 10" in some.steps["e"].why
    # Records that are decided on in this result, too, are not counted twice.
    own = before | {"result-1": {Decision("safe", "quarantine"): 4}}
    half = judged(in_order_to_d(), decided=own, left_missing={PLACE: ((90, 109),)})
    assert "in progress: unreplicated records with a decision: 4 of 10" in half.steps["e"].why
    # Ranges that contain more offsets than missing records, or that are not all listed.
    for holes in (partition(ranges=((100, 119),)), partition(ranges_total=2)):
        facts = replace(in_order_to_d(), gaps=(gap(holes),))
        judgement = judged(facts, decided=before, left_missing={PLACE: ((90, 109),)})
        assert judgement.steps["e"].observed == "not-done"


def test_unreadable_decisions_are_unknown() -> None:
    found = judged(in_order_to_d(), exported=frozenset({"result-1"}))
    assert (found.verdict, found.next) == (Verdict.UNKNOWN, "e")
    assert "this host has an export" in found.steps["e"].why
    assert found.verdict.exit_code is ExitCode.UNKNOWN
    silent = judged(in_order_to_d(), decided=SILENT)
    assert silent.steps["e"].observed == "unknown"


def test_reverse_replication_started_before_reconcile() -> None:
    found = judged(in_order_to_h(), drctl_copies=Copies())
    assert states(found)[:6] == "DDDDND"
    assert (found.verdict, found.next) == (Verdict.VIOLATED, "e")


def test_reverse_replication_from_the_start() -> None:
    found = judged(in_order_to_h(), reverse_start={PLACE: ReverseStart.START})
    assert (found.verdict, found.next) == (Verdict.VIOLATED, "f")
    assert "twice" in found.steps["f"].why


def test_reverse_replication_about_to_start_at_the_start() -> None:
    """While stopped it has done no harm; once started it would."""
    stopped = judged(in_order_to_e())
    assert "starts from the beginning" in stopped.steps["f"].why
    running = judged(in_order_to_e(), reverse=copying("mm2-back", "RUNNING", **DROP))
    assert running.steps["f"].started
    assert running.steps["f"].observed == "not-done"


def test_offsets_translated_while_the_group_is_active() -> None:
    early = (GroupState("readers", ("secondary",), {PLACE: 138}),)
    found = judged(in_order_to_h(), groups=early)
    assert (found.verdict, found.next) == (Verdict.VIOLATED, "i")
    assert "readers is active on secondary" in found.steps["i"].why
    syncing = Replicator(
        connector("mm2-back-points", "RUNNING", {"sync.group.offsets.enabled": "true"}), False
    )
    back = in_order_to_h().reverse
    assert isinstance(back, Replication)
    synced = replace(back, found=(*back.found, syncing))
    assert judged(in_order_to_h(), groups=early, reverse=synced).verdict is Verdict.OK
    before = (GroupState("readers", ("secondary",), {PLACE: LOST_END}),)
    judgement = judged(in_order_to_h(), groups=before)
    assert judgement.verdict is Verdict.OK
    assert "readers" in judgement.steps["i"].why
    empty = (GroupState("readers", (), {PLACE: 138}),)
    assert judged(in_order_to_h(), groups=empty).verdict is Verdict.OK


def test_an_endpoint_switched_too_early() -> None:
    found = judged(in_order_to_d(), endpoints=(endpoint("primary"), endpoint("secondary")))
    assert "endpoints that point to primary: 1 of 2 (" in found.steps["i"].why
    assert (found.verdict, found.next) == (Verdict.VIOLATED, "e")
    assert "switch clients back to secondary" in found.violations[0].message


def test_all_endpoints_switched_too_early() -> None:
    found = judged(in_order_to_d(), endpoints=(endpoint("primary"),), fence=OPEN)
    assert found.verdict is Verdict.VIOLATED
    assert found.steps["i"].observed == "done"


def test_nothing_is_known() -> None:
    nothing = Facts("main", "primary", "secondary")
    found = judged(nothing)
    assert found.verdict is Verdict.UNKNOWN
    assert found.next == "a"
    assert set(states(found)) <= {"U", "N"}


def test_a_source_that_is_down() -> None:
    down = replace(
        in_order_to_d(), on_source=SILENT, health=SILENT, fence=SILENT, reverse_start=SILENT
    )
    found = judged(down)
    assert (states(found)[:6], found.verdict, found.next) == ("UDUUUU", Verdict.UNKNOWN, "a")
    assert "did not answer" in found.unknown["a"]


def test_complete_except_for_unreadable_parts() -> None:
    """The final results hide the start offsets, and the reverse connector is stopped."""
    found = judged(after_failback())
    assert states(found) == "DDDDDDDDDDU"
    assert (found.verdict, found.next, found.violations) == (Verdict.UNKNOWN, "k", ())
    assert "in flight" in found.steps["f"].why
    without = judged(in_order_to_h(), endpoints=(endpoint("primary"),), fence=OPEN)
    assert states(without) == "UDDDDDDDDNN", "without a comparison only observable steps are judged"


@pytest.mark.parametrize("came", [ReverseStart.BOUNDARY, ReverseStart.ELSEWHERE, SILENT])
def test_new_records_of_applications_on_the_primary_are_not_reverse_replication(
    came: ReverseStart | Unavailable,
) -> None:
    written = Cluster(HERE, {PLACE: OffsetRange(0, 200)})
    following = Cluster(THERE, {PLACE: OffsetRange(0, 190)})
    found = judged(
        after_failback(), on_source=written, on_target=following, reverse_start={PLACE: came}
    )
    assert (states(found), found.violations) == ("DDDDDDDDDDU", ())
    assert "by what comes back" not in found.steps["c"].why


def test_quarantined_records_are_no_gap_after_the_failback() -> None:
    facts = after_failback()
    newest, *older = facts.gaps
    (there,) = newest.partitions
    missing = replace(there, unreplicated=10, conflicting=10, ranges=((100, 109),), ranges_total=1)
    found = replace(facts, gaps=(replace(newest, partitions=(missing,)), *older))
    aside = {
        "decided": {"result-1": {Decision("conflicting", "quarantine"): 10}},
        "left_missing": {PLACE: ((100, 109),)},
    }
    assert states(judged(found, **aside)) == states(judged(facts))
    assert "no undecided unreplicated records" in judged(found, **aside).steps["k"].why
    assert judged(found).steps["k"].observed == "not-done"
    some = {**aside, "left_missing": {PLACE: ((100, 108),)}}
    assert judged(found, **some).steps["k"].observed == "not-done"


def test_many_new_records_on_the_primary_are_unknown_and_no_violation() -> None:
    many = Unavailable("80,000 offsets are too many to look through")
    written = Cluster(HERE, {PLACE: OffsetRange(0, 80_140)})
    found = judged(
        after_failback(),
        on_source=written,
        diverged=many,
        reverse_start={PLACE: ReverseStart.ELSEWHERE},
    )
    assert states(found) == "UUUUUUUUDUU"
    assert (found.verdict, found.violations) == (Verdict.UNKNOWN, ())
    assert many.reason in found.steps["f"].why


def test_results_from_before_the_newest_failover_are_no_evidence() -> None:
    """Records written on the primary since then look like replicated ones, even the first."""
    night = datetime(2026, 11, 23, 11, 3, tzinfo=UTC)
    left_source = JournaledRun("r2", "failover-planned", "done", left=night)
    groups = (GroupState("readers", ("secondary",), {PLACE: 138}),)
    back = replace(
        in_order_to_h(), groups=groups, reverse=copying("mm2-back", "STOPPED", {PLACE: 130}, **DROP)
    )
    assert "offsets of active groups were committed" in judged(back).steps["i"].why
    # Without a valid result the first replicated record is not searched.
    unseen: dict[str, Any] = {"reverse_start": SILENT, "boundaries": SILENT}
    old = judged(back, journal=(left_source,), **unseen)
    assert old.steps["c"].observed == "not-done"
    assert "is from before the failover to secondary (run r2)" in old.steps["c"].why
    assert "offsets of active groups were committed" not in old.steps["i"].why
    assert (old.verdict, old.next, old.seen.first) == (Verdict.OK, "c", None)
    new = gap(started=night + timedelta(minutes=1), where="gap/main-2")
    assert judged(in_order_to_d(), gaps=(new, gap()), journal=(left_source,)).next == "e"
    earlier = replace(left_source, left=night - timedelta(days=9))
    assert judged(in_order_to_d(), journal=(earlier,)).next == "e"


def test_comparisons_from_before_the_newest_failover_prove_no_failback() -> None:
    since = JournaledRun("r2", "failover-planned", "done", left=datetime(2026, 11, 23, tzinfo=UTC))
    assert not judged(after_failback(), journal=(since,)).seen.proven
    compared = judged(in_order_to_h(), journal=(since,), gaps=(gap(started=since.left),))
    assert "was not compared" in compared.steps["h"].why, (
        "a comparison from before the failover was used"
    )


def test_a_newer_result_that_is_not_complete_is_named_beside_the_one_that_is() -> None:
    newer = gap(where="gap/main-2", complete=False, not_compared=("orders-0: it hung up",))
    found = judged(in_order_to_d(), gaps=(newer, gap()))
    assert found.steps["c"].observed == "done"
    assert "main-2" in found.steps["c"].why
    assert "orders-0: it hung up" in found.steps["c"].why
    assert "main-2" not in judged(in_order_to_d(), gaps=(gap(), newer)).steps["c"].why


def over() -> Facts:
    """A completed failback; comparisons still find quarantined records."""
    decided = {"result-1": {Decision("safe", "quarantine"): 10}}
    return replace(
        in_order_to_h(),
        endpoints=(endpoint("primary"),),
        fence=OPEN,
        forward=copying("mm2-source", "RUNNING", {PLACE: 140}),
        reverse=copying("mm2-back", "STOPPED", {PLACE: TARGET_END}, **DROP),
        on_source=Cluster(HERE, {PLACE: OffsetRange(0, 140)}),
        on_target=Cluster(THERE, {PLACE: OffsetRange(0, TARGET_END + 90)}),
        decided=decided,
        drctl_copies=SILENT,
        returned_copies=SILENT,
    )


def test_a_completed_failback_is_not_repeated() -> None:
    found = judged(over())
    assert (found.verdict, found.violations, found.next) == (Verdict.UNKNOWN, (), "k")
    assert "the lag when they" in found.steps["h"].why
    waits = judged(over(), forward=copying("mm2-source", "STOPPED"), reverse_gaps=())
    assert waits.next == "h", (
        "unreplicated records on the primary are lag: nothing else writes there"
    )
    even = replace(over(), on_target=SECONDARY_AT_END, forward=copying("mm2-source", "STOPPED"))
    assert judged(even).next == "j"


def test_excluded_copies_are_no_lag() -> None:
    """Connect's offset stays below excluded records, which are too many to read at once."""
    decided = {"result-1": {Decision("safe", "copy"): 10}}
    facts = replace(in_order_to_h(), drctl_copies=SILENT, returned_copies=SILENT, decided=decided)
    grown = Cluster(THERE, {PLACE: OffsetRange(0, TARGET_END + 11)})
    copies = Copies({PLACE: frozenset(range(100, 110))}, {})
    assert "about 11 records" in judged(facts, on_target=grown).steps["h"].why
    left_out = judged(facts, on_target=grown, pending=copies, max_lag=1)
    assert left_out.steps["h"].observed == "done"
    assert "about 0 records" in left_out.steps["h"].why
    some = Copies(copies.offsets, {PLACE: 3})
    more = Cluster(THERE, {PLACE: OffsetRange(0, TARGET_END + 30)})
    assert "about 3 records" in judged(facts, on_target=more, pending=some).steps["h"].why


def test_comparisons_from_before_the_loss_prove_no_failback() -> None:
    """Clients moved back early: new records of the secondary are not on the primary."""
    diverged = "offset 100 of orders-0 on secondary is not what follows on primary"
    reverse = copying("mm2-back", "STOPPED", {PLACE: 0})
    found = judged(
        after_failback(),
        diverged=diverged,
        reverse=reverse,
        forward=copying("mm2-source", "PAUSED"),
    )
    assert (found.verdict, found.next) == (Verdict.VIOLATED, "f")
    assert diverged in found.steps["f"].why
    assert "switch clients back to secondary" in found.violations[0].message
    both = judged(after_failback(), diverged=diverged, reverse=reverse)
    assert both.verdict is Verdict.VIOLATED
    assert "switch clients back" not in both.violations[0].message, "forward replication runs"


def test_any_unreadable_step_prevents_ok() -> None:
    found = judged(in_order_to_d(), reverse=Unavailable("no workers are configured"))
    assert found.verdict is Verdict.UNKNOWN
    assert set(found.unknown) == {"f", "h"}
    assert judged(in_order_to_d(), endpoints=()).verdict is Verdict.UNKNOWN


CONFLICTING = partition(safe=6, conflicting=3)


def test_conflicting_records_are_a_violation_only_once_copied() -> None:
    found = judged(in_order_to_d(), gaps=(gap(CONFLICTING),))
    assert (found.verdict, found.next) == (Verdict.OK, "e")
    assert "3 conflicting" in found.steps["d"].why
    assert "--conflicting" in found.steps["d"].why


def test_a_copied_conflicting_record_is_recognized_by_its_offset() -> None:
    sample = Sample(PLACE, 103, 1_700_000_000_000, b"k", "conflicting")
    facts = replace(in_order_to_d(), gaps=(gap(CONFLICTING, samples=(sample,)),))
    copied = Copies({PLACE: frozenset({103})})
    found = judged(facts, drctl_copies=copied)
    assert (found.verdict, found.next) == (Verdict.VIOLATED, "e")
    assert "orders-0 offset 103 was copied" in found.violations[0].message
    assert judged(facts, drctl_copies=copied, order="none").verdict is Verdict.OK
    assert judged(facts, drctl_copies=Copies({PLACE: frozenset({104})})).verdict is Verdict.OK


def test_conflicting_records_copied_by_decision_are_reported_without_a_repair() -> None:
    """Their originals on the primary keep their offsets: the copies cannot be changed."""
    decided = {"result-1": {Decision("conflicting", "copy"): 3, Decision("safe", "copy"): 7}}
    sample = Sample(PLACE, 103, 1_700_000_000_000, b"k", "conflicting")
    facts = replace(in_order_to_e(), gaps=(gap(CONFLICTING, samples=(sample,)),), decided=decided)
    found = judged(facts)
    assert (states(found), found.verdict, found.next) == ("DDDDDNDNNNN", Verdict.OK, "f")
    assert "conflicting records that were copied by decision: 3" in found.steps["e"].why
    (finding,) = against(found, Terms())
    assert (finding.check, finding.status) == ("step-order", "warn")
    assert "they follow newer records" in finding.reason
    assert "as was decided" not in judged(facts, order="none").steps["e"].why


LAST_YEAR = gap(
    partition(source=OffsetRange(0, 50), target=OffsetRange(0, 60), ranges=((48, 49),)),
    where="gap/main-0",
    id="result-of-last-year",
)
RECREATED = gap(partition(topic_id="before"), where="gap/main-0", id="result-of-last-year")


@pytest.mark.parametrize("old", [LAST_YEAR, RECREATED], ids=["other-ends", "another-topic"])
def test_decisions_of_an_earlier_failover_are_no_violation(old: GapEvidence) -> None:
    decided = {old.id: {Decision("conflicting", "copy"): 2, Decision("safe", "copy"): 8}}
    now = gap(partition(topic_id="now"))
    found = judged(in_order_to_d(), gaps=(now, old), decided=decided)
    assert (states(found), found.verdict, found.next) == ("DDDDNNNNNNN", Verdict.OK, "e")
    assert "were copied" not in found.steps["e"].why
    nothing = replace(NOTHING_MISSING, topic_id="now")
    back = copying("mm2-back", "RUNNING", {PLACE: TARGET_END})
    later = judged(
        in_order_to_h(),
        gaps=(gap(nothing), old),
        drctl_copies=Copies(),
        decided=decided,
        reverse=back,
    )
    assert later.steps["g"].observed == "done", "copies of an earlier failover count for this one"
    assert later.verdict is not Verdict.VIOLATED


def test_copies_of_an_earlier_failover_are_excluded_too() -> None:
    """Too many records to check for copies; they would not be replicated back."""
    decided = {"elsewhere": {Decision("safe", "copy"): 2}}
    facts = replace(
        in_order_to_h(), gaps=(gap(NOTHING_MISSING),), drctl_copies=SILENT, decided=decided
    )
    assert judged(facts).steps["g"].observed == "done"
    without = copying("mm2-back", "RUNNING", {PLACE: TARGET_END})
    assert judged(facts, reverse=without).steps["g"].observed == "unknown"
    assert judged(facts, returned_copies=SILENT).steps["g"].observed == "unknown"


def test_lag_beyond_the_policy() -> None:
    brought = Copies({PLACE: frozenset(range(100, 110))}, {PLACE: 80})
    found = judged(in_order_to_h(), drctl_copies=brought)
    assert "about 50 records" in found.steps["h"].why
    assert found.steps["h"].observed == "not-done"
    assert judged(in_order_to_h(), drctl_copies=brought, max_lag=50).steps["h"].observed == "done"


def test_lag_by_offsets_if_records_are_too_many_to_count() -> None:
    too_many = Unavailable("too many to look through")
    decided = {"result-1": {Decision("safe", "copy"): 10}}
    facts = replace(
        in_order_to_h(), drctl_copies=too_many, returned_copies=too_many, decided=decided
    )
    behind = Cluster("id-of-secondary", {PLACE: OffsetRange(0, TARGET_END + 50)})
    found = judged(facts, on_target=behind)
    assert "about 50 records" in found.steps["h"].why
    assert judged(facts, on_target=behind, max_lag=50).steps["h"].observed == "done"


def test_catching_up_needs_more_than_offsets() -> None:
    never = judged(in_order_to_h(), reverse_gaps=())
    assert (never.verdict, never.next) == (Verdict.UNKNOWN, "h")
    early = judged(in_order_to_h(), reverse_gaps=(back_gap(source_end=TARGET_END),))
    assert "10 offsets were written since" in early.steps["h"].why
    missing = replace(NOTHING_MISSING, source=OffsetRange(0, 140), unreplicated=2)
    judgement = judged(in_order_to_h(), reverse_gaps=(replace(back_gap(), partitions=(missing,)),))
    assert judgement.steps["h"].observed == "not-done"


def test_order_by_partition() -> None:
    tail = partition(only_on_target=0)
    assert judged(in_order_to_d(), order="per-partition").tally == Tally(0, 10, 0)
    found = judged(in_order_to_d(), order="per-partition", gaps=(gap(tail),))
    assert found.tally == Tally(10, 0, 0)


def test_a_result_by_partition_is_used_as_it_is() -> None:
    some = partition(safe=7, conflicting=3, unkeyed=0)
    result = replace(gap(some), within=OrderScope.PARTITION)
    assert judged(in_order_to_d(), order="per-partition", gaps=(result,)).tally == Tally(7, 3, 0)
