"""What the engine looks at and acts with in a drill: the drill's own things, and nothing else."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.runs import plan_wiring
from drctl.cli.runs.link_hands import LinkHands
from drctl.cli.runs.link_sight import LinkSight
from drctl.drill.names import drill_of
from drctl.engine.ports import CommandEnded
from drctl.model.errors import Refused
from drctl.model.plan import Json

if TYPE_CHECKING:
    from drctl.engine.ports import Canary
    from drctl.model.acls import Acl
    from drctl.model.endpoints import EndpointWriter
    from drctl.model.fencing import AclWriter
    from drctl.model.group_preparation import GroupCreator
    from drctl.model.groups import Positions
    from drctl.model.ports import GroupWriter
    from drctl.model.producer_ids import ProducerIdWriter
    from drctl.model.repairs import RuleWriter, ShapeWriter
    from drctl.model.topology import TopicPartition, Unavailable
    from drctl.systems.connect.client import ConnectWriter

_CURE = "this is a mistake in drctl: nothing was changed by this call"


@dataclass(slots=True)
class DrillSight(LinkSight):
    """Looks over a link that was narrowed; the canary is in a topic of the drill's own.

    Attributes:
        canary: that topic.
    """

    canary: str = ""

    def heard(self, name: str, topic: str, text: str) -> bool:
        """Whether the record of the drill's canary can be read on a cluster."""
        return LinkSight.heard(self, name, self.canary, text)


@dataclass(slots=True)
class DrillHands(LinkHands):
    """Changes what is called as drills call things; refuses everything else.

    Attributes:
        canary_topic: where the canary sings.
        denied: is told once a fence was set.
    """

    canary_topic: str = ""
    denied: Callable[[], None] = field(default=lambda: None)

    def groups(self, name: str) -> "GroupWriter":
        """The positions of the drill's groups."""
        return _OwnGroups(wiring.group_writer(name, self.config.cluster(name)))

    def acls(self, name: str) -> "AclWriter":
        """Rules on the drill's topics."""
        return _OwnRules(plan_wiring.acl_writer(name, self.config.cluster(name)), self.denied)

    def canary(self, name: str, entrance: int | None = None) -> "Canary":
        """Writes to the drill's own topic."""
        return _OwnCanary(LinkHands.canary(self, name, entrance), self.canary_topic)

    def group_creator(self, name: str) -> "GroupCreator":
        """Makes none but the drill's.

        Raises:
            Refused: always; the drill's groups are of the classic protocol.
        """
        raise _beyond(f"make groups on {name}")

    def rules(self, name: str) -> "RuleWriter":
        """Adds none.

        Raises:
            Refused: always.
        """
        raise _beyond(f"add rules on {name}")

    def shapes(self, name: str) -> "ShapeWriter":
        """Changes no topic.

        Raises:
            Refused: always.
        """
        raise _beyond(f"change topics of {name}")

    def producer_ids(self, name: str) -> "ProducerIdWriter":
        """Skips none.

        Raises:
            Refused: always.
        """
        raise _beyond(f"skip producer ids of {name}")

    def connectors(self) -> "ConnectWriter":
        """Touches none.

        Raises:
            Refused: always.
        """
        raise _beyond("change connectors")

    def endpoint(self, number: int) -> "EndpointWriter":
        """Switches none.

        Raises:
            Refused: always.
        """
        raise _beyond(f"switch endpoint {number + 1}")

    def run(
        self, identity: str, argv: Sequence[str], env: Mapping[str, str], timeout_s: float
    ) -> CommandEnded:
        """Runs none.

        Raises:
            Refused: always.
        """
        raise _beyond("run commands of the site")

    def reconcile(self, wish: Json) -> None:
        """Acts on no records.

        Raises:
            Refused: always.
        """
        raise _beyond("act on records")


@dataclass(frozen=True, slots=True)
class _OwnGroups:
    """Implements `GroupWriter` of `drctl.model.ports`."""

    inner: "GroupWriter"

    def commit(
        self, wanted: "Mapping[str, Positions]"
    ) -> "Mapping[str, Mapping[TopicPartition, Unavailable | None]]":
        """Commit positions of the drill's group in its topics."""
        _require_ours([*wanted, *(place.topic for places in wanted.values() for place in places)])
        return self.inner.commit(wanted)

    def delete(
        self, unwanted: "Mapping[str, Collection[TopicPartition]]"
    ) -> "Mapping[str, Mapping[TopicPartition, Unavailable | None]]":
        """Remove such positions."""
        _require_ours([*unwanted, *(p.topic for places in unwanted.values() for p in places)])
        return self.inner.delete(unwanted)


@dataclass(frozen=True, slots=True)
class _OwnRules:
    """Implements `AclWriter` of `drctl.model.fencing`."""

    inner: "AclWriter"
    denied: Callable[[], None]

    def deny(self, rules: "Collection[Acl]") -> "Mapping[Acl, Unavailable | None]":
        """Add rules on the drill's topics."""
        _require_ours(rule.name for rule in rules)
        answers = self.inner.deny(rules)
        self.denied()
        return answers

    def restore(self, rules: "Collection[Acl]") -> "Mapping[Acl, Unavailable | None]":
        """Remove such rules."""
        _require_ours(rule.name for rule in rules)
        return self.inner.restore(rules)


@dataclass(frozen=True, slots=True)
class _OwnCanary:
    """Implements `drctl.engine.ports.Canary`."""

    inner: "Canary"
    topic: str

    def sing(self, topic: str, text: str) -> None:
        """Write one, into the drill's topic whatever the engine names."""
        _require_ours([self.topic])
        self.inner.sing(self.topic, text)


def _require_ours(names: Iterable[str]) -> None:
    for name in names:
        if drill_of(name) is None:
            raise _beyond(f"touch {name}")


def _beyond(what: str) -> Refused:
    return Refused(f"a drill does not {what}", _CURE)
