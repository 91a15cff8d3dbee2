"""A cluster of the lab: brokers, client credentials and ACLs."""

import base64
import hashlib
import logging
import secrets
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from drctl.lab.processes import Jvm, Part, lab_mark
from drctl.lab.settings import (
    BROKER,
    CLUSTERS,
    FIRST,
    HOST,
    USERS,
    LabSettings,
    Secrets,
    plain_login,
    write_properties,
)
from drctl.lab.waiting import Patience
from drctl.model.errors import Stopped, Unreachable

_MAIN = "kafka.Kafka"
_CONTROLLER, _CLIENTS = "CONTROLLER", "CLIENTS"


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker; its data survives its process."""

    root: Path
    settings: LabSettings
    cluster: str
    node: int

    @property
    def name(self) -> str:
        """`primary-1`."""
        return f"{self.cluster}-{self.node}"

    @property
    def part(self) -> Part:
        """The process of this broker."""
        return Part(self.name, self.root / self.cluster / str(self.node), lab_mark(self.root))

    @property
    def ports(self) -> tuple[int, ...]:
        """Every port it listens on."""
        place = (self.cluster, self.node)
        return self.settings.broker_port(*place), self.settings.controller_port(*place)

    def prepare(self, jvm: Jvm) -> None:
        """Write its properties; format its storage if needed.

        Raises:
            Stopped: Kafka's storage tool failed.
        """
        folder = self.part.folder
        write_properties(folder / "server.properties", self._properties())
        if (folder / "data" / "meta.properties").exists():
            return
        command = jvm.command_in_file(
            folder / "format.arguments",
            "kafka.tools.StorageTool",
            *("format", "-t", cluster_id(self.root, self.cluster)),
            *("-c", str(folder / "server.properties")),
            *self._scram_users(),
        )
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        (folder / "format.arguments").unlink()
        if answer.returncode != 0:
            output = (answer.stdout + answer.stderr).strip().splitlines()
            raise Stopped(
                f"could not format the storage of {self.name}: {output[-1] if output else ''}",
                "remove the lab and try again: drctl lab down, then drctl lab up",
            )

    def start(self, jvm: Jvm) -> None:
        """Start the process."""
        properties = str(self.part.folder / "server.properties")
        self.part.start(jvm.command(self.name, _MAIN, properties))

    @property
    def _secrets(self) -> Secrets:
        return Secrets(self.root / "secrets")

    def _scram_users(self) -> tuple[str, ...]:
        known = ((user, self._secrets.password(self.cluster, user)) for user in USERS)
        return tuple(
            word
            for user, password in ((FIRST, secrets.token_hex(16)), *known)
            for word in ("-S", f"SCRAM-SHA-512=[name={user},password={password}]")
        )

    def _properties(self) -> dict[str, object]:
        return {
            "process.roles": "broker,controller",
            "node.id": self.node,
            "log.dirs": self.part.folder / "data",
            **({"broker.rack": f"rack-{self.node}"} if self.settings.racks else {}),
            **self._listeners(),
            **self._authentication(),
            **_sizes(self.settings.replication),
        }

    def _listeners(self) -> Mapping[str, object]:
        settings, here = self.settings, (self.cluster, self.node)
        voters = (f"{n}@{HOST}:{settings.controller_port(self.cluster, n)}" for n in settings.nodes)
        for_clients = f"{_CLIENTS}://{HOST}:{settings.broker_port(*here)}"
        control = f"{_CONTROLLER}://{HOST}:{settings.controller_port(*here)}"
        return {
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"{for_clients},{control}",
            "advertised.listeners": for_clients,
            "controller.listener.names": _CONTROLLER,
            "inter.broker.listener.name": _CLIENTS,
            "listener.security.protocol.map": f"{_CONTROLLER}:SASL_PLAINTEXT,"
            f"{_CLIENTS}:SASL_PLAINTEXT",
        }

    def _authentication(self) -> Mapping[str, object]:
        password = self._secrets.password(self.cluster, BROKER)
        login = plain_login(BROKER, password, {BROKER: password})
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        return {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            f"listener.name.{_CONTROLLER.lower()}.sasl.enabled.mechanisms": "PLAIN",
            f"listener.name.{_CONTROLLER.lower()}.plain.sasl.jaas.config": login,
            f"listener.name.{_CLIENTS.lower()}.plain.sasl.jaas.config": login,
            f"listener.name.{_CLIENTS.lower()}.scram-sha-512.sasl.jaas.config": scram,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:admin;User:{BROKER}",
        }


def runs_broker(process: psutil.Process) -> bool:
    """Whether this lab process is a broker; False if it has exited."""
    try:
        return _MAIN in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def cluster_id(root: Path, cluster: str) -> str:
    """The cluster id, derived from a secret of the lab so that all nodes agree on it."""
    seed = Secrets(root / "secrets").password(cluster, BROKER)
    digest = hashlib.sha256(f"cluster id {seed}".encode()).digest()
    # Avoid a leading dash, which the tool would parse as an option.
    return base64.urlsafe_b64encode(b"\x44" + digest[:15]).decode().rstrip("=")


def _sizes(replication: int) -> Mapping[str, object]:
    in_sync = min(2, replication)
    return {
        # A single controller needs no frequent no-op records: idle labs use less CPU.
        **({"metadata.max.idle.interval.ms": 5000} if replication == 1 else {}),
        "default.replication.factor": replication,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replication,
        "offsets.topic.num.partitions": 5,
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": 5,
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": 0,
        # Retention by time would delete the flights of 2013 at once.
        "log.retention.ms": -1,
        # These take minutes by default; drills and tests cannot wait that long.
        "log.initial.task.delay.ms": 500,
        "log.cleaner.backoff.ms": 1000,
        # A killed broker can rejoin only after its session has expired.
        "broker.session.timeout.ms": 5000,
        "broker.heartbeat.interval.ms": 1000,
        "log.retention.check.interval.ms": 2000,
    }


LOGGER = logging.getLogger("drctl.lab")
LOGGER.addHandler(logging.NullHandler())
ORDERS_GROUPS = "orders-app"
CONNECT_GROUP = "lab-connect"

Grant = tuple[str, ResourceType, str, bool, tuple[AclOperation, ...]]


@dataclass(frozen=True, slots=True)
class LabCluster:
    """`primary` or `secondary` of one lab."""

    root: Path
    settings: LabSettings
    name: str

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The brokers of this cluster."""
        nodes = self.settings.nodes
        return tuple(Broker(self.root, self.settings, self.name, node) for node in nodes)

    @property
    def bootstrap(self) -> str:
        """Bootstrap servers."""
        return self.settings.bootstrap(self.name)

    def password_file(self, user: str) -> Path:
        """The file with the user's password."""
        return Secrets(self.root / "secrets").file(self.name, user)

    def public_properties(self, user: str) -> dict[str, str]:
        """Client properties (librdkafka) of this user, without the password."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
        }

    def client_properties(self, user: str = "admin") -> dict[str, str]:
        """Client properties (librdkafka) of this user."""
        password = self.password_file(user).read_text(encoding="ascii")
        return {**self.public_properties(user), "sasl.password": password}

    def admin(self, bootstrap: str | None = None) -> AdminClient:
        """An admin client that prints nothing; keep it referenced until its futures are read.

        librdkafka refreshes the metadata of known topics every five minutes, which would recreate
        deleted topics where the broker auto-creates them.
        """
        ours = {
            "allow.auto.create.topics": "false",
            "reconnect.backoff.ms": "50",
            "reconnect.backoff.max.ms": "200",
            "bootstrap.servers": bootstrap or self.bootstrap,
        }
        return AdminClient({**self.client_properties(), **ours}, logger=LOGGER)

    def grant(self, admin: AdminClient, timeout_s: float = 20) -> None:
        """Grant each user its minimal ACLs; admin and the brokers are super users."""
        bindings = (binding for grant in self._grants() for binding in _bindings(*grant))
        once = list(dict.fromkeys(bindings))  # the client rejects duplicates
        for done in admin.create_acls(once, request_timeout=timeout_s).values():
            done.result()

    def _grants(self) -> tuple[Grant, ...]:
        reads = self.settings.active_active or self.name == "primary"
        writes = self.settings.active_active or self.name == "secondary"
        return (
            *_application_grants(self._own_topics()),
            *(_reading_grants() if reads else ()),
            *(_writing_grants(self._other, self._copied_topics()) if writes else ()),
            *(_worker_grants() if self.name == "secondary" else ()),
        )

    def _own_topics(self) -> tuple[str, ...]:
        return tuple(sorted({self.settings.mirrored, *self._copied_topics()}))

    def _copied_topics(self) -> tuple[str, ...]:
        prefix = f"{self._other}." if self.settings.policy == "default" else ""
        return (f"{prefix}{self.settings.mirrored}",)

    @property
    def _other(self) -> str:
        return next(name for name in CLUSTERS if name != self.name)


def answering_brokers(admin: AdminClient, timeout_s: float) -> int:
    """The number of brokers that the cluster reports; 0 if it does not answer."""
    try:
        return len(admin.list_topics(timeout=timeout_s).brokers)
    except KafkaException:
        return 0


def _application_grants(topics: tuple[str, ...]) -> tuple[Grant, ...]:
    do = AclOperation
    return (
        *(
            ("orders-app", ResourceType.TOPIC, topic, True, (do.READ, do.WRITE, do.DESCRIBE))
            for topic in topics
        ),
        ("orders-app", ResourceType.GROUP, ORDERS_GROUPS, True, (do.READ,)),
        ("orders-app", ResourceType.TRANSACTIONAL_ID, ORDERS_GROUPS, True, (do.WRITE,)),
    )


def _reading_grants() -> tuple[Grant, ...]:
    """MirrorMaker 2 on its source: read records, configurations and group offsets."""
    do = AclOperation
    return (
        ("replicator", ResourceType.TOPIC, "*", False, (do.READ, do.DESCRIBE_CONFIGS)),
        ("replicator", ResourceType.GROUP, "*", False, (do.DESCRIBE,)),
        ("replicator", ResourceType.BROKER, "kafka-cluster", False, (do.DESCRIBE,)),
    )


def _writing_grants(source: str, copied: tuple[str, ...]) -> tuple[Grant, ...]:
    """MirrorMaker 2 on its target: its own topics, and the copies with their configuration."""
    do = AclOperation
    own = (f"mm2-offset-syncs.{source}.", f"{source}.checkpoints.", "heartbeats")
    mine = (do.READ, do.WRITE, do.CREATE, do.DESCRIBE_CONFIGS)
    copies = (*mine, do.ALTER, do.ALTER_CONFIGS)
    return (
        *(("replicator", ResourceType.TOPIC, topic, True, mine) for topic in own),
        *(("replicator", ResourceType.TOPIC, topic, True, copies) for topic in copied),
        # Heartbeats of the other direction are replicated under every naming policy.
        ("replicator", ResourceType.TOPIC, f"{source}.heartbeats", False, copies),
        ("replicator", ResourceType.TOPIC, "*", False, (do.DESCRIBE, do.DESCRIBE_CONFIGS)),
        # READ: needed to commit group offsets with `sync.group.offsets.enabled`.
        ("replicator", ResourceType.GROUP, "*", False, (do.DESCRIBE, do.READ)),
        ("replicator", ResourceType.BROKER, "kafka-cluster", False, (do.DESCRIBE,)),
    )


def _worker_grants() -> tuple[Grant, ...]:
    """The Connect worker on the cluster that holds its internal topics."""
    do = AclOperation
    mine = (do.READ, do.WRITE, do.CREATE, do.DESCRIBE_CONFIGS)
    return (
        ("replicator", ResourceType.TOPIC, "connect-", True, mine),
        ("replicator", ResourceType.GROUP, CONNECT_GROUP, False, (do.READ,)),
    )


def _bindings(
    user: str, kind: ResourceType, name: str, prefixed: bool, operations: tuple[AclOperation, ...]
) -> tuple[AclBinding, ...]:
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    allow = AclPermissionType.ALLOW
    principal = f"User:{user}"
    return tuple(
        AclBinding(kind, name, pattern, principal, "*", operation, allow)
        for operation in operations
    )


READ_S = 60
_BATCH = 10_000
# How long a call waits for a full batch.
_PAUSE_S = 0.1

Position = tuple[int, int]
"""Partition and offset."""


def count_of(cluster: LabCluster, topic: str) -> int:
    """Sum of the topic's end offsets; 0 if it does not exist."""
    consumer = _consumer(cluster)
    try:
        return sum(end for _, end in _ends(consumer, topic))
    finally:
        consumer.close()


def read_topic(cluster: LabCluster, topic: str) -> Mapping[Position, bytes]:
    """Read the values of all committed records.

    Raises:
        Unreachable: it timed out.
    """
    consumer = _consumer(cluster)
    try:
        waiting = {p: end for p, end in _ends(consumer, topic) if end}
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in waiting])
        return _read(consumer, waiting, f"{topic} of {cluster.name}")
    finally:
        consumer.close()


def _read(consumer: Consumer, waiting: dict[int, int], what: str) -> Mapping[Position, bytes]:
    found: dict[Position, bytes] = {}
    patience = Patience.of(READ_S)
    while waiting:
        if not patience.remaining:
            raise Unreachable(f"timed out after {READ_S} s while reading {what}")
        for message in consumer.consume(_BATCH, timeout=_PAUSE_S):
            if message.error():
                raise KafkaException(message.error())
            found[message.partition() or 0, message.offset() or 0] = message.value() or b""
        for position in consumer.position(consumer.assignment()):
            if position.offset >= waiting.get(position.partition, 0):
                waiting.pop(position.partition, None)
    return found


def _ends(consumer: Consumer, topic: str) -> list[tuple[int, int]]:
    described = consumer.list_topics(topic, timeout=10).topics[topic]
    return [
        (p, consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[1])
        for p in sorted(described.partitions)
    ]


def _consumer(cluster: LabCluster) -> Consumer:
    settings: dict[str, str | int | float | bool] = {
        **cluster.client_properties("admin"),
        "group.id": "lab-reader",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }
    return Consumer(settings, logger=LOGGER)
