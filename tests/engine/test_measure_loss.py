"""The step that says what is probably lost notes it for the report, and of which topics."""

from typing import Any, cast

from drctl.engine.kind import State
from drctl.engine.ports import Loss
from drctl.engine.registry import KINDS
from tests.engine.switches import Blind

STEP = KINDS["measure-loss"]


class Survivor:
    """What is left."""

    def topics(self) -> tuple[str, ...]:
        return ("orders", "payments")

    def loss(self) -> Loss:
        return Loss(1240, 4.5, "about 1,240 records", 12, ("a heartbeat", "the journal"))


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
        "seconds": 4.5,
        "evidence": ["a heartbeat", "the journal"],
    }
