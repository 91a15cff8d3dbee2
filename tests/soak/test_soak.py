"""One short round on real clusters: a planned failover, with drctl and Connect killed on the way.

The way home takes minutes: `make soak` goes it, and `tests/cluster/test_failback.py`.
"""

import threading
from pathlib import Path

import pytest

from drctl.lab.lab import Lab
from tests.soak.course import Fault, Out, draw
from tests.soak.round import Round, Size

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(400)]

SEED = 1
SHORT = Size(work=100, away=60, home=0)


def test_a_short_round_keeps_every_promise(lab: Lab, tmp_path: Path) -> None:
    course = draw(SEED)
    assert course.out is Out.PLANNED
    assert {each.fault for each in course.leaving} == {Fault.DRCTL, Fault.CONNECT}
    played = Round(course, tmp_path / "round", threading.Event(), SHORT, leg_s=200).play(lab)
    assert not played.failure
    assert played.judgement is not None
    assert played.judgement.wrong == ()
    assert played.judgement.acknowledged >= SHORT.work + SHORT.away
    assert {each.strike.fault for each in played.struck} == {Fault.DRCTL, Fault.CONNECT}
    assert any(attempt.code < 0 for attempt in played.attempts), "drctl was not killed"
