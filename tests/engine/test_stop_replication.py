"""Connectors stop early, their tasks end, and what happens after writes are enabled is reported."""

from typing import cast

import pytest

from drctl.engine.kind import State
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.steps.registry import KINDS
from drctl.steps.stop_replication import RUNNING, STOPPED
from tests.engine.connect_workers import Connector
from tests.engine.pair import PRIMARY, Pair, linked
from tests.engine.processes import Process

NAMED = {"connectors": ["mm2"]}
REQUEST, STOP, CONFIRM = (KINDS[n] for n in ("request-stop", "stop-replication", "confirm-stop"))


def reader(pair: Pair) -> LinkReader:
    return cast(LinkReader, Process(pair).reader)


def requested(pair: Pair) -> dict[str, object]:
    """Return the journal's entry of the request."""
    intent = REQUEST.check(NAMED, {}, reader(pair))
    assert REQUEST.verify(intent, reader(pair)).state is State.WAITING
    assert REQUEST.apply(intent, cast(LinkWriter, Process(pair).writer)) == ()
    seen = REQUEST.verify(intent, reader(pair))
    assert seen.state is State.DONE
    return dict(seen.facts)


def test_a_stop_is_requested_once_stored_and_done_once_no_task_is_left() -> None:
    pair = linked()
    facts = {"request-stop": requested(pair)}
    intent = STOP.check({**NAMED, "tasks_only": True}, facts, reader(pair))
    assert intent["before"] == {"mm2": RUNNING}
    waiting = STOP.verify(intent, reader(pair))
    assert (waiting.state, waiting.facts) == (State.WAITING, {})
    pair.workers.connectors["mm2"].state = STOPPED
    done = STOP.verify(intent, reader(pair))
    assert done.state is State.DONE
    assert done.facts == {"boundary": {}, "tasks_of": ["mm2"]}


def test_a_sent_request_is_not_repeated_and_is_rolled_back() -> None:
    pair = linked()
    facts = {"request-stop": requested(pair)}
    changes = len([how for _, how in pair.trace.happened if how])
    intent, writer = STOP.check(NAMED, facts, reader(pair)), cast(LinkWriter, Process(pair).writer)
    assert STOP.apply(intent, writer) == ()
    assert len([how for _, how in pair.trace.happened if how]) == changes
    assert STOP.undo(intent, writer) == ()
    pair.workers.copy()
    assert STOP.verify_undo(intent, reader(pair)).state is State.DONE
    assert pair.workers.connectors["mm2"].state == RUNNING


def confirmed(pair: Pair) -> tuple[State, str, str]:
    intent = CONFIRM.check({**NAMED, "source": PRIMARY}, {}, reader(pair))
    seen = CONFIRM.verify(intent, reader(pair))
    return seen.state, seen.message, seen.outstanding


def stopped() -> Pair:
    pair = linked()
    pair.workers.connectors["mm2"].wanted = pair.workers.connectors["mm2"].state = STOPPED
    return pair


def test_ended_connectors_of_a_lost_source_need_nothing() -> None:
    pair = stopped()
    pair.die(PRIMARY)
    assert confirmed(pair)[::2] == (State.DONE, "")


def test_a_recovered_source_is_reported_and_outstanding() -> None:
    state, _, outstanding = confirmed(stopped())
    assert state is State.DONE
    assert "primary responds again" in outstanding


@pytest.mark.parametrize(("wanted", "state"), [(RUNNING, RUNNING), (RUNNING, STOPPED)])
def test_restarted_tasks_are_reported_at_once(wanted: str, state: str) -> None:
    pair = stopped()
    pair.die(PRIMARY)
    found = pair.workers.connectors["mm2"]
    found.wanted, found.state = wanted, state
    outcome, words, _ = confirmed(pair)
    assert outcome is State.FAILED
    assert "mm2 has tasks again" in words


@pytest.mark.parametrize(("commits", "waited_for"), [("false", ["mm2"]), ("true", ["mm2", "cp"])])
def test_checkpoint_tasks_do_not_delay_enabling_writes(commits: str, waited_for: list[str]) -> None:
    pair = linked()
    copier = pair.workers.connectors["mm2"]
    checkpoints = {"connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"}
    config = {**checkpoints, "sync.group.offsets.enabled": commits}
    pair.workers.connectors["cp"] = Connector(copier.source, copier.target, config=config)
    facts = {"request-stop": requested(pair)}
    settings = {"connectors": ["mm2", "cp"], "tasks_only": True}
    intent = STOP.check(settings, facts, reader(pair))
    assert STOP.apply(intent, cast(LinkWriter, Process(pair).writer)) == ()
    assert (pair.workers.connectors["cp"].wanted == STOPPED) is ("cp" in waited_for)
    copier.state = STOPPED
    seen = STOP.verify(intent, reader(pair))
    assert (seen.state is State.DONE) is (waited_for == ["mm2"])
    pair.workers.connectors["cp"].state = STOPPED
    assert STOP.verify(intent, reader(pair)).facts["tasks_of"] == waited_for


def test_connectors_of_a_running_source_are_confirmed_stopped_and_the_rest_later() -> None:
    pair = linked()
    mm2 = pair.workers.connectors["mm2"]
    config = {"connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"}
    pair.workers.connectors["hb"] = Connector(mm2.source, mm2.target, config=config)
    settings = {"connectors": ["mm2", "hb"], "rest_later": True}
    intent, writer = STOP.check(settings, {}, reader(pair)), cast(LinkWriter, Process(pair).writer)
    assert STOP.apply(intent, writer) == ()
    assert [pair.workers.connectors[name].wanted for name in ("mm2", "hb")] == [STOPPED, RUNNING]
    assert STOP.verify(intent, reader(pair)).state is State.WAITING
    mm2.state = STOPPED
    seen = STOP.verify(intent, reader(pair))
    assert seen.state is State.DONE
    assert seen.facts.keys() == {"boundary", "tasks_of"}
    later = {"connectors": ["mm2", "hb"]}
    intent = CONFIRM.check(later, {"stop-replication": seen.facts}, reader(pair))
    assert CONFIRM.apply(intent, writer) == ()
    pair.workers.copy()
    seen = CONFIRM.verify(intent, reader(pair))
    assert (seen.state, seen.outstanding) == (State.DONE, ""), (
        "a response of a running source is reported as outstanding"
    )


def test_unneeded_connectors_stop_last_and_resume_if_they_ran() -> None:
    pair = stopped()
    pair.die(PRIMARY)
    mm2 = pair.workers.connectors["mm2"]
    other = pair.workers.connectors["cp"] = Connector(mm2.source, mm2.target)
    settings = {"connectors": ["mm2", "cp"], "source": PRIMARY}
    facts = {"stop-replication": {"tasks_of": ["mm2"]}}
    intent, writer = (
        CONFIRM.check(settings, facts, reader(pair)),
        cast(LinkWriter, Process(pair).writer),
    )
    assert intent["before"] == {"cp": RUNNING}
    assert CONFIRM.verify(intent, reader(pair)).state is State.WAITING
    assert CONFIRM.apply(intent, writer) == ()
    assert other.wanted == STOPPED
    other.state = STOPPED
    assert CONFIRM.verify(intent, reader(pair)).state is State.DONE
    assert CONFIRM.undo(intent, writer) == ()
    assert other.wanted == RUNNING
    assert mm2.wanted == STOPPED
    other.state = RUNNING
    assert CONFIRM.verify_undo(intent, reader(pair)).state is State.DONE


def test_a_checkpoint_task_that_is_still_ending_is_not_a_restarted_task() -> None:
    pair = stopped()
    pair.die(PRIMARY)
    mm2 = pair.workers.connectors["mm2"]
    pair.workers.connectors["cp"] = Connector(mm2.source, mm2.target, wanted=STOPPED)
    settings = {"connectors": ["mm2", "cp"], "source": PRIMARY}
    facts = {"stop-replication": {"tasks_of": ["mm2"]}}
    seen = CONFIRM.verify(CONFIRM.check(settings, facts, reader(pair)), reader(pair))
    assert seen.state is State.WAITING
    mm2.state = RUNNING
    seen = CONFIRM.verify(CONFIRM.check(settings, facts, reader(pair)), reader(pair))
    assert seen.state is State.FAILED
