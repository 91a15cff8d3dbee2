"""Short rounds with faults on real clusters: one without a failback, one with it.

In the first drctl and Connect are killed, in the second replication in both directions and, during
the failback, the primary. `make soak` draws other faults.
"""

import threading
from pathlib import Path

import pytest

from drctl.lab.lab import Lab
from tests.soak.round import Result, Round, Size
from tests.soak.round_plan import Fault, Injection, Out, RoundPlan, Work

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(1000)]

NO_FAILBACK = Size(work=100, away=60, after_failback=0)
WITH_FAILBACK = Size(work=100, away=60, after_failback=60)

FAULT_DURING_FAILOVER = RoundPlan(
    seed=0,
    out=Out.PLANNED,
    backlog=0,
    policy="copy",
    on_failover=(
        Injection(Fault.DRCTL, at=0.5, after_s=0.0),  # while consumers are fenced
        Injection(Fault.CONNECT, at=0.8, after_s=0.0),
    ),
    on_failback=(),
    work=Work(new_protocol=True, compacted=True),
)
FAULT_DURING_FAILBACK = RoundPlan(
    seed=0,
    out=Out.KILLED,
    backlog=80,
    policy="copy",
    on_failover=(),
    on_failback=(
        Injection(Fault.CONNECT, at=0.31, after_s=0.0),  # while records are copied back
        Injection(Fault.PRIMARY, at=0.44, after_s=0.2),  # while producers are fenced
        Injection(Fault.PAUSE, at=0.61, after_s=0.0, lasts_s=6.0),  # after that fence
    ),
)


def played(plan: RoundPlan, size: Size, lab: Lab, folder: Path) -> Result:
    """Run the round; it kept every promise, and every injection of its plan was made."""
    found = Round(plan, folder, threading.Event(), size, leg_s=400).play(lab)
    assert not found.failure
    assert found.judgement is not None
    assert found.judgement.wrong == ()
    assert not [each for each in found.attempts if each.wrong]
    assert found.judgement.acknowledged >= size.work + size.away + size.after_failback
    drawn = (*plan.on_failover, *plan.on_failback) if size.after_failback else plan.on_failover
    assert {each.injection for each in found.injected} == set(drawn)
    return found


def test_a_short_round_keeps_every_promise(lab: Lab, tmp_path: Path) -> None:
    found = played(FAULT_DURING_FAILOVER, NO_FAILBACK, lab, tmp_path / "round")
    assert any(attempt.code < 0 for attempt in found.attempts), "drctl was not killed"


def test_a_round_with_faults_in_the_failback_keeps_every_promise(lab: Lab, tmp_path: Path) -> None:
    found = played(FAULT_DURING_FAILBACK, WITH_FAILBACK, lab, tmp_path / "round")
    assert {each.injection.fault for each in found.injected} == {
        Fault.CONNECT,
        Fault.PRIMARY,
        Fault.PAUSE,
    }
