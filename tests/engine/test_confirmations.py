"""Questions to the engineer: answered, unanswered, rolled back; fences outside drctl."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from drctl.engine.kind import State
from drctl.engine.ports import CommandResult, LinkReader, LinkWriter
from drctl.model.errors import UsageError
from drctl.model.fencing import Enforcement, FenceProof, Moved, NoWrites
from drctl.model.loss import Mode
from drctl.model.repairs import Acl
from drctl.model.topology import TopicPartition
from drctl.plans.failover import failover
from drctl.plans.inputs import FenceMethod, PlanInputs
from drctl.steps.questions import answers, questions, unanswered
from drctl.steps.registry import FAILBACK, KINDS
from tests.engine.toggles import Blind

PLACE = TopicPartition("orders", 0)


@dataclass
class Room:
    """A person, and a source whose end offsets may grow."""

    says: dict[str, bool] = field(default_factory=dict)
    grows: bool = False
    code: int = 0
    rules: list[Collection[Acl]] = field(default_factory=list)

    def answer(self, question: str, text: str) -> bool | None:
        return self.says.get(question)

    def topics(self) -> tuple[str, ...]:
        return ("orders",)

    def fence(self, name: str, stabilize_s: float) -> "Room":
        return self

    def prove(self, rules: Collection[Acl], topics: Collection[str]) -> FenceProof:
        self.rules.append(rules)
        moved = {PLACE: Moved(1, 2)} if self.grows else {}
        ends = {} if self.grows else {PLACE: 2}
        return FenceProof(Enforcement({}, 0, 0), NoWrites(1, ends, moved))

    def run_read_only(
        self, argv: list[str], env: dict[str, str], timeout_s: float
    ) -> CommandResult:
        return CommandResult(self.code)

    def command_result(self, identity: str) -> CommandResult | None:
        return None


def seen(kind: str, room: Room, settings: dict[str, Any], *, back: bool = False) -> Any:
    look, step = cast(LinkReader, room), KINDS[kind]
    intent = step.check(settings, {}, look)
    if back:
        assert step.undo(intent, cast(LinkWriter, Blind())) == ()
        return step.verify_undo(intent, look)
    assert step.apply(intent, cast(LinkWriter, Blind())) == ()
    return step.verify(intent, look)


ASKED = {"question": "q", "text": "stop\n it", "undo": "start it", "cluster": "a"}
FENCE = {**ASKED, "stabilize_seconds": 1}
MANUAL = sorted(name for name in KINDS.keys() - FAILBACK if name.startswith("manual"))


@pytest.mark.parametrize("kind", MANUAL)
@pytest.mark.parametrize(
    ("says", "state", "words"),
    [
        ({"q": True}, State.DONE, "confirmed by the operator: stop it"),
        ({"q": False}, State.FAILED, "answered no: stop it"),
        ({}, State.FAILED, "not answered: stop it: answer in a terminal or pass --answer q=yes"),
    ],
)
def test_a_confirmation_counts(kind: str, says: dict[str, bool], state: State, words: str) -> None:
    found = seen(kind, Room(says), FENCE)
    assert found.state is state
    assert found.message.startswith(words)


@pytest.mark.parametrize("kind", [k for k in MANUAL if k not in ("manual", "manual-check")])
def test_a_manual_change_is_rolled_back_by_a_person(kind: str) -> None:
    assert seen(kind, Room({"q": True}), FENCE, back=True).state is State.FAILED
    assert seen(kind, Room({"q.undo": True}), FENCE, back=True).state is State.DONE
    description = KINDS[kind].describe(FENCE)
    assert (description.title, description.rollback) == ("stop it", "start it")


def test_a_change_without_a_rollback_is_reported() -> None:
    found = seen("manual-change", Room({"q.undo": True}), {**ASKED, "undo": ""}, back=True)
    assert (found.state, found.message) == (State.FAILED, "cannot be rolled back: stop it")


COMMAND = {"argv": ["f"], "verify": ["v"], "undo": ["u"], "env": {}, "timeout_seconds": 1}


@pytest.mark.parametrize("kind", ["manual-fence", "command-fence"])
def test_an_external_fence_holds_only_while_end_offsets_are_stable(kind: str) -> None:
    settings = FENCE if kind == "manual-fence" else {**FENCE, **COMMAND}
    held = seen(kind, still := Room({"q": True}), settings)
    assert held.state is State.DONE
    assert held.message.endswith("the end offsets of 1 partition were stable for 1 s")
    assert held.facts["ends"] == {"orders-0": 2}
    assert still.rules == [()]
    grows = seen(kind, Room({"q": True}, grows=True), settings)
    assert (grows.state, grows.message) == (State.WAITING, "orders-0 grew from 1 to 2 within 1 s")


def test_an_unset_fence_is_not_verified() -> None:
    intent = {**FENCE, **COMMAND, "identity": "i", "already": False, "topics": ["orders"]}
    found = KINDS["command-fence"].verify(intent, cast(LinkReader, Room(code=1)))
    assert (found.state, found.message) == (State.WAITING, "`v` reports that it is not done")
    assert seen("manual-fence", Room({"q": False}), FENCE).state is State.FAILED


BARE = PlanInputs("main", "primary", "secondary", fence_method=FenceMethod.NONE)


def test_prompts_belong_to_manual_steps() -> None:
    plan = failover(Mode.PLANNED, BARE)
    assert list(questions(plan)) == ["fence-producers", "stop-consumers", "stop-replication"]
    given = answers(plan, ["fence-producers=yes", "stop-replication.undo=no"])
    assert given == {"fence-producers": True, "stop-replication.undo": False}
    assert list(unanswered(plan, given)) == ["stop-consumers", "stop-replication"]


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ("fence-producers", "--answer takes ID=yes or ID=no, not fence-producers", ""),
        ("fence-producers=y", "--answer takes ID=yes or ID=no, not fence-producers=y", ""),
        ("fence-producer=yes", "no question fence-producer", "did you mean 'fence-producers'?"),
    ],
)
def test_invalid_answers(given: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        answers(failover(Mode.PLANNED, BARE), [given])
    assert caught.value.hint == hint
