"""Restarts with growing pauses, by a clock that nobody waits for."""

import pytest

from drctl.connectors.diagnosis import Cause
from drctl.connectors.recovering import Backoff, Ending, Recovery, RestartAttempt, Row
from drctl.model.errors import UsageError
from tests.connectors.world import World, connector, failed

SEED = """
1 1 00:01    2 2 00:03    3 4 00:07    4 8 00:15    5 16 00:31   6 32 01:03
7 64 02:07   8 120 04:07  9 120 06:07  10 120 08:07 11 120 10:07 12 120 12:07
13 120 14:07 14 120 16:07 15 120 18:07 16 120 20:07
"""
"""Attempt, pause before it in seconds, all pauses up to it; Debezium's own table."""


def table() -> list[Row]:
    words = SEED.split()
    rows = zip(words[::3], words[1::3], words[2::3], strict=True)
    return [
        Row(int(n), float(delay), int(total[:2]) * 60.0 + int(total[3:]))
        for n, delay, total in rows
    ]


def recovered(
    world: World, *names: str, backoff: Backoff | None = None
) -> tuple[RestartAttempt, ...]:
    recovery = Recovery(
        world,
        world,
        world,
        backoff or Backoff(),
        10.0,
        lambda name, attempt: world.events.append(f"announce {name} {attempt}"),
        lambda words: None,
    )
    return recovery.run(names or tuple(world.connectors))


def test_the_law_is_the_table() -> None:
    assert list(Backoff().rows()) == table()


def test_the_restarts_come_when_the_table_says() -> None:
    world = World({"shop": failed()})
    (patient,) = recovered(world)
    assert [at for _, at in world.restarts] == [row.total_s for row in table()]
    assert (patient.ending, patient.attempts) == (Ending.FAILING, 16)
    assert patient.explained is not None
    assert patient.explained.cause is Cause.UNREACHABLE
    assert world.events[:2] == ["announce shop 1", "restart shop"], "announced before it is sent"


def test_it_ends_when_a_connector_has_run_for_a_while() -> None:
    world = World({"shop": failed()}, cured=lambda name, attempt: attempt == 3)
    (patient,) = recovered(world)
    assert (patient.ending, patient.attempts) == (Ending.RUNNING, 3)
    assert 7 + 10 <= world.seconds < 7 + 13


def test_each_has_its_own_pauses() -> None:
    world = World({"a": failed("a"), "b": failed("b")}, cured=lambda name, attempt: name == "a")
    endings = {each.name: (each.ending, each.attempts) for each in recovered(world)}
    assert endings == {"a": (Ending.RUNNING, 1), "b": (Ending.FAILING, 16)}


def test_other_settings() -> None:
    world = World({"shop": failed()})
    recovered(world, backoff=Backoff(3, 5, 3))
    assert [at for _, at in world.restarts] == [3, 8, 13]
    for wrong in ((0, 5, 3), (6, 5, 3), (1, 5, 0)):
        with pytest.raises(UsageError, match="are not possible"):
            Backoff(*wrong)


def test_what_runs_by_itself_is_not_restarted() -> None:
    world = World({"shop": connector()})
    (patient,) = recovered(world)
    assert (patient.ending, patient.attempts) == (Ending.RUNNING, 0)


def test_a_connector_that_is_gone() -> None:
    (patient,) = recovered(World(), "shop")
    assert patient.ending is Ending.GONE


def test_somebody_stops_it() -> None:
    world = World({"shop": failed()}, stop_at=20)
    (patient,) = recovered(world)
    assert (patient.ending, patient.attempts) == (Ending.INTERRUPTED, 4)
