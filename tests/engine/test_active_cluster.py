"""The active cluster of a link, from the journals of its runs."""

from dataclasses import replace
from datetime import UTC, datetime

from drctl.engine.active_cluster import last_move, unfinished
from drctl.engine.run_state import RunState, read_run
from drctl.model.fencing import Denied, Topics, denials, group_denial
from drctl.model.plan import Json, Plan
from drctl.model.repairs import Acl
from drctl.model.typed_json import to_json
from drctl.steps.fences import AclFenceIntent
from drctl.steps.registry import KINDS
from tests.report import runs


def state(run: runs.Run) -> RunState:
    return read_run(run.entries)


def failback_plan() -> Plan:
    """The same steps in the opposite direction: a failback enables writes on the link's source."""
    return runs.planned(ends=("secondary", "primary"))


def test_a_run_that_enabled_writes_moved_clients_and_states_the_time() -> None:
    done = state(runs.Run(runs.unplanned(), "R1").play(runs.LOST))
    found = last_move([done], "secondary", KINDS)
    assert found is not None
    assert (found.run, found.plan) == ("R1", "failover-unplanned")
    opened = next(e for e in done.entries if e["entry"] == "done" and e["step"] == "enable-writes")
    assert datetime.fromtimestamp(found.since_ms / 1000, UTC) == datetime.fromisoformat(
        opened["at"]
    ).replace(microsecond=found.since_ms % 1000 * 1000)


def test_a_rollback_moves_no_clients_and_a_failback_moves_them_back() -> None:
    away = state(runs.outstanding())
    back = state(runs.rolled_back())
    assert last_move([back], "secondary", KINDS) is None
    found = last_move([back, away], "secondary", KINDS)
    assert found is not None
    assert found.run == away.run
    returned = state(runs.Run(failback_plan()).play(runs.GOOD))
    assert last_move([back, returned, away], "secondary", KINDS) is None


def test_a_run_that_moved_clients_lists_the_acls_of_its_fences() -> None:
    write, read = (
        denials(["User:app"], [Topics("orders")], [each])[0] for each in (Denied.WRITE, Denied.READ)
    )
    group = group_denial("User:app", "billing")
    script = {
        **runs.GOOD,
        "fence-producers": replace(runs.GOOD["fence-producers"], intent=on("primary", write)),
        "fence-consumers": replace(runs.GOOD["fence-consumers"], intent=on("primary", read, group)),
        "enable-writes": replace(runs.GOOD["enable-writes"], intent=on("secondary", write)),
    }
    found = last_move([state(runs.Run(runs.planned()).play(script))], "secondary", KINDS)
    assert found is not None
    assert found.denied == (write, read, group)


def on(cluster: str, *rules: Acl) -> Json:
    intent = AclFenceIntent(
        cluster=cluster, topics=(), stabilize_seconds=1, rules=rules, added=rules
    )
    return to_json(intent)


def test_a_run_that_died_after_the_fence_leaves_both_clusters_without_writes() -> None:
    dies = {**runs.GOOD, "stop-replication": replace(runs.GOOD["stop-replication"], dies=True)}
    died = unfinished(state(runs.Run(runs.planned(), "R2").play(dies)), KINDS)
    assert died is not None
    assert (died.run, died.plan, died.who) == ("R2", "failover-planned", "ada on laptop-7")
    assert (
        died.writes
        == "clients cannot write: primary is fenced, and writes are not enabled on secondary"
    )
    dies = {**runs.GOOD, "verify-clients": replace(runs.GOOD["verify-clients"], dies=True)}
    opened = unfinished(state(runs.Run(runs.planned()).play(dies)), KINDS)
    assert opened is not None
    assert opened.writes == "writes are enabled on secondary"


def test_a_run_that_ended_is_not_unfinished() -> None:
    for run in (runs.done(), runs.refused(), runs.rolled_back()):
        assert unfinished(state(run), KINDS) is None
