"""A failover ends once clients are seen on the target: a real proxy, a real consumer."""

import shutil
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer

from tests.cluster.failover_stage import Stage
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, soon
from tests.endpoints.proxy import Brokers, proxy
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(400)]

RECORDS = 100


class Application:
    """A consumer of the group.

    Attributes:
        values: values that it has read.
    """

    def __init__(self, stage: Stage, cluster: ClusterUnderTest) -> None:
        self.values = list[str]()
        self._stop = Event()
        properties = {
            **cluster.properties(),
            **stage.reading,
            "group.id": stage.group,
            "client.id": "billing-3",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 200,
        }
        self._consumer = Consumer(properties, logger=QUIET)
        self._consumer.subscribe([stage.topic])
        self._thread = Thread(target=self._work)
        self._thread.start()

    def stop(self) -> None:
        """Leave the group; may be called again."""
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.values.append((message.value() or b"").decode())
        self._consumer.close()


@pytest.fixture
def stage(site: Site, tmp_path: Path) -> Stage:
    """A link whose clients use a proxy."""
    addresses = {"primary": site.primary.bootstrap, "secondary": site.secondary.bootstrap}
    ports = {n: int(addresses[c].split(":")[-1]) for c, names in SERVERS.items() for n in names}
    front = proxy(tmp_path, Brokers(ports))
    site.opened.callback(shutil.rmtree, front.folder)
    site.opened.callback(front.program.end)
    endpoint = {
        "kind": "haproxy",
        "socket": str(front.folder / "admin"),
        "backend": "kafka",
        "servers": SERVERS,
        "bootstrap": f"127.0.0.1:{front.clusters}",
    }
    return site.keep(Stage(site, endpoints=[endpoint]))


SERVERS = {"primary": ["p1", "p2"], "secondary": ["s1", "s2"]}


@pytest.mark.nightly
def test_a_failover_waits_for_clients_to_join_progress_and_leave(stage: Stage) -> None:
    written = stage.written(RECORDS)
    with ExitStack() as applications:
        old = Application(stage, stage.source)
        applications.callback(old.stop)
        soon(lambda: len(old.values) == RECORDS)
        with stage.running("failover", "--wait-for-consumers", "2s", *GO) as process:
            late = f"1 of 1 groups not active yet: {stage.group}"
            stays = f"{stage.group} is still active on primary (billing-3@"
            stage.says(process, late)
            assert stays in stage.output
            written += stage.write(RECORDS, "after", stage.target)
            new = Application(stage, stage.target)
            applications.callback(new.stop)
            stage.says(process, "1 problem: " + stays)
            old.stop()
            stage.ends(process)
        soon(lambda: {*old.values, *new.values} == {*written})
    messages = {e["step"]: e["message"] for e in stage.entries("done")}
    assert messages["switch-endpoint-1"].endswith(
        "; a client that connects through it is on secondary"
    )
    assert messages["verify-clients"] == (
        "every group (1) is active on secondary, and 1 consumed; probe records written"
        " through 1 endpoint have arrived; no group is active on primary"
    )
