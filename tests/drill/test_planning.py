"""What a drill creates, on which link, and which steps of the real plan it omits."""

import pytest

from drctl.drill.cleaning import MARK, Scratch, began, drill_of
from drctl.drill.planning import LEFT_OUT, comparable, coverage, narrowed, overrides, rehearsal
from drctl.engine.invariants import violations
from drctl.model.errors import Refused
from drctl.model.loss import Mode
from drctl.model.plan import Plan
from drctl.plans.inputs import FenceMethod, PlanInputs
from drctl.steps.questions import questions
from drctl.steps.registry import KINDS
from tests.links import link

SCRATCH = Scratch("20260102t030405z-0a1b2c", "orders.")
READERS = ("User:nobody",)


@pytest.mark.parametrize("name", [SCRATCH.topic, SCRATCH.probe_record, SCRATCH.group])
@pytest.mark.parametrize("prefix", ["", "primary."])
def test_names_of_a_drill_are_recognized(name: str, prefix: str) -> None:
    assert drill_of(prefix + name) == SCRATCH.drill
    assert began(SCRATCH.drill).isoformat() == "2026-01-02T03:04:05+00:00"


@pytest.mark.parametrize(
    "name",
    [
        "orders", f"{MARK}x", f"{MARK}notes", f"{MARK}20260102t030405z-0a1b2",
        f"{MARK}20260102t030405z-0a1b2c-records-of-mine.v2", "User:x", "__consumer_offsets",
    ],
)  # fmt: skip
def test_similar_names_do_not_belong_to_a_drill(name: str) -> None:
    assert drill_of(name) is None


def test_a_narrowed_link_has_only_the_drills_topic() -> None:
    wide = link(topics=["orders.*"], exclude=[".*drill.*"], groups=["app"], translate=False)
    found = narrowed(wide, SCRATCH, READERS)
    assert found.topics_of(["orders.1", SCRATCH.topic, f"{SCRATCH.topic}x"]) == (SCRATCH.topic,)
    assert found.carries_group(SCRATCH.group)
    assert not found.carries_group("app")
    assert not found.carries_group(SCRATCH.group.replace(".", "x"))
    assert (found.settings.fence.method, found.settings.fence.principals) == ("acl", READERS)
    assert narrowed(wide, SCRATCH, ()).settings.fence.method == "none"


MM2 = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


@pytest.mark.parametrize(
    ("config", "copied"),
    [
        ({"connector.class": MM2}, True),
        ({"connector.class": MM2, "topics": "orders.*, x"}, True),
        ({"connector.class": MM2, "topics": "payments.*"}, False),
        ({"connector.class": MM2, "topics": ".*", "topics.exclude": ".*drill.*"}, False),
        ({"connector.class": "x.ReplicatorSourceConnector", "topic.whitelist": "orders"}, False),
        ({"connector.class": "x.ReplicatorSourceConnector", "topic.regex": "orders.*"}, True),
    ],
)
def test_a_topic_that_would_not_be_replicated_is_refused(
    config: dict[str, str], copied: bool
) -> None:
    found = coverage("mm2-source", config)
    if copied:
        found.require(SCRATCH)
        return
    with pytest.raises(Refused, match=r"connector mm2-source does not replicate topic") as refused:
        found.require(SCRATCH)
    assert "--topic-prefix" in refused.value.hint


def seen(method: FenceMethod = FenceMethod.ACL) -> PlanInputs:
    return PlanInputs(
        "main", "a", "b", ("User:app",), ("mm2-source",), ("dns",), fence_method=method,
        overrides=overrides(method is FenceMethod.ACL), source_connectors={"shop": "shop-dr"},
    )  # fmt: skip


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("method", FenceMethod)
def test_no_step_changes_shared_objects(mode: Mode, method: FenceMethod) -> None:
    found = rehearsal(mode, seen(method), READERS)
    kinds = {step.kind for step in found.plan.steps}
    assert not kinds & LEFT_OUT.keys()
    assert {"preflight", "commit-offsets", "enable-writes", "verify-clients"} <= kinds
    sources = {"stop-source-connectors", "move-source-positions", "resume-source-connectors"}
    assert {"stop-replication", "advance-producer-ids", "switch-endpoint-1", *sources} <= {
        each.id for each in found.left_out
    }
    assert all(each.why for each in found.left_out)
    assert questions(found.plan) == {}, "a drill asks nobody"
    if method is FenceMethod.ACL:
        violated = violations(found.plan, KINDS)
        assert all("stops replication" in line for line in violated), violated


def test_plans_of_two_drills_can_be_compared() -> None:
    other = Scratch("20260102t030405z-ffffff", "orders.")

    def plan(scratch: Scratch, mode: Mode = Mode.PLANNED) -> Plan:
        readers = (scratch.principal,)
        return comparable(rehearsal(mode, seen(), readers).plan, scratch)

    assert plan(SCRATCH) == plan(other)
    denied = plan(SCRATCH).step("fence-consumers").settings["principals"]
    assert denied == [f"User:{MARK}DRILL"]
    assert plan(SCRATCH).fingerprint != plan(other, Mode.UNPLANNED).fingerprint


def test_drctls_own_user_is_never_denied_reading() -> None:
    plan = rehearsal(Mode.PLANNED, seen(), READERS).plan
    assert plan.step("fence-producers").settings["principals"] == ["User:app"]
    assert plan.step("fence-consumers").settings["principals"] == list(READERS)
    assert "fence-not-possible" not in plan.overrides
    assert (
        "fence-not-possible" in rehearsal(Mode.PLANNED, seen(FenceMethod.NONE), ()).plan.overrides
    )
