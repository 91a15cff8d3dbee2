"""Both failovers follow every ordering rule, whatever the link's configuration."""

import re
from dataclasses import replace
from itertools import product

import pytest

from drctl.engine.invariants import violations
from drctl.model.errors import Refused
from drctl.model.loss import Mode
from drctl.model.plan import Duty, Plan
from drctl.plans.failover import failover
from drctl.plans.inputs import FenceMethod, PlanInputs
from drctl.steps.registry import KINDS


def circumstances(
    endpoints: tuple[str, ...] = (),
    connectors: tuple[str, ...] = ("mm2",),
    fence: FenceMethod = FenceMethod.ACL,
) -> PlanInputs:
    return PlanInputs(
        "main",
        "primary",
        "secondary",
        ("User:app",),
        connectors,
        endpoints,
        {"a": "b"},
        fence_method=fence,
        fence_command=("./fence", "on"),
        fence_undo=("./fence", "off"),
        fence_verify=("./fence", "look"),
    )


@pytest.mark.parametrize(
    ("mode", "endpoints", "connectors", "fence"),
    tuple(
        product(
            Mode,
            ((), ("dns",), ("dns", "file")),
            ((), ("mm2-source", "mm2-checkpoint")),
            FenceMethod,
        )
    ),
)
def test_the_ordering_rules_hold(
    mode: Mode, endpoints: tuple[str, ...], connectors: tuple[str, ...], fence: FenceMethod
) -> None:
    plan = failover(mode, circumstances(endpoints, connectors, fence))
    assert violations(plan, KINDS) == ()
    assert len({step.id for step in plan.steps}) == len(plan.steps)
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize("fence", FenceMethod)
def test_every_step_can_be_described(fence: FenceMethod) -> None:
    for mode, connectors in product(Mode, ((), ("mm2",))):
        for step in failover(mode, circumstances(("dns",), connectors, fence)).steps:
            description = KINDS[step.kind].describe(step.settings)
            assert description.title
            assert description.proof


def kinds_of(plan: Plan) -> dict[str, str]:
    return {step.id: step.kind for step in plan.steps}


def test_without_a_known_connector_a_person_stops_replication() -> None:
    for mode in Mode:
        assert kinds_of(failover(mode, circumstances()))["stop-replication"] == "stop-replication"
        bare = kinds_of(failover(mode, circumstances((), ())))
        assert bare["stop-replication"] == "manual-stop-replication"


@pytest.mark.parametrize("mode", Mode)
def test_a_user_command_stops_unmanaged_replication(mode: Mode) -> None:
    argvs = (("./mirror", "stop"), ("./mirror", "start"), ("./mirror", "look"))
    names = ("stop_command", "start_command", "stopped_command")
    by_command = replace(circumstances((), ()), **dict(zip(names, argvs, strict=True)))
    plan = failover(mode, by_command)
    step = plan.step("stop-replication")
    assert (step.kind, violations(plan, KINDS)) == ("command-stop-replication", ())
    assert [tuple(step.settings[key]) for key in ("argv", "undo", "verify")] == [*argvs]
    named = replace(by_command, connectors=("mm2",))
    assert failover(mode, named).step("stop-replication").kind == "stop-replication"


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        (FenceMethod.ACL, "fence-producers"),
        (FenceMethod.COMMAND, "command-fence"),
        (FenceMethod.NONE, "manual-fence"),
    ],
)
def test_producers_are_fenced_by_the_configured_fence(method: FenceMethod, kind: str) -> None:
    for mode, duty in ((Mode.PLANNED, Duty.REQUIRED), (Mode.UNPLANNED, Duty.BEST_EFFORT)):
        step = failover(mode, circumstances(fence=method)).step("fence-producers")
        assert (step.kind, step.duty) == (kind, duty)
    planned = kinds_of(failover(Mode.PLANNED, circumstances(fence=method)))
    assert ("fence-consumers" in planned) == (method is FenceMethod.ACL)
    assert ("stop-consumers" in planned) == (method is FenceMethod.NONE)
    assert "quiesce-consumers" in planned


def test_a_command_fence_knows_its_commands_and_cluster() -> None:
    plan = failover(Mode.PLANNED, circumstances(fence=FenceMethod.COMMAND))
    settings = plan.step("fence-producers").settings
    assert settings["argv"] == ["./fence", "on"]
    assert settings["undo"] == ["./fence", "off"]
    assert settings["verify"] == ["./fence", "look"]
    assert settings["cluster"] == "primary"


def test_a_planned_failover_loses_nothing_and_an_unplanned_one_awaits_no_dead_cluster() -> None:
    planned = failover(Mode.PLANNED, circumstances())
    unplanned = failover(Mode.UNPLANNED, circumstances())
    assert [s.duty for s in planned.steps if s.kind == "fence-producers"] == [Duty.REQUIRED]
    assert [s.duty for s in unplanned.steps if s.kind == "fence-producers"] == [Duty.BEST_EFFORT]
    assert "drain" in {s.kind for s in planned.steps}
    assert not {"drain", "quiesce-consumers", "fence-consumers"} & {s.kind for s in unplanned.steps}


@pytest.mark.parametrize("mode", Mode)
def test_endpoints_and_groups_are_ready_before_writes_are_enabled(mode: Mode) -> None:
    plan = failover(mode, circumstances())
    # measure-loss only reads.
    ids = [step.id for step in plan.steps if step.id != "measure-loss"]
    ready = ["prepare-groups", "advance-producer-ids", "stop-replication", "commit-offsets"]
    assert ids[ids.index("enable-writes") - 4 :][:5] == [*ready, "enable-writes"]
    for name in ("prepare-groups", "advance-producer-ids"):
        step = plan.step(name)
        assert (step.settings["source"], step.settings["target"]) == ("primary", "secondary")
        assert step.duty is Duty.BEST_EFFORT, (
            "a failure would roll back the run instead of leaving an outstanding action"
        )


def test_a_group_without_evidence_blocks_a_planned_failover_unless_overridden() -> None:
    def leaves_out(plan: Plan) -> bool:
        return bool(plan.step("commit-offsets").settings["leave_out"])

    assert not leaves_out(failover(Mode.PLANNED, circumstances()))
    assert leaves_out(failover(Mode.UNPLANNED, circumstances()))
    passed = PlanInputs(
        "main", "a", "b", overrides={"groups-not-translated": "they start from scratch"}
    )
    assert leaves_out(failover(Mode.PLANNED, passed))


def test_reverse_replication_is_set_before_writes_are_enabled_and_runs_after_clients_moved() -> (
    None
):
    seen = replace(circumstances(("dns",)), reverse=("back", "back-checkpoints"))
    plan = failover(Mode.PLANNED, seen)
    assert violations(plan, KINDS) == ()
    names = [step.id for step in plan.steps]
    assert names[-2:] == ["verify-clients", "start-reverse-replication"]
    assert names.index("set-reverse-start-offsets") == names.index("enable-writes") - 1
    begin, start = plan.step("set-reverse-start-offsets"), plan.step("start-reverse-replication")
    ends = {"source": "secondary", "target": "primary"}
    assert begin.settings == {**ends, "connector": "back"}
    assert start.settings["connectors"] == ["back", "back-checkpoints"]
    assert (begin.duty, start.duty) == (Duty.REQUIRED, Duty.BEST_EFFORT)


def test_no_reverse_replication_to_a_lost_cluster() -> None:
    plan = failover(Mode.UNPLANNED, replace(circumstances(), reverse=("back",)))
    assert not {"set-reverse-start-offsets", "start-reverse-replication"} & {
        step.id for step in plan.steps
    }


def test_connectors_of_a_lost_source_stop_early_and_writes_wait_for_their_tasks() -> None:
    plan = failover(Mode.UNPLANNED, circumstances(connectors=("mm2", "mm2-checkpoint")))
    ids = [step.id for step in plan.steps]
    asked, stopped = ids.index("request-stop"), ids.index("stop-replication")
    assert ids.index("fence-producers") < asked < stopped < ids.index("enable-writes")
    assert plan.step("request-stop").settings["connectors"] == ["mm2"]
    assert plan.step("stop-replication").settings["tasks_only"]
    assert ids.index("confirm-stop") > ids.index("enable-writes")
    assert plan.step("confirm-stop").duty is Duty.BEST_EFFORT
    bare = failover(Mode.UNPLANNED, circumstances((), ()))
    assert not {"request-stop", "confirm-stop"} & {step.id for step in bare.steps}


def test_a_planned_failover_stops_connectors_once_no_other_drain_can_follow() -> None:
    plan = failover(Mode.PLANNED, circumstances())
    ids = [step.id for step in plan.steps]
    assert not {"request-stop", "confirm-stop"} & set(ids)
    assert (
        ids.index("quiesce-consumers") < ids.index("stop-replication") < ids.index("enable-writes")
    )
    assert "tasks_only" not in plan.step("stop-replication").settings
    assert all(
        plan.step(each).settings["translate_ahead"]
        for each in ("wait-for-consumers", "quiesce-consumers")
    )


def test_a_planned_failover_does_the_rest_after_clients_are_served() -> None:
    plan = failover(Mode.PLANNED, circumstances(connectors=("mm2", "mm2-checkpoint")))
    ids = [step.id for step in plan.steps]
    assert plan.step("stop-replication").settings["rest_later"]
    assert ids.index("enable-writes") < ids.index("confirm-stop") < ids.index("verify-clients")
    assert "source" not in plan.step("confirm-stop").settings, (
        "the step of a planned failover names a dead source"
    )


def test_undrained_replication_is_not_stopped() -> None:
    plan = failover(Mode.PLANNED, circumstances())
    steps = sorted(plan.steps, key=lambda step: step.id == "drain")
    assert any(
        "never reach the target" in each
        for each in violations(replace(plan, steps=tuple(steps)), KINDS)
    )


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("RUNNING", "must be STOPPED (its state: RUNNING)"),
        ("FAILED+RUNNING", "must be STOPPED (its state: FAILED+RUNNING)"),
        ("Kafka Connect did not answer", "its state is unknown: Kafka Connect did not answer"),
    ],
)
def test_offsets_of_running_connectors_cannot_be_set(state: str, message: str) -> None:
    seen = replace(circumstances(), reverse=("back",), basis={"connector back": state})
    with pytest.raises(Refused, match=re.escape(message)):
        failover(Mode.PLANNED, seen)
    assert failover(Mode.UNPLANNED, seen).steps
