"""A cluster of the lab as its clients see it: credentials, whether it answers, who may do what."""

import logging
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from drctl.lab.broker import Broker
from drctl.lab.secrets import Secrets
from drctl.lab.settings import CLUSTERS, LabSettings

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
        """Its nodes."""
        nodes = self.settings.nodes
        return tuple(Broker(self.root, self.settings, self.name, node) for node in nodes)

    @property
    def bootstrap(self) -> str:
        """Addresses of its brokers."""
        return self.settings.bootstrap(self.name)

    def password_file(self, user: str) -> Path:
        """Where the user's password stands, and nothing else."""
        return Secrets(self.root / "secrets").file(self.name, user)

    def public_properties(self, user: str) -> dict[str, str]:
        """What a librdkafka client of this user needs, but for the password."""
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
        }

    def client_properties(self, user: str = "admin") -> dict[str, str]:
        """What a librdkafka client of this user needs."""
        password = self.password_file(user).read_text(encoding="ascii")
        return {**self.public_properties(user), "sasl.password": password}

    def admin(self, bootstrap: str | None = None) -> AdminClient:
        """An admin client that prints nothing; keep it referenced until its futures are read.

        librdkafka asks every five minutes for each topic that was asked for by name: where brokers
        create topics by themselves, those that were deleted meanwhile would come back.
        """
        ours = {
            "allow.auto.create.topics": "false",
            "reconnect.backoff.ms": "50",
            "reconnect.backoff.max.ms": "200",
            "bootstrap.servers": bootstrap or self.bootstrap,
        }
        return AdminClient({**self.client_properties(), **ours}, logger=LOGGER)

    def grant(self, admin: AdminClient, timeout_s: float = 20) -> None:
        """Give each user what it needs and no more; admin and the brokers need no grant."""
        bindings = (binding for grant in self._grants() for binding in _bindings(*grant))
        once = list(dict.fromkeys(bindings))  # the client refuses a grant that is given twice
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
    """How many brokers the cluster says it has; 0 where it says nothing."""
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
    """MirrorMaker 2 on its source: reads records, configurations and groups' offsets."""
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
        # Heartbeats of the other direction are copied under every naming policy.
        ("replicator", ResourceType.TOPIC, f"{source}.heartbeats", False, copies),
        ("replicator", ResourceType.TOPIC, "*", False, (do.DESCRIBE, do.DESCRIBE_CONFIGS)),
        ("replicator", ResourceType.GROUP, "*", False, (do.DESCRIBE,)),
        ("replicator", ResourceType.BROKER, "kafka-cluster", False, (do.DESCRIBE,)),
    )


def _worker_grants() -> tuple[Grant, ...]:
    """The Connect worker on the cluster that it keeps its own state in."""
    do = AclOperation
    mine = (do.READ, do.WRITE, do.CREATE, do.DESCRIBE_CONFIGS)
    return (
        ("replicator", ResourceType.TOPIC, "connect-", True, mine),
        ("replicator", ResourceType.GROUP, CONNECT_GROUP, False, (do.READ,)),
    )


def _bindings(
    user: str,
    kind: ResourceType,
    name: str,
    prefixed: bool,
    operations: tuple[AclOperation, ...],
) -> tuple[AclBinding, ...]:
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    allow = AclPermissionType.ALLOW
    principal = f"User:{user}"
    return tuple(
        AclBinding(kind, name, pattern, principal, "*", operation, allow)
        for operation in operations
    )
