"""Injections: which component they hit, when it returns, and what does not count."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.errors import Refused
from tests.soak.fault_injection import Injector, Runs
from tests.soak.round_plan import CONNECT, DRCTL, PRIMARY, SECONDARY, Fault, Injection, Way
from tests.soak.sandbox import Sandbox

STEPS = ("drain", "switch")


@dataclass
class Recorded:
    """A lab that records what is done to it."""

    done: list[str] = field(default_factory=list)
    dead: str = ""

    def signal(self, name: str, number: signal.Signals) -> None:
        """Record the signal."""
        if name == self.dead:
            raise Refused(f"{name} does not run")
        self.done.append(f"{number.name} {name}")

    def start(self, name: str) -> None:
        """Record the start."""
        self.done.append(f"start {name}")

    def cluster(self, name: str) -> Any:
        """A cluster of one broker, whose end is recorded."""
        broker = f"{name}-1"
        part = SimpleNamespace(end=lambda *_, **__: self.done.append(f"end {broker}"))
        return SimpleNamespace(brokers=(SimpleNamespace(name=broker, part=part),))

    def lose(self, host: str, there: str, way: Way, share: float) -> int:
        """Record the loss; return its number."""
        self.done.append(f"lose {share} of {host}-{there} {way}")
        return 7

    def narrow(self, host: str, there: str, kbit: int) -> int:
        """Record the slow line; return its number."""
        self.done.append(f"{kbit} kbit/s for {host}-{there}")
        return 7

    def restore(self, number: int) -> None:
        """Record that a fault of the network is over."""
        self.done.append(f"restore {number}")

    def shift(self, host: str, seconds: int) -> None:
        """Record the clock."""
        self.done.append(f"clock of {host} {seconds}")

    @contextmanager
    def full_disk(self, broker: str) -> Iterator[None]:
        """Record the disk."""
        self.done.append(f"fill {broker}")
        yield
        self.done.append(f"empty {broker}")


def announced(folder: Path, *steps: str) -> Runs:
    """Create a run whose journal announces these steps; return all runs."""
    run = folder / "runs" / "one"
    run.mkdir(parents=True)
    entries = [
        {"entry": "run", "plan": {"steps": [{"id": each} for each in STEPS]}},
        *({"entry": "intend", "step": each} for each in steps),
    ]
    (run / "journal.jsonl").write_text("".join(json.dumps(each) + "\n" for each in entries))
    return Runs((run.parent,))


def injected(lab: Recorded, runs: Runs, injection: Injection) -> Injector:
    """Return the record of the lab after an injection had its time."""
    injector = Injector(cast(Lab, lab), runs, frozenset(), cast(Sandbox, lab))
    with injector.waiting_for((injection,)):
        assert Patience.of(20).wait_until(lambda: bool(injector.injected))
        assert Patience.of(20).wait_until(lambda: not injector._active)
    return injector


@pytest.mark.parametrize(
    ("injection", "done"),
    [
        (Injection(Fault.PRIMARY, 0, 0), ["SIGKILL primary", "start primary"]),
        (Injection(Fault.CONNECT, 0, 0), ["SIGKILL connect", "start secondary", "start connect"]),
        (Injection(Fault.PAUSE, 0, 0, 0.1), ["SIGSTOP primary", "SIGCONT primary"]),
        (Injection(Fault.WAKE, 0, 0), ["SIGCONT primary"]),
        (Injection(Fault.FREEZE_CONNECT, 0, 0, 0.1), ["SIGSTOP connect", "SIGCONT connect"]),
        (
            Injection(Fault.ROLL_PRIMARY, 0, 0),
            ["SIGTERM primary-1", "end primary-1", "start primary"],
        ),
        (
            Injection(Fault.ROLL_SECONDARY, 0, 0),
            ["SIGTERM secondary-1", "end secondary-1", "start secondary", "start connect"],
        ),
        (
            Injection(Fault.PARTITION, 0, 0, 0.1, line=(DRCTL, PRIMARY), way=Way.BACK),
            ["lose 1.0 of drctl-primary back", "restore 7"],
        ),
        (
            Injection(Fault.LOSS, 0, 0, 0.1, line=(CONNECT, SECONDARY), amount=5),
            ["lose 0.05 of connect-secondary both-ways", "restore 7"],
        ),
        (
            Injection(Fault.SLOW, 0, 0, 0.1, line=(DRCTL, CONNECT), amount=64),
            ["64 kbit/s for drctl-connect", "restore 7"],
        ),
        (
            Injection(Fault.PRIMARY_CLOCK, 0, 0, 0.1, 1, amount=-600),
            ["clock of primary-1 -600", "clock of primary-1 0"],
        ),
        (
            Injection(Fault.DRCTL_CLOCK, 0, 0, 0.1, amount=600),
            ["clock of drctl 600", "clock of drctl 0"],
        ),
        (
            Injection(Fault.SECONDARY_DISK, 0, 0, 0.1, 1),
            [
                *("fill secondary-1", "empty secondary-1", "SIGKILL secondary-1"),
                *("start secondary", "start connect"),
            ],
        ),
        (Injection(Fault.PRIMARY_BROKER, 0, 0, 0.1, 2), ["SIGKILL primary-2", "start primary"]),
        (
            Injection(Fault.SECONDARY_BROKER, 0, 0, 0.1, 3),
            ["SIGKILL secondary-3", "start secondary", "start connect"],
        ),
    ],
)
def test_each_fault_hits_its_component_and_ends(
    tmp_path: Path, injection: Injection, done: list[str]
) -> None:
    lab = Recorded()
    found = injected(lab, announced(tmp_path, "drain"), injection)
    assert lab.done == done
    assert [str(each) for each in found.injected] == [f"{injection} 0.0 s after drain"]
    assert not found.failures


def test_an_injection_follows_its_announced_step(tmp_path: Path) -> None:
    injection = Injection(Fault.PRIMARY, 0.9, 0)
    for steps, step in ((("drain",), ""), (STEPS, "switch")):
        runs = announced(tmp_path / str(len(steps)), *steps)
        assert Injector(cast(Lab, Recorded()), runs, frozenset())._announced(injection) == step


def test_an_injection_without_its_step_is_dropped(tmp_path: Path) -> None:
    lab, late = Recorded(), Injection(Fault.PRIMARY, 0, 60)
    injector = Injector(cast(Lab, lab), announced(tmp_path, "drain"), frozenset())
    with injector.waiting_for((late, Injection(Fault.WAKE, 0, 0))):
        assert Patience.of(20).wait_until(lambda: bool(injector.injected))
    assert lab.done == ["SIGCONT primary"]


def test_a_stopped_component_is_not_hit(tmp_path: Path) -> None:
    lab = Recorded(dead="primary-1")
    runs = announced(tmp_path, "drain")
    injector = Injector(cast(Lab, lab), runs, frozenset())
    injector._inject(Injection(Fault.PRIMARY_BROKER, 0, 0, 0, 1), "drain")
    assert not injector.injected
    assert not lab.done


def test_a_stopped_drctl_is_not_hit(tmp_path: Path) -> None:
    injector = Injector(cast(Lab, Recorded()), announced(tmp_path, "drain"), frozenset())
    injector._inject(Injection(Fault.DRCTL, 0, 0), "drain")
    assert not injector.injected


def test_another_host_continues_a_run(tmp_path: Path) -> None:
    """The journal of a run is its longest copy, wherever it is."""
    here, there = (announced(tmp_path / name, *STEPS[:n]) for name, n in (("a", 1), ("b", 2)))
    both = Runs((*here.folders, *there.folders, tmp_path / "none"))
    assert both.names() == ["one"]
    assert [each.get("step") for each in both.entries("one")] == [None, *STEPS]


@pytest.mark.parametrize("fault", [Fault.PARTITION, Fault.DRCTL_CLOCK, Fault.PRIMARY_DISK])
def test_without_namespaces_a_fault_of_the_sandbox_is_not_injected(
    tmp_path: Path, fault: Fault
) -> None:
    lab = Recorded()
    injector = Injector(cast(Lab, lab), announced(tmp_path, "drain"), frozenset())
    injector._inject(Injection(fault, 0, 0), "drain")
    assert not injector.injected
    assert not lab.done
