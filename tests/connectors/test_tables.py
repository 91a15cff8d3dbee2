"""What a terminal shows of connectors, their plans and results."""

from io import StringIO

from rich.console import Console, RenderableType

from drctl.connectors.applying import Export, build_plan, kept
from drctl.connectors.diagnosis import ConnectorHealth
from drctl.connectors.recovery_plan import Backoff, remedy_plan, restart_plan
from drctl.connectors.remedies import Remedy
from drctl.connectors.results import Ending, OffsetsResult, RemedyResult, Restarted, results_of
from drctl.model.errors import ExitCode
from drctl.model.replication import Position
from drctl.views.connectors import (
    offsets_plan_table,
    offsets_result_table,
    recover_plan_table,
    recover_table,
    status_table,
)
from tests.connectors.world import World, connector, failed, stopped

LOST = "com.mongodb.MongoCommandException: error 286 (ChangeStreamHistoryLost)"
LOCKED = 'PSQLException: FATAL: password authentication failed for user "x"'
EXECUTE = "drctl connect --execute"
HEALTH = ConnectorHealth(
    "w:8083", (failed("net"), failed("locked", LOCKED), failed("mg", LOST), connector())
)


def drawn(table: RenderableType) -> str:
    file = StringIO()
    Console(file=file, width=160, color_system=None).print(table)
    return file.getvalue()


def test_status() -> None:
    text = drawn(status_table([HEALTH, ConnectorHealth("v:8083", (), "nobody answers")]))
    assert "Connect w:8083: 3 of 4 connectors failed" in text
    assert "net, task 0: a broker or a database does not answer" in text
    assert "Connect v:8083: nobody answers" in text
    assert "4 connectors, none failed" not in text


def test_restarts() -> None:
    plan = restart_plan(HEALTH, HEALTH.connectors[:2], {})
    text = drawn(recover_plan_table(plan, Backoff(), EXECUTE))
    assert "Plan for Connect w:8083: 1 to restart, 1 refused" in text
    assert "At most 16 restarts, with pauses of 1 s to 120 s, 20 min 7 s in all" in text
    assert "Blocked (cause): authentication failed" in text
    assert text.rstrip().endswith(EXECUTE)
    outcome = Restarted("net", Ending.FAILING, 3, response="409")
    text = drawn(recover_table(plan, [outcome], None))
    assert "net: 3 restarts, failing" in text


def test_a_remedy_shows_its_steps_and_its_consequence() -> None:
    plan = remedy_plan(HEALTH, HEALTH.connectors[2], Remedy.RECREATE, "mg-2", {})
    text = drawn(recover_plan_table(plan, Backoff(), EXECUTE))
    assert "2. create mg-2 with the same configuration" in text
    assert "Impact: a new snapshot" in text
    remedy_result = RemedyResult(
        ExitCode.STOPPED, "mg-2 does not run", "before.json", ("mg is stopped",)
    )
    text = drawn(recover_table(plan, (), remedy_result))
    assert "Connect w:8083: mg-2 does not run" in text
    assert "done: mg is stopped" in text


def test_positions() -> None:
    export = Export(
        "old:8083",
        "id",
        "2026-01-02T03:04:05+00:00",
        (kept(connector(topic_prefix="shop"), [Position({"server": "shop"}, {"lsn": 17})]),),
    )
    world = World({"shop": stopped(topic_prefix="shop")})
    plan = build_plan(export, (), {}, world, "new:8083", {})
    text = drawn(offsets_plan_table(plan, EXECUTE))
    assert "Plan for Connect new:8083: 1 to write" in text
    assert '{"server": "shop"}' in text
    assert text.rstrip().endswith(EXECUTE)
    refused = build_plan(export, (), {}, World(), "new:8083", {})
    text = drawn(offsets_result_table(OffsetsResult(refused, results_of(refused, {}, "")), ""))
    assert "Connect new:8083: 1 refused" in text
    assert "1 x connector shop does not exist on these workers" in text
