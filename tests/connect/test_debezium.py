"""Real Debezium over a real PostgreSQL: a crash, another Connect cluster, a lost resume point."""

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, KafkaException, TopicPartition

from drctl.connect.client import ConnectRejected
from drctl.connectors.diagnosis import Cause, explain
from drctl.lab.lab import Lab
from drctl.lab.starting import free_port_base
from drctl.lab.waiting import Patience
from drctl.model.errors import Unknown
from tests.cluster.site import cluster_section
from tests.connect.connect_command import ConnectCommand
from tests.connect.postgres import PASSWORD, USER, Postgres, postgres
from tests.connect.workers import PluginWorker, connector, worker
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.endpoints, pytest.mark.timeout(400)]

TOPIC = "shop.public.orders"
DEADLINE_S = 60
AWAY_S = 20
"""Longer than a worker's session with its group (10 s)."""


@dataclass
class Shop:
    """A database, its events in Kafka, and the worker that brings them there."""

    database: Postgres
    kafka: ClusterUnderTest
    worker: PluginWorker
    command: ConnectCommand

    def counts(self, code: int) -> dict[str, Any]:
        """What `drctl duplicates` counts in the topic."""
        command = replace(self.command, room="duplicates")
        words = ("--identity", "debezium", "--cluster", "secondary", "--topic", TOPIC)
        counts = command.json(*words, code=code)["totals"]
        assert isinstance(counts, dict)
        return counts

    def events(self) -> list[tuple[str, int]]:
        """What was done with which order, as Kafka holds it: `r` is a snapshot's, `c` an insert."""
        known = self.kafka.admin.list_topics(timeout=20).topics
        if TOPIC not in known:
            return []
        (end,) = self.kafka.end_offsets(TOPIC).values()
        settings = {"group.id": "tests-never-joined", "auto.offset.reset": "earliest"}
        consumer = Consumer({**self.kafka.properties(), **settings}, logger=QUIET)
        try:
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            found: list[tuple[str, int]] = []
            while len(found) < end:
                message = consumer.poll(20)
                assert message is not None
                value = json.loads(message.value() or b"null")
                found.append((value["op"], value["after"]["id"]))
            return found
        finally:
            consumer.close()

    def answers(self) -> bool:
        """Whether Kafka tells again what it holds, and Connect what it does."""
        try:
            with closing(self.worker.client()) as client:
                return bool(self.kafka.end_offsets(TOPIC) and client.statuses())
        except (KafkaException, Unknown):
            return False

    def snapshot_is_behind(self) -> bool:
        """Whether Connect has kept an offset that Debezium goes on from without a snapshot."""
        with closing(self.worker.client()) as client:
            kept = client.offsets("shop")
        return bool(kept) and all("snapshot" not in each["offset"] for each in kept)

    def await_orders(self, count: int) -> None:
        """Wait until Kafka has so many different orders."""

        def there() -> bool:
            return len({number for _, number in self.events()}) == count

        assert Patience.of(DEADLINE_S).wait_until(there), Counter(self.events())


@pytest.fixture(scope="module")
def ports() -> int:
    return free_port_base(random.Random())


@pytest.fixture(scope="module")
def shop(
    secondary: ClusterUnderTest, tmp_path_factory: pytest.TempPathFactory, ports: int
) -> Iterator[Shop]:
    folder: Path = tmp_path_factory.mktemp("debezium")
    config = folder / "drctl.yaml"
    section = {"secondary": cluster_section(secondary)}
    config.write_text(yaml.safe_dump({"clusters": section}), encoding="utf-8")
    first = worker("debezium-a", _made(folder / "a"), ports + 1, secondary)
    with postgres(ports) as database:
        opened = Shop(database, secondary, first, ConnectCommand(config))
        try:
            yield opened
        finally:
            opened.worker.program.end()
            made = [
                name
                for name in secondary.admin.list_topics(timeout=20).topics
                if name == TOPIC or name.startswith("debezium-")
            ]
            secondary.delete_topics(made)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_wrong_password_is_refused_and_the_right_one_copies(shop: Shop, ports: int) -> None:
    shop.database.insert(1, 20)
    with closing(shop.worker.client()) as client:
        # One that changes later is no failure for Debezium: it tries again for ever, RUNNING.
        refused = f'password authentication failed for user "{USER}"'
        with pytest.raises(ConnectRejected, match=refused) as caught:
            client.put_config("shop", connector(ports, "wrong"))
        assert explain(caught.value.message).cause is Cause.AUTHENTICATION
        client.put_config("shop", connector(ports, PASSWORD))
    shop.worker.await_task("shop", "RUNNING")
    shop.await_orders(20)
    assert shop.command.json("status", "--connect", shop.worker.url)["failed"] == 0


def test_after_a_crash_another_connect_cluster_goes_on_without_a_new_snapshot(
    shop: Shop, ports: int, tmp_path: Path
) -> None:
    shop.database.insert(21, 10)
    shop.await_orders(30)
    # From an offset of an unfinished snapshot the next one would begin it again.
    assert Patience.of(DEADLINE_S).wait_until(shop.snapshot_is_behind)
    file = tmp_path / "shop.json"
    saved = ("offsets", "export", "--output-file", str(file), "--connect", shop.worker.url)
    (kept,) = shop.command.json(*saved)["connectors"]
    assert kept["offsets"][0]["partition"] == {"server": "shop"}
    shop.worker.program.end()
    shop.database.insert(31, 10)
    shop.worker = worker("debezium-b", _made(tmp_path / "b"), ports + 2, shop.kafka)
    with closing(shop.worker.client()) as client:
        client.create_stopped("shop", connector(ports, PASSWORD))
        assert Patience.of(DEADLINE_S).wait_until(lambda: "shop" in client.statuses())
        moving = ("offsets", "apply", "--from", str(file), "--connect", shop.worker.url)
        applied = shop.command.json(*moving, "--execute", "--yes")
        assert [each["outcome"] for each in applied["lines"]] == ["written"]
        client.resume("shop")
    shop.await_orders(40)
    events = Counter(shop.events())
    assert {number for op, number in events if op == "r"} == set(range(1, 21))
    assert max(events[("r", number)] for number in range(1, 21)) == 1, "no snapshot again"
    assert {number for op, number in events if op == "c"} == set(range(21, 41))


def test_a_worker_that_is_stopped_properly_goes_on_without_a_duplicate(
    shop: Shop, ports: int, tmp_path: Path
) -> None:
    before = Counter(shop.events())
    shop.worker.program.process.terminate()
    shop.worker.program.process.wait(DEADLINE_S)
    shop.database.insert(41, 5)
    shop.worker = worker("debezium-b", _made(tmp_path / "again"), ports + 3, shop.kafka)
    shop.await_orders(45)
    assert Counter(shop.events()) - before == {("c", number): 1 for number in range(41, 46)}


def test_what_a_crash_sent_twice_is_found_by_the_events_own_place(
    shop: Shop, ports: int, tmp_path: Path
) -> None:
    repeated = len(shop.events()) - len(set(shop.events()))
    before = shop.counts(code=1 if repeated else 0)
    assert (before["events"], before["repeated"]) == (len(shop.events()), repeated)
    seldom = {"kept_every_ms": 600_000}
    shop.worker.program.process.terminate()
    shop.worker.program.process.wait(DEADLINE_S)
    shop.worker = worker("debezium-b", _made(tmp_path / "c"), ports + 4, shop.kafka, **seldom)
    shop.worker.await_task("shop", "RUNNING")
    shop.database.insert(46, 10)
    shop.await_orders(55)
    shop.worker.program.process.kill()
    shop.worker.program.process.wait(DEADLINE_S)
    shop.worker = worker("debezium-b", _made(tmp_path / "d"), ports + 5, shop.kafka)
    twice = {("c", number): 2 for number in range(46, 56)}
    sent = lambda: {e: n for e, n in Counter(shop.events()).items() if n > 1}  # noqa: E731
    assert Patience.of(DEADLINE_S).wait_until(lambda: twice.items() <= sent().items()), sent()
    found = shop.counts(code=1)
    assert found["events"] == before["events"] + 20
    assert found["repeated"] == before["repeated"] + 10


def test_kafka_is_away_for_longer_than_a_session_lasts(shop: Shop, lab: Lab) -> None:
    """No record is lost, no snapshot is taken again, and the worker answers all the while."""
    before = Counter(shop.events())
    lab.signal("secondary", signal.SIGSTOP)
    try:
        shop.database.insert(56, 5)
        time.sleep(AWAY_S)  # being away is the fault: nothing ends it but time
        (seen,) = shop.command.json("status", "--connect", shop.worker.url, code=0)["clusters"]
        (connector_seen,) = seen["connectors"]
        states = [part["state"] for part in connector_seen["parts"]]
        assert (connector_seen["name"], states) == ("shop", ["RUNNING", "RUNNING"])
    finally:
        lab.signal("secondary", signal.SIGCONT)
    assert Patience.of(DEADLINE_S).wait_until(shop.answers)
    shop.await_orders(60)
    shop.worker.await_task("shop", "RUNNING")
    events = Counter(shop.events()) - before
    assert {(op, number) for op, number in events} == {("c", number) for number in range(56, 61)}
    assert shop.command.json("status", "--connect", shop.worker.url)["failed"] == 0


def test_a_slot_that_is_gone_and_what_that_costs(shop: Shop) -> None:
    url = ("--connect", shop.worker.url)
    with closing(shop.worker.client()) as client:
        client.stop("shop")
        assert Patience.of(DEADLINE_S).wait_until(lambda: not client.status("shop").tasks)
        assert shop.database.slots() == ["shop"]
        shop.database.sql("SELECT pg_drop_replication_slot('shop')")
        shop.database.insert(61, 5)
        client.resume("shop")
        shop.worker.await_task("shop", "FAILED")
    (line,) = shop.command.json("recover", *url, code=3)["lines"]
    assert line["explained"]["cause"] == "logs-purged"
    remedy = ("recover", *url, "--connector", "shop", "--remedy", "reset", "--stabilize", "2s")
    (line,) = shop.command.json(*remedy)["lines"]
    assert "every row is sent again" in line["consequence"]
    done = shop.command.json(*remedy, "--execute", "--yes")
    assert done["remedy_result"]["words"] == "shop runs, and starts from scratch"
    before = json.loads(Path(done["remedy_result"]["before"]).read_text(encoding="utf-8"))
    assert before["connectors"][0]["offsets"][0]["offset"]["lsn"] > 0
    shop.await_orders(65)
    events = Counter(shop.events())
    assert all(events[("r", number)] >= 1 for number in range(1, 66)), "every row again"
