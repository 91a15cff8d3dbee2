"""The command before it meets a cluster, and what it draws on a terminal."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from drctl.cli.main import run
from drctl.cli.reconcile.confirming import in_words
from drctl.cli.reconcile.table import reconcile_table
from drctl.model.gap import OrderVerdict
from drctl.model.topology import TopicPartition
from drctl.reconcile.policy import Action, Policies
from drctl.reconcile.results import Gone, ReconcileResult, planned
from tests.reconcile.world import T, World, copies, row

PLACE = TopicPartition(T, 0)


def world(*orders: OrderVerdict) -> World:
    rows = [row(offset) for offset in range(len(orders))]
    return World({PLACE: rows}, {(PLACE, n): o for n, o in enumerate(orders)}, {PLACE: rows})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--policy", "copy"), "nowhere holds no gap result"),
        ((), "what is to become of the records?"),
        (("--policy", "refuse"), "there is no policy 'refuse'"),
        (("--policy", "copy", "--yes"), "--yes goes with --execute"),
        (("--policy", "discard"), "only of topics that are named"),
        (("--policy", "copy", "--override", "recreated=x"), "no guard 'recreated'"),
    ],
)
def test_usage_errors(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["reconcile", "nowhere", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


def test_another_document_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gap.json").write_text(json.dumps({"schema": "drctl/gap-estimate/1"}))
    assert run(["reconcile", str(tmp_path), "--policy", "copy"]) == 3
    assert "holds no gap result: its schema is 'drctl/gap-estimate/1'" in capsys.readouterr().err


def drawn(result: ReconcileResult) -> str:
    out = StringIO()
    Console(file=out, width=120).print(reconcile_table(result, "drctl reconcile tail --execute"))
    return out.getvalue()


def test_a_plan_says_what_is_refused_and_what_to_type() -> None:
    plan = world(OrderVerdict.SAFE, OrderVerdict.CONFLICTING).plan(Policies(Action.COPY))
    text = drawn(ReconcileResult(plan, results=planned(plan)))
    assert text.startswith("Plan for cluster b: 1 record to be done\n")
    assert "refused (conflicting)" in text
    assert "say with --conflicting what becomes of them" in text
    assert text.endswith("Nothing was written. To do this:\n  drctl reconcile tail --execute\n")
    assert in_words(plan) == "copies 1 record to orders"


def test_a_guard_stands_against_all_and_says_how_it_is_passed_over() -> None:
    seen = world(OrderVerdict.SAFE)
    seen.not_compared = ("orders-3: no leader",)
    plan = seen.plan(copies())
    text = drawn(ReconcileResult(plan, results=planned(plan)))
    assert "incomplete: it was not compared: orders-3: no leader (--override" in text
    assert "To do this" not in text


def test_a_result_names_what_is_gone_and_why_it_stopped() -> None:
    plan = world(OrderVerdict.SAFE).plan(copies())
    gone = {PLACE: Gone([(3, 5), (9, 9)], 4)}
    text = drawn(
        ReconcileResult(
            plan, "R", "J", 2.0, planned(plan), gone, failure="the wire broke", hint="mend it"
        )
    )
    assert "gone from the source: 4 records of orders-0: 3..5, 9" in text
    assert "Stopped: the wire broke" in text
    assert "cannot be taken back" in text
