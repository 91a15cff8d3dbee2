"""Two small clusters with one address each: one that clients reach, and one behind a proxy.

No passwords; the authorizer allows everything that no fence denies.
"""

import logging
import subprocess
from collections.abc import Collection
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from drctl.artifacts.jars import resolve
from drctl.artifacts.java import find_java
from drctl.kafka.acls import KafkaAclWriter
from drctl.kafka.connection import Connection
from drctl.kafka.group_offsets import KafkaGroupWriter
from drctl.model.fencing import Denied, Topics, denials
from drctl.model.groups import Committed
from drctl.model.repairs import Acl
from drctl.model.topology import TopicPartition
from tests.jvm import classes_of
from tests.kafka.tls_broker import wait_until

QUIET = logging.getLogger("tests.clients")
PORT, BEHIND_PROXY, _CONTROLLER, _OPERATORS = 9092, 9093, 9094, 9095
COPIED = 5000
"""Records that the target has before clients move, so that its offsets differ from the source's."""

EVERYBODY = "User:ANONYMOUS"
_OPERATOR, _PASSWORD = "operator", "not-a-secret"
"""A super user, for drctl and the replicator: a fence denies access to everybody else."""
# The kernel kills these processes when their parent ends, for any reason.
TAKEN_ALONG = ("setpriv", "--pdeathsig", "KILL", "--")
_SMALL = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SERVER = """
node.id=1
process.roles=broker,controller
controller.quorum.voters=1@{address}:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,CLIENTS:PLAINTEXT,PROXIED:PLAINTEXT,OPERATORS:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.operators.plain.sasl.jaas.config={login}
super.users=User:{operator}
inter.broker.listener.name=CLIENTS
listeners=CLIENTS://{address}:{port},PROXIED://{address}:{behind},OPERATORS://{address}:{operators},CONTROLLER://{address}:{controller}
advertised.listeners=CLIENTS://{address}:{port},PROXIED://{proxy}:{port},OPERATORS://{address}:{operators}
log.dirs={logs}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
"""

_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    f' user_{_OPERATOR}="{_PASSWORD}";'
)


class Cluster:
    """A cluster of one node that can be started and killed repeatedly."""

    def __init__(self, name: str, folder: Path, address: str, proxy: str) -> None:
        self.name, self.address, self._folder = name, address, folder
        self.properties = {
            "bootstrap.servers": f"{address}:{PORT}",
            "reconnect.backoff.max.ms": "200",
        }
        folder.mkdir(parents=True)
        self._config = folder / "server.properties"
        self._config.write_text(
            _SERVER.format(
                address=address,
                proxy=proxy,
                port=PORT,
                behind=BEHIND_PROXY,
                controller=_CONTROLLER,
                operators=_OPERATORS,
                operator=_OPERATOR,
                login=_LOGIN,
                logs=folder / "data",
            )
        )
        jars = resolve("kafka", progress=QUIET.info)
        self._java = [str(find_java()), *_SMALL, *classes_of(jars), "-cp", f"{jars[0].parent}/*"]
        self._process: subprocess.Popen[bytes] | None = None
        self._used = False

    @property
    def operators(self) -> dict[str, str]:
        """Connection properties of the super user."""
        return {
            "bootstrap.servers": f"{self.address}:{_OPERATORS}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": _OPERATOR,
            "sasl.password": _PASSWORD,
        }

    @property
    def lives(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it without waiting; format its storage the first time."""
        if not (self._folder / "data").exists():
            words = [
                "kafka.tools.StorageTool",
                "format",
                "-t",
                _cluster_id(),
                "-c",
                str(self._config),
            ]
            subprocess.run([*self._java, *words], check=True, capture_output=True, timeout=60)
        with (self._folder / "log").open("ab") as log:
            command = [*TAKEN_ALONG, *self._java, "kafka.Kafka", str(self._config)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def wait(self) -> None:
        """Wait until it responds; the first time, allow everything to everyone."""
        admin = self.admin()

        def answers() -> bool:
            assert self.lives, self.log_end()
            try:
                return bool(admin.list_topics(timeout=1).brokers)
            except KafkaException:
                return False

        wait_until(answers, f"{self.name} answers; its log is in {self._folder}")
        if not self._used:
            for done in admin.create_acls(_everything()).values():
                done.result()
            self._used = True

    def kill(self) -> None:
        """Kill it, without a clean shutdown."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    def log_end(self) -> str:
        """The end of its log."""
        return (self._folder / "log").read_text(errors="replace")[-2000:]

    def admin(self) -> AdminClient:
        """Create an admin client; keep it until its futures are read."""
        return AdminClient({**self.properties}, logger=QUIET)

    def create(self, topic: str) -> None:
        """Create a topic of one partition, and wait for its leader."""
        admin = self.admin()
        (made,) = admin.create_topics([NewTopic(topic, 1)], operation_timeout=20).values()
        made.result()

        def led() -> bool:
            # The broker that responds may not know the topic yet.
            found = admin.list_topics(timeout=5).topics.get(topic)
            return found is not None and bool(found.partitions) and found.partitions[0].leader >= 0

        wait_until(led, f"a leader of {topic} on {self.name}")

    def fill(self, topic: str) -> None:
        """Write what replication would have copied."""
        producer = Producer({**self.properties, "linger.ms": "20"}, logger=QUIET)
        for number in range(COPIED):
            producer.produce(topic, f"copy/{number}".encode(), partition=0)
        assert producer.flush(30) == 0

    def expect(self, topic: str, classic: Collection[str], modern: Collection[str]) -> None:
        """Prepare groups to continue after the replicated records, as a failover does."""
        position = {TopicPartition(topic, 0): Committed(COPIED)}
        wanted = dict.fromkeys((*classic, *modern), position)
        with (
            KafkaGroupWriter(Connection(self.name, self.properties, timeout_s=20)) as creator,
            KafkaGroupWriter(Connection(self.name, self.properties, timeout_s=20)) as writer,
        ):
            # The first group makes the cluster create `__consumer_offsets`.
            wait_until(
                lambda: set(creator.create(modern).values()) <= {None}, f"groups on {self.name}"
            )
            answers = writer.commit(wanted)
        assert all(why is None for of in answers.values() for why in of.values()), answers

    def fence(self, topic: str) -> None:
        """Deny everyone writes to the topic."""
        rules: tuple[Acl, ...] = denials([EVERYBODY], [Topics(topic)], [Denied.WRITE])
        with KafkaAclWriter(Connection(self.name, self.properties, timeout_s=30)) as writer:
            assert set(writer.deny(rules).values()) == {None}

    def stored(self, topic: str) -> dict[int, str]:
        """Return the records after the replicated ones, by offset."""
        settings = {
            **self.properties,
            "group.id": "unused",
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
        }
        consumer = Consumer(settings, logger=QUIET)
        found: dict[int, str] = {}
        try:
            # Clients continue to write: reading stops at the end offset of this moment.
            _, end = consumer.get_watermark_offsets(Partition(topic, 0), timeout=20)
            consumer.assign([Partition(topic, 0, COPIED)])
            while True:
                message = consumer.poll(20)
                assert message is not None, f"{self.name} does not answer"
                error, offset = message.error(), message.offset() or 0
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return found
                assert error is None, error
                if offset >= end:
                    return found
                found[offset] = (message.value() or b"").decode()
        finally:
            consumer.close()


def _cluster_id() -> str:
    # Kafka takes 16 bytes in URL-safe base64; no digit of these is special.
    return f"{uuid4().hex[:20]}AA"


def _everything() -> list[AclBinding]:
    literal, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    names = {
        ResourceType.TOPIC: "*",
        ResourceType.GROUP: "*",
        ResourceType.TRANSACTIONAL_ID: "*",
        ResourceType.BROKER: "kafka-cluster",
    }
    return [
        AclBinding(kind, name, literal, EVERYBODY, "*", AclOperation.ALL, allow)
        for kind, name in names.items()
    ]
