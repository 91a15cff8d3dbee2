"""Causes that come first: an unfinished run, moved clients, an unreachable source."""

from typing import Any

from drctl.checks.causes import (
    causes_first,
    group_by_cause,
    in_words,
    one_per_reason,
    without_consequences,
)
from drctl.checks.diagnosis import diagnosed
from drctl.checks.go import GroupsNow, judged
from drctl.checks.registry import precheck_findings
from drctl.model.finding import Finding, Status
from drctl.model.loss import Mode
from drctl.views.findings import DoctorDocument
from drctl.views.plan_text import (
    next_actions,
    plan_document,
    precheck_rows,
    prechecks_in_words,
    verdict,
)
from drctl.views.status_text import status_document, status_line
from tests.checks.observing import observed
from tests.checks.test_go import HEALTHY
from tests.report import runs

LINK = {
    "topics": ["orders"],
    "replicator": {
        "kind": "mirrormaker2",
        "connect": "http://c:8083",
        "connectors": {"source": "mm2-source"},
    },
    "fence": {"method": "acl", "principals": ["User:app"]},
}
AFTER: dict[str, Any] = {
    **HEALTHY,
    "link": LINK,
    "connectors": {"mm2-source": {"state": "STOPPED"}},
    "target_groups": {"orders-app": {"members": ["c@/h"]}},
    "acls": ["DENY User:app WRITE LITERAL:orders *"],
    "lag": {"orders-0": [161_413, 161_413, "by time", 1_800_000_000_000 - 538_800]},
    "active_cluster": {"moved": ["R1", "failover-unplanned", 3600]},
}
HALF_WAY = {
    **AFTER,
    "active_cluster": {
        "moved": ["R1", "failover-unplanned", 3600],
        "unfinished": [
            "R2",
            "failback",
            "ada on laptop-7",
            "clients cannot write: b is fenced, and writes are not enabled on a",
        ],
    },
}
HARM = ("restart what failed", "stop these consumers", "raise policy", "see why replication")


def remedies(found: tuple[Finding, ...]) -> str:
    return "\n".join(each.remedy for each in found)


def test_status_after_a_failover_advises_nothing_harmful() -> None:
    seen = judged(observed(AFTER), GroupsNow(), None, 0.5)
    for answer in (seen.planned, seen.unplanned):
        first = answer.blockers[0]
        assert first.check == "clients-moved"
        assert (
            "on b since 2027-01-15 07:00:00 UTC, moved by run R1 (failover-unplanned)"
            in first.reason
        )
        assert "`drctl failback --check-order --link main`" in first.remedy
        assert not any(harm in remedies(answer.blockers) for harm in HARM)
    by_name = {each.check: each for each in seen.planned.blockers}
    assert by_name["replication-not-running"].remedy == "see clients-moved"
    assert by_name["groups-active-on-target"].remedy == "see clients-moved"
    assert (seen.rpo.records, seen.rpo.seconds, seen.topics) == (None, None, ())
    assert "clients are on b" in seen.rpo.how


def test_doctor_after_a_failover_advises_nothing_harmful() -> None:
    found = diagnosed(observed(AFTER))
    assert found.rows[0].finding.check == "clients-moved"
    assert not found.ready
    assert not any(harm in remedies(tuple(r.finding for r in found.rows)) for harm in HARM)


def test_unknown_journal_is_reported_and_changes_nothing() -> None:
    seen = judged(observed({**AFTER, "active_cluster": "no answer"}), GroupsNow(), None, 0.5)
    unknown = {each.check: each for each in seen.others}
    assert unknown["clients-moved"].status is Status.NOT_CHECKED
    assert "no answer" in unknown["clients-moved"].reason
    assert "stop these consumers" in remedies(seen.planned.blockers)


def test_unfinished_run_comes_first() -> None:
    seen = judged(observed(HALF_WAY), GroupsNow(), None, 0.5)
    first, *rest = seen.planned.blockers
    assert first.check == "runs-unfinished"
    assert first.reason.startswith("run R2 stopped before its end; ")
    assert first.remedy.startswith("`drctl resume R2 --execute`")
    assert {each.remedy for each in rest} == {"see runs-unfinished"}


def test_plan_names_only_the_unfinished_run() -> None:
    findings = causes_first(precheck_findings(observed(HALF_WAY)))
    plan = runs.planned()
    assert verdict(plan, findings, ()).startswith("Blocked")
    assert precheck_rows(findings, {})[0].check == "runs-unfinished"
    (line,) = next_actions(plan, findings, (), "drctl failover --execute")
    assert line.startswith("`drctl resume R2 --execute`")


def test_plan_after_a_failover_names_only_the_failback() -> None:
    findings = causes_first(precheck_findings(observed(AFTER)))
    lines = next_actions(runs.planned(), findings, (), "drctl failover --execute")
    assert "drctl failback --check-order" in lines[0]
    text = "\n".join(lines)
    assert not any(harm in text for harm in HARM)
    assert "groups-active-on-target" not in text


def test_overridden_cause_reveals_the_other_findings() -> None:
    findings = precheck_findings(observed(AFTER))
    assert causes_first(findings, {"clients-moved": "home by hand"}) == findings
    assert without_consequences(findings, {"clients-moved": "home by hand"}) == findings
    assert "stop these consumers" in remedies(causes_first(findings, ["clients-moved"]))


WHY = "a does not answer: 3 brokers are down"
DEAD: dict[str, Any] = {
    **HEALTHY,
    "link": LINK,
    "source": WHY,
    "acls": WHY,
    "lag": WHY,
    "transactions": WHY,
    "source_producers": WHY,
    "connectors": {"mm2-source": {"state": "RUNNING", "tasks": [["RUNNING"]]}},
    "left_out": [],
    "active_cluster": {},
}


def test_unreachable_source_is_reported_once_in_a_plan() -> None:
    findings = causes_first(precheck_findings(observed(DEAD)))
    individual, (unseen,) = group_by_cause(findings)
    assert unseen.cause.why == WHY
    assert unseen.reported_by == "source-unreachable"
    assert {"fence-not-possible", "hanging-transactions", "replication-lag"} <= set(unseen.checks)
    assert "source-unreachable" in {each.check for each in individual}
    rows = precheck_rows(findings, {})
    assert [row.check for row in rows if WHY in f"{row.subject} {row.reason}"] == [
        f"{len(unseen.checks)} checks could not run"
    ]
    alone = sum(row.status is Status.NOT_CHECKED for row in rows) - 1
    failing = sum(row.status is Status.FAIL for row in rows)
    assert prechecks_in_words(findings, {}).startswith(
        f"{failing} fail, {len(unseen.checks) + alone} not checked, "
    )
    assert verdict(runs.planned(), findings, ()).endswith("; 1 blocker below.")
    assert sum(WHY in line for line in in_words(findings)) == 1

    plan = plan_document(runs.planned(), findings, (), "drctl failover --execute").to_json()
    (cause,) = plan["causes"]
    assert (cause["reason"], cause["count"]) == (WHY, len(unseen.checks))
    (refused,) = plan["refused"]
    assert refused["precheck"] == "source-unreachable"
    assert f"{len(unseen.checks)} checks could not run (" in refused["reason"]
    mine = [each for each in plan["findings"] if each["cause"] == cause["cause"]]
    assert {each["check"] for each in mine} >= set(unseen.checks)
    assert not any(WHY in each["reason"] for each in plan["findings"])


def test_unreachable_source_is_reported_once_by_doctor_and_status() -> None:
    found = DoctorDocument.of(diagnosed(observed(DEAD))).to_json()
    (cause,) = [each for each in found["causes"] if each["reason"] == WHY]
    assert cause["count"] == len(cause["checks"]) > 2
    assert not any(WHY in each["reason"] for each in found["checks"])
    seen = judged(observed(DEAD), GroupsNow(), None, 0.5)
    status = status_document(seen).to_json()
    assert [each["reason"] for each in status["causes"]] == [WHY]
    blockers = [*status["planned"]["blockers"], *status["unplanned"]["blockers"]]
    assert not any(WHY in each["reason"] for each in blockers)
    assert "that could not run" in status_line(seen)


def test_unplanned_plan_reports_checks_without_source_once() -> None:
    findings = causes_first(precheck_findings(observed({**DEAD, "mode": "unplanned"})))
    rows = precheck_rows(findings, {}, Mode.UNPLANNED)
    assert sum(WHY in f"{row.subject} {row.reason}" for row in rows) <= 1


def test_single_check_that_could_not_run_is_reported_itself() -> None:
    findings = precheck_findings(observed({**HEALTHY, "link": LINK, "lag": "it hung up"}))
    individual, unseen = group_by_cause(findings)
    assert unseen == () or all(len(each.checks) > 1 for each in unseen)
    assert len(individual) + sum(len(each.findings) for each in unseen) == len(findings)


def test_findings_that_differ_in_their_subject_are_one() -> None:
    found = [
        Finding("replication-not-running", Status.FAIL, f"connector {name}", f"state {state}")
        for name, state in (("a", "STOPPED"), ("b", "FAILED"), ("c", "STOPPED"))
    ]
    assert [(each.subject, each.reason) for each in one_per_reason(found)] == [
        ("connector a, connector c", "state STOPPED"),
        ("connector b", "state FAILED"),
    ]


def test_unreachable_source_is_one_cause() -> None:
    findings = causes_first(precheck_findings(observed(DEAD)))
    by_name = {each.check: each for each in findings}
    assert by_name["fence-not-possible"].remedy == "see source-unreachable"
    assert by_name["hanging-transactions"].remedy == "see source-unreachable"
    lines = next_actions(runs.planned(), findings, (), "drctl failover --execute")
    assert lines[0].startswith("If a is lost: `drctl failover --mode unplanned --link main`")
    assert "kafka-transactions" not in "\n".join(lines)
    assert "grant drctl's user" not in "\n".join(lines)
