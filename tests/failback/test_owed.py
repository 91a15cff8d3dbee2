"""What was owed before everybody came home is owed no more."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from drctl.engine import entries
from drctl.failback.observers.journal import observe_journal
from drctl.model.journal import JournalReader
from drctl.model.plan import Plan, Step

AT = datetime(2026, 11, 22, tzinfo=UTC)


class Journal:
    """Runs by name, the newest first."""

    def __init__(self, **runs: list[Mapping[str, Any]]) -> None:
        self.all = runs

    def runs(self) -> Sequence[str]:
        return tuple(self.all)

    def entries(self, run: str) -> Sequence[Mapping[str, Any]]:
        return self.all[run]


def run(name: str, plan: str, owed: str, status: str) -> list[Mapping[str, Any]]:
    first = (Step("order", "way-back-order"),) if plan == "failback" else ()
    made = Plan(plan, "main", "a", "b", (*first, Step("fence", "fence-producers")))
    told = [entries.began(name, made, {"user": "ada"}, AT), entries.owed("fence", owed, AT)]
    return [*told, entries.ended(status, AT)]


def test_a_way_home_without_an_end_stands_halfway() -> None:
    journal = Journal(
        r3=run("r3", "failback", "x", "done")[:-1],
        r2=run("r2", "failback", "x", "stopped"),
        r1=run("r1", "failover-unplanned", "x", "done")[:-1],
    )
    found = observe_journal(cast(JournalReader, journal))
    assert [each.run for each in found if each.halfway] == ["r3"]


def test_when_clients_were_led_away_is_known_by_what_a_run_opened() -> None:
    steps = (Step("fence", "fence-producers"), Step("open", "open-target"))

    def failover(name: str, *then: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        made = Plan("failover-planned", "main", "a", "b", steps)
        return [entries.began(name, made, {"user": "ada"}, AT), *then]

    opened = entries.intend("open", 1, {}, AT)
    journal = Journal(
        r5=failover("r5", opened),
        r4=failover("r4", opened, entries.undone("open", 1, "closed", AT)),
        r3=failover("r3", entries.intend("fence", 1, {}, AT)),
        r2=run("r2", "failback", "x", "done"),
        r1=failover("r1", opened, entries.ended("done", AT)),
    )
    found = observe_journal(cast(JournalReader, journal))
    assert {each.run: each.left for each in found if each.left} == {"r5": AT, "r1": AT}


@pytest.mark.parametrize(("status", "owed"), [("done", ()), ("stopped", ("fence a",))])
def test_a_way_home_that_came_to_its_end_settles_it(status: str, owed: tuple[str, ...]) -> None:
    journal = Journal(
        r2=run("r2", "failback", "restart clients", status),
        r1=run("r1", "failover-unplanned", "fence a", "done"),
    )
    newer, older = observe_journal(cast(JournalReader, journal))
    assert newer.owed == ("restart clients",), "what it owes itself is told"
    assert older.owed == owed
