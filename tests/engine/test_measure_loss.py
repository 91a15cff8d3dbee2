"""The step that estimates what is not replicated records it for the report, with its topics."""

from typing import Any, cast

import pytest

from drctl.engine.kind import State
from drctl.model.loss import Figure, Loss, LossFacts, LossRange
from drctl.model.typed_json import read_as
from drctl.steps.registry import KINDS
from tests.engine.toggles import Blind

STEP = KINDS["measure-loss"]
RANGE = LossRange(
    Figure(12, "checkpoints"), Figure(1240, "until a heartbeat"), Figure(3100, "until now")
)
LOSS = Loss(RANGE, 4.5, 9.0, "about 1,240 records", ("a heartbeat", "the journal"))


class TargetOnly:
    """The surviving cluster."""

    def topics(self) -> tuple[str, ...]:
        return ("orders", "payments")

    halted: str | None = "nobody said"

    def loss(self, *, halted: str | None = None) -> Loss:
        self.halted = halted
        return LOSS


def test_it_records_the_facts_of_the_report() -> None:
    look = cast(Any, TargetOnly())
    intent = STEP.check({"source": "a", "target": "b"}, {}, look)
    assert intent == {"topics": ["orders", "payments"]}
    assert STEP.apply(intent, cast(Any, Blind())) == ()
    seen = STEP.verify(intent, look)
    assert (seen.state, seen.message) == (State.DONE, "about 1,240 records")
    assert look.halted is None, "the state of replication was not left to Connect"
    assert seen.facts == {
        "records": 1240,
        "at_least": 12,
        "at_most": 3100,
        "based_on": {
            "records": "until a heartbeat",
            "at_least": "checkpoints",
            "at_most": "until now",
        },
        "seconds": 4.5,
        "seconds_at_most": 9.0,
        "evidence": ["a heartbeat", "the journal"],
    }
    assert read_as(LossFacts, seen.facts).range == RANGE, "the report does not read the same range"


@pytest.mark.parametrize(
    ("before", "idle", "halted"),
    [
        ({"mm2": "RUNNING"}, [], ""),
        ({"mm2": "FAILED+RUNNING"}, [], "connector mm2 was FAILED+RUNNING"),
        ({"mm2": "RUNNING"}, ["mm2"], "connector mm2 had no task"),
        ({"mm2": "PAUSED"}, [], "connector mm2 was PAUSED"),
    ],
)
def test_replication_stopped_by_its_own_run_is_no_evidence(
    before: dict[str, str], idle: list[str], halted: str
) -> None:
    look = cast(Any, TargetOnly())
    facts = {"request-stop": {"before": before, "workers": 1, "idle": idle}}
    STEP.verify(STEP.check({"source": "a", "target": "b"}, facts, look), look)
    assert look.halted == halted
