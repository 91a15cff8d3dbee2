"""Real Debezium over a real PostgreSQL: a crash, another Connect cluster, a lost resume point."""

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
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
HAD = 20
"""Orders that the table has when the connector is created: they come as a snapshot."""
AWAY_S = 20
"""Longer than a worker's session with its group (10 s)."""


@dataclass
class Shop:
    """A database, its events in Kafka, and the worker that copies them.

    Attributes:
        port: of the database; the workers take those after it.
        orders: how many the table has.
        workers: how many were started.
    """

    database: Postgres
    kafka: ClusterUnderTest
    command: ConnectCommand
    folder: Path
    port: int
    worker: PluginWorker = field(init=False)
    orders: int = 0
    workers: int = 0

    def insert(self, count: int) -> set[tuple[str, int]]:
        """Add so many orders; their events."""
        first, self.orders = self.orders + 1, self.orders + count
        self.database.insert(first, count)
        return {("c", number) for number in range(first, self.orders + 1)}

    def start(self, name: str, **settings: int) -> None:
        """Start a worker of a Connect cluster; the one before has ended."""
        self.workers += 1
        folder = self.folder / f"worker-{self.workers}"
        folder.mkdir()
        self.worker = worker(name, folder, self.port + self.workers, self.kafka, **settings)

    def stop(self) -> None:
        """Stop the worker properly."""
        self.worker.program.process.terminate()
        self.worker.program.process.wait(DEADLINE_S)

    @property
    def connector(self) -> dict[str, str]:
        return connector(self.port, PASSWORD)

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

    def await_orders(self) -> None:
        """Wait until Kafka has every order."""

        def there() -> bool:
            return len({number for _, number in self.events()}) == self.orders

        assert Patience.of(DEADLINE_S).wait_until(there), Counter(self.events())


@pytest.fixture(scope="module")
def shop(secondary: ClusterUnderTest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A connector runs, and its snapshot is complete."""
    folder: Path = tmp_path_factory.mktemp("debezium")
    config = folder / "drctl.yaml"
    section = {"secondary": cluster_section(secondary)}
    config.write_text(yaml.safe_dump({"clusters": section}), encoding="utf-8")
    port = free_port_base(random.Random())
    with postgres(port) as database:
        opened = Shop(database, secondary, ConnectCommand(config), folder, port)
        opened.start("debezium-a")
        try:
            opened.insert(HAD)
            with closing(opened.worker.client()) as client:
                client.put_config("shop", opened.connector)
            opened.worker.await_task("shop", "RUNNING")
            opened.await_orders()
            opened.insert(1)
            # From an offset of an unfinished snapshot the next worker would begin it again.
            assert Patience.of(DEADLINE_S).wait_until(opened.snapshot_is_behind)
            yield opened
        finally:
            opened.worker.program.end()
            made = [
                name
                for name in secondary.admin.list_topics(timeout=20).topics
                if name == TOPIC or name.startswith("debezium-")
            ]
            secondary.delete_topics(made)


def test_a_wrong_password_is_refused(shop: Shop) -> None:
    with closing(shop.worker.client()) as client:
        # One that changes later is no failure for Debezium: it tries again for ever, RUNNING.
        refused = f'password authentication failed for user "{USER}"'
        with pytest.raises(ConnectRejected, match=refused) as caught:
            client.put_config("refused", connector(shop.port, "wrong"))
    assert explain(caught.value.message).cause is Cause.AUTHENTICATION
    assert shop.command.json("status", "--connect", shop.worker.url)["failed"] == 0


def test_after_a_crash_another_connect_cluster_continues_without_a_new_snapshot(
    shop: Shop, tmp_path: Path
) -> None:
    before = Counter(shop.events())
    new = shop.insert(10)
    shop.await_orders()
    file = tmp_path / "shop.json"
    saved = ("offsets", "export", "--output-file", str(file), "--connect", shop.worker.url)
    (kept,) = shop.command.json(*saved)["connectors"]
    assert kept["offsets"][0]["partition"] == {"server": "shop"}
    shop.worker.program.end()
    new |= shop.insert(10)
    shop.start("debezium-b")
    with closing(shop.worker.client()) as client:
        client.create_stopped("shop", shop.connector)
        assert Patience.of(DEADLINE_S).wait_until(lambda: "shop" in client.statuses())
        moving = ("offsets", "apply", "--from", str(file), "--connect", shop.worker.url)
        applied = shop.command.json(*moving, "--execute", "--yes")
        assert [each["outcome"] for each in applied["lines"]] == ["written"]
        client.resume("shop")
    shop.await_orders()
    assert set(Counter(shop.events()) - before) == new, "no snapshot again"


def test_a_worker_that_is_stopped_properly_continues_without_a_duplicate(shop: Shop) -> None:
    before = Counter(shop.events())
    shop.stop()
    new = shop.insert(5)
    shop.start(shop.worker.name)
    shop.await_orders()
    assert Counter(shop.events()) - before == dict.fromkeys(new, 1)


def test_what_a_crash_sent_twice_is_found_by_the_position_in_each_event(shop: Shop) -> None:
    repeated = len(shop.events()) - len(set(shop.events()))
    before = shop.counts(code=1 if repeated else 0)
    assert (before["events"], before["repeated"]) == (len(shop.events()), repeated)
    shop.stop()
    shop.start(shop.worker.name, kept_every_ms=600_000)
    shop.worker.await_task("shop", "RUNNING")
    new = shop.insert(10)
    shop.await_orders()
    shop.worker.program.process.kill()
    shop.worker.program.process.wait(DEADLINE_S)
    shop.start(shop.worker.name)
    twice = dict.fromkeys(new, 2)
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
        new = shop.insert(5)
        time.sleep(AWAY_S)  # being away is the fault: nothing ends it but time
        (seen,) = shop.command.json("status", "--connect", shop.worker.url, code=0)["clusters"]
        (connector_seen,) = seen["connectors"]
        states = [part["state"] for part in connector_seen["parts"]]
        assert (connector_seen["name"], states) == ("shop", ["RUNNING", "RUNNING"])
    finally:
        lab.signal("secondary", signal.SIGCONT)
    assert Patience.of(DEADLINE_S).wait_until(shop.answers)
    shop.await_orders()
    shop.worker.await_task("shop", "RUNNING")
    assert set(Counter(shop.events()) - before) == new
    assert shop.command.json("status", "--connect", shop.worker.url)["failed"] == 0


def test_a_slot_that_is_gone_and_what_that_costs(shop: Shop) -> None:
    url = ("--connect", shop.worker.url)
    with closing(shop.worker.client()) as client:
        client.stop("shop")
        assert Patience.of(DEADLINE_S).wait_until(lambda: not client.status("shop").tasks)
        assert shop.database.slots() == ["shop"]
        shop.database.sql("SELECT pg_drop_replication_slot('shop')")
        shop.insert(5)
        client.resume("shop")
        shop.worker.await_task("shop", "FAILED")
    (line,) = shop.command.json("recover", *url, code=3)["lines"]
    assert line["explained"]["cause"] == "logs-purged"
    remedy = ("recover", *url, "--connector", "shop", "--remedy", "reset", "--stabilize", "2s")
    (line,) = shop.command.json(*remedy)["lines"]
    assert "every row is sent again" in line["consequence"]
    done = shop.command.json(*remedy, "--execute", "--yes")
    assert done["remedy_result"]["message"] == "shop runs, and starts from scratch"
    before = json.loads(Path(done["remedy_result"]["before"]).read_text(encoding="utf-8"))
    assert before["connectors"][0]["offsets"][0]["offset"]["lsn"] > 0
    again = {("r", number) for number in range(1, shop.orders + 1)}
    assert Patience.of(DEADLINE_S).wait_until(lambda: again <= set(shop.events()))
