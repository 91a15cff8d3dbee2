"""The executor runs the plan of a runbook like any other plan."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from drctl.engine.entries import What
from drctl.engine.executing import Execution
from drctl.engine.kind import Outcome, Status
from drctl.engine.ports import LinkReader, LinkWriter, Missing
from drctl.runbook.building import build
from drctl.runbook.reading import read
from drctl.steps.questions import answers
from drctl.steps.registry import KINDS
from tests.engine.test_read_only_steps import FINE, Two
from tests.engine.toggles import Blind, FastClock, MemoryJournal, NoWatcher, World
from tests.runbook.links import FULL

TEXT = """name: x
about: x
parameters: {most: {type: integer, about: x, default: 5}}
steps:
  - {id: agreed, manual: "the owner of ${source} agrees"}
  - {id: prechecks, check: [mm2-topics]}
  - {id: led, wait: {for: source leaders elected, at_most: 1m}}
  - {id: empty, wait: {for: groups empty, at_most: 1m}, duty: optional}
  - {id: found, gap: {scope: full, at_most: "${most}"}}
  - {id: inform, manual: they know, duty: best-effort}
"""


@dataclass
class Asked(Two):
    """Two clusters, with answers given beforehand."""

    given: dict[str, bool] = field(default_factory=dict)

    def answer(self, question: str, text: str) -> bool | None:
        return self.given.get(question)


def carried_out(two: Asked, *given: str) -> tuple[Outcome, MemoryJournal]:
    plan = build(read(TEXT, Path("x.yaml")), {}, FULL)
    two.given = dict(answers(plan, given))
    two.results = tuple(type(FINE)("mm2-topics", each.status, "x", "y") for each in two.results)
    notes = MemoryJournal(World())
    run = Execution(
        KINDS, cast(LinkReader, two), cast(LinkWriter, Blind()), notes, FastClock(), NoWatcher()
    )
    return run.start(plan, {"user": "ada"})[1], notes


def facts(notes: MemoryJournal) -> dict[str, object]:
    return {str(e["step"]): e["facts"] for e in notes.entries if e["entry"] == What.DONE}


def test_all_steps_are_done_and_the_answers_are_in_the_journal() -> None:
    outcome, notes = carried_out(Asked(results=(FINE,)), "agreed=yes", "inform=yes")
    assert outcome.status is Status.DONE
    assert facts(notes)["agreed"] == {"answer": "yes"}
    assert facts(notes)["found"] == {"unreplicated": 0}


@pytest.mark.parametrize(
    ("two", "given", "status", "step"),
    [
        (Asked(results=(FINE,)), [], Status.REFUSED, "agreed"),
        (Asked(results=(FINE,)), ["agreed=no"], Status.REFUSED, "agreed"),
        (Asked(), ["agreed=yes"], Status.REFUSED, "prechecks"),
        (Asked(results=(FINE,), leaders={0: None}), ["agreed=yes"], Status.REFUSED, "led"),
        (
            Asked(results=(FINE,), missing_records=Missing(6)),
            ["agreed=yes"],
            Status.REFUSED,
            "found",
        ),
        (
            Asked(results=(FINE,), missing_records=Missing(0, ("x",))),
            ["agreed=yes"],
            Status.UNKNOWN,
            "found",
        ),
    ],
    ids=["not answered", "no", "a precheck", "a deadline", "too many", "not compared"],
)
def test_the_run_ends_at_a_step_that_cannot_be_done(
    two: Asked, given: list[str], status: Status, step: str
) -> None:
    outcome, _ = carried_out(two, *given)
    assert (outcome.status, outcome.step) == (status, step)


def test_an_unanswered_best_effort_step_is_outstanding() -> None:
    outcome, notes = carried_out(Asked(results=(FINE,)), "agreed=yes")
    assert (outcome.status, outcome.outstanding) == (Status.DONE, True)
    outstanding = [e["what"] for e in notes.entries if e["entry"] == What.OUTSTANDING]
    assert outstanding[0].startswith("they know: not answered")
