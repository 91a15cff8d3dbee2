"""A replicated topic, applications that write and read it, and a drctl to move them."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError

from drctl.connect.client import ConnectWriter
from drctl.kafka.connection import Connection
from drctl.kafka.producer_ids import KafkaProducerIdReader, KafkaProducerIdWriter
from drctl.kafka.survey import KafkaSurveyor
from drctl.lab.cluster import read_topic
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.producer_ids import Advanced, highest
from drctl.model.survey import BrokerFeatures, Capability
from drctl.model.topology import TopicPartition
from tests.cluster.lab_link import Site
from tests.cluster.link_command import LinkCommand, soon
from tests.cluster.topic_acls import denials
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

APP = "orders-app"
PARTITIONS = 2
FORWARD = {name: f"mm2-{name}" for name in ("source", "checkpoint", "heartbeat")}


def mirror_maker(lab: Lab, reverse: str = "", **more: object) -> dict[str, Any]:
    """Return the lab's replicator as a section of drctl.yaml.

    Args:
        reverse: connector of the reverse direction.
        more: other keys of its section.
    """
    url = [worker.url for worker in lab.parts.workers]
    back = {"reverse": {"connect": url, "connectors": {"source": reverse}, **more}}
    return {
        "kind": "mirrormaker2",
        "connect": url,
        "connectors": FORWARD,
        **(back if reverse else {"rename": "${topic}"}),
    }


@contextmanager
def connect(lab: Lab) -> Iterator[ConnectWriter]:
    """Return a client of the lab's worker."""
    client = lab.parts.worker.client()
    try:
        yield client
    finally:
        client.close()


def has_consumer_groups(cluster: ClusterUnderTest) -> bool:
    """Whether all brokers of a cluster support groups of the KIP-848 protocol."""
    with KafkaSurveyor(Connection(cluster.name, cluster.properties())) as surveyor:
        features = surveyor.features().values()
    return all(
        isinstance(each, BrokerFeatures) and Capability.CONSUMER_GROUPS not in each.missing
        for each in features
    )


def consumed(
    cluster: ClusterUnderTest,
    group: str,
    topics: list[str],
    enough: Callable[[list[str]], bool],
    *,
    seconds: float = 60,
    most: int = 10_000,
    but: str | None = None,
    **settings: Any,
) -> tuple[list[str], bool]:
    """Read as a group from its committed offset until it is enough; commit.

    Args:
        but: records with this prefix are read, but neither counted nor returned.

    Returns:
        The values, and whether they were enough.
    """
    properties = {
        "group.id": group,
        "enable.auto.commit": False,
        **cluster.properties(),
        **settings,
    }
    # Without a committed offset the group starts at the log start, on either cluster.
    consumer = Consumer({**properties, "auto.offset.reset": "earliest"}, logger=QUIET)
    values: list[str] = []

    def read() -> bool:
        for message in consumer.consume(min(most - len(values), 500), timeout=0.2):
            assert message.error() is None, message.error()
            value = (message.value() or b"").decode()
            if but is None or not value.startswith(but):
                values.append(value)
        return enough(values)

    try:
        consumer.subscribe(topics)
        came = Patience.of(seconds).wait_until(read)
        if values:
            consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values, came


class Link(LinkCommand):
    """A topic on both clusters, a group of its own, and a file as endpoint."""

    def __init__(
        self,
        site: Site,
        topic: str,
        beside: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        **link: Any,
    ) -> None:
        self.site, self.lab = site, site.lab
        self.primary, self.secondary = site.primary, site.secondary
        self.topic = topic
        self.group = f"orders-app-{uuid4().hex[:8]}"
        self.link = f"link-{uuid4().hex[:6]}"
        section = {
            "from": "primary",
            "to": "secondary",
            "topics": [topic],
            "groups": [self.group],
            "fence": {"method": "acl", "principals": [f"User:{APP}"]},
            "endpoints": [{"kind": "file", "path": "bootstrap"}],
            **link,
        }
        more = {"policy": policy} if policy else {}
        self.drctl = site.new_drctl({self.link: section, **(beside or {})}, **more)
        self.endpoint = self.drctl.folder / "bootstrap"

    def name_on(self, cluster: ClusterUnderTest) -> str:
        """Return the topic's name on a cluster."""
        return self.topic

    def produced(
        self, cluster: ClusterUnderTest, records: Mapping[str, str], **settings: object
    ) -> list[str]:
        """Write values with these keys as the application; return acknowledged ones."""
        producer = cluster.producer(APP, **settings)
        acknowledged: list[str] = []

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None:
                acknowledged.append(message.value().decode())

        for value, key in records.items():
            producer.produce(self.name_on(cluster), key=key, value=value, on_delivery=delivered)
        producer.flush(30)
        return acknowledged

    def all_of(self, cluster: ClusterUnderTest) -> Counter[str]:
        """Return every record, read by a plain consumer."""
        held = read_topic(cluster.lab_cluster, self.name_on(cluster))
        return Counter(value.decode() for value in held.values())

    def held(self, cluster: ClusterUnderTest) -> int:
        return sum(cluster.end_offsets(self.name_on(cluster)).values())

    def direct_to(self, cluster: str) -> None:
        address = f"{getattr(self, cluster).bootstrap}\n"
        self.endpoint.write_text(address, encoding="utf-8")

    @property
    def directed_to(self) -> str:
        return self.endpoint.read_text(encoding="utf-8").strip()

    def denials(self, cluster: ClusterUnderTest) -> int:
        """Return the number of deny ACLs on the topic or the group."""
        return denials(cluster, self.topic, self.group)

    def group_denials(self, cluster: ClusterUnderTest) -> int:
        """Return the number of deny ACLs on the group."""
        return denials(cluster, self.group)

    def states(self, *names: str) -> list[str]:
        with connect(self.lab) as client:
            return [client.status(name).state for name in names]

    def stop(self, connector: str) -> None:
        """Stop a connector through Connect, as an engineer does."""
        with connect(self.lab) as client:
            client.stop(connector)
            soon(lambda: client.status(connector).all_in("STOPPED"))

    def pause(self, connector: str) -> None:
        with connect(self.lab) as client:
            client.pause(connector)
            soon(lambda: client.status(connector).all_in("PAUSED"))

    def resume(self, connector: str) -> None:
        with connect(self.lab) as client:
            client.resume(connector)
            soon(lambda: client.status(connector).all_in("RUNNING"))

    @contextmanager
    def paused(self, connector: str) -> Iterator[None]:
        """Pause a connector during the block."""
        self.pause(connector)
        try:
            yield
        finally:
            self.resume(connector)

    def close(self) -> None:
        """Restore the lab."""
        self.lab.start("primary")
        self.lab.replicate(True)


class Stage(Link):
    """A topic that MirrorMaker 2 replicates, with a producer and a consumer."""

    deadline_s = 180.0

    def __init__(
        self, site: Site, topic: str = "", replicator: Mapping[str, Any] | None = None, **more: Any
    ) -> None:
        topic = topic or site.new_topic(PARTITIONS, mirrored=True)
        replicator = dict(replicator or mirror_maker(site.lab))
        policy = {"max_lag_records": 1_000_000}
        super().__init__(site, topic, policy=policy, replicator=replicator, **more)
        self.copies = str(replicator.get("connectors", {}).get("source", ""))
        self.reading = {"session.timeout.ms": "6000"}
        self.writing: dict[str, object] = {"delivery__timeout__ms": 15_000}
        self.source, self.target = self.primary, self.secondary
        self.direct_to("primary")

    def write(self, count: int, prefix: str, cluster: ClusterUnderTest | None = None) -> list[str]:
        """Write as the application; return acknowledged records."""
        records = {f"{prefix}-{number}": str(number % 17) for number in range(count)}
        return self.produced(cluster or self.source, records, **self.writing)

    def written(self, count: int, prefix: str = "before") -> list[str]:
        """Write, and wait until all of it is replicated."""
        before, found = self.held(self.target), self.write(count, prefix)
        assert len(found) == count
        self.copied(before + count)
        return found

    def write_unreplicated(self, count: int) -> None:
        """Write records that are not replicated, and let `drctl gap` find them."""
        self.pause(self.copies)
        assert len(self.write(count, "behind")) == count
        assert self.json("gap", "--scope", "full", code=1)["totals"]["unreplicated"] == count

    def read(
        self, cluster: ClusterUnderTest, most: int, *, wait_for: int = 0, but: str | None = None
    ) -> list[str]:
        """Read as the group from its committed offset, and commit."""
        return self.read_as(self.group, cluster, most, wait_for=wait_for, but=but)

    def read_as(
        self, group: str, cluster: ClusterUnderTest, most: int, *, wait_for: int = 0, **how: Any
    ) -> list[str]:
        wanted = wait_for or most
        enough = lambda values: len(values) >= min(most, wanted)  # noqa: E731
        how |= {"seconds": 30, "most": most, **self.reading}
        return consumed(cluster, group, [self.topic], enough, **how)[0]

    def copied(self, count: int) -> None:
        """Wait until the target has this many records."""
        soon(lambda: self.held(self.target) >= count, "not copied")

    def modern(self) -> int:
        """Use clients of the KIP-848 protocol and idempotent ones, unknown to the target.

        Returns:
            The number of KIP-848 groups: none if a cluster's release has no such groups.
        """
        groups = has_consumer_groups(self.source) and has_consumer_groups(self.target)
        if groups:
            self.reading = {"group.protocol": "consumer"}
        self.writing["enable__idempotence"] = True
        with (
            KafkaProducerIdReader(Connection("secondary", self.target.properties())) as theirs,
            KafkaProducerIdWriter(Connection("primary", self.source.properties())) as ours,
        ):
            ahead = max(each for each in theirs.next_ids().values() if isinstance(each, int)) + 50
            assert all(isinstance(a, Advanced) and a.done for a in ours.advance(ahead).values())
        return int(groups)

    def highest_id(self) -> int:
        """Return the highest producer id in the source's partitions."""
        places = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        with KafkaProducerIdReader(Connection("primary", self.source.properties())) as reader:
            return highest(reader.in_use(places))

    def next_ids(self) -> list[int]:
        """Return the producer ids that the target's brokers issue next."""
        with KafkaProducerIdReader(Connection("secondary", self.target.properties())) as reader:
            return [each for each in reader.next_ids().values() if isinstance(each, int)]

    def all_states(self) -> set[str]:
        """Return the states of all connectors."""
        with connect(self.lab) as client:
            return {status.state for status in client.statuses().values()}

    def directs_to(self, cluster: str) -> bool:
        """Whether the endpoint directs clients to a cluster."""
        return self.directed_to == getattr(self, cluster).bootstrap

    def await_checkpoint(self, group: str) -> None:
        """Wait until MirrorMaker 2 has checkpoints of the group's current offsets."""

        def noted() -> bool:
            more = ("--link", self.link, "--output", "json")
            asked = [("explain", group, self.topic, str(n), *more) for n in range(PARTITIONS)]
            ran = [self.drctl.offsets(*words) for words in asked]
            rows = [each.document() for each in ran if each.code in (0, 1)]
            words = [
                method["why"].startswith(
                    f"checkpoint of source offset {row['row']['source_offset']} "
                )
                for row in rows
                for method in row["methods"]
                if method["method"] == "checkpoint"
            ]
            return len(words) == PARTITIONS and all(words)

        soon(noted)
