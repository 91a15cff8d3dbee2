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

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(3000)]

SEEDS = {
    (8, 1): "all kinds of work; slow lines and a killed drctl",
    (2006, 1): "the target is compacted between comparison and count",
    (3004, 1): "the same, and a resumed failover",
    (4002, 1): "the source has no copied record left",
    (10005, 1): "no copied record is left on both clusters",
    (13004, 1): "the soak test itself: a transaction was open on the emptied primary; a rebuild"
    " that was repeated needed it empty again",
    (33002, 1): "the soak test itself: each comparison met an open transaction",
    (41002, 1): "the soak test itself: a broker whose clock was set back ended no transaction",
    (50004, 1): "a transaction that had just begun was called hanging; a rebuild was not repeated",
    (60003, 1): "the same",
    (74105, 1): "Kafka itself: a broker that was starting skipped the markers of a commit",
    (81000, 1): "the source has compacted records away that the target still has",
    (81008, 1): "the soak test itself: an old transaction was aborted after the comparison",
    (82004, 1): "the same, and the next comparison met an open transaction",
    (84045, 1): "the soak test itself: copies of a reconcile run were not counted if the failback"
    " compared again; and an abort of an application had no effect",
    (94014, 1): "the soak test itself: on the second operator's host, there was no gap result",
    (100001, 3): "brokers that are starting list no groups",
    (100003, 3): "the first new record is compacted away after the start of reverse replication",
    (200000, 3): "Connect loses the state STOPPED",
    (210016, 3): "the soak test itself: its consumer waited for the end of a topic that grew",
}
"""Seed and brokers per cluster, and what it found."""


def test_a_round_needs_the_sandbox() -> None:
    plan = draw(8, 1)
    assert SANDBOXED & {each.fault for each in (*plan.on_failover, *plan.on_failback)}


@pytest.mark.parametrize(("seed", "brokers"), SEEDS)
def test_a_round_keeps_every_promise(tmp_path: Path, seed: int, brokers: int) -> None:
    words = ["--seed", str(seed), "--rounds", "1", "--brokers", str(brokers)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak", *words, "--dir", str(tmp_path / "soak")],
        env=os.environ,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=2900,
    )
    assert done.returncode == 0, f"{SEEDS[seed, brokers]}\n{done.stdout}{done.stderr}"
