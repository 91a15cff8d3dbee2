"""Which failed connectors are restarted, which start from scratch, and what that costs."""

import pytest

from drctl.app.connect_adapters import remedy_result as result_of
from drctl.connectors.diagnosis import ConnectorHealth, chosen
from drctl.connectors.recovery_plan import Action, Backoff, remedy_plan, restart_plan
from drctl.connectors.remedies import Remedy, consequence
from drctl.connectors.results import RemedyResult
from drctl.model.errors import ExitCode, Refused, UsageError
from drctl.model.replication import Connector, Position
from drctl.plans.connectors import recover
from tests.connectors.world import MIRROR, MONGO, World, carried_out, connector, failed, notes_of
from tests.engine.toggles import Crash, MemoryJournal

LOST = "com.mongodb.MongoCommandException: error 286 (ChangeStreamHistoryLost)"
LOCKED = 'PSQLException: FATAL: password authentication failed for user "x"'
AT = Position({"server_id": "mg"}, {"sec": 1, "ord": 2})


def health(*connectors: Connector) -> ConnectorHealth:
    return ConnectorHealth("w:8083", connectors)


def test_only_restartable_connectors_are_restarted() -> None:
    found = health(failed("net"), failed("locked", LOCKED), connector("fine"))
    plan = restart_plan(found, chosen(found, ()), {})
    assert {line.connector.name: line.action for line in plan.lines} == {
        "net": Action.RESTART,
        "locked": Action.REFUSE,
    }
    assert plan.refused[0].refused.startswith("authentication failed; correct")
    passed = restart_plan(found, chosen(found, ["locked", "fine"]), {"cause": "it was corrected"})
    assert [line.action for line in passed.lines] == [Action.RESTART, Action.NOTHING]


def test_a_missing_connector() -> None:
    with pytest.raises(UsageError, match="has no connector 'x'"):
        chosen(health(connector()), ["x"])


def test_the_remedies_and_their_cost() -> None:
    gone = failed("mg", LOST, plugin=MONGO)
    reset = remedy_plan(health(gone), gone, Remedy.RESET, "ignored", {})
    (line,) = reset.lines
    assert (line.action, reset.name) == (Action.REMEDY, "mg")
    assert [step.partition(" and ")[0] for step in line.steps] == [
        "stop mg",
        "delete its source offsets",
        "resume mg",
    ]
    assert "every row is sent again" in line.consequence
    recreate = remedy_plan(health(gone), gone, Remedy.RECREATE, "mg-2", {})
    assert recreate.lines[0].steps[1] == "create mg-2 with the same configuration"
    with pytest.raises(UsageError, match="connector 'mg' already exists"):
        remedy_plan(health(gone), gone, Remedy.RECREATE, "mg", {})


def test_a_remedy_is_refused_without_a_loss() -> None:
    net = failed("net")
    (line,) = remedy_plan(health(net), net, Remedy.RESET, "", {}).lines
    assert line.refused == (
        "nothing shows that its resume point is lost: a broker or a database does not answer"
    )
    assert remedy_plan(health(net), net, Remedy.RESET, "", {"cause": "the slot is gone"}).acting


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (connector(snapshot_mode="no_data"), "snapshot.mode no_data reads no rows"),
        (connector(), "a new snapshot (snapshot.mode initial)"),
        (connector(plugin=MIRROR), "existing copies are duplicated"),
        (connector(kind="sink", plugin="x.Sink"), "it starts at its auto.offset.reset"),
        (connector(plugin="x.Source"), "it starts as if it had never run"),
    ],
)
def test_consequences(one: Connector, words: str) -> None:
    assert words in consequence(one)


def remedied(
    world: World, remedy: Remedy, name: str = "mg", notes: MemoryJournal | None = None
) -> RemedyResult:
    one = world.connectors["mg"]
    found = remedy_plan(health(one), one, remedy, name, {"cause": "it is lost"})
    plan = recover(found, Backoff(), 10.0, "connect:w:8083", "main")
    return result_of(*carried_out(world, plan, notes), "folder")


def lost(kind: type[World] = World) -> World:
    return kind({"mg": failed("mg", LOST, plugin=MONGO)}, {"mg": [AT]})


def test_only_earlier_offsets_are_reset() -> None:
    world = lost()
    result = remedied(world, Remedy.RESET)
    assert (result.code, result.before) == (ExitCode.DONE, "folder/before.json")
    assert (result.message, len(result.done)) == ("mg runs, and starts from scratch", 5)
    assert world.events == ["stop mg", "keep", "delete mg", "resume mg"]
    assert world.exports[0].connectors[0].offsets == (AT,)
    assert world.kept["mg"] == []


def test_a_new_connector_takes_over_and_the_old_one_keeps_its_positions() -> None:
    world = lost()
    result = remedied(world, Remedy.RECREATE, "mg-2")
    assert (result.code, result.message) == (ExitCode.DONE, "mg-2 runs, and starts from scratch")
    assert world.connectors["mg"].state == "STOPPED"
    assert world.connectors["mg-2"].running
    assert world.kept["mg"] == [AT]


def test_an_ineffective_remedy_is_outstanding() -> None:
    class Stubborn(World):
        def resume(self, name: str) -> None:
            self.connectors[name] = failed(name, LOST)

    result = remedied(lost(Stubborn), Remedy.RESET)
    assert result.code is ExitCode.FOUND
    assert "mg is FAILED+RUNNING: see drctl connect status" in result.message
    assert result.done[-1] == "mg is resumed"
    assert result.before == "folder/before.json"


def test_positions_that_cannot_be_reset_stay() -> None:
    class Keeping(World):
        def delete_positions(self, name: str) -> None:
            raise Refused("it is not stopped")

    world = lost(Keeping)
    result = remedied(world, Remedy.RESET)
    assert (result.code, result.done) == (ExitCode.REFUSED, ("1 position saved in before.json",))
    assert world.events == ["stop mg", "keep", "put mg", "resume mg"]
    assert world.kept["mg"] == [AT]


def test_a_killed_process_is_resumed_by_another() -> None:
    world = lost()
    notes = notes_of(world)

    def fall(point: str) -> None:
        if point == "resume mg":
            raise Crash

    world.fall = fall
    with pytest.raises(Crash):
        remedied(world, Remedy.RESET, notes=notes)
    world.fall = lambda point: None
    assert remedied(world, Remedy.RESET, notes=notes).code is ExitCode.DONE
    assert world.events == ["stop mg", "keep", "delete mg", "resume mg"]


def test_workers_that_stop_responding_before_any_change() -> None:
    world = lost()
    world.away = "no worker answers"
    result = remedied(world, Remedy.RESET)
    assert (result.code, result.done) == (ExitCode.UNKNOWN, ())
