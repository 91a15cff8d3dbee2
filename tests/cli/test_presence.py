"""A party that did not answer is asked once in a run, and nobody waits for it a second time."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from drctl.host import connections
from drctl.host.connections import AGAIN_S, Party
from drctl.model.errors import ConfigError, Unreachable
from drctl.model.health import AuthenticationFailed

DEAD = Unreachable("cluster primary did not answer within 6 s", "start it")


@dataclass
class Cluster:
    """One that answers, or does not; and a clock."""

    error: Exception | None = None
    takes_s: float = 0.0
    asked: int = 0
    now: float = 100.0
    party: Party = field(init=False)

    def __post_init__(self) -> None:
        self.party = Party("cluster primary", lambda: self.now)

    def look(self) -> None:
        self.asked += 1
        time.sleep(self.takes_s)
        if self.error is not None:
            raise self.error

    def expect(self) -> None:
        self.party.expect(self.look, self.look)

    def looked(self, times: int) -> bool:
        until = time.monotonic() + 5
        while self.asked < times or self.party._asking is not None:
            if time.monotonic() > until:
                return False
            time.sleep(0.001)
        return True


@pytest.fixture(autouse=True)
def after() -> Iterator[None]:
    yield
    connections.end()


def test_one_that_did_not_answer_is_not_asked_again() -> None:
    cluster = Cluster(DEAD)
    for _ in range(5):
        with pytest.raises(Unreachable, match="did not answer within 6 s") as caught:
            cluster.expect()
        assert caught.value.hint == "start it"
    assert cluster.asked == 1


def test_one_that_answered_is_not_asked_either() -> None:
    cluster = Cluster()
    for _ in range(5):
        cluster.expect()
    assert cluster.asked == 1


def test_whoever_asks_meanwhile_waits_for_the_one_question() -> None:
    cluster, told = Cluster(DEAD, takes_s=0.1), []

    def ask() -> None:
        try:
            cluster.expect()
        except Unreachable as silent:
            told.append(silent.message)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert told == [DEAD.message] * 8
    assert cluster.asked == 1


def test_one_that_stops_answering_is_known_to_everybody() -> None:
    cluster = Cluster()
    cluster.expect()
    cluster.party.silent(DEAD)
    with pytest.raises(Unreachable):
        cluster.expect()
    assert cluster.asked == 1


def test_one_that_is_back_is_found_without_anybody_waiting() -> None:
    cluster = Cluster(DEAD)
    with pytest.raises(Unreachable):
        cluster.expect()
    cluster.error = None
    cluster.now += AGAIN_S / 2
    with pytest.raises(Unreachable):
        cluster.expect()
    assert cluster.asked == 1
    cluster.now += AGAIN_S
    with pytest.raises(Unreachable):
        cluster.expect()
    assert cluster.looked(2)
    cluster.expect()
    assert cluster.asked == 2


def test_what_rests_on_it_being_dead_asks_it_anew() -> None:
    cluster = Cluster(DEAD)
    with pytest.raises(Unreachable):
        cluster.expect()
    cluster.error = None
    cluster.party.forget(older_s=1)
    with pytest.raises(Unreachable):
        cluster.expect()
    cluster.party.forget()
    cluster.expect()
    assert cluster.asked == 2


def test_one_that_cannot_be_asked_is_no_silent_one() -> None:
    cluster = Cluster(ConfigError("no such property"))
    for _ in range(2):
        with pytest.raises(ConfigError):
            cluster.expect()
    assert cluster.party.silence is None


def test_clusters_that_reject_a_login_are_not_silent() -> None:
    connections.begin()

    def met(name: str, error: Exception | None) -> None:
        party = connections.party(name, connections.cluster(name))
        assert party is not None
        cluster = Cluster(error)
        try:
            party.expect(cluster.look, cluster.look)
        except Unreachable:
            assert error is not None

    met("primary", DEAD)
    assert connections.silent_clusters() == {"primary": DEAD.message}
    met("secondary", DEAD)
    assert connections.silent_clusters() == dict.fromkeys(("primary", "secondary"), DEAD.message)
    connections.anew(connections.cluster("secondary"))
    met("secondary", AuthenticationFailed("authentication failed"))
    assert connections.silent_clusters() == {"primary": DEAD.message}


def test_a_configuration_that_is_read_twice_forgets_nobody() -> None:
    connections.begin()
    party = connections.party("primary", connections.cluster("primary"))
    connections.begin()
    assert connections.party("primary", connections.cluster("primary")) is party


def test_outside_a_run_nothing_is_kept() -> None:
    assert connections.party("primary", "cluster primary") is None
    connections.anew("cluster primary")
    assert connections.silent_clusters() == {}
