"""A topic that something copies, applications that write and read it, and a drctl to move them."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import yaml
from confluent_kafka import Consumer, KafkaError

from drctl.kafka.connection import Connection
from drctl.kafka.producer_ids import KafkaProducerIdReader, KafkaProducerIdWriter
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.producer_ids import Advanced, highest
from drctl.model.topology import TopicPartition
from tests.cluster.conftest import NewDrctl
from tests.cluster.link_command import LinkCommand
from tests.cluster.rights import denials
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

APP = "orders-app"
PARTITIONS = 2
DEADLINE_S = 180.0
GO = ("--execute", "--yes")


def mirror_maker(lab: Lab) -> dict[str, Any]:
    """The lab's own replicator, as drctl.yaml names it."""
    connectors = {name: f"mm2-{name}" for name in ("source", "checkpoint", "heartbeat")}
    return {
        "kind": "mirrormaker2",
        "connect": f"http://127.0.0.1:{lab.parts.settings.connect_port}",
        "connectors": connectors,
        "rename": "${topic}",
    }


class Stage(LinkCommand):
    """A topic that MirrorMaker 2 copies, an application that writes and one that reads it."""

    deadline_s = DEADLINE_S

    def __init__(
        self, lab: Lab, new_drctl: NewDrctl, topic: str, replicator: Mapping[str, Any], **more: Any
    ) -> None:
        self.lab = lab
        self.topic = topic
        self.group = f"orders-app-{uuid4().hex[:8]}"
        self.copies = str(replicator.get("connectors", {}).get("source", ""))
        self.reading = {"session.timeout.ms": "6000"}
        self.writing: dict[str, object] = {"delivery__timeout__ms": 15_000}
        self.source = ClusterUnderTest(lab.cluster("primary"))
        self.target = ClusterUnderTest(lab.cluster("secondary"))
        self.link = f"link-{uuid4().hex[:6]}"
        section = {
            "from": "primary",
            "to": "secondary",
            "topics": [topic],
            "groups": [self.group],
            "replicator": dict(replicator),
            "fence": {"method": "acl", "principals": [f"User:{APP}"]},
            "endpoints": [{"kind": "file", "path": "bootstrap"}],
            **more,
        }
        self.drctl = new_drctl({self.link: section}, policy={"max_lag_records": 1_000_000})
        self.endpoint = self.drctl.folder / "bootstrap"
        self.endpoint.write_text(self.bootstrap("primary"), encoding="utf-8")

    def bootstrap(self, cluster: str) -> str:
        document = yaml.safe_load(self.drctl.config.read_text(encoding="utf-8"))
        return f"{document['clusters'][cluster]['bootstrap']}\n"

    def write(self, count: int, prefix: str, cluster: ClusterUnderTest | None = None) -> list[str]:
        """Write as the application; what was acknowledged."""
        producer = (cluster or self.source).producer(APP, **self.writing)
        acknowledged: list[str] = []

        def told(error: KafkaError | None, message: Any) -> None:
            if error is None:
                acknowledged.append(message.value().decode())

        for number in range(count):
            value = f"{prefix}-{number}"
            producer.produce(self.topic, key=str(number % 17), value=value, on_delivery=told)
        producer.flush(30)
        return acknowledged

    def leave_behind(self, count: int) -> None:
        """Write what is not replicated any more, and let drctl gap see it."""
        client = self.lab.parts.worker.client()
        try:
            client.pause(self.copies)
            stopped = lambda: client.status(self.copies).all_in("PAUSED")  # noqa: E731
            assert Patience.of(60).wait_until(stopped)
        finally:
            client.close()
        assert len(self.write(count, "behind")) == count
        assert self.json("gap", "--scope", "full", code=1)["totals"]["unreplicated"] == count

    def read(
        self, cluster: ClusterUnderTest, most: int, *, wait_for: int = 0, but: str | None = None
    ) -> list[str]:
        """Read as the group does, from where it stands, and commit what was read.

        Args:
            but: what begins so is read, and neither counts nor is given.
        """
        consumer = Consumer(
            {
                **cluster.properties(),
                **self.reading,
                "group.id": self.group,
                "enable.auto.commit": False,
                # In partitions in which it never committed a group begins at the start anywhere.
                "auto.offset.reset": "earliest",
            },
            logger=QUIET,
        )
        values: list[str] = []

        def enough() -> bool:
            for message in consumer.consume(min(most - len(values), 500), timeout=0.2):
                assert message.error() is None, message.error()
                value = (message.value() or b"").decode()
                if but is None or not value.startswith(but):
                    values.append(value)
            return len(values) >= most

        try:
            consumer.subscribe([self.topic])
            Patience.of(30).wait_until(lambda: enough() or 0 < wait_for <= len(values))
            if values:
                consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return values

    def copied(self, count: int) -> None:
        """Wait until the target holds so many."""

        def there() -> bool:
            return sum(self.target.end_offsets(self.topic).values()) >= count

        assert Patience.of(60).wait_until(there), self.target.end_offsets(self.topic)

    def modern(self) -> None:
        """Clients of KIP-848 and idempotent ones, of which the target knows nothing."""
        self.reading = {"group.protocol": "consumer"}
        self.writing["enable__idempotence"] = True
        with (
            KafkaProducerIdReader(Connection("secondary", self.target.properties())) as theirs,
            KafkaProducerIdWriter(Connection("primary", self.source.properties())) as ours,
        ):
            ahead = max(each for each in theirs.next_ids().values() if isinstance(each, int)) + 50
            assert all(isinstance(a, Advanced) and a.done for a in ours.advance(ahead).values())

    def highest_id(self) -> int:
        """Of those that the source's partitions remember."""
        places = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        with KafkaProducerIdReader(Connection("primary", self.source.properties())) as reader:
            return highest(reader.in_use(places))

    def next_ids(self) -> list[int]:
        """What the target's brokers give."""
        with KafkaProducerIdReader(Connection("secondary", self.target.properties())) as reader:
            return [each for each in reader.next_ids().values() if isinstance(each, int)]

    def denials(self, cluster: ClusterUnderTest) -> int:
        """How many rules keep somebody from the topic."""
        return denials(cluster, self.topic)

    def states(self) -> set[str]:
        """Of all connectors."""
        client = self.lab.parts.worker.client()
        try:
            return {status.state for status in client.statuses().values()}
        finally:
            client.close()
