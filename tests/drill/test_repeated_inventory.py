"""The second inventory is repeated for a while: differences that disappear do not count."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from drctl.cli import drill_stage
from drctl.drill.inventory import Compared, Holding, Inventory

RULES = {"ACL": "not allowed"}
CONNECTORS = Holding({"connector": {"mm2": "RUNNING"}})


def at(connect: Holding = CONNECTORS, **cluster: Any) -> Inventory:
    return Inventory({"a": Holding(**cluster)}, connect)


class Clock:
    """Advances only by waiting."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


def settled(
    monkeypatch: pytest.MonkeyPatch, before: Inventory, looks: Sequence[Inventory]
) -> tuple[Compared, float]:
    """Return the result and the waiting time; the last inventory repeats."""
    coming = list(looks)
    monkeypatch.setattr(
        drill_stage, "take_inventory", lambda _: coming.pop(0) if len(coming) > 1 else coming[0]
    )
    stage, clock = SimpleNamespace(fault=None), Clock()
    return drill_stage._settled(stage, before, clock), clock.now  # type: ignore[arg-type]


RESTARTING = at(Holding({"connector": {"mm2": "RUNNING+UNASSIGNED"}}))
SILENT = at(Holding(unseen={"connector": "no answer"}))


@pytest.mark.parametrize("passing", [RESTARTING, SILENT])
def test_temporary_differences_are_awaited(
    monkeypatch: pytest.MonkeyPatch, passing: Inventory
) -> None:
    found, waited = settled(monkeypatch, at(), [passing, passing, at()])
    assert (found.differences, found.unseen) == ((), ())
    assert waited == 2


@pytest.mark.parametrize("lasting", [RESTARTING, SILENT])
def test_lasting_differences_are_reported(
    monkeypatch: pytest.MonkeyPatch, lasting: Inventory
) -> None:
    found, waited = settled(monkeypatch, at(), [lasting])
    assert found.differences or found.unseen
    assert waited >= 10


def test_unreadable_state_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    found, waited = settled(monkeypatch, at(unseen=RULES), [at(unseen=RULES)])
    assert (found.unseen, waited) == (("a: ACL: not allowed",), 0)
