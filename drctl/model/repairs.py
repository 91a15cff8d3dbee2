"""Reads and changes the topics and ACL rules of a cluster, to align it with another cluster."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from drctl.model.topology import Unavailable

TOPIC, GROUP, TRANSACTIONAL_ID, CLUSTER = "TOPIC", "GROUP", "TRANSACTIONAL_ID", "CLUSTER"
CLIENT_OPERATIONS: Mapping[str, tuple[str, ...]] = {
    GROUP: ("READ", "DESCRIBE"),
    TRANSACTIONAL_ID: ("WRITE", "DESCRIBE"),
    CLUSTER: ("IDEMPOTENT_WRITE",),
}
"""The operations that clients need on resources other than topics; a rule for ALL includes them."""


class Acl(NamedTuple):
    """An ACL rule; the words are Kafka's, in upper case.

    Attributes:
        name: of the resource, or what its name begins with, or `*`.
        pattern: LITERAL or PREFIXED.
        principal: with its type, as in `User:app`; `User:*` is every user.
        operation: READ, WRITE, DESCRIBE, ALL, ...
        permission: ALLOW or DENY.
        resource: TOPIC, GROUP, TRANSACTIONAL_ID, CLUSTER, ...
    """

    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str
    resource: str = TOPIC

    @property
    def on(self) -> str:
        """The resource for messages: its name, after its type unless it is a topic."""
        if self.resource == TOPIC:
            return self.name
        return f"{self.resource.lower().replace('_', ' ')} {self.name}"


@dataclass(frozen=True, slots=True)
class Acls:
    """The rules of a cluster.

    Attributes:
        enforced: whether the cluster has an authorizer; without one, everything is allowed.
    """

    enforced: bool
    rules: tuple[Acl, ...] = ()


class TopicSetting(NamedTuple):
    """A topic setting, as reported by the cluster.

    Attributes:
        value: the effective value.
        own: whether it is set on the topic, not only on the brokers.
        default: whether it is Kafka's default.
        beneath: the value without the setting on the topic; None if unknown.
    """

    value: str
    own: bool = False
    default: bool = True
    beneath: str | None = None


@dataclass(frozen=True, slots=True)
class TopicShape:
    """The partitions and settings of a topic.

    Attributes:
        replicas: replication factor; the lowest if partitions differ.
    """

    partitions: int
    replicas: int
    settings: Mapping[str, TopicSetting] = field(default_factory=dict)


class WantedTopic(NamedTuple):
    """A topic to create."""

    name: str
    partitions: int
    replicas: int
    config: Mapping[str, str]


class Alteration(NamedTuple):
    """A topic setting to change; None removes it from the topic."""

    topic: str
    key: str
    value: str | None


Answers = Mapping[str, Unavailable | None]
"""For each topic, None or why it failed."""


class ShapeReader(Protocol):
    """Reads partitions and settings of topics, and validates changes without applying them."""

    def shapes(self, names: Collection[str]) -> Mapping[str, TopicShape | Unavailable | None]:
        """Describe each topic; None if it does not exist.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def would_create(self, topics: Collection[WantedTopic]) -> Answers:
        """Validate the creation of topics.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def would_extend(self, totals: Mapping[str, int]) -> Answers:
        """Validate an increase of partitions.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def would_configure(self, changes: Collection[Alteration]) -> Answers:
        """Validate changes of settings.

        Raises:
            Unreachable: no broker answered within the deadline.
        """


class ShapeWriter(Protocol):
    """Creates topics, adds partitions and changes settings; deletes nothing.

    Each call is idempotent.
    """

    def create(self, topics: Collection[WantedTopic]) -> Answers:
        """Create topics.

        Raises:
            Unreachable: no broker answered within the deadline; nothing was sent.
        """

    def extend(self, totals: Mapping[str, int]) -> Answers:
        """Increase the number of partitions.

        Raises:
            Unreachable: no broker answered within the deadline; nothing was sent.
        """

    def configure(self, changes: Collection[Alteration]) -> Answers:
        """Change these settings only.

        Raises:
            Unreachable: no broker answered within the deadline; nothing was sent.
        """


class RuleWriter(Protocol):
    """Adds ALLOW and DENY rules of clients; removes only exactly the given rules."""

    def add(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        """Add rules; for each rule, return None or why it failed."""

    def remove(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        """Remove exactly these rules; for each rule, return None or why it failed."""
