"""A plan runs as printed: the same steps in the same order with the same settings."""

from io import StringIO
from itertools import product

import pytest
from rich.console import Console

from drctl.engine.entries import What
from drctl.engine.kind import Status
from drctl.engine.run_state import read_run
from drctl.model.loss import Mode
from drctl.model.plan import Plan
from drctl.plans.inputs import FenceMethod
from drctl.views.plan_text import plan_document, plan_table
from tests.engine import repairs, test_failback_interruptions
from tests.engine.crashing import WHO, run
from tests.engine.failovers import REVERSED, case, nothing_wrong, positions_refused
from tests.engine.repairs import Lagging
from tests.engine.toggles import MemoryJournal

CASES = {
    **{f"{mode} {method}": case(mode, method) for mode, method in product(Mode, FenceMethod)},
    "planned, and back": case(Mode.PLANNED, seen=REVERSED),
    "turned back": case(Mode.PLANNED, prepare=positions_refused),
    "failback": test_failback_interruptions.case(nothing_wrong),
}
PRINTED = ("id", "kind", "settings", "duty", "timeout_seconds")


def printed(plan: Plan) -> list[dict[str, object]]:
    """Return the steps of a plan's JSON."""
    steps = plan_document(plan, (), (), "drctl ... --execute").to_json()["steps"]
    return [{key: step[key] for key in PRINTED} for step in steps]


@pytest.mark.parametrize("name", CASES)
def test_the_steps_that_are_printed_are_the_steps_that_run(name: str) -> None:
    given = CASES[name]
    ran = run(given)
    entries = ran.ledger.entries
    walked = list(dict.fromkeys(each["step"] for each in entries if "step" in each))
    shown = [str(step["id"]) for step in printed(given.plan)]
    ended_at = shown.index(ran.outcome.step) if ran.outcome.step else len(shown) - 1
    assert walked == shown[: ended_at + 1]
    assert ran.outcome.status is Status.DONE or name == "turned back"
    assert printed(read_run(entries[:1]).plan) == printed(given.plan)
    assert entries[0]["fingerprint"] == given.plan.fingerprint


@pytest.mark.parametrize("name", CASES)
def test_the_table_has_the_same_order(name: str) -> None:
    plan = CASES[name].plan
    shown = StringIO()
    Console(width=1000, file=shown).print(plan_table(plan, (), (), "drctl ... --execute"))
    rows = [line.split()[:2] for line in shown.getvalue().splitlines() if line[:1].isdigit()]
    assert rows == [[str(n), step.id] for n, step in enumerate(plan.steps, 1)]


def test_a_repair_prints_its_changes() -> None:
    world = Lagging()
    notes = MemoryJournal(world)
    _, outcome = repairs.execution(world, notes).start(repairs.plan(), WHO)
    assert outcome.status is Status.DONE
    walked = [each["step"] for each in notes.entries if each["entry"] == What.INTEND]
    assert walked == [step["id"] for step in printed(repairs.plan())]
