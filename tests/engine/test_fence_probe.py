"""Whether ACLs stay is observed over time; none of the probe's ACLs remains."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import cast

import pytest

from drctl.engine.executing import Execution
from drctl.engine.invariants import violations
from drctl.engine.kind import Kind, Outcome, Status
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.engine.run_state import read_run
from drctl.model.errors import Unreachable
from drctl.model.fencing import PROBE_TOPIC
from drctl.model.repairs import Acl
from drctl.model.topology import Unavailable
from drctl.plans.single_step import fence_probe_plan
from drctl.steps.fence_probe import ProbeAcls, ProbeFacts, RemoveProbeAcls
from drctl.steps.registry import PROBE
from tests.engine.test_interruptions import Countdown
from tests.engine.test_shared_fences import APP, RULE, Cluster
from tests.engine.toggles import Crash, FastClock, MemoryJournal, NoWatcher, World
from tests.links import link

WATCHED_S = 60.0
PLAN = fence_probe_plan(link(fence={"method": "acl", "principals": [APP]}), "AAA", WATCHED_S)
WHO = {"user": "ada", "host": "laptop"}


@dataclass
class Watched(Cluster):
    """A cluster, and others who change its ACLs.

    Attributes:
        happens: called at each read of the ACLs with the seconds so far.
    """

    clock: FastClock = field(default_factory=FastClock)
    world: World = field(default_factory=World)
    happens: Callable[["Watched"], None] = lambda _: None
    names: tuple[str, ...] = ("orders",)

    def __post_init__(self) -> None:
        self.link = "main"

    def cluster_reader(self, name: str) -> "Watched":
        assert name == "primary"
        return self

    def topic_names(self) -> tuple[str, ...]:
        return self.names

    def acls(self, name: str = "") -> object:
        if not name:
            self.happens(self)
        return super().acls(name)

    def deny(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        self.world.fall("before deny")
        found = super().deny(rules)
        self.world.fall("after deny")
        return found

    def restore(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        self.world.fall("before restore")
        found = super().restore(rules)
        self.world.fall("after restore")
        return found

    def begun(self, notes: MemoryJournal) -> Execution:
        kinds = {k.name: Kind(k) for k in (ProbeAcls(self.clock.monotonic), RemoveProbeAcls())}
        reader = cast(LinkReader, _Reading(self))
        writer = cast(LinkWriter, self)
        return Execution(kinds, reader, writer, notes, self.clock, NoWatcher())


@dataclass
class _Reading:
    """The reader of the steps: ACLs unchanged, not those that a link shares."""

    cluster: Watched

    def acls(self, name: str) -> Watched:
        return self.cluster

    def cluster_reader(self, name: str) -> Watched:
        return self.cluster.cluster_reader(name)


def run(cluster: Watched, crashes: tuple[int, ...] = ()) -> tuple[Outcome, ProbeFacts | None]:
    """Start a run, and resume it after each crash."""
    notes = MemoryJournal(cluster.world)
    for number in (*crashes, None):
        cluster.world.fall = (lambda point: None) if number is None else Countdown(number)
        try:
            if not notes.entries:
                state, outcome = cluster.begun(notes).start(PLAN, WHO)
            else:
                state = read_run(notes.entries)
                outcome = cluster.begun(notes).resume(state, WHO)
        except Crash:
            continue
        return outcome, state.facts_by_kind().of(ProbeAcls())
    raise AssertionError("the last attempt has no crash")


def deleted_at(second: float, *, signs_only: bool = False) -> Callable[[Watched], None]:
    """Return what an operator deletes from a time on, at each read."""

    def delete(cluster: Watched) -> None:
        if cluster.clock.seconds >= began + second:
            foreign = {r for r in cluster.rules if r.name == PROBE_TOPIC}
            cluster.rules -= {r for r in foreign if r.principal != APP or not signs_only}

    began = FastClock().seconds
    return delete


def test_the_plan_keeps_the_ordering_rules_and_uses_every_kind() -> None:
    kinds = {k.name: Kind(k) for k in (ProbeAcls(), RemoveProbeAcls())}
    assert violations(PLAN, kinds) == ()
    assert {step.kind for step in PLAN.steps} == PROBE


def test_acls_that_stay_are_removed_after_the_time() -> None:
    cluster = Watched({RULE})
    outcome, facts = run(cluster)
    assert outcome.status is Status.DONE
    assert facts is not None
    assert (facts.principals, facts.acls, facts.deleted) == ((APP,), 2, 0)
    assert WATCHED_S <= facts.seconds < WATCHED_S + 2
    assert cluster.rules == {RULE}


@pytest.mark.parametrize(("signs_only", "deleted"), [(False, 2), (True, 1)])
def test_deleted_acls_end_the_probe_at_once(signs_only: bool, deleted: int) -> None:
    cluster = Watched({RULE}, happens=deleted_at(30, signs_only=signs_only))
    outcome, facts = run(cluster)
    assert outcome.status is Status.DONE
    assert facts is not None
    assert facts.deleted == deleted
    assert 25 < facts.seconds < 35
    assert cluster.rules == {RULE}


def test_a_topic_of_that_name_refuses_the_probe() -> None:
    cluster = Watched({RULE}, names=("orders", PROBE_TOPIC))
    outcome, facts = run(cluster)
    assert (outcome.status, facts) == (Status.REFUSED, None)
    assert "exists on primary" in outcome.message
    assert cluster.rules == {RULE}


def test_a_user_who_may_not_change_acls_learns_it_before_the_time_is_over() -> None:
    cluster = Watched({RULE})
    refusal = Unavailable("this user may not change ACLs; grant it ALTER on the cluster")
    cluster.deny = lambda rules: dict.fromkeys(rules, refusal)  # type: ignore[method-assign]
    began = cluster.clock.seconds
    outcome, facts = run(cluster)
    assert (outcome.status, facts) == (Status.REFUSED, None)
    assert "drctl's user needs ALTER on the cluster" in outcome.message
    assert cluster.clock.seconds - began < WATCHED_S
    assert cluster.rules == {RULE}


def test_a_source_that_does_not_answer_for_long_is_probed_again_by_resume() -> None:
    def dies(cluster: Watched) -> None:
        if cluster.clock.seconds >= FastClock().seconds + 20:
            raise Unreachable("cluster primary did not answer")

    cluster = Watched({RULE}, happens=dies)
    notes = MemoryJournal(cluster.world)
    state, outcome = cluster.begun(notes).start(PLAN, WHO)
    assert outcome.status is Status.UNKNOWN
    assert len(cluster.rules) == 3
    cluster.happens = lambda _: None
    outcome = cluster.begun(notes).resume(state, WHO)
    assert outcome.status is Status.DONE
    assert state.facts_by_kind().of(ProbeAcls()) == ProbeFacts((APP,), 2, 0, WATCHED_S)
    assert cluster.rules == {RULE}


def test_a_probe_that_crashed_anywhere_is_resumed_and_leaves_no_rule() -> None:
    counted = Countdown(10**9)
    cluster = Watched({RULE})
    notes = MemoryJournal(cluster.world)
    cluster.world.fall = counted
    cluster.begun(notes).start(PLAN, WHO)
    points = 10**9 - counted.left
    assert points > 4
    for number in range(points):
        cluster = Watched({RULE})
        outcome, facts = run(cluster, (number,))
        assert outcome.status is Status.DONE, number
        assert facts is not None
        assert facts.deleted == 0
        assert cluster.rules == {RULE}, number
