"""A failover is over when clients are seen where they were sent: a real proxy, a real consumer."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import Popen
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer

from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from tests.cluster.conftest import NewDrctl
from tests.cluster.failover_stage import DEADLINE_S, GO, PARTITIONS, Stage, mirror_maker
from tests.conftest import NewTopic
from tests.endpoints.proxy import Brokers, proxy
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(400)]

RECORDS = 100


class Application:
    """Reads in the group until it is stopped.

    Attributes:
        values: that it has read.
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


def port_of(lab: Lab, cluster: str) -> int:
    return int(lab.cluster(cluster).client_properties("admin")["bootstrap.servers"].split(":")[-1])


@pytest.fixture
def stage(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic, tmp_path: Path) -> Iterator[Stage]:
    """A link whose clients come by a proxy."""
    ports = {name: port_of(lab, c) for c, names in SERVERS.items() for name in names}
    front = proxy(tmp_path, Brokers(ports))
    endpoint = {
        "kind": "haproxy",
        "socket": str(front.folder / "admin"),
        "backend": "kafka",
        "servers": SERVERS,
        "bootstrap": f"127.0.0.1:{front.clusters}",
    }
    topic = new_topic(PARTITIONS, mirrored=True)
    try:
        yield Stage(lab, new_drctl, topic, mirror_maker(lab), endpoints=[endpoint])
    finally:
        front.program.end()
        shutil.rmtree(front.folder)
        lab.replicate(True)


SERVERS = {"primary": ["p1", "p2"], "secondary": ["s1", "s2"]}


def test_it_waits_for_clients_to_come_to_go_on_and_to_leave(stage: Stage) -> None:
    written = stage.write(RECORDS, "before")
    stage.copied(RECORDS)
    with ExitStack() as applications:
        old = Application(stage, stage.source)
        applications.callback(old.stop)
        assert Patience.of(60).wait_until(lambda: len(old.values) == RECORDS)
        with stage.running("failover", "--grace", "2s", *GO) as process:
            late = f"1 of 1 groups have not come yet: {stage.group}"
            stays = f"{stage.group} is still read in on primary by billing-3@"
            assert shown(stage, process, late)
            assert stays in stage.said
            written += stage.write(RECORDS, "after", stage.target)
            new = Application(stage, stage.target)
            applications.callback(new.stop)
            assert shown(stage, process, "1 thing is not as wanted: " + stays)
            old.stop()
            assert process.wait(DEADLINE_S) == 0, stage.said
        assert Patience.of(60).wait_until(lambda: {*old.values, *new.values} == {*written})
    told = {e["step"]: e["words"] for e in stage.journaled() if e["entry"] == "done"}
    assert told["switch-endpoint-1"].endswith("; a client that connects through it is on secondary")
    assert told["verify-clients"] == (
        "all 1 groups are read in on secondary, 1 of them have gone on; a record that was"
        " written by 1 endpoint is there; nobody reads on primary"
    )


def shown(stage: Stage, process: Popen[bytes], words: str) -> bool:
    """Wait until drctl, which still runs, has said so."""

    def said() -> bool:
        assert process.poll() is None, stage.said
        return words in stage.said

    return Patience.of(DEADLINE_S).wait_until(said)
