"""Rounds of `python -m tests.soak`: one with every kind of work, and those that found a bug.

They run on a lab of their own, in namespaces where these are permitted. The plan of a seed changes
when `round_plan.draw` does: then replace the seed by one with the same faults.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.soak.round_plan import SANDBOXED, draw

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(1800)]

SEEDS = {(8, 1): "all kinds of work; slow lines and a killed drctl"}
"""Seed and brokers per cluster."""


@pytest.mark.parametrize(("seed", "brokers"), SEEDS)
def test_a_round_keeps_every_promise(tmp_path: Path, seed: int, brokers: int) -> None:
    plan = draw(seed, brokers)
    assert SANDBOXED & {each.fault for each in (*plan.on_failover, *plan.on_failback)}
    words = ["--seed", str(seed), "--rounds", "1", "--brokers", str(brokers)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", *words, "--dir", str(tmp_path / "soak")],
        env=os.environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=1700,
    )
    assert done.returncode == 0, f"{SEEDS[seed, brokers]}\n{done.stdout}{done.stderr}"
