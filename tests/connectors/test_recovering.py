"""Restarts with growing pauses, on a clock that does not sleep."""

from typing import cast

import pytest

from drctl.app.connect_adapters import restarted
from drctl.app.link_reader import ClusterLinkReader
from drctl.connectors.diagnosis import Cause
from drctl.connectors.recovery_plan import Action, Backoff, RecoverLine, RecoverPlan, Row
from drctl.connectors.results import Ending, Restarted
from drctl.engine.kind import Status
from drctl.model.errors import ExitCode, UsageError
from drctl.model.plan import Plan
from drctl.plans.connectors import recover
from tests.connectors.world import World, carried_out, connector, failed, notes_of

SEED = """
1 1 00:01    2 2 00:03    3 4 00:07    4 8 00:15    5 16 00:31   6 32 01:03
7 64 02:07   8 120 04:07  9 120 06:07  10 120 08:07 11 120 10:07 12 120 12:07
13 120 14:07 14 120 16:07 15 120 18:07 16 120 20:07
"""
"""Attempt, pause before it in seconds, and the sum of all pauses so far; from Debezium's
documentation."""


def table() -> list[Row]:
    words = SEED.split()
    rows = zip(words[::3], words[1::3], words[2::3], strict=True)
    return [
        Row(int(n), float(delay), int(total[:2]) * 60.0 + int(total[3:]))
        for n, delay, total in rows
    ]


def planned(*names: str, backoff: Backoff | None = None) -> Plan:
    lines = tuple(RecoverLine(failed(name), Action.RESTART) for name in names)
    found = RecoverPlan("w:8083", lines, {})
    return recover(found, backoff or Backoff(), 10.0, "connect:w:8083", "main")


def recovered(world: World, *names: str, backoff: Backoff | None = None) -> tuple[Restarted, ...]:
    names = names or tuple(world.connectors)
    state, outcome = carried_out(world, planned(*names, backoff=backoff))
    found = restarted(names, state, cast(ClusterLinkReader, world))
    runs = all(each.ending is Ending.RUNNING for each in found)
    assert outcome.exit_code is (ExitCode.DONE if runs else ExitCode.FOUND)
    return found


def test_pauses_follow_the_table() -> None:
    assert list(Backoff().rows()) == table()


def test_restarts_follow_the_table() -> None:
    world = World({"shop": failed()})
    (outcome,) = recovered(world)
    assert [at for _, at in world.restarts] == [row.total_seconds for row in table()]
    assert (outcome.ending, outcome.attempts) == (Ending.FAILING, 16)
    assert outcome.explained is not None
    assert outcome.explained.cause is Cause.UNREACHABLE


def test_it_ends_once_a_connector_is_stable() -> None:
    world = World({"shop": failed()}, recovers=lambda name, attempt: attempt == 3)
    (outcome,) = recovered(world)
    assert (outcome.ending, outcome.attempts) == (Ending.RUNNING, 3)
    assert 7 + 10 <= world.seconds < 7 + 13


def test_each_connector_has_its_own_pauses() -> None:
    world = World({"a": failed("a"), "b": failed("b")}, recovers=lambda name, attempt: name == "a")
    endings = {each.name: (each.ending, each.attempts) for each in recovered(world)}
    assert endings == {"a": (Ending.RUNNING, 1), "b": (Ending.FAILING, 16)}


def test_other_settings() -> None:
    world = World({"shop": failed()})
    recovered(world, backoff=Backoff(3, 5, 3))
    assert [at for _, at in world.restarts] == [3, 8, 13]
    for wrong in ((0, 5, 3), (6, 5, 3), (1, 5, 0)):
        with pytest.raises(UsageError, match="invalid backoff"):
            Backoff(*wrong)


def test_a_recovered_connector_is_not_restarted() -> None:
    world = World({"shop": connector()})
    (outcome,) = recovered(world)
    assert (outcome.ending, outcome.attempts) == (Ending.RUNNING, 0)


def test_a_deleted_connector() -> None:
    (outcome,) = recovered(World(), "shop")
    assert outcome.ending is Ending.GONE


def test_each_restart_is_announced_before_it_is_sent() -> None:
    world = World({"shop": failed()})
    order: list[str] = []
    world.fall = order.append
    carried_out(world, planned("shop"))
    first = order.index("restart shop")
    assert order[first - 1] == "after journal intend restart-1"


def test_an_interrupted_run_is_resumed_by_another_process() -> None:
    world = World({"shop": failed()}, stop_at=20)
    notes, plan = notes_of(world), planned("shop")
    state, outcome = carried_out(world, plan, notes)
    (each,) = restarted(("shop",), state, cast(ClusterLinkReader, world))
    assert (outcome.status, each.attempts) == (Status.INTERRUPTED, 4)
    world.stop_at = float("inf")
    state, _ = carried_out(world, plan, notes)
    (each,) = restarted(("shop",), state, cast(ClusterLinkReader, world))
    assert 16 <= each.attempts <= 17, "more than the interrupted attempt was repeated"


def test_the_response_to_the_last_restart_is_reported() -> None:
    class Busy(World):
        def restart(self, name: str) -> None:
            super().restart(name)
            raise UsageError("409: rebalancing")

    (each,) = recovered(Busy({"shop": failed()}), backoff=Backoff(1, 1, 1))
    assert each.response == "409: rebalancing"
