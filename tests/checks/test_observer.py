"""The prechecks on two real clusters: reachable, lagging, and with a lost source."""

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import pytest

from drctl.app.adapters import position_finder
from drctl.app.prechecks import active_cluster, ends_of_copies
from drctl.checks.diagnosis import blockers_among
from drctl.checks.observed import Observed
from drctl.checks.observing import Observer
from drctl.checks.ports import ClusterPorts, LinkPorts
from drctl.checks.registry import precheck_findings
from drctl.config.loading import load
from drctl.connect.client import ConnectReader
from drctl.kafka.acls import KafkaAclReader
from drctl.kafka.connection import Connection
from drctl.kafka.groups import KafkaGroupReader
from drctl.kafka.health import KafkaHealthReader
from drctl.kafka.journal_reader import JournalTopicReader
from drctl.kafka.producer_ids import KafkaProducerIdReader
from drctl.kafka.reader import KafkaClusterReader
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.finding import Status
from drctl.model.health import Silent
from drctl.model.loss import Mode
from drctl.model.replication import Lag
from drctl.model.topology import Record, TopicPartition, TopicState, Unavailable
from drctl.stores.journal_files import StateFolder
from tests.conftest import NewTopic
from tests.kafka.tls_broker import free_ports
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

QUICK_S = 4.0


class Site:
    """Observes the lab through the link of its drctl.yaml."""

    def __init__(self, lab: Lab, file: Path, opened: ExitStack) -> None:
        self.lab, self.config, self.opened = lab, load(file), opened
        self.link = self.config.link("main")

    def cluster(self, name: str, bootstrap: str = "") -> ClusterPorts:
        """Return the ports of a cluster, optionally at other bootstrap servers."""
        properties = self.lab.cluster(name).client_properties("admin")
        properties["bootstrap.servers"] = bootstrap or properties["bootstrap.servers"]
        keep = self.opened.enter_context
        return ClusterPorts(
            keep(KafkaClusterReader(Connection(name, properties, timeout_s=QUICK_S))),
            keep(KafkaGroupReader(Connection(name, properties, timeout_s=QUICK_S))),
            keep(KafkaAclReader(Connection(name, properties, timeout_s=QUICK_S))),
            keep(KafkaHealthReader(Connection(name, properties, timeout_s=QUICK_S))),
            keep(KafkaProducerIdReader(Connection(name, properties, timeout_s=QUICK_S))),
            keep(KafkaHealthReader(Connection(name, properties, timeout_s=QUICK_S))),
        )

    def copied(self, topic: str) -> int:
        """Return the number of records of a topic on the target."""
        with self.cluster("secondary").reader as reader:
            ends = ends_of_copies(self.link, reader)
        return sum(end for place, end in ends.items() if place.topic == topic)

    def observer(self, bootstrap: str = "") -> Observer:
        """Return an observer of both clusters; the source at these bootstrap servers."""
        source, target = self.cluster("primary", bootstrap), self.cluster("secondary")
        watched = self.cluster("secondary").reader
        finder = position_finder(self.link, self.cluster("primary").reader, target.reader)
        secondary = self.lab.cluster("secondary").client_properties("admin")
        # Of a link without runs: others damage journals of `main` on this lab.
        journal = JournalTopicReader(Connection("secondary", secondary), "observed")
        ports = LinkPorts(
            source,
            target,
            finder,
            ConnectReader(self.lab.parts.worker.url),
            ConnectReader(self.lab.parts.worker.url),
            (),
            (journal, StateFolder(self.config.state_dir)),
            lambda: (),
            lambda: ends_of_copies(self.link, watched),
            active_cluster=lambda: active_cluster(self.link, journal),
        )
        beside = self.config.beside(self.link)
        policy, clock = self.config.file.policy, lambda: int(time.time() * 1000)
        return Observer(self.link, policy, ports, clock, beside)


@pytest.fixture
def site(lab: Lab, lab_yaml: Callable[..., Path], new_topic: NewTopic) -> Iterator[Site]:
    """A link with one topic of two partitions."""
    with ExitStack() as opened:
        yield Site(lab, lab_yaml(new_topic(2, mirrored=True, on=("primary",))), opened)


@pytest.fixture
def topic(site: Site) -> str:
    return site.link.settings.topics[0]


def statuses(observed: Observed) -> Mapping[str, set[Status]]:
    found: dict[str, set[Status]] = {}
    for finding in precheck_findings(observed):
        found.setdefault(finding.check, set()).add(finding.status)
    return found


def copied(observed: Observed, topic: str) -> bool:
    copies = observed.target_topics
    there = not isinstance(copies, Unavailable) and isinstance(copies.get(topic), TopicState)
    lag = observed.lag
    return (
        there
        and not isinstance(lag, Unavailable)
        and all(isinstance(each, Lag) and each.records == 0 for each in lag.values())
    )


def test_everything_is_observed(site: Site, topic: str, primary: ClusterUnderTest) -> None:
    now_ms = int(time.time() * 1000)
    primary.produce(topic, [Record(n % 2, 0, now_ms, b"k", b"%d" % n) for n in range(40)])
    observer, seen = site.observer(), []

    def replicated() -> bool:
        seen.append(observer.observe(Mode.PLANNED))
        return copied(seen[-1], topic)

    assert Patience.of(60).wait_until(replicated), statuses(seen[-1])
    observed = seen[-1]
    assert observed.source != observed.target
    assert isinstance(observed.lag, Mapping)
    assert set(observed.lag) == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    assert isinstance(observed.newest_copy_ms, int)
    assert observed.newest_copy_ms >= now_ms
    assert isinstance(observed.connectors, Mapping)
    source = observed.connectors["mm2-source"]
    assert (source.kind, source.state) == ("source", "RUNNING")
    assert [task.state for task in source.tasks] == ["RUNNING"] * len(source.tasks)
    unseen = {
        name for name in Observed.__slots__ if isinstance(getattr(observed, name), Unavailable)
    }
    assert unseen == {"worker", "replication_flow"}
    found = statuses(observed)
    assert found["endpoint-not-on-source"] == {Status.NOT_CHECKED}
    refused = blockers_among(precheck_findings(observed), {}, Mode.PLANNED)
    assert {each.check for each in refused} <= {"replication-lag"}, refused
    fine = (
        *("target-no-controller", "target-under-min-isr", "topics-missing-on-target"),
        *("topic-config-parity", "hanging-transactions", "producer-ids-collide"),
        *("fence-not-possible", "journal-not-writable"),
        *("replication-not-running", "groups-active-on-target"),
    )
    assert [name for name in fine if found[name] != {Status.OK}] == []


def test_open_transaction_and_missing_copy(
    site: Site, new_topic: NewTopic, primary: ClusterUnderTest
) -> None:
    # Without the replicated topic: while its copy is created, nobody may lead it.
    alone = new_topic(1, on=("primary",))
    settings = site.link.settings.model_copy(update={"topics": (alone,)})
    site.link = replace(site.link, settings=settings)
    primary.produce(alone, [Record(0, 0, -1, None, b"x")], "open")
    observed = site.observer().observe(Mode.PLANNED)
    assert isinstance(observed.transactions, Mapping)
    assert list(observed.transactions) == [TopicPartition(alone, 0)]
    found = statuses(observed)
    assert found["hanging-transactions"] == {Status.OK}
    assert found["topics-missing-on-target"] == {Status.FAIL}
    primary.close()


@pytest.mark.parametrize("listens", [False, True], ids=["gone", "hangs"])
def test_dead_source_causes_no_wait(site: Site, listens: bool) -> None:
    with socket.socket() as stalled:
        # A port that listens and never accepts, like that of a stopped process or a load balancer.
        stalled.bind(("127.0.0.1", 0))
        port = stalled.getsockname()[1]
        if listens:
            stalled.listen(64)
        else:
            stalled.close()
        begun = monotonic()
        observed = site.observer(f"127.0.0.1:{port}").observe(Mode.UNPLANNED)
        seconds = monotonic() - begun
    assert isinstance(observed.source, Silent)
    assert isinstance(observed.source_topics, Unavailable)
    assert isinstance(observed.target, str)
    assert not isinstance(observed.target_health, Unavailable)
    assert not isinstance(observed.connectors, Unavailable)
    assert statuses(observed)["source-alive"] == {Status.OK}
    refused = blockers_among(precheck_findings(observed), {}, Mode.UNPLANNED)
    assert refused == ()
    assert seconds < 3 * QUICK_S


def test_source_that_replication_still_reaches(
    site: Site, topic: str, primary: ClusterUnderTest
) -> None:
    """drctl cannot reach the source, Connect can, and applications continue to write."""
    stop = Event()

    def write() -> None:
        while not stop.wait(0.1):
            primary.produce(topic, [Record(0, 0, -1, b"k", b"v")])

    writer = Thread(target=write)
    writer.start()
    try:
        assert Patience.of(60).wait_until(lambda: bool(site.copied(topic)))
        observed = site.observer(f"127.0.0.1:{free_ports(1)[0]}").observe(Mode.UNPLANNED)
    finally:
        stop.set()
        writer.join()
    assert isinstance(observed.source, Silent)
    assert statuses(observed)["source-alive"] == {Status.FAIL}
    finding = next(each for each in precheck_findings(observed) if each.check == "source-alive")
    assert finding.reason == "it does not answer here, but its records still arrive on the target"


def test_dead_target_blocks(site: Site) -> None:
    observer = site.observer()
    ports = replace(
        observer.ports, target=site.cluster("secondary", f"127.0.0.1:{free_ports(1)[0]}")
    )
    observed = replace(observer, ports=ports).observe(Mode.UNPLANNED)
    refused = blockers_among(
        precheck_findings(observed), {"target-unreachable": "x"}, Mode.UNPLANNED
    )
    assert "target-unreachable" in {finding.check for finding in refused}
