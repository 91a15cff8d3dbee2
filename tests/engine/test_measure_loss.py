"""The step that says what is probably lost notes it for the report, and of which topics."""

from typing import Any, cast

from drctl.engine.kind import State
from drctl.engine.registry import KINDS
from drctl.model.loss import Figure, Loss, LossRange, loss_range
from tests.engine.switches import Blind

STEP = KINDS["measure-loss"]
RANGE = LossRange(
    Figure(12, "checkpoints"), Figure(1240, "until a heartbeat"), Figure(3100, "until now")
)
LOSS = Loss(RANGE, 4.5, 9.0, "about 1,240 records", ("a heartbeat", "the journal"))


class Survivor:
    """What is left."""

    def topics(self) -> tuple[str, ...]:
        return ("orders", "payments")

    def loss(self) -> Loss:
        return LOSS


def test_it_notes_what_the_report_needs() -> None:
    look = cast(Any, Survivor())
    intent = STEP.check({"source": "a", "target": "b"}, {}, look)
    assert intent == {"topics": ["orders", "payments"]}
    assert STEP.apply(intent, cast(Any, Blind())) == ()
    seen = STEP.verify(intent, look)
    assert (seen.state, seen.words) == (State.DONE, "about 1,240 records")
    assert seen.facts == {
        "records": 1240,
        "at_least": 12,
        "at_most": 3100,
        "rests_on": {
            "records": "until a heartbeat",
            "at_least": "checkpoints",
            "at_most": "until now",
        },
        "seconds": 4.5,
        "seconds_at_most": 9.0,
        "evidence": ["a heartbeat", "the journal"],
    }
    assert seen.facts is not None
    assert loss_range(seen.facts) == RANGE, "the report reads it again"
