"""Outstanding actions of earlier runs are resolved only by what a failback has verified."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from drctl.app.failback import outstanding_since_failback
from drctl.engine import entries
from drctl.engine.failback_state import OutstandingAction
from drctl.engine.kind import Facts, Readback, State
from drctl.engine.ports import LinkReader
from drctl.engine.run_state import RunState, read_run
from drctl.model.plan import Plan, Step
from drctl.model.typed_json import to_json
from drctl.steps.registry import KINDS

AT = datetime(2026, 11, 23, tzinfo=UTC)
WHO = {"user": "ada", "host": "laptop"}
OUT = ("primary", "secondary")
SETTINGS = {"source": "secondary", "target": "primary", "question": "resolve-outstanding"}
FENCE = OutstandingAction("r1", "fence primary", "fence-producers", *OUT, fences=True)
THROUGH = OutstandingAction(
    "r2", "it let records through", "fence-producers", "secondary", "primary", True
)
COUNTS = {"positions": 1, "groups": 1, "same": 0, "rereads_at_most": 0}
WHOLE: Facts = {
    "fence-recovered": {},
    "fence-producers": {},
    "commit-offsets": {**COUNTS, "stand": {"app": [["orders", 0, 5]]}},
    "prepare-groups": {},
    "verify-clients": {},
    "verify-copies": {"missing": 0, "duplicated": 0},
    "verify-forward-copies": {"missing": 0, "duplicated": 0},
    "verify-groups": {"positions": 1, "groups": 1, "wrong": 0},
    "keep-source-connectors-stopped": {},
    "move-source-positions": {"target": "primary", "connectors": []},
}
LEFT: Facts = {
    "connector": "shop",
    "plugin": "",
    "prospect": "stays-stopped",
    "position": "",
    "age_seconds": None,
    "reason": "its position was not exported",
    "if_purged": "",
}


@dataclass
class Asked:
    """A journal with outstanding actions, with or without a person to ask."""

    actions: Sequence[OutstandingAction]
    says: bool | None = None
    asked_text: str = ""

    def outstanding(self) -> Sequence[OutstandingAction]:
        return self.actions

    def answer(self, question: str, text: str) -> bool | None:
        assert question == "resolve-outstanding"
        self.asked_text = text
        return self.says


def settled(world: Asked, facts: Facts = WHOLE) -> Readback:
    look, kind = cast(LinkReader, world), KINDS["resolve-outstanding"]
    return kind.verify(kind.check(SETTINGS, facts, look), look)


@pytest.mark.parametrize(
    ("outstanding", "proof", "without"),
    [
        (FENCE, "primary was fenced before its records were searched", "fence-recovered"),
        (
            FENCE,
            "is missing only records that were not to be copied (verify-secondary)",
            "verify-forward-copies",
        ),
        (THROUGH, "primary has all of its records (verify-primary)", "verify-copies"),
        (
            OutstandingAction("r1", "groups of KIP-848", "prepare-groups", *OUT),
            "clients have left it (verify-clients)",
            "verify-clients",
        ),
        (
            OutstandingAction("r1", "2 are twice", "verify-copies", "secondary", "primary"),
            "primary holds no record twice (verify-primary)",
            "verify-copies",
        ),
        (
            OutstandingAction("r1", "2 are twice", "verify-forward-copies", "secondary", "primary"),
            "primary",
            "",
        ),
        (
            OutstandingAction("r1", "it does not copy back", "restart-replication", *OUT),
            "primary has every record of secondary (verify-primary)",
            "verify-copies",
        ),
        (
            OutstandingAction("r1", "1 left out", "commit-offsets", *OUT, groups=("app",)),
            "app: each has a committed offset on primary now",
            "verify-groups",
        ),
        (
            OutstandingAction("r1", "its workers were dead", "stop-source-connectors", *OUT),
            "the source connectors of primary were stopped before it was used again",
            "keep-source-connectors-stopped",
        ),
        (
            OutstandingAction("r1", "shop stays stopped", "move-source-positions", *OUT),
            "the source connectors of secondary were moved to primary (move-source-positions)",
            "move-source-positions",
        ),
        (
            OutstandingAction("r1", "shop failed", "resume-source-connectors", *OUT),
            "the source connectors of secondary were moved to primary (move-source-positions)",
            "move-source-positions",
        ),
    ],
)
def test_a_verification_resolves_its_own_actions(
    outstanding: OutstandingAction, proof: str, without: str
) -> None:
    seen = settled(Asked((outstanding,)))
    if not without:
        # This verification covers the other cluster, not the one in the step's name.
        assert "secondary holds no record twice (verify-secondary)" in seen.items[0]
        return
    assert (seen.state, seen.outstanding) == (State.DONE, "")
    assert seen.items[0].startswith(f"{outstanding.what} (run {outstanding.run}): ")
    assert proof in seen.items[0]
    less = {kind: facts for kind, facts in WHOLE.items() if kind != without}
    kept = settled(Asked((outstanding,)), less)
    assert f"{outstanding.what} (run {outstanding.run})" in kept.outstanding
    assert kept.facts["kept"] == [to_json(outstanding, whole=True)]


@pytest.mark.parametrize(
    ("outstanding", "facts"),
    [
        (
            OutstandingAction("r1", "2 are twice", "verify-copies", "secondary", "primary"),
            {"verify-copies": {"missing": 0, "duplicated": 2}},
        ),
        (OutstandingAction("r1", "1 left out", "commit-offsets", *OUT, groups=("other",)), {}),
        (
            OutstandingAction("r1", "1 thrown back", "verify-groups", *OUT, groups=("app",)),
            {"verify-groups": {"positions": 1, "groups": 1, "wrong": 1}},
        ),
        (
            OutstandingAction("r1", "shop stays stopped", "move-source-positions", *OUT),
            {"move-source-positions": {"target": "primary", "connectors": [LEFT]}},
        ),
        (OutstandingAction("r1", "nobody knows which", "commit-offsets", *OUT), {}),
        (OutstandingAction("r1", "something of a runbook", "manual-change", *OUT), {}),
    ],
)
def test_an_unverified_action_stays_outstanding(outstanding: OutstandingAction, facts: Any) -> None:
    seen = settled(Asked((outstanding, FENCE)), {**WHOLE, **facts})
    assert seen.message == "1 outstanding action is resolved, 1 left"
    assert seen.outstanding == (
        f"not confirmed by this run: {outstanding.what} (run r1);"
        " once they are done, pass --answer resolve-outstanding=yes to the next failback"
    )


def test_a_person_may_confirm_an_action() -> None:
    outstanding = OutstandingAction("r1", "something of a runbook", "manual-change", *OUT)
    world = Asked((outstanding,), says=True)
    seen = settled(world)
    assert world.asked_text.endswith("something of a runbook (run r1)")
    assert (seen.outstanding, seen.items) == (
        "",
        ("something of a runbook (run r1): confirmed by the operator",),
    )
    assert settled(Asked((outstanding,), says=False)).outstanding


def test_nothing_is_outstanding() -> None:
    assert settled(Asked(())).message == "no outstanding actions"


def state(
    run: str, step: Step, what: str, *, failed_back: bool = False, ended: str = "done"
) -> RunState:
    """A run with an outstanding action of one step."""
    judge = (Step("order", "failback-order", {}),) if failed_back else ()
    plan = Plan("p", "main", *OUT, (*judge, step))
    lines = [
        entries.began(run, plan, WHO, AT),
        entries.intend(step.id, 1, {}, AT),
        entries.done(step.id, 1, Readback(State.DONE, "", _facts(step)), AT),
        entries.outstanding(step.id, what, AT),
    ]
    return read_run([*lines, *([entries.ended(ended, AT)] if ended else [])])


def _facts(step: Step) -> dict[str, Any]:
    if step.kind == "resolve-outstanding":
        return {"kept": [to_json(FENCE)]}
    return (
        {**COUNTS, "left_out": ["app orders-0: no place"]} if step.kind == "commit-offsets" else {}
    )


FENCES, SETTLES = Step("fence", "fence-producers", {}), Step("settle", "resolve-outstanding", {})
COMMITS = Step("commit", "commit-offsets", {})


def test_journals_are_read_back_to_the_last_completed_failback() -> None:
    asked: list[str] = []

    def newest_first() -> Any:
        for each in (
            state("under-way", FENCES, "not yet", ended=""),
            *(state(f"out-{n}", FENCES, "fence primary") for n in range(30)),
            state("stopped", COMMITS, "1 left out", failed_back=True, ended="stopped"),
            state("home", SETTLES, "1 remains", failed_back=True),
            state("before", FENCES, "long ago"),
        ):
            asked.append(each.run)
            yield each

    found = outstanding_since_failback(newest_first())
    assert asked[-1] == "home"
    assert len(found) == 32, "actions of runs before the newest twenty are missing"
    assert found[0] == OutstandingAction(
        "out-0", "fence primary", "fence-producers", *OUT, fences=True
    )
    assert found[-2].groups == ("app",)
    assert found[-1] == FENCE, "an action that a failback could not resolve has changed"
