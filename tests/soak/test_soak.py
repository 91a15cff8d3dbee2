"""Short rounds on real clusters: one that stays away, and one that comes home, struck on the way.

In the first drctl and Connect are killed, in the second both clusters' replication and the primary
itself while everything is led back to it. What else can come, `make soak` draws.
"""

import threading
from pathlib import Path

import pytest

from drctl.lab.lab import Lab
from tests.soak.course import Course, Fault, Out, Strike, draw
from tests.soak.round import Result, Round, Size

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(1000)]

SEED = 1
STAYING = Size(work=100, away=60, home=0)
RETURNING = Size(work=100, away=60, home=60)

STRUCK_ON_THE_WAY_HOME = Course(
    seed=0,
    out=Out.KILLED,
    behind=80,
    policy="copy",
    leaving=(),
    returning=(
        Strike(Fault.CONNECT, at=0.31, after_s=0.0),  # about where records come home
        Strike(Fault.PRIMARY, at=0.44, after_s=0.2),  # where producers are fenced away from there
        Strike(Fault.PAUSE, at=0.61, after_s=0.0, lasts_s=6.0),  # behind that fence
    ),
)


def played(course: Course, size: Size, lab: Lab, folder: Path) -> Result:
    """The round; it kept every promise, and every strike of its course landed."""
    found = Round(course, folder, threading.Event(), size, leg_s=400).play(lab)
    assert not found.failure
    assert found.judgement is not None
    assert found.judgement.wrong == ()
    assert not [each for each in found.attempts if each.wrong]
    assert found.judgement.acknowledged >= size.work + size.away + size.home
    drawn = (*course.leaving, *course.returning) if size.home else course.leaving
    assert {each.strike for each in found.struck} == set(drawn)
    return found


def test_a_short_round_keeps_every_promise(lab: Lab, tmp_path: Path) -> None:
    course = draw(SEED)
    assert course.out is Out.PLANNED
    assert {each.fault for each in course.leaving} == {Fault.DRCTL, Fault.CONNECT}
    found = played(course, STAYING, lab, tmp_path / "round")
    assert any(attempt.code < 0 for attempt in found.attempts), "drctl was not killed"


def test_so_does_one_that_is_struck_on_the_way_home(lab: Lab, tmp_path: Path) -> None:
    found = played(STRUCK_ON_THE_WAY_HOME, RETURNING, lab, tmp_path / "round")
    assert {each.strike.fault for each in found.struck} == {
        Fault.CONNECT,
        Fault.PRIMARY,
        Fault.PAUSE,
    }
