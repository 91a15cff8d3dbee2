"""Injections: which component they hit, when it returns, and what does not count."""

import json
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.errors import Refused
from tests.soak.fault_injection import Injector
from tests.soak.round_plan import Fault, Injection

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


def announced(folder: Path, *steps: str) -> Path:
    """Create a run whose journal announces these steps; return the folder of all runs."""
    run = folder / "runs" / "one"
    run.mkdir(parents=True)
    entries = [
        {"entry": "run", "plan": {"steps": [{"id": each} for each in STEPS]}},
        *({"entry": "intend", "step": each} for each in steps),
    ]
    (run / "journal.jsonl").write_text("".join(json.dumps(each) + "\n" for each in entries))
    return run.parent


def injected(lab: Recorded, runs: Path, injection: Injection) -> Injector:
    """Return the record of the lab after an injection had its time."""
    injector = Injector(cast(Lab, lab), runs, frozenset())
    with injector.waiting_for((injection,)):
        assert Patience.of(20).wait_until(lambda: bool(injector.injected))
    return injector


@pytest.mark.parametrize(
    ("injection", "done"),
    [
        (Injection(Fault.PRIMARY, 0, 0), ["SIGKILL primary", "start primary"]),
        (Injection(Fault.CONNECT, 0, 0), ["SIGKILL connect", "start secondary", "start connect"]),
        (Injection(Fault.PAUSE, 0, 0, 0.1), ["SIGSTOP primary", "SIGCONT primary"]),
        (Injection(Fault.WAKE, 0, 0), ["SIGCONT primary"]),
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
    one = f"-{injection.node}" if injection.node else ""
    assert [str(each) for each in found.injected] == [f"{injection.fault}{one} 0.0 s after drain"]
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
