"""A database of orders that a Debezium connector captures, and its events in Kafka."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import yaml
from confluent_kafka import Consumer, KafkaException, TopicPartition

from drctl.lab.environment import describe
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.errors import Unknown
from tests.cluster.lab_link import cluster_section
from tests.connect.connect_command import ConnectCommand
from tests.connect.workers import PluginWorker, worker
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

DEADLINE_S = 60
JUDGED = (
    *("errors.max.retries", "retriable.restart.connector.wait.ms", "snapshot.mode"),
    *("slot.name", "slot.drop.on.stop"),
)


class Orders(Protocol):
    """A database with a table, or collection, of orders."""

    def insert(self, first: int, count: int) -> None:
        """Insert this many orders, numbered from `first`."""


@dataclass
class Shop:
    """A database, its events in Kafka, and the workers that capture it.

    Attributes:
        port: port of the database; workers use the ports after it.
        connector: configuration of connector `shop`.
        plugin: set of jars of the connector.
        orders: number of orders in the database.
        worker: the worker that was started last.
        workers: number of workers that were started.
    """

    kafka: ClusterUnderTest
    command: ConnectCommand
    folder: Path
    port: int
    connector: Mapping[str, str]
    topic: str
    plugin: str
    database: Orders = field(kw_only=True)
    worker: PluginWorker = field(init=False)
    orders: int = 0
    workers: int = 0

    def insert(self, count: int) -> set[tuple[str, int]]:
        """Insert this many more orders; return their events."""
        first, self.orders = self.orders + 1, self.orders + count
        self.database.insert(first, count)
        return {("c", number) for number in range(first, self.orders + 1)}

    def start(self, name: str, **settings: int) -> PluginWorker:
        """Start a worker of the Connect cluster with this name."""
        self.workers += 1
        folder = self.folder / f"worker-{self.workers}"
        folder.mkdir()
        port = self.port + self.workers
        self.worker = worker(name, folder, port, self.kafka, plugin=self.plugin, **settings)
        return self.worker

    def stop(self, stopped: PluginWorker | None = None) -> None:
        """Stop a worker cleanly."""
        process = (stopped or self.worker).program.process
        process.terminate()
        process.wait(DEADLINE_S)

    def capture(self) -> None:
        """Create the connector, and wait until it stores a position after its snapshot."""
        with closing(self.worker.client()) as client:
            client.put_config("shop", self.connector)
        self.worker.await_task("shop", "RUNNING")
        self.await_orders()
        self.insert(1)
        self.await_orders()
        # With an offset from an unfinished snapshot the next worker would repeat the snapshot.
        assert Patience.of(DEADLINE_S).wait_until(self.snapshot_is_behind)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Delete the topics of the connector and of the workers at the end."""
        try:
            yield
        finally:
            self.worker.program.end()
            known = self.kafka.admin.list_topics(timeout=20).topics
            made = [n for n in known if n == self.topic or n.startswith("debezium-")]
            self.kafka.delete_topics(made)

    def retries(self) -> dict[str, tuple[str, bool]]:
        """Return the retry settings in `drctl connect status`: value, and whether it is set."""
        shown = self.command.json("status", "--connect", self.worker.url)
        (cluster,) = shown["clusters"]
        (found,) = (each for each in cluster["connectors"] if each["name"] == "shop")
        return {each["name"]: (each["value"], each["default"]) for each in found["retries"]}

    def doctor(self, lab: Lab, **retention_hours: float) -> dict[str, tuple[str, str]]:
        """Return the findings of `drctl doctor` on the connector: status and reason by check."""
        text = describe(lab.parts, [self.topic])
        config = yaml.safe_load(text)
        place = {"connect": self.worker.url}
        config["links"]["main"]["source_connectors"] = {
            "names": ["shop"],
            "from": place,
            "to": place,
            "log_retention_hours": retention_hours,
        }
        path = self.folder / "doctor.yaml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        ran = ConnectCommand(path, "doctor")("--output", "json")
        return {
            each["check"]: (each["status"], each["reason"])
            for each in ran.document()["checks"]
            if each["subject"] == "connector shop"
        }

    def defaults(self) -> dict[str, str]:
        """Return the plugin's own defaults of settings that checks judge."""
        with closing(self.worker.client()) as client:
            found = client.plugin_defaults(self.connector["connector.class"])
        return {name: found[name] for name in JUDGED if name in found}

    def counts(self, code: int) -> dict[str, Any]:
        """Return the counts of `drctl duplicates` for the topic."""
        command = replace(self.command, room="duplicates")
        words = ("--identity", "debezium", "--cluster", "secondary", "--topic", self.topic)
        counts = command.json(*words, code=code)["totals"]
        assert isinstance(counts, dict)
        return counts

    def events(self) -> list[tuple[str, int]]:
        """Return the events of each order in Kafka: `r` from a snapshot, `c` from an insert."""
        known = self.kafka.admin.list_topics(timeout=20).topics
        if self.topic not in known:
            return []
        (end,) = self.kafka.end_offsets(self.topic).values()
        settings = {"group.id": "tests-never-joined", "auto.offset.reset": "earliest"}
        consumer = Consumer({**self.kafka.properties(), **settings}, logger=QUIET)
        try:
            consumer.assign([TopicPartition(self.topic, 0, 0)])
            found: list[tuple[str, int]] = []
            while len(found) < end:
                message = consumer.poll(20)
                assert message is not None
                found.append(event_of(json.loads(message.value() or b"null")))
            return found
        finally:
            consumer.close()

    def answers(self) -> bool:
        """Whether Kafka and Connect respond again."""
        try:
            with closing(self.worker.client()) as client:
                return bool(self.kafka.end_offsets(self.topic) and client.statuses())
        except (KafkaException, Unknown):
            return False

    def snapshot_is_behind(self) -> bool:
        """Whether Connect stores an offset from which Debezium continues without a snapshot."""
        with closing(self.worker.client()) as client:
            kept = client.offsets("shop")
        in_snapshot = {"snapshot", "initsync"}
        return bool(kept) and not any(in_snapshot & each["offset"].keys() for each in kept)

    def await_orders(self) -> None:
        """Wait until Kafka has every order."""

        def there() -> bool:
            return len({number for _, number in self.events()}) == self.orders

        assert Patience.of(DEADLINE_S).wait_until(there), self.events()


def command_on(kafka: ClusterUnderTest, folder: Path) -> ConnectCommand:
    """Return `drctl connect` with a drctl.yaml whose secondary is this cluster."""
    config = folder / "drctl.yaml"
    section = {"secondary": cluster_section(kafka)}
    config.write_text(yaml.safe_dump({"clusters": section}), encoding="utf-8")
    return ConnectCommand(config)


def event_of(value: Mapping[str, Any]) -> tuple[str, int]:
    """What an event says: `r` for a row of a snapshot or `c` for an insert, and the order's id."""
    after = value["after"]
    # MongoDB's documents are JSON within JSON.
    row = json.loads(after) if isinstance(after, str) else after
    return value["op"], row["_id"] if "_id" in row else row["id"]
