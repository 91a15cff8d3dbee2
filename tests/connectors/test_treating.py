"""Which connectors are restarted, which begin anew, and what that costs."""

from datetime import UTC, datetime

import pytest

from drctl.connectors.connector import Connector, Position
from drctl.connectors.diagnosis import ConnectorHealth, chosen
from drctl.connectors.recovery_plan import Action, parse_overrides, remedy_plan, restart_plan
from drctl.connectors.remedies import Remedy, Treated, Treatment, consequence
from drctl.model.errors import ExitCode, UsageError
from tests.connectors.world import MIRROR, MONGO, World, connector, failed

LOST = "com.mongodb.MongoCommandException: error 286 (ChangeStreamHistoryLost)"
LOCKED = 'PSQLException: FATAL: password authentication failed for user "x"'
AT = Position({"server_id": "mg"}, {"sec": 1, "ord": 2})


def ward(*connectors: Connector) -> ConnectorHealth:
    return ConnectorHealth("w:8083", connectors)


def test_only_what_a_restart_may_cure_is_restarted() -> None:
    found = ward(failed("net"), failed("locked", LOCKED), connector("fine"))
    plan = restart_plan(found, chosen(found, ()), {})
    assert {line.connector.name: line.action for line in plan.lines} == {
        "net": Action.RESTART,
        "locked": Action.REFUSE,
    }
    assert plan.refused[0].refused.startswith("user or password is not accepted; correct")
    passed = restart_plan(found, chosen(found, ["locked", "fine"]), {"cause": "it was corrected"})
    assert [line.action for line in passed.lines] == [Action.RESTART, Action.NOTHING]


def test_a_connector_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="has no connector 'x'"):
        chosen(ward(connector()), ["x"])


def test_the_remedies_and_what_they_cost() -> None:
    gone = failed("mg", LOST, plugin=MONGO)
    reset = remedy_plan(ward(gone), gone, Remedy.RESET, "ignored", {})
    (line,) = reset.lines
    assert (line.action, reset.name) == (Action.REMEDY, "mg")
    assert [step.partition(",")[0] for step in line.steps] == [
        "stop mg",
        "have mg forget them",
        "let mg go on",
    ]
    assert "every row is sent again" in line.consequence
    recreate = remedy_plan(ward(gone), gone, Remedy.RECREATE, "mg-2", {})
    assert recreate.lines[0].steps[1] == "make mg-2 with the same configuration"
    with pytest.raises(UsageError, match="there is a connector 'mg' already"):
        remedy_plan(ward(gone), gone, Remedy.RECREATE, "mg", {})


def test_a_remedy_for_what_is_not_lost_is_refused() -> None:
    net = failed("net")
    (line,) = remedy_plan(ward(net), net, Remedy.RESET, "", {}).lines
    assert line.refused == (
        "its resume point is not known to be gone: a broker or a database does not answer"
    )
    assert remedy_plan(ward(net), net, Remedy.RESET, "", {"cause": "the slot is gone"}).acting


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (connector(snapshot_mode="no_data"), "snapshot.mode no_data reads no rows"),
        (connector(), "a new snapshot (snapshot.mode initial)"),
        (connector(plugin=MIRROR), "what was copied is there twice"),
        (connector(kind="sink", plugin="x.Sink"), "where auto.offset.reset says"),
        (connector(plugin="x.Source"), "it begins as if it had never run"),
    ],
)
def test_consequences(one: Connector, words: str) -> None:
    assert words in consequence(one)


def treated(world: World, remedy: Remedy, name: str = "mg") -> Treated:
    treatment = Treatment(
        world, world, world, world, lambda: datetime.now(UTC), world.events.append, 30, 10
    )
    return treatment.run(remedy, world.connectors["mg"], name, "w:8083", "id")


def test_it_forgets_only_what_was_kept_before() -> None:
    world = World({"mg": failed("mg", LOST, plugin=MONGO)}, {"mg": [AT]})
    result = treated(world, Remedy.RESET)
    assert (result.code, result.before) == (ExitCode.DONE, "before.json")
    done = [
        each for each in world.events if each.split()[0] in ("stop", "keep", "delete", "resume")
    ]
    assert done == ["stop mg", "keep", "delete mg", "resume mg"]
    assert world.exports[0].connectors[0].positions == (AT,)
    assert world.kept["mg"] == []


def test_another_one_takes_over_and_the_old_one_keeps_its_positions() -> None:
    world = World({"mg": failed("mg", LOST, plugin=MONGO)}, {"mg": [AT]})
    result = treated(world, Remedy.RECREATE, "mg-2")
    assert result.code is ExitCode.DONE
    assert world.connectors["mg"].state == "STOPPED"
    assert world.connectors["mg-2"].running
    assert world.kept["mg"] == [AT]


def test_a_remedy_that_does_not_help_stopped_part_way() -> None:
    class Stubborn(World):
        def resume(self, name: str) -> None:
            self.connectors[name] = failed(name, LOST)

    world = Stubborn({"mg": failed("mg", LOST, plugin=MONGO)}, {"mg": [AT]})
    result = treated(world, Remedy.RESET)
    assert result.code is ExitCode.STOPPED
    assert result.words == "mg does not run: drctl connect status says why"
    assert result.done[-1] == "mg goes on"
    assert result.before == "before.json"


def test_workers_that_vanish_before_anything_was_done() -> None:
    class Vanished(World):
        def stop(self, name: str) -> None:
            self.silent = "no worker answers"
            self.all()

    result = treated(Vanished({"mg": failed("mg", LOST)}), Remedy.RESET)
    assert (result.code, result.done) == (ExitCode.UNKNOWN, ())


def test_overrides() -> None:
    assert parse_overrides(["cause = cured"]) == {"cause": "cured"}
    for wrong in ("cause", "unclean=x"):
        with pytest.raises(UsageError):
            parse_overrides([wrong])
