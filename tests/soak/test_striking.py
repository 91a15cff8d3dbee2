"""Strikes: which part they hit, when it comes back, and what does not count as struck."""

import json
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.errors import Refused
from tests.soak.course import Fault, Strike
from tests.soak.striking import Striker

STEPS = ("drain", "switch")


@dataclass
class Recorded:
    """A lab that writes down what is done to it."""

    done: list[str] = field(default_factory=list)
    dead: str = ""

    def signal(self, name: str, number: signal.Signals) -> None:
        """Where it runs."""
        if name == self.dead:
            raise Refused(f"{name} does not run")
        self.done.append(f"{number.name} {name}")

    def start(self, name: str) -> None:
        """At once."""
        self.done.append(f"start {name}")


def announced(folder: Path, *steps: str) -> Path:
    """A run whose journal has come to these steps; the folder of all runs."""
    run = folder / "runs" / "one"
    run.mkdir(parents=True)
    entries = [
        {"entry": "run", "plan": {"steps": [{"id": each} for each in STEPS]}},
        *({"entry": "intend", "step": each} for each in steps),
    ]
    (run / "journal.jsonl").write_text("".join(json.dumps(each) + "\n" for each in entries))
    return run.parent


def struck(lab: Recorded, runs: Path, strike: Strike) -> Striker:
    """After the strike had its time."""
    striker = Striker(cast(Lab, lab), runs, frozenset())
    with striker.waiting_for((strike,)):
        assert Patience.of(20).wait_until(lambda: bool(striker.struck))
    return striker


@pytest.mark.parametrize(
    ("strike", "done"),
    [
        (Strike(Fault.PRIMARY, 0, 0), ["SIGKILL primary", "start primary"]),
        (Strike(Fault.CONNECT, 0, 0), ["SIGKILL connect", "start secondary", "start connect"]),
        (Strike(Fault.PAUSE, 0, 0, 0.1), ["SIGSTOP primary", "SIGCONT primary"]),
        (Strike(Fault.WAKE, 0, 0), ["SIGCONT primary"]),
        (Strike(Fault.PRIMARY_BROKER, 0, 0, 0.1, 2), ["SIGKILL primary-2", "start primary"]),
        (
            Strike(Fault.SECONDARY_BROKER, 0, 0, 0.1, 3),
            ["SIGKILL secondary-3", "start secondary", "start connect"],
        ),
    ],
)
def test_each_fault_hits_its_part_and_ends(tmp_path: Path, strike: Strike, done: list[str]) -> None:
    lab = Recorded()
    found = struck(lab, announced(tmp_path, "drain"), strike)
    assert lab.done == done
    one = f"-{strike.node}" if strike.node else ""
    assert [str(each) for each in found.struck] == [f"{strike.fault}{one} 0.0 s behind drain"]
    assert not found.failures


def test_a_moment_comes_once_the_journal_announces_its_step(tmp_path: Path) -> None:
    strike = Strike(Fault.PRIMARY, 0.9, 0)
    for steps, step in ((("drain",), ""), (STEPS, "switch")):
        runs = announced(tmp_path / str(len(steps)), *steps)
        assert Striker(cast(Lab, Recorded()), runs, frozenset())._announced(strike) == step


def test_a_moment_that_did_not_come_while_the_leg_lasted_is_over(tmp_path: Path) -> None:
    lab, late = Recorded(), Strike(Fault.PRIMARY, 0, 60)
    striker = Striker(cast(Lab, lab), announced(tmp_path, "drain"), frozenset())
    with striker.waiting_for((late, Strike(Fault.WAKE, 0, 0))):
        assert Patience.of(20).wait_until(lambda: bool(striker.struck))
    assert lab.done == ["SIGCONT primary"]


def test_what_does_not_run_is_not_struck(tmp_path: Path) -> None:
    lab = Recorded(dead="primary-1")
    runs = announced(tmp_path, "drain")
    striker = Striker(cast(Lab, lab), runs, frozenset())
    striker._carry_out(Strike(Fault.PRIMARY_BROKER, 0, 0, 0, 1), "drain")
    assert not striker.struck
    assert not lab.done


def test_drctl_that_does_not_run_is_not_struck(tmp_path: Path) -> None:
    striker = Striker(cast(Lab, Recorded()), announced(tmp_path, "drain"), frozenset())
    striker._carry_out(Strike(Fault.DRCTL, 0, 0), "drain")
    assert not striker.struck
