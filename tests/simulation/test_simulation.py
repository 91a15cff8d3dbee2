"""The invariants hold whatever a seed lets go wrong, and faults planted by hand are found."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def played(*arguments: str) -> str:
    """Play seeds in a process of its own, in which sets have the same order each time."""
    command = [sys.executable, "-m", "tests.simulation", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr
    return ran.stdout


def test_the_invariants_hold() -> None:
    assert "\n10,000 seeds in" in played("--seeds", "10000", "--jobs", "2")


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_the_invariants_hold_in_many_more() -> None:
    assert "\n20,000 seeds in" in played("--start", "100000", "--seeds", "20000", "--jobs", "2")


def test_a_replayed_seed_is_the_same() -> None:
    assert played("--seed", "7") == played("--seed", "7")


def test_planted_faults_are_found() -> None:
    assert played("--planted", "often", "--seeds", "500").count(": seed ") == 24


@pytest.mark.nightly
@pytest.mark.timeout(3000)
def test_rare_planted_faults_are_found() -> None:
    assert played("--planted", "rare", "--seeds", "10000").count(": seed ") == 9
