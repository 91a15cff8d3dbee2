"""Clients continue on the other cluster without a restart: librdkafka and Java, both protocols.

`pytest tests/clients -s` prints how long each took. With DRCTL_WATCH_CLIENTS_S=300 clients with
default settings are watched for that long if they take more time than a test has.
"""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from drctl.lab.waiting import Patience
from tests.clients import namespace
from tests.clients.applications import Applications, Client
from tests.clients.brokers import COPIED
from tests.clients.profiles import advised, default, stuck
from tests.clients.stage import Stage, stage
from tests.clients.times import arrivals, table

pytestmark = [pytest.mark.jvm, pytest.mark.endpoints, pytest.mark.timeout(600)]

WATCH_S = float(os.environ.get("DRCTL_WATCH_CLIENTS_S", "0"))
DEADLINE_S = 90
STAYS_S = 3.0


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    if reason := namespace.obstacle():
        pytest.skip(reason)
    with stage(tmp_path_factory.mktemp("clients")) as made:
        yield made


@pytest.fixture
def scene(opened: Stage) -> Stage:
    """Both clusters run, and the name points to the primary."""
    for cluster in (opened.primary, opened.secondary):
        if not cluster.lives:
            cluster.start()
            cluster.wait()
    opened.name.point("primary")
    return opened


def at_work(running: Applications) -> None:
    """Wait until every client has written or read at the source."""
    producers = [client for client in running.clients if client.produces]
    running.wait(DEADLINE_S, producers, "acknowledged")
    running.wait(DEADLINE_S, [c for c in running.clients if c not in producers], "read")
    assert not [event for event in running.events() if event.there]


def nobody_moves(running: Applications, since: float) -> None:
    """Assert that the source refuses all producers long after they could have moved."""

    def refused_late() -> set[str]:
        late = (e for e in running.events() if e.what == "refused" and e.at_s > since + STAYS_S)
        return {event.client for event in late}

    producers = {client.name for client in running.clients if client.produces}
    assert Patience.of(DEADLINE_S).wait_until(lambda: producers <= refused_late())
    assert not [event for event in running.events() if event.there]


def all_stored(scene: Stage, topic: str, running: Applications) -> None:
    """Assert that the target has every record that it acknowledged, at its offset."""
    found = [e for e in running.events() if e.there and e.what == "acknowledged"]
    stored = scene.secondary.stored(topic)
    assert found
    assert {event.offset: event.text for event in found}.items() <= stored.items()


def none_skipped(running: Applications) -> None:
    """Assert that consumers with new records of the target got all from the group's offset on."""
    for client in running.clients:
        own = (e for e in running.events() if e.client == client.name and e.what == "read")
        offsets = {event.offset for event in own if event.there}
        assert offsets == set(range(COPIED, COPIED + len(offsets))), client.name


def report(title: str, running: Applications, **since: float) -> None:
    named = {name.replace("_", " "): at_s for name, at_s in since.items()}
    found = arrivals(running.clients, running.events())
    print(f"\n{table(title, named, found, time.monotonic())}\n")


def of_both(*kinds: Sequence[Client]) -> list[Client]:
    return [client for kind in kinds for client in kind]


def test_a_proxy_moves_clients_of_a_running_source(scene: Stage) -> None:
    topic = scene.topic()
    backend = scene.proxy.opened()
    before = backend.seen()
    assert before.cluster == "primary"
    with scene.applications(topic, scene.through_proxy) as running:
        running.librdkafka(of_both(advised("librdkafka"), default("librdkafka")))
        java = of_both(advised("java"), default("java"))
        running.java("java", java, scene.classes, quick=True)
        at_work(running)
        scene.prepare(topic, running.clients)
        scene.primary.fence(topic)
        backend.writer.switch("secondary", before)
        switched = time.monotonic()
        running.wait(DEADLINE_S, running.clients, "there")
        report("HAProxy, source alive", running, after_the_switch=switched)
        all_stored(scene, topic, running)
        none_skipped(running)
    assert scene.primary.lives
    backend.writer.restore(before)
    assert backend.seen().cluster == "primary"


@pytest.mark.nightly
def test_a_dns_name_moves_clients_of_an_unreachable_source(scene: Stage, tmp_path: Path) -> None:
    topic = scene.topic()
    record = scene.name.opened(tmp_path)
    before = record.seen()
    slow = WATCH_S > 0
    with scene.applications(topic) as running:
        running.librdkafka(of_both(advised("librdkafka"), default("librdkafka") if slow else []))
        running.java("java", advised("java"), scene.classes, quick=True)
        if slow:
            running.java("java-default", default("java"), scene.classes, quick=False)
        at_work(running)
        scene.prepare(topic, running.clients)
        with scene.cut_off(scene.primary) as cut:
            record.writer.switch("secondary", before)
            assert record.seen().cluster == "secondary"
            running.wait(DEADLINE_S, of_both(advised("librdkafka"), advised("java")), "there")
            if slow:
                watched = Patience.of(WATCH_S)
                watched.wait_until(lambda: not running.without(running.clients, "there"))
            report("DNS, source cut off", running, after_the_cut=cut)
            all_stored(scene, topic, running)
            none_skipped(running)


@pytest.mark.nightly
def test_a_dns_name_moves_no_client_of_a_running_source(scene: Stage, tmp_path: Path) -> None:
    topic = scene.topic()
    record = scene.name.opened(tmp_path)
    before = record.seen()
    assert before.cluster == "primary"
    moving = [f(library) for f in (advised, default) for library in ("librdkafka", "java")]
    with scene.applications(topic) as running:
        running.librdkafka(of_both(*(f("librdkafka") for f in (advised, default, stuck))))
        quick = of_both(advised("java"), stuck("java"))
        running.java("java", quick, scene.classes, quick=True)
        running.java("java-default", default("java"), scene.classes, quick=False)
        at_work(running)
        scene.prepare(topic, of_both(*moving))
        scene.primary.fence(topic)
        record.writer.switch("secondary", before)
        switched = time.monotonic()
        assert record.seen().cluster == "secondary"
        nobody_moves(running, switched)
        scene.primary.kill()
        gone = time.monotonic()
        running.wait(DEADLINE_S, of_both(*moving), "there")
        report("DNS", running, after_the_switch=switched, after_the_source_was_gone=gone)
        never = {client.name for name in ("librdkafka", "java") for client in stuck(name)}
        assert not [e for e in running.events() if e.there and e.client in never]
        all_stored(scene, topic, running)
        none_skipped(running)
