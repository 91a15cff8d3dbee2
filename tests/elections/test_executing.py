"""A run of elections: second read, journal entry before the request, result, and resume."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import cast

import pytest

from drctl.app.election_adapters import outcomes_of
from drctl.app.link_reader import ClusterLinkReader
from drctl.elections.cluster_state import Declined, Kind, PartitionStates
from drctl.elections.loss import Evidence
from drctl.elections.planning import ElectionPlan, Precheck, preferred_plan, unclean_plan
from drctl.elections.results import ElectionResult, Outcome, results_of
from drctl.engine.executing import Execution
from drctl.engine.kind import Outcome as Ended
from drctl.engine.kind import Status
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.engine.run_state import RunState, read_run
from drctl.model.errors import ExitCode, Unknown
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable
from drctl.plans.single_step import election_plan
from drctl.steps.registry import KINDS
from tests.elections.cluster_states import PLACE, partition, reader
from tests.engine.toggles import Crash, FastClock, MemoryJournal, NoWatcher, World

BEHIND = reader(partition((2, 3), (3,)), alive=(1, 2), ends={2: 100})
LED = reader(partition((2, 3), (2,), leader=2, epoch=8), alive=(1, 2), ends={2: 100})
WHO = {"user": "ada", "host": "laptop"}


@dataclass
class Cluster(World):
    """A cluster that records the order of events; implements the ports of the step.

    Attributes:
        looks: states for successive reads; the last one repeats.
        answer: the controller's response to every request.
        mute: whether the controller's response is lost.
        responses: the controller's responses to this process.
        looking: whether a step is reading.
    """

    looks: list[PartitionStates] = field(default_factory=lambda: [BEHIND])
    answer: Unavailable | None = None
    mute: bool = False
    cut: int | Unavailable = 100
    elected: list[TopicPartition] = field(default_factory=list)
    responses: dict[TopicPartition, Unavailable | None] = field(default_factory=dict)
    looking: bool = False

    def elections(self, name: str) -> "Cluster":
        assert name == "main"
        return self

    def look(self, topics: Collection[str] | None, ends_of: object = None) -> PartitionStates:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def ends_before(
        self, epochs: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int | Unavailable]:
        assert epochs == {PLACE: 7}, "not the epoch before the election"
        return {PLACE: self.cut}

    def answers(self) -> Mapping[TopicPartition, Unavailable | None]:
        return self.responses

    def elect(
        self, kind: Kind, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, Unavailable | None]:
        assert not self.looking, "a read-only method elected leaders"
        self.fall("before the election")
        self.elected += places
        self.fall("after the election")
        silence = Unavailable("no answer")
        self.responses |= dict.fromkeys(places, silence if self.mute else self.answer)
        if self.mute:
            raise Unknown("no answer")
        return dict.fromkeys(places, self.answer)


def planned(seen: PartitionStates) -> ElectionPlan:
    evidence = [Evidence(PLACE, "group app has read up to 180", 180)]
    return unclean_plan("main", seen, [PLACE], evidence, {}, {Precheck.UNCLEAN: "given up"})


@dataclass
class Run:
    """One run of a plan, executed by one process after another."""

    cluster: Cluster
    plan: ElectionPlan = field(default_factory=lambda: planned(BEHIND))
    clock: FastClock = field(default_factory=FastClock)

    def __post_init__(self) -> None:
        self.notes = MemoryJournal(self.cluster)

    def go(self, fall: Callable[[str], None] = lambda point: None) -> tuple[RunState, Ended]:
        """Start or resume it in a process without memory."""
        self.cluster.fall, self.cluster.responses = fall, {}
        given = cast(LinkReader, self.cluster), cast(LinkWriter, self.cluster)
        engine = Execution(KINDS, *given, self.notes, self.clock, NoWatcher())
        if not self.notes.entries:
            return engine.start(election_plan(self.plan, "cluster:main"), WHO)
        state = read_run(self.notes.entries)
        return state, engine.resume(state, WHO)

    def result(self) -> ElectionResult:
        """Return the result as the command reports it."""
        state, outcome = self.go()
        found = outcomes_of(state, cast(ClusterLinkReader, self.cluster))
        resume = "" if state.status else "drctl resume"
        assert bool(resume) == (outcome.status is Status.UNKNOWN)
        return ElectionResult(self.plan, results_of(self.plan, *found), state.run, resume=resume)

    @property
    def journaled(self) -> list[str]:
        """Return the kinds of the journal's entries."""
        return [str(each["entry"]) for each in self.notes.entries]


def crash_at(point: str) -> Callable[[str], None]:
    def fall(here: str) -> None:
        if here == point:
            raise Crash

    return fall


def test_an_election_is_announced_then_requested_then_read_back() -> None:
    run = Run(Cluster(looks=[BEHIND, BEHIND, LED]))
    result = run.result()
    assert run.journaled == ["began", "intend", "done", "ended"]
    (each,) = result.results
    assert (each.outcome, each.election.leader, each.cut) == (Outcome.ELECTED, 2, 100)
    assert (each.lost, each.as_stated) == (OffsetRange(100, 180), True)
    assert result.exit_code is ExitCode.DONE
    began, intent, done, _ = run.notes.entries
    assert began["plan"]["overrides"] == {"unclean": "given up"}
    assert intent["intent"]["due"][0]["loss"].startswith("at least 80 offsets")
    assert done["facts"]["elected"] == [
        {"topic": "orders", "partition": 0, "leader": 2, "cut": 100, "lost": 80}
    ]


def test_a_truncation_at_another_offset_is_reported() -> None:
    (each,) = Run(Cluster(looks=[BEHIND, LED], cut=90)).result().results
    assert (each.lost, each.as_stated) == (OffsetRange(90, 180), False)


@pytest.mark.parametrize(
    "now",
    [
        reader(partition((2, 3), (3,), leader=3, epoch=8), alive=(1, 2, 3), ends={2: 100}),
        reader(partition((2, 3), (3,)), alive=(1, 2, 3), ends={2: 100, 3: 180}),
        reader(partition((2, 3), (3,)), alive=(1, 2), ends={2: 101}),
    ],
)
def test_partitions_that_changed_are_not_elected(now: PartitionStates) -> None:
    run = Run(Cluster(looks=[now]))
    result = run.result()
    assert run.cluster.elected == []
    assert result.exit_code is ExitCode.REFUSED
    assert result.results[0].blockers[0].precheck is Precheck.CHANGED
    assert run.journaled == ["began", "failed", "rolling-back", "ended"]


def test_partitions_with_a_leader_need_no_election() -> None:
    run = Run(Cluster(looks=[LED]))
    result = run.result()
    assert run.cluster.elected == []
    assert (result.exit_code, result.results[0].outcome) == (ExitCode.DONE, Outcome.NOT_NEEDED)


def test_the_controller_refuses() -> None:
    result = Run(Cluster(answer=Declined("it has no living replica"))).result()
    assert (result.exit_code, result.results[0].outcome) == (ExitCode.REFUSED, Outcome.FAILED)
    assert result.results[0].election.reason == "it has no living replica"


def test_no_response_and_no_effect_is_unknown() -> None:
    run = Run(Cluster(mute=True))
    result = run.result()
    assert (result.exit_code, result.results[0].outcome) == (ExitCode.UNKNOWN, Outcome.UNKNOWN)
    assert run.clock.waited >= 30, "the run did not wait for a late effect"


def test_no_response_but_an_effect() -> None:
    result = Run(Cluster(looks=[BEHIND, LED], mute=True)).result()
    assert result.results[0].outcome is Outcome.ELECTED


def test_an_unverified_election_is_unknown_and_can_be_resumed() -> None:
    run = Run(Cluster())
    result = run.result()
    assert result.results[0].outcome is Outcome.UNKNOWN
    assert result.exit_code is ExitCode.UNKNOWN
    run.cluster.looks = [LED]
    assert run.go()[1].status is Status.DONE
    assert run.cluster.elected == [PLACE], "the election was requested again"


def test_killed_before_the_election_another_process_decides_again() -> None:
    run = Run(Cluster())
    with pytest.raises(Crash):
        run.go(crash_at("before the election"))
    run.cluster.looks = [BEHIND, BEHIND, LED]
    assert run.go()[1].status is Status.DONE
    assert run.cluster.elected == [PLACE]
    assert "stale" in run.journaled


def test_killed_before_the_election_nothing_is_elected_that_has_changed() -> None:
    run = Run(Cluster())
    with pytest.raises(Crash):
        run.go(crash_at("before the election"))
    run.cluster.looks = [reader(partition((2, 3), (3,)), alive=(1, 2), ends={2: 90})]
    state, outcome = run.go()
    assert (outcome.status, state.status) == (Status.REFUSED, "refused")
    assert run.cluster.elected == []


def test_killed_after_the_election_it_is_read_back_and_measured() -> None:
    run = Run(Cluster())
    with pytest.raises(Crash):
        run.go(crash_at("after the election"))
    run.cluster.looks = [LED]
    state, outcome = run.go()
    assert outcome.status is Status.DONE
    assert state.facts["elect"]["elected"][0]["lost"] == 80
    assert run.cluster.elected == [PLACE]


def two(first: int | None, second: int | None) -> PartitionStates:
    """Create two partitions whose first replica is broker 1, with these leaders."""
    places = (TopicPartition("orders", number) for number in (0, 1))
    rows = [
        partition((1, 2), (1, 2), leader, place=place)
        for place, leader in zip(places, (first, second), strict=True)
    ]
    return reader(*rows)


def test_some_preferred_leaders_may_not_be_elected() -> None:
    plan = preferred_plan("main", two(2, 2), None)
    cluster = Cluster(looks=[two(2, 2), two(1, 2)])
    run = Run(cluster, plan)
    cluster.answer = Declined("no")
    result = run.result()
    outcomes = [each.outcome for each in result.results]
    assert (outcomes, result.exit_code) == ([Outcome.ELECTED, Outcome.FAILED], ExitCode.STOPPED)
    assert len(cluster.elected) == 2, "not all partitions were in one request"
    assert run.notes.entries[-1] == {**run.notes.entries[-1], "entry": "ended", "status": "stopped"}
