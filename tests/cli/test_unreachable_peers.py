"""A peer that does not answer is probed once per command, and no request waits for it again."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from drctl.host import connections
from drctl.host.connections import PROBE_INTERVAL_S, Peer
from drctl.model.errors import ConfigError, Unreachable
from drctl.model.health import AuthenticationFailed

DEAD = Unreachable("cluster primary did not answer within 6 s", "start it")


@dataclass
class Cluster:
    """A peer that answers or fails, with a clock."""

    error: Exception | None = None
    takes_s: float = 0.0
    probes: int = 0
    now: float = 100.0
    peer: Peer = field(init=False)

    def __post_init__(self) -> None:
        self.peer = Peer("cluster primary", lambda: self.now)

    def probe(self) -> None:
        self.probes += 1
        time.sleep(self.takes_s)
        if self.error is not None:
            raise self.error

    def require(self) -> None:
        self.peer.require(self.probe, self.probe)

    def probed(self, times: int) -> bool:
        until = time.monotonic() + 5
        while self.probes < times or self.peer._probing is not None:
            if time.monotonic() > until:
                return False
            time.sleep(0.001)
        return True


@pytest.fixture(autouse=True)
def after() -> Iterator[None]:
    yield
    connections.end()


def test_an_unreachable_peer_is_probed_once() -> None:
    cluster = Cluster(DEAD)
    for _ in range(5):
        with pytest.raises(Unreachable, match="did not answer within 6 s") as caught:
            cluster.require()
        assert caught.value.hint == "start it"
    assert cluster.probes == 1


def test_a_reachable_peer_is_probed_once() -> None:
    cluster = Cluster()
    for _ in range(5):
        cluster.require()
    assert cluster.probes == 1


def test_concurrent_requests_wait_for_one_probe() -> None:
    cluster, messages = Cluster(DEAD, takes_s=0.1), []

    def ask() -> None:
        try:
            cluster.require()
        except Unreachable as error:
            messages.append(error.message)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert messages == [DEAD.message] * 8
    assert cluster.probes == 1


def test_a_failed_request_makes_the_next_ones_fail_at_once() -> None:
    cluster = Cluster()
    cluster.require()
    cluster.peer.failed(DEAD)
    with pytest.raises(Unreachable):
        cluster.require()
    assert cluster.probes == 1


def test_a_recovered_peer_is_found_in_the_background() -> None:
    cluster = Cluster(DEAD)
    with pytest.raises(Unreachable):
        cluster.require()
    cluster.error = None
    cluster.now += PROBE_INTERVAL_S / 2
    with pytest.raises(Unreachable):
        cluster.require()
    assert cluster.probes == 1
    cluster.now += PROBE_INTERVAL_S
    with pytest.raises(Unreachable):
        cluster.require()
    assert cluster.probed(2)
    cluster.require()
    assert cluster.probes == 2


def test_a_peer_can_be_forgotten() -> None:
    cluster = Cluster(DEAD)
    with pytest.raises(Unreachable):
        cluster.require()
    cluster.error = None
    cluster.peer.forget(older_s=1)
    with pytest.raises(Unreachable):
        cluster.require()
    cluster.peer.forget()
    cluster.require()
    assert cluster.probes == 2


def test_a_configuration_error_does_not_count_as_unreachable() -> None:
    cluster = Cluster(ConfigError("no such property"))
    for _ in range(2):
        with pytest.raises(ConfigError):
            cluster.require()
    assert cluster.peer.error is None


def test_clusters_that_reject_a_login_are_reachable() -> None:
    connections.begin()

    def probe(name: str, error: Exception | None) -> None:
        peer = connections.peer(name, connections.cluster(name))
        assert peer is not None
        cluster = Cluster(error)
        try:
            peer.require(cluster.probe, cluster.probe)
        except Unreachable:
            assert error is not None

    probe("primary", DEAD)
    assert connections.unreachable_clusters() == {"primary": DEAD.message}
    probe("secondary", DEAD)
    both = dict.fromkeys(("primary", "secondary"), DEAD.message)
    assert connections.unreachable_clusters() == both
    connections.recheck(connections.cluster("secondary"))
    probe("secondary", AuthenticationFailed("authentication failed"))
    assert connections.unreachable_clusters() == {"primary": DEAD.message}


def test_peers_are_kept_if_tracking_begins_twice() -> None:
    connections.begin()
    peer = connections.peer("primary", connections.cluster("primary"))
    connections.begin()
    assert connections.peer("primary", connections.cluster("primary")) is peer


def test_nothing_is_remembered_outside_a_command() -> None:
    assert connections.peer("primary", "cluster primary") is None
    connections.recheck("cluster primary")
    assert connections.unreachable_clusters() == {}
