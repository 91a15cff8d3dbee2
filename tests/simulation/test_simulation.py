"""The invariants hold in simulated failovers and failbacks, whatever the seed lets go wrong."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

SEEDS = 1_000


def test_the_invariants_hold() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--seeds", str(SEEDS)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr
    assert f"{SEEDS:,} seeds in" in ran.stdout


def test_a_replayed_seed_is_the_same() -> None:
    command = [sys.executable, "-m", "tests.simulation", "--seed", "7"]
    first, second = (subprocess.check_output(command, text=True) for _ in range(2))
    assert first == second
