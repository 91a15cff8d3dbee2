"""The client with a real Connect worker, and with none."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Producer

from drctl.connect.client import ConnectReader, ConnectRejected, ConnectWriter, NoSuchConnector
from drctl.lab.cluster import LOGGER
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.errors import ExitCode, Unknown, Unreachable
from drctl.model.text import stop_unassigned
from tests.soak.engineer import send_suggested

MIRRORS = ("mm2-checkpoint", "mm2-heartbeat", "mm2-source")


@pytest.fixture
def connect(lab: Lab) -> Iterator[ConnectWriter]:
    with closing(ConnectWriter(lab.parts.worker.url)) as client:
        yield client


@pytest.mark.jvm
def test_the_client_reads(connect: ConnectWriter) -> None:
    assert connect.connectors() == MIRRORS
    assert len(connect.kafka_cluster_id()) == 22
    assert tuple(connect.statuses()) == MIRRORS
    status = connect.status("mm2-heartbeat")
    assert (status.name, status.state) == ("mm2-heartbeat", "RUNNING")
    assert status.all_in("RUNNING")
    assert connect.config("mm2-source")["source.cluster.alias"] == "primary"
    assert isinstance(connect.offsets("mm2-source"), tuple)


@pytest.mark.jvm
def test_an_unknown_connector(connect: ConnectWriter) -> None:
    for call in (connect.status, connect.config, connect.offsets, connect.pause, connect.delete):
        with pytest.raises(NoSuchConnector, match="absent one") as caught:
            call("absent one")
        assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.jvm
def test_a_configuration_is_refused(connect: ConnectWriter) -> None:
    with pytest.raises(ConnectRejected, match="answered 400 to PUT"):
        connect.put_config("bad", {"connector.class": "MirrorHeartbeatConnector"})
    with pytest.raises(ConnectRejected, match="Failed to find any class"):
        connect.put_config("bad", {"connector.class": "org.example.Absent"})
    assert connect.connectors() == MIRRORS


@pytest.mark.jvm
def test_changing_a_connector(connect: ConnectWriter) -> None:
    def states() -> dict[str, str]:
        return {name: status.state for name, status in connect.statuses().items()}

    config = {**connect.config("mm2-heartbeat"), "name": "a heart beat"}
    connect.put_config("a heart beat", config)
    try:
        assert "a heart beat" in connect.connectors()
        assert connect.config("a heart beat") == config
        running = Patience.of(30).wait_until(lambda: states().get("a heart beat") == "RUNNING")
        assert running
        connect.restart("a heart beat")
        connect.pause("a heart beat")
        connect.stop("a heart beat")
        connect.resume("a heart beat")
    finally:
        connect.delete("a heart beat")
    assert connect.connectors() == MIRRORS


@pytest.mark.jvm
def test_a_stopped_connector_whose_status_was_lost(lab: Lab, connect: ConnectWriter) -> None:
    """Seen in the soak test: after a restart of the connector it stayed UNASSIGNED."""
    name = "a lost status"

    def comes_to(state: str) -> bool:
        def known() -> bool:
            found = connect.statuses().get(name)
            return found is not None and found.state == state

        return bool(Patience.of(30).wait_until(known))

    connect.put_config(name, {**connect.config("mm2-heartbeat"), "name": name})
    try:
        assert comes_to("RUNNING")
        connect.stop(name)
        assert comes_to("STOPPED")
        worker = connect.status(name).worker
        late = {"state": "UNASSIGNED", "trace": None, "worker_id": worker, "generation": 1_000}
        producer = Producer(lab.cluster("secondary").client_properties("admin"), logger=LOGGER)
        producer.produce("connect-status", json.dumps(late), f"status-connector-{name}")
        assert producer.flush(30) == 0
        assert comes_to("UNASSIGNED")
        connect.stop(name)
        send_suggested(stop_unassigned(lab.parts.worker.url, name))
        assert comes_to("STOPPED")
    finally:
        connect.delete(name)


@pytest.mark.jvm
def test_the_next_worker_is_asked_if_one_is_down(lab: Lab) -> None:
    with closing(ConnectReader("http://127.0.0.1:1", lab.parts.worker.url)) as client:
        assert client.connectors() == MIRRORS


def test_no_worker_responds() -> None:
    client = ConnectReader("http://jane:hunter2@127.0.0.1:1/", timeout_s=1)
    with closing(client), pytest.raises(Unreachable) as caught:
        client.connectors()
    assert "(http://127.0.0.1:1) did not answer within 1 s" in caught.value.message
    assert "hunter2" not in caught.value.message


def test_a_frozen_worker_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with closing(ConnectWriter(url, timeout_s=0.15)) as client:
            with pytest.raises(Unreachable, match=r"did not answer within 0\.15 s"):
                client.connectors()
            with pytest.raises(Unknown, match="the request may have been executed") as caught:
                client.pause("any")
    assert not isinstance(caught.value, Unreachable)


def test_a_write_that_was_never_sent_is_only_unreachable() -> None:
    client = ConnectWriter("http://127.0.0.1:1", timeout_s=1)
    with closing(client), pytest.raises(Unreachable):
        client.pause("any")
