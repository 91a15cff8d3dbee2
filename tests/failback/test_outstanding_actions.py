"""Outstanding actions from before a completed failback are no longer outstanding."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from drctl.engine import entries, run_state
from drctl.engine.kind import Readback, State
from drctl.failback.facts import DAMAGED, Facts, JournaledRun
from drctl.failback.observers.journal import observe_journal
from drctl.model.errors import DamagedJournal
from drctl.model.journal import JournalReader
from drctl.model.plan import Plan, Step
from drctl.model.topology import Unavailable

AT = datetime(2026, 11, 22, tzinfo=UTC)


class Journal:
    """Runs by name, the newest first."""

    def __init__(self, **runs: list[Mapping[str, Any]]) -> None:
        self.all = runs

    def runs(self) -> Sequence[str]:
        return tuple(self.all)

    def entries(self, run: str) -> Sequence[Mapping[str, Any]]:
        return self.all[run]


def run(name: str, plan: str, outstanding: str, status: str) -> list[Mapping[str, Any]]:
    first = (Step("order", "failback-order"),) if plan == "failback" else ()
    made = Plan(plan, "main", "a", "b", (*first, Step("fence", "fence-producers")))
    recorded = [
        entries.began(name, made, {"user": "ada"}, AT),
        entries.outstanding("fence", outstanding, AT),
    ]
    return [*recorded, entries.ended(status, AT)]


def test_an_unfinished_failback_is_partial() -> None:
    journal = Journal(
        r3=run("r3", "failback", "x", "done")[:-1],
        r2=run("r2", "failback", "x", "stopped"),
        r1=run("r1", "failover-unplanned", "x", "done")[:-1],
    )
    found = observe_journal(cast(JournalReader, journal), "a")
    assert [each.run for each in found if each.in_progress] == ["r3"]


def test_the_time_of_a_move_is_that_of_enabled_writes() -> None:
    steps = (Step("fence", "fence-producers"), Step("open", "enable-writes"))

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
    found = observe_journal(cast(JournalReader, journal), "a")
    assert {each.run: each.left for each in found if each.left} == {"r5": AT, "r1": AT}


@pytest.mark.parametrize(("status", "unfinished"), [("stopped", "r2"), ("done", "")])
def test_a_rebuild_that_emptied_the_source_and_stopped_is_unfinished(
    status: str, unfinished: str
) -> None:
    steps = (Step("order", "failback-order"), Step("empty", "empty-recovered"))
    emptied = Readback(State.DONE, "there was nothing to empty", {"started": False})
    made = Plan("rebuild", "main", "a", "b", steps)
    journal = Journal(
        r2=[
            entries.began("r2", made, {"user": "ada"}, AT),
            entries.intend("empty", 1, {}, AT),
            entries.done("empty", 1, emptied, AT),
            entries.rolling_back("order", "a precheck failed", AT),
            entries.ended(status, AT),
        ],
        r1=run("r1", "failback", "x", "stopped"),
    )
    found = observe_journal(cast(JournalReader, journal), "a")
    assert Facts("main", "a", "b", journal=found).unfinished_rebuild == unfinished


def test_only_local_copies_of_the_link_count() -> None:
    opened = entries.intend("open", 1, {}, AT)

    def failover(name: str, link: str) -> list[Mapping[str, Any]]:
        made = Plan("failover-planned", link, "a", "b", (Step("open", "enable-writes"),))
        return [entries.began(name, made, {"user": "ada"}, AT), opened]

    journal = Journal(r2=failover("r2", "other"), r1=failover("r1", "main"))
    found = observe_journal(cast(JournalReader, journal), "a", "main")
    assert [each.run for each in found] == ["r1"]
    silent = Facts("main", "a", "b", journal=Unavailable("no answer"), local_journal=found)
    assert (silent.left_source, silent.never_moved) == (True, False)


@pytest.mark.parametrize(("status", "outstanding"), [("done", ()), ("stopped", ("fence a",))])
def test_a_completed_failback_resolves_outstanding_actions(
    status: str, outstanding: tuple[str, ...]
) -> None:
    journal = Journal(
        r2=run("r2", "failback", "restart clients", status),
        r1=run("r1", "failover-unplanned", "fence a", "done"),
    )
    newer, older = observe_journal(cast(JournalReader, journal), "a")
    assert newer.outstanding == ("restart clients",), (
        "the failback's own outstanding action is missing"
    )
    assert older.outstanding == outstanding


def test_an_abandoned_run_hides_no_other() -> None:
    class Damaged(Journal):
        aside = frozenset({"r3", "r2"})

        def entries(self, run: str) -> Sequence[Mapping[str, Any]]:
            if run in ("r3", "r2"):
                raise DamagedJournal(f"the journal of run {run} is damaged")
            return Journal.entries(self, run)

        def lines(self, run: str) -> Sequence[bytes]:
            return run_state.seal(self.all[run], run_state.first_head(run))

        def intact_lines(self, run: str) -> int:
            return len(self.all[run]) - 1 if run == "r2" else 0

        def is_abandoned(self, run: str) -> bool:
            return run in self.aside

    journal = Damaged(
        r3=run("r3", "failover-unplanned", "x", "done"),
        r2=run("r2", "failover-unplanned", "fence b", "done"),
        r1=run("r1", "failover-unplanned", "fence a", "done"),
    )
    found = observe_journal(cast(JournalReader, journal), "a")
    runs = [(each.run, each.status, each.outstanding) for each in found]
    assert runs == [("r2", "stopped", ("fence b",)), ("r1", "done", ("fence a",))]
    journal.aside = frozenset()
    damaged, *others = observe_journal(cast(JournalReader, journal), "a")
    assert (damaged.run, damaged.status) == ("r3", DAMAGED)
    assert "its changes are unknown" in damaged.outstanding[0]
    assert [each.run for each in others] == ["r2", "r1"]


def test_a_damaged_run_may_have_changed_something() -> None:
    """It may have moved clients: drctl does not say that none moved, or that all returned."""
    failback = JournaledRun("r1", "failback", "done", switched_back=True)
    damaged = JournaledRun("r2", "unknown", DAMAGED)

    def facts(*journal: JournaledRun) -> Facts:
        return Facts("main", "a", "b", journal=journal)

    assert facts().never_moved
    assert not facts(damaged).never_moved
    assert facts(failback, damaged).failed_back == "r1", "a later completed failback was ignored"
    assert facts(damaged, failback).failed_back == ""
