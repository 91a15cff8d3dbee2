"""The exit code of a drill: unknown is never reported as passed, failed or worse."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drctl.cli import drill_stage
from drctl.cli.drill_stage import Ending, Stage, cleaning_up
from drctl.config.loading import read
from drctl.drill.cleaning import Cleaned, Scratch, began
from drctl.drill.inventory import Compared, Inventory
from drctl.drill.result import Limits, Loss, Measures, Outage, Result, TranslationError, Verdict
from drctl.drill.takeovers import Takeover
from drctl.engine.kind import Outcome, Status
from drctl.model.errors import ExitCode, Interrupted, Refused, Unknown, Unreachable
from drctl.views.drill_text import VERDICTS, DrillDocument, result_table
from tests.cli.documents import check
from tests.connectors.test_tables import drawn

DRILL = "20260102t030400z-000000"
GOOD = Measures(
    Outage("refused", 4.0, 4.5), Loss(100, 0, 0.0, (), 0), TranslationError(50, 0, 0, 0, 0, ())
)
SLOW = replace(GOOD, outage=Outage("refused", 4.0, 90.0))
AS_BEFORE = Compared((), 0, 12, ())
CHANGED = replace(AS_BEFORE, differences=("a: topic orders was removed",))
HIDDEN = replace(AS_BEFORE, unseen=("a: rules: not allowed",))

YAML = """
clusters: {a: {bootstrap: "127.0.0.1:1"}, b: {bootstrap: "127.0.0.1:2"}}
links: {main: {from: a, to: b, topics: [".*"]}}
"""


def result(**changes: Any) -> Result:
    given = {"measures": GOOD, "compared": AS_BEFORE, **changes}
    limits = Limits(30, 60, planned=True)
    return Result(
        Scratch(DRILL), "main", "a", "b", "copy", "planned", "", began(DRILL), 9.0, limits, **given
    )


@pytest.mark.parametrize(
    ("changes", "verdict", "code"),
    [
        ({}, Verdict.PASSED, ExitCode.DONE),
        ({"measures": SLOW}, Verdict.NOT_PASSED, ExitCode.FOUND),
        ({"compared": CHANGED}, Verdict.NOT_PASSED, ExitCode.FOUND),
        ({"measures": None, "broke_off": "no"}, Verdict.FAILED, ExitCode.FOUND),
        ({"compared": None}, Verdict.UNKNOWN, ExitCode.UNKNOWN),
        ({"compared": HIDDEN}, Verdict.UNKNOWN, ExitCode.UNKNOWN),
        ({"compared": HIDDEN, "measures": SLOW}, Verdict.UNKNOWN, ExitCode.UNKNOWN),
        (
            {"measures": None, "broke_off": "silent", "unanswered": True},
            Verdict.UNKNOWN,
            ExitCode.UNKNOWN,
        ),
        (
            {"measures": None, "broke_off": "no", "compared": None},
            Verdict.UNKNOWN,
            ExitCode.UNKNOWN,
        ),
        (
            {"measures": None, "broke_off": "^C", "interrupted": True, "compared": None},
            Verdict.UNKNOWN,
            ExitCode.INTERRUPTED,
        ),
        ({"left": ("topic x",), "compared": None}, Verdict.UNKNOWN, ExitCode.STOPPED),
        ({"left": ("topic x",)}, Verdict.NOT_PASSED, ExitCode.STOPPED),
    ],
)
def test_each_result_has_its_exit_code(
    changes: dict[str, Any], verdict: Verdict, code: ExitCode
) -> None:
    found = result(**changes)
    assert (found.verdict, found.exit_code) == (verdict, code)
    assert bool(found.reasons) == (code is not ExitCode.DONE), "only a passed drill has no reasons"
    assert found.past().verdict is verdict
    document = check(DrillDocument.of(found, history=None))
    assert document["verdict"] == verdict.value
    assert VERDICTS[verdict]


def test_tasks_that_run_again_are_listed() -> None:
    moved = Takeover("shop", 0, "w:8083", "w:8084", 11.2)
    restarted = Takeover("mm2-source", 1, "w:8084", "w:8084", 0.4)
    text = drawn(result_table(result(takeovers=(moved, restarted)), None))
    assert "shop task 0: running again after 11.2 s, taken over from w:8083 by w:8084" in text
    assert "mm2-source task 1: running again after 0.4 s, on w:8084" in text


def test_the_reason_of_a_missing_comparison_is_reported() -> None:
    (reason,) = result(compared=None, not_compared="cluster a did not answer").reasons
    assert reason == "cannot tell whether other resources are unchanged: cluster a did not answer"


def stage(tmp_path: Path) -> Any:
    link = read(YAML, tmp_path / "drctl.yaml").link("main")
    return SimpleNamespace(link=link, scratch=Scratch(DRILL), fault=None, source=None, target=None)


@pytest.mark.parametrize(
    ("error", "unanswered", "interrupted"),
    [
        (Unreachable("silent"), True, False),
        (Unknown("not seen"), True, False),
        (Refused("no"), False, False),
        (Interrupted("^C"), False, True),
    ],
)
def test_a_missing_response_is_not_a_failure(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    unanswered: bool,
    interrupted: bool,
) -> None:
    monkeypatch.setattr(drill_stage, "clean_up", lambda *_: Cleaned())
    monkeypatch.setattr(drill_stage, "_settled", lambda *_: AS_BEFORE)
    ending = Ending()
    with cleaning_up(stage(tmp_path), Inventory({}), ending):
        raise error
    assert (ending.unanswered, ending.interrupted) == (unanswered, interrupted)
    assert ending.broke_off == str(error)


def test_a_failed_second_inventory_leaves_no_objects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted objects are deleted, whether or not a cluster responds afterwards."""

    def silent(*_: object) -> Compared:
        raise Unreachable("cluster a did not answer")

    monkeypatch.setattr(drill_stage, "clean_up", lambda *_: Cleaned(gone=["topic x"]))
    monkeypatch.setattr(drill_stage, "_settled", silent)
    ending = Ending()
    with cleaning_up(stage(tmp_path), Inventory({}), ending):
        pass
    assert (ending.deleted, ending.left, ending.compared) == (["topic x"], [], None)
    assert ending.not_compared == "cluster a did not answer"


@pytest.mark.parametrize("status", Status)
def test_unverified_steps_are_unknown(status: Status) -> None:
    at: Any = SimpleNamespace(outcome=Outcome(status, "commit-offsets", "no answer"))
    assert Stage.outcome_unknown.__get__(at) is (status is Status.UNKNOWN)
