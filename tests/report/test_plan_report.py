"""A plan as a document that can be compared, and as lines for a terminal."""

import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from drctl.checks.registry import PRECHECKS
from drctl.checks.repairs import PRECHECK
from drctl.engine.invariants import violations
from drctl.model.finding import Finding, Status
from drctl.model.loss import Figure, Loss, LossRange, Mode
from drctl.model.plan import Plan
from drctl.steps.failback import OVERRIDABLE
from drctl.steps.registry import KINDS
from drctl.views.client_moves import leaving_lines, leaving_rows
from drctl.views.plan_text import (
    loss_lines,
    next_actions,
    plan_document,
    plan_table,
    precheck_rows,
    prechecks_in_words,
    step_rows,
    verdict,
)
from tests.cli.documents import check
from tests.report import runs

FINDINGS = (
    Finding("connect", Status.OK, "worker-1", "it answers"),
    Finding(
        "retention", Status.WARN, "orders", "5 h are left", impact="the tail", remedy="raise it"
    ),
    Finding("lag", Status.FAIL, "orders", "1,204 records are missing", remedy="wait until it is 0"),
    Finding("caches", Status.NOT_CHECKED, "dns", "nobody can see them"),
    Finding("alive", Status.FAIL, "primary", "it still answers", remedy="fence it"),
)
EXECUTE = "drctl failover --mode planned --link main --execute"


def document(plan: Plan, findings: tuple[Finding, ...] = FINDINGS) -> dict[str, object]:
    made = plan_document(plan, findings, violations(plan, KINDS), EXECUTE)
    return check(made)


def test_the_document_of_a_plan() -> None:
    plan = runs.planned(overrides={"alive": "it is a drill"})
    made = document(plan)
    assert made["fingerprint"] == plan.fingerprint
    assert made["refused"] == [
        {
            "by": "precheck",
            "precheck": "lag",
            "reason": "orders: 1,204 records are missing",
            "remedy": "wait until it is 0",
        }
    ]
    findings = made["findings"]
    assert isinstance(findings, list)
    assert [f["check"] for f in findings] == ["alive", "lag", "caches", "retention", "connect"]
    assert made["overrides"] == [{"precheck": "alive", "reason": "it is a drill"}]
    assert made["execute"] == EXECUTE


def test_a_plan_survives_its_document() -> None:
    plan = runs.planned(overrides={"alive": "it is a drill"})
    made = document(plan)
    steps = made["steps"]
    assert isinstance(steps, list)
    overrides = {o["precheck"]: o["reason"] for o in made["overrides"]}  # type: ignore[attr-defined]
    assert Plan.from_json({**made, "overrides": overrides}) == plan
    assert steps[2]["rollback"] == "remove exactly the ACLs that were added"


def test_equal_plans_have_equal_texts() -> None:
    plan = runs.planned()
    assert json.dumps(document(plan)) == json.dumps(document(plan, FINDINGS[::-1]))


def test_a_plan_that_breaks_an_ordering_rule_is_refused() -> None:
    plan = runs.planned()
    broken = replace(plan, steps=tuple(s for s in plan.steps if s.id != "fence-producers"))
    refused = document(broken, ())["refused"]
    assert isinstance(refused, list)
    assert {(each["by"], each["precheck"]) for each in refused} == {("order", None)}
    actions = next_actions(broken, (), violations(broken, KINDS), EXECUTE)
    assert all(line.startswith("The plan breaks an ordering rule: step ") for line in actions)
    assert verdict(broken, (), violations(broken, KINDS)).startswith("Blocked: ")


def test_the_rows_of_the_steps() -> None:
    rows = step_rows(runs.unplanned())
    fence, opening = rows[2], next(row for row in rows if row.enables_writes)
    assert (
        fence.title
        == "fence producers on primary: deny WRITE to User:orders-app, User:payments-app"
    )
    assert fence.unless == "if it fails, it becomes an outstanding action and the run continues"
    assert (rows[0].rollback, fence.rollback != "") == ("", True)
    assert [row.number for row in rows] == list(range(1, 11))
    assert opening.id == "enable-writes"


def printed(width: int) -> str:
    stream = StringIO()
    Console(width=width, file=stream).print(plan_table(runs.planned(), (), (), EXECUTE))
    return stream.getvalue()


def test_steps_on_a_narrow_terminal_have_their_proof_below_the_action() -> None:
    wide, narrow = map(printed, (160, 80))
    assert "Proof" in wide.splitlines()[3]
    assert "Proof: every broker has the ACLs" not in wide
    assert (
        "\n                        Proof: every broker has the ACLs, and end offsets are" in narrow
    )
    assert "\n                        Rollback: remove exactly the ACLs that were added" in narrow


def test_a_command_at_the_end_of_a_fix_can_be_pasted() -> None:
    (lag,) = (replace(f, check="replication-lag") for f in FINDINGS if f.check == "lag")
    for fix, line in (
        ("compare them: kafka-x --partition 0", "Compare them: kafka-x --partition 0"),
        ("wait: `drctl status`", "Wait: `drctl status`."),
    ):
        actions = next_actions(runs.planned(), [replace(lag, remedy=fix)], (), EXECUTE)
        assert actions[0] == line


def test_precheck_rows_are_worst_first() -> None:
    rows = precheck_rows(FINDINGS, {"alive": "it is a drill"})
    shown = [(row.status.value, row.check, row.overridden, row.blocks) for row in rows]
    assert shown == [
        ("fail", "alive", "it is a drill", False),
        ("fail", "lag", "", True),
        ("not-checked", "caches", "", False),
        ("warn", "retention", "", False),
    ]
    words = prechecks_in_words(FINDINGS, {"alive": "it is a drill"})
    assert words == "2 fail (1 overridden), 1 not checked, 1 warn, 1 ok"
    assert prechecks_in_words((), {}) == "none"


def test_unchecked_prechecks_block_a_failover_that_needs_them() -> None:
    name = next(
        name
        for name, check_ in PRECHECKS.items()
        if check_.prechecks and check_.prechecks.needed == {Mode.PLANNED}
    )
    unseen = (Finding(name, Status.NOT_CHECKED, "x", "it did not answer"),)
    assert verdict(runs.planned(), unseen, ()).startswith("Blocked: ")
    assert verdict(runs.unplanned(), unseen, ()).startswith("Ready: ")
    assert [row.blocks for row in precheck_rows(unseen, {}, Mode.PLANNED)] == [True]
    assert [row.blocks for row in precheck_rows(unseen, {}, Mode.UNPLANNED)] == [False]


def test_suggested_commands() -> None:
    plan = runs.planned(overrides={"alive": "it is a drill"})
    lagging = tuple(replace(f, check="replication-lag") for f in FINDINGS if f.check == "lag")
    assert next_actions(plan, lagging, (), EXECUTE) == (
        "Wait until it is 0.",
        "Or override, each with a reason: --override PRECHECK=REASON (replication-lag)",
    )
    for line in (
        "curl -X PUT http://connect:8083/connectors/x/stop",
        "drctl resume R",
        "kafka-x y",
    ):
        typed = tuple(replace(each, remedy=line) for each in lagging)
        assert next_actions(plan, typed, (), EXECUTE)[0] == line, "the command was changed"
    for name in ("target-unreachable", "source-lost", "cluster-unreachable"):
        final = tuple(replace(each, check=name) for each in lagging)
        assert next_actions(plan, final, (), EXECUTE) == ("Wait until it is 0.",), name
    for name in (*OVERRIDABLE, PRECHECK):
        others = tuple(replace(each, check=name) for each in lagging)
        assert f"({name})" in next_actions(plan, others, (), EXECUTE)[-1]
    assert verdict(plan, FINDINGS, ()) == (
        "Blocked: failover-planned of link main, primary to secondary, 13 steps; 1 blocker below."
    )
    ready = next_actions(plan, FINDINGS[:2], (), EXECUTE)
    assert ready == ("Nothing was changed. To execute this plan:", EXECUTE)
    assert verdict(plan, FINDINGS[:2], ()).startswith("Ready: ")


@pytest.mark.parametrize("bad", [runs.ATTACK, runs.CONTROLS])
def test_hostile_names_are_printable_in_lines_and_safe_in_json(bad: str) -> None:
    plan = runs.planned(link=bad, ends=(bad, f"{bad}2"), principals=(bad,), connectors=(bad,))
    found = tuple(replace(f, subject=bad, reason=bad, impact=bad, remedy=bad) for f in FINDINGS)
    texts = [verdict(plan, found, (bad,)), *next_actions(plan, found, (bad,), bad)]
    texts += [*leaving_lines(plan), *loss_lines(Loss(message=bad, evidence=(bad,)))]
    for row in step_rows(plan):
        texts += [row.title, row.proof, row.rollback]
    for precheck in precheck_rows(found, {"lag": bad}):
        texts += [
            precheck.subject,
            precheck.reason,
            precheck.impact,
            precheck.remedy,
            precheck.overridden,
        ]
    assert [text for text in texts if not text.isprintable()] == []
    assert json.dumps(document(plan, found)).isprintable()


def test_how_clients_leave_is_part_of_the_plan() -> None:
    plan = runs.planned()
    clients = document(plan)["clients"]
    assert isinstance(clients, list)
    by_step = {each["step"]: each["message"] for each in clients}
    assert list(by_step) == [
        "fence-consumers",
        "switch-endpoint-1",
        "switch-endpoint-2",
        "verify-clients",
    ]
    assert "members of classic groups also for their group" in by_step["fence-consumers"]
    assert "they stay connected to primary until they are restarted" in by_step["switch-endpoint-1"]
    assert "the proxy closes its sessions to primary" in by_step["switch-endpoint-2"]
    assert "listed with client id and host" in by_step["verify-clients"]
    assert leaving_lines(plan)[1] == f"switch-endpoint-1: {by_step['switch-endpoint-1']}"


def test_a_plan_that_moves_no_clients_says_so() -> None:
    plan = runs.planned()
    still = replace(plan, steps=tuple(s for s in plan.steps if s.kind != "switch-endpoint"))
    first, *others = leaving_rows(still)
    assert first.step is None
    assert [row.step for row in others] == ["fence-consumers", "verify-clients"]
    assert first.message.startswith("drctl switches no endpoint: redirect clients to secondary")
    assert leaving_lines(still)[0].startswith("no endpoint: drctl switches no endpoint")
    clients = document(still)["clients"]
    assert isinstance(clients, list)
    assert clients[0]["step"] is None
    closed = replace(still, steps=tuple(s for s in still.steps if s.kind != "enable-writes"))
    assert leaving_rows(closed) == ()


def test_a_plan_of_an_older_drctl_does_not_describe_clients() -> None:
    plan = runs.planned()
    old = ("number", "kind", "to")
    steps = (
        replace(s, settings={key: s.settings[key] for key in old})
        if s.kind == "switch-endpoint"
        else s
        for s in plan.steps
    )
    assert [row.step for row in leaving_rows(replace(plan, steps=tuple(steps)))] == [
        "fence-consumers",
        "verify-clients",
    ]


def test_the_loss_is_shown_with_the_plan() -> None:
    plan = runs.unplanned()
    why = Figure(12, "seen"), Figure(1240, "alive"), Figure(3100, "until now")
    loss = Loss(LossRange(*why), 4.5, 9.0, "about 1,240\nrecords", ("a heartbeat\x1b[2J",))
    made = check(plan_document(plan, (), (), EXECUTE, loss=loss))
    assert [made["loss"][name] for name in ("at_least", "records", "at_most")] == [12, 1240, 3100]
    assert made["loss"]["based_on"]["at_most"] == "until now"
    assert {**made, "loss": None} == document(plan, ())
    assert loss_lines(loss) == ("about 1,240 records", "a heartbeat\\x1b[2J")
