"""A source that did not answer is not waited for again, and is never taken for dead unasked."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from drctl.cli.runs.link_sight_silence import ALIVE, REMEMBERED_S, Silence
from drctl.model.errors import Unreachable
from drctl.model.finding import Finding, Status
from drctl.model.reachability import NotLetIn


@dataclass
class Source:
    """A cluster that answers, or does not; and a clock."""

    error: Unreachable | None = None
    asked: int = 0
    now: float = 100.0
    silence: Silence = field(init=False)

    def __post_init__(self) -> None:
        self.silence = Silence(self.cluster_id, lambda: self.now)

    def cluster_id(self) -> str:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return "P1"


DEAD = Unreachable("cluster primary did not answer within 3 s", "start it")


def test_one_that_did_not_answer_is_not_asked_again_for_a_while() -> None:
    source = Source(DEAD)
    for _ in range(5):
        with pytest.raises(Unreachable, match="did not answer within 3 s") as caught:
            source.silence.expect()
        assert caught.value.hint == "start it"
    assert source.asked == 1
    source.now += REMEMBERED_S + 1
    with pytest.raises(Unreachable):
        source.silence.expect()
    assert source.asked == 2


def test_what_rests_on_it_being_dead_asks_it_whatever_is_remembered() -> None:
    source = Source(DEAD)
    with pytest.raises(Unreachable):
        source.silence.expect()
    source.error = None
    with pytest.raises(Unreachable):
        source.silence.expect()
    assert source.silence.ask() == "P1"
    source.silence.expect()


def test_one_that_answered_is_asked_each_time() -> None:
    source = Source()
    source.silence.expect()
    source.error = DEAD
    with pytest.raises(Unreachable):
        source.silence.expect()


def test_one_that_does_not_let_drctl_in_is_not_remembered_as_silent() -> None:
    source = Source(NotLetIn("no connection to cluster primary: authentication failed"))
    source.silence.expect()
    with pytest.raises(NotLetIn):
        source.silence.ask()
    source.error = None
    source.silence.expect()


@pytest.mark.parametrize(
    ("status", "known"), [(Status.OK, True), (Status.FAIL, False), (Status.NOT_CHECKED, False)]
)
def test_the_guard_that_has_asked_is_believed(status: Status, known: bool) -> None:
    source = Source(DEAD)
    with pytest.raises(Unreachable):
        source.silence.expect()
    source.error = None
    said = Finding(ALIVE, status, "cluster primary", "", "it did not answer within 3 s")
    source.silence.hear([Finding("another", Status.OK, "", ""), said])
    look: Callable[[], None] = source.silence.expect
    if known:
        with pytest.raises(Unreachable, match="it did not answer"):
            look()
    else:
        look()
    assert source.asked == (1 if known else 2)
