"""Topics and rules of a cluster that are brought in line with another one's: looked at, changed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from drctl.model.topology import Unavailable


class Acl(NamedTuple):
    """A rule about topics; the words are Kafka's, in upper case.

    Attributes:
        name: of the topic, or what its name begins with, or `*`.
        pattern: LITERAL or PREFIXED.
        principal: with its kind, as in `User:app`; `User:*` is everybody.
        operation: READ, WRITE, DESCRIBE, ALL, ...
        permission: ALLOW or DENY.
    """

    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str


@dataclass(frozen=True, slots=True)
class Acls:
    """The rules of a cluster.

    Attributes:
        enforced: whether the cluster has an authorizer; without one, everybody may do everything.
    """

    enforced: bool
    rules: tuple[Acl, ...] = ()


class TopicSetting(NamedTuple):
    """A setting of a topic as its cluster tells it.

    Attributes:
        value: that counts.
        own: whether the topic itself has it, and not only its brokers.
        default: whether nobody set it: it is Kafka's own default.
        beneath: what would count if the topic did not have it; None where that is not told.
    """

    value: str
    own: bool = False
    default: bool = True
    beneath: str | None = None


@dataclass(frozen=True, slots=True)
class TopicShape:
    """What a topic is made of.

    Attributes:
        replicas: of the partition that has fewest.
    """

    partitions: int
    replicas: int
    settings: Mapping[str, TopicSetting] = field(default_factory=dict)


class WantedTopic(NamedTuple):
    """A topic that is to be made."""

    name: str
    partitions: int
    replicas: int
    config: Mapping[str, str]


class Alteration(NamedTuple):
    """A setting of a topic that is to be another one; None takes it from the topic."""

    topic: str
    key: str
    value: str | None


Answers = Mapping[str, Unavailable | None]
"""By topic None where it was done, or why it was not."""


class ShapeReader(Protocol):
    """Looks at topics as whoever changes them must know them; changes none."""

    def shapes(self, names: Collection[str]) -> Mapping[str, TopicShape | Unavailable | None]:
        """Each topic; None where there is none.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def would_create(self, topics: Collection[WantedTopic]) -> Answers:
        """Whether the cluster would make these; it makes none.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def would_extend(self, totals: Mapping[str, int]) -> Answers:
        """Whether it would give topics so many partitions; it gives none.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

    def would_configure(self, changes: Collection[Alteration]) -> Answers:
        """Whether it would take these settings; it takes none.

        Raises:
            Unreachable: no broker answered within the deadline.
        """


class ShapeWriter(Protocol):
    """Makes topics, adds partitions, changes settings; deletes nothing.

    Each call may be repeated: what is there already is as good as made.
    """

    def create(self, topics: Collection[WantedTopic]) -> Answers:
        """Make these.

        Raises:
            Unreachable: no broker answered within the deadline; nothing was sent.
        """

    def extend(self, totals: Mapping[str, int]) -> Answers:
        """Give topics so many partitions.

        Raises:
            Unreachable: no broker answered within the deadline; nothing was sent.
        """

    def configure(self, changes: Collection[Alteration]) -> Answers:
        """Change these settings, and no others.

        Raises:
            Unreachable: no broker answered within the deadline; nothing was sent.
        """


class RuleWriter(Protocol):
    """Adds rules about topics, of either permission; removes only what is named in full."""

    def add(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        """Add these; by rule None where it is there now, or why it is not."""

    def remove(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        """Remove exactly these; by rule None where it is gone now, or why it is not."""
