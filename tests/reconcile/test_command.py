"""The command before it connects, and what it draws on a terminal."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from drctl.cli.main import run
from drctl.cli.reconcile import folder_of, in_words
from drctl.model.errors import DrctlError, Refused
from drctl.model.gap import OrderVerdict
from drctl.model.topology import TopicPartition
from drctl.reconcile.executing import Limits
from drctl.reconcile.policy import Action, Policies
from drctl.reconcile.results import Count, Gone, LineResult, Outcome, ReconcileResult, planned
from drctl.views.exports import ExportFolder
from drctl.views.reconcile import reconcile_table
from tests.reconcile.world import FakeCopier, T, World, copies, row

PLACE = TopicPartition(T, 0)


def world(*orders: OrderVerdict) -> World:
    rows = [row(offset) for offset in range(len(orders))]
    return World({PLACE: rows}, {(PLACE, n): o for n, o in enumerate(orders)}, {PLACE: rows})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--policy", "copy"), "nowhere"),
        ((), "no policy given"),
        (("--policy", "refuse"), "unknown policy 'refuse'"),
        (("--policy", "copy", "--yes"), "--yes requires --execute"),
        (("--policy", "discard"), "discard requires --topic"),
        (("--policy", "copy", "--override", "recreated=x"), "'recreated'"),
    ],
)
def test_usage_errors(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["reconcile", "nowhere", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


def test_the_newest_result_of_the_link_is_the_default(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    clusters = "clusters: {a: {bootstrap: 'x:1'}, b: {bootstrap: 'y:1'}}"
    links = "links: {main: {from: a, to: b, topics: [t], replicator: {kind: none}}}"
    (tmp_path / "drctl.yaml").write_text(f"{clusters}\n{links}\n", encoding="utf-8")
    assert run(["reconcile", "--policy", "copy"]) == 2
    assert "link main has no result of `drctl gap` in" in capsys.readouterr().err

    newest = "main-20261123T120000.000000Z"
    for name in ("main-20261122T120000.000000Z", newest, "main-back-20261124T120000.000000Z"):
        folder = tmp_path / ".drctl" / "gap" / name
        folder.mkdir(parents=True)
        (folder / "gap.json").write_text("{}", encoding="utf-8")
    assert folder_of(None, None).name == folder_of(None, "main").name == newest
    with pytest.raises(DrctlError, match="other"):
        folder_of(None, "other")


def test_another_document_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gap.json").write_text(json.dumps({"schema": "drctl/gap-estimate/1"}))
    assert run(["reconcile", str(tmp_path), "--policy", "copy"]) == 3
    assert "its schema is 'drctl/gap-estimate/1'" in capsys.readouterr().err


def drawn(result: ReconcileResult) -> str:
    out = StringIO()
    Console(file=out, width=120).print(reconcile_table(result, "drctl reconcile tail --execute"))
    return out.getvalue()


def test_a_plan_shows_refusals_and_the_next_command() -> None:
    plan = world(OrderVerdict.SAFE, OrderVerdict.CONFLICTING).plan(Policies(Action.COPY))
    text = drawn(ReconcileResult(plan, results=planned(plan)))
    assert text.startswith("Plan for cluster b: 1 record to process, 1 refused\n")
    assert "refused (conflicting)" in text
    assert "--conflicting" in text
    assert text.endswith("is not refused:\n  drctl reconcile tail --execute\n")
    assert in_words(plan) == "copies 1 record to orders"


def test_a_failed_precheck_blocks_everything_and_names_its_override() -> None:
    seen = world(OrderVerdict.SAFE)
    seen.not_compared = ("orders-3: no leader",)
    plan = seen.plan(copies())
    text = drawn(ReconcileResult(plan, results=planned(plan)))
    assert "incomplete: not compared: orders-3: no leader (--override" in text
    assert "To execute" not in text


def test_a_result_names_deleted_records_and_the_reason_of_the_stop() -> None:
    plan = world(OrderVerdict.SAFE).plan(copies())
    gone = {PLACE: Gone([(3, 5), (9, 9)], 4)}
    text = drawn(
        ReconcileResult(
            plan, "R", "J", 2.0, planned(plan), gone, failure="the wire broke", hint="mend it"
        )
    )
    assert "deleted on the source: 4 records of orders-0: 3..5, 9" in text
    assert "Stopped: the wire broke" in text
    assert "cannot be rolled back" in text


def test_the_headline_says_if_everything_is_refused() -> None:
    plan = world(OrderVerdict.CONFLICTING).plan(Policies(Action.COPY))
    text = drawn(ReconcileResult(plan, results=planned(plan)))
    assert text.startswith("Plan for cluster b: nothing to do, 1 record refused\n")
    assert "To execute" not in text
    assert "rolled back" not in text


def test_earlier_decisions_are_reported_unchanged() -> None:
    seen = world(OrderVerdict.SAFE)
    seen.execution(copies(Action.DISCARD), FakeCopier(seen.target), Limits()).run()
    plan = seen.plan(copies())
    text = drawn(ReconcileResult(plan, results=planned(plan)))
    assert "discarded" in text
    assert "copy to" not in text, "a discarded record is shown as one to copy"
    assert text.startswith("Plan for cluster b: nothing to do\n")


@pytest.mark.parametrize(
    ("action", "consequence", "not_covered"),
    [
        (Action.DISCARD, "discarded records are recorded", "appended"),
        (Action.EXPORT, "an export changes nothing on either cluster", "appended"),
        (Action.QUARANTINE, "quarantine topic", "an export"),
        (Action.COPY, "__drctl_provenance", "an export"),
    ],
)
def test_the_consequence_matches_the_action(
    action: Action, consequence: str, not_covered: str
) -> None:
    plan = world(OrderVerdict.SAFE).plan(copies(action))
    text = " ".join(drawn(ReconcileResult(plan, results=planned(plan))).split())
    assert consequence in text.lower()
    assert not_covered not in text


def test_an_impossible_export_is_refused_without_a_retry(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match="cannot write") as raised:
        ExportFolder(tmp_path / "file" / "out", {}).begin([])
    plan = world(OrderVerdict.SAFE).plan(copies(Action.EXPORT))
    lines = tuple(LineResult(line, Outcome.PARTIAL, Count()) for line in plan.lines)
    code, failure = raised.value.exit_code, raised.value.message
    result = ReconcileResult(plan, "R", "J", 1, lines, failure=failure, failure_code=code)
    assert result.exit_code == 3
    text = drawn(result)
    assert text.startswith("Nothing was written")
    assert "not done" in text
    assert "To go on" not in text
