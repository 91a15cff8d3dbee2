"""A failback whose replicator drctl does not manage: people set start offsets as asked."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from drctl.engine.entries import What
from drctl.engine.kind import Status
from drctl.model.plan import Plan
from drctl.model.topology import TopicPartition
from drctl.plans.failback import OFFSET_PRESERVING, failback, reverse_inputs
from drctl.steps.stop_replication import RUNNING, STOPPED
from tests.engine.connect_workers import Connector
from tests.engine.crashing import Case, assert_looked_at, assert_the_same, ends, run
from tests.engine.failovers import SEEN
from tests.engine.memory_clusters import TOPICS, record
from tests.engine.pair import BACK, ORDERS, PRIMARY, SECONDARY, Pair, PersonAction
from tests.engine.recovered_cluster import BOTH, NEWER, TAIL, RecoveredCluster, recovered_pair

REPLICATOR = "confluent-replicator"


@dataclass(frozen=True)
class Kind:
    """A replicator, and the records that each cluster has at the end.

    Attributes:
        known: whether drctl can stop it through Connect.
        on_primary: keys on the recovered cluster at the end.
    """

    name: str
    known: bool
    on_primary: tuple[str, ...]

    @property
    def plan(self) -> Plan:
        """Create the plan of the failback."""
        connectors = ("mm2",) if self.known else ()
        old = replace(SEEN, replicator=self.name, connectors=connectors)
        return failback(replace(reverse_inputs(old, (BACK,) if self.known else ()), policy="copy"))

    def pair(self) -> RecoveredCluster:
        """Create the clusters, with people who do what they are asked to."""
        pair = recovered_pair()
        pair.manual_actions = manual_actions(pair, cuts=self.name == OFFSET_PRESERVING)
        return pair


KINDS = (
    Kind(REPLICATOR, True, ("a1", *BOTH, *TAIL, *NEWER)),
    Kind(REPLICATOR, False, ("a1", *BOTH, *TAIL, *NEWER)),
    Kind("none", False, ("a1", *BOTH, *TAIL, *NEWER)),
    # A mirror replaces the primary's log: the order is that of the surviving cluster.
    Kind(OFFSET_PRESERVING, False, ("a1", *BOTH, *NEWER, *TAIL)),
)


def manual_actions(pair: RecoveredCluster, *, cuts: bool) -> dict[str, PersonAction]:
    """Register the manual steps: reverse from the boundary, then forward from the end."""

    def wants(name: str, state: str) -> Callable[[], bool]:
        return lambda: pair.workers.connectors[name].wanted == state

    def stop(name: str) -> PersonAction:
        def do() -> None:
            found = pair.workers.connectors[name]
            found.state = found.wanted = STOPPED

        return PersonAction(do, wants(name, STOPPED))

    def start_reverse() -> None:
        back = pair.workers.connectors[BACK]
        begin = requested_offsets(pair, "start-reverse-replication")
        if cuts:
            for place, at in begin.items():
                pair.home.logs[place] = pair.home.logs[place][:at]
        else:
            back.config |= LEAVES_OUT
        back.kept = {place: at - 1 for place, at in begin.items()}
        start(back)

    def again() -> None:
        old = pair.workers.connectors["mm2"]
        begin = requested_offsets(pair, "restart-forward-replication")
        assert {place.topic for place in begin} == set(TOPICS)
        old.kept = {place: at - 1 for place, at in begin.items()}
        old.wanted = RUNNING

    return {
        "stop-forward-replication": stop("mm2"),
        "start-reverse-replication": PersonAction(
            start_reverse, lambda: bool(pair.workers.connectors[BACK].kept)
        ),
        "stop-replication": stop(BACK),
        "restart-forward-replication": PersonAction(again, wants("mm2", RUNNING)),
    }


def requested_offsets(pair: Pair, question: str) -> dict[TopicPartition, int]:
    """Return the start offsets in the question; the file has the same if it exists.

    A process that ended before writing the file has recorded them in the journal.
    """
    found = re.findall(r"(\w+)-(\d+) offset (\d+)", pair.asked[question])
    rows = [",".join(each) for each in found]
    assert pair.kept.get(f"start-offsets-{question}.csv", "\n".join(rows)).splitlines() == rows
    return {TopicPartition(topic, int(number)): int(at) for topic, number, at in found}


def start(connector: Connector) -> None:
    """Let a connector replicate what is available."""
    connector.wanted = RUNNING
    connector.copy()


LEAVES_OUT = {
    "transforms": "mask,ours",
    "transforms.ours.type": "org.apache.kafka.connect.transforms.Filter",
    "transforms.ours.predicate": "copied",
    "predicates": "copied",
    "predicates.copied.type": "org.apache.kafka.connect.transforms.predicates.HasHeaderKey",
    "predicates.copied.name": "__drctl_provenance",
}


def kind_name(kind: Kind) -> str:
    return f"{kind.name}-{'known' if kind.known else 'by-hand'}"


def case(kind: Kind) -> Case:
    return Case(kind.plan, kind.pair)


@pytest.mark.parametrize("kind", KINDS, ids=kind_name)
def test_a_whole_run(kind: Kind) -> None:
    ran = run(case(kind))
    assert ran.outcome.status is Status.DONE, ran.ledger.entries[-1]
    assert_looked_at(ran.pair)
    assert_on_primary(ran.pair, kind)
    assert not ran.ledger.steps_with(What.OUTSTANDING)
    assert {
        "start-offsets-start-reverse-replication.csv",
        "start-offsets-restart-forward-replication.csv",
    } <= ran.pair.kept.keys()


def assert_on_primary(pair: Pair, kind: Kind) -> None:
    assert pair.state["records"] == {
        PRIMARY: list(kind.on_primary),
        SECONDARY: ["a1", *BOTH, *NEWER, *TAIL],
    }
    assert pair.state["endpoints"] == [PRIMARY, PRIMARY]
    assert pair.active(PRIMARY, "app")
    assert not pair.active(SECONDARY, "app")
    states = {name: each.state for name, each in pair.workers.connectors.items()}
    assert states == {"mm2": RUNNING, BACK: STOPPED}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=kind_name)
def test_the_end_is_the_same_wherever_the_process_ends(kind: Kind) -> None:
    given = case(kind)
    assert_the_same(given, ends(given)[::2])


@pytest.mark.parametrize("kind", KINDS, ids=kind_name)
def test_a_replicator_that_starts_at_the_beginning_needs_a_confirmation_before_clients_move(
    kind: Kind,
) -> None:
    """The first replicated records reveal it before clients move; a person stops it again."""
    pair = kind.pair()
    back = pair.workers.connectors[BACK]

    def everything() -> None:
        back.kept = {}
        start(back)

    pair.manual_actions["start-reverse-replication"] = PersonAction(
        everything, lambda: back.wanted == RUNNING or bool(back.kept)
    )
    stopped = PersonAction(lambda: setattr(back, "wanted", STOPPED), lambda: back.wanted == STOPPED)
    pair.manual_actions["start-reverse-replication.undo"] = stopped
    ran = run(Case(kind.plan, lambda: pair))
    assert ran.outcome.status is Status.STOPPED
    assert "restart-forward-replication" not in pair.asked
    assert pair.state["endpoints"] == [SECONDARY, SECONDARY]
    (failed,) = [each for each in ran.ledger.entries if each["entry"] == What.FAILED]
    message = (
        "still differs from" if kind.name == OFFSET_PRESERVING else "would be duplicated or skipped"
    )
    assert (failed["step"], message in failed["message"]) == ("start-reverse-replication", True), (
        failed
    )


@pytest.mark.parametrize("kind", KINDS, ids=kind_name)
def test_forward_replication_that_starts_at_the_beginning_is_not_done(kind: Kind) -> None:
    pair = kind.pair()
    old = pair.workers.connectors["mm2"]

    def everything() -> None:
        pair.home.append(ORDERS, record("later"))
        old.kept = {}
        old.wanted = RUNNING

    pair.manual_actions["restart-forward-replication"] = PersonAction(
        everything, lambda: old.wanted == RUNNING
    )
    ran = run(Case(kind.plan, lambda: pair))
    assert ran.outcome.status is Status.STOPPED
    assert ran.outcome.step == "restart-forward-replication", ran.outcome


def test_connect_requests_are_in_the_run_directory() -> None:
    kind = KINDS[0]
    pair = run(case(kind)).pair
    assert json.loads(pair.kept["start-offsets-start-reverse-replication.json"]) == {
        "offsets": [
            {"partition": {"topic": "audit", "partition": 0}, "offset": {"offset": 1}},
            {"partition": {"topic": "orders", "partition": 0}, "offset": {"offset": 4}},
        ]
    }
    assert "start-offsets-start-reverse-replication.json" in pair.asked["start-reverse-replication"]
    pair = run(case(KINDS[2])).pair
    assert "start-offsets-start-reverse-replication.json" not in pair.kept
