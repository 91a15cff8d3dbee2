"""What would bring a link's target in line with its source, and what nobody but a person can.

The checks of parity say what differs; here every difference becomes a change of the target, or
something that is left, with the reason and what a person would type. Nothing is ever changed on
the source, and nothing is deleted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from drctl.checks.observed import Observed
from drctl.model.acls import Acl
from drctl.model.repairs import TopicShape, WantedTopic
from drctl.model.topology import Unavailable

Change = TypeVar("Change", covariant=True)

Shapes = Mapping[str, TopicShape | Unavailable | None]

NOT_OURS = (
    "a mirror that keeps offsets makes and keeps its topics itself: one that drctl made, or"
    " changed, would stand in its way"
)


def keeps_its_topics(observed: Observed) -> bool:
    """Whether the replicator alone may shape the copies."""
    return observed.link.settings.replicator.kind == "offset-preserving"


class Extension(NamedTuple):
    """Partitions that a topic is to have."""

    topic: str
    total: int


class SettingChange(NamedTuple):
    """A setting of a topic, as it counts now and as it is to be."""

    topic: str
    key: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Fix(Generic[Change]):
    """One thing of the target that would be changed.

    Attributes:
        what: is changed, in words for a person.
        before: how it is now.
        after: how it would be.
        why: it matters for a failover.
        note: what to know beside that; empty where nothing.
        change: the same for whoever does it.
    """

    what: str
    before: str
    after: str
    why: str
    change: Change
    note: str = ""


@dataclass(frozen=True, slots=True)
class Left:
    """One thing that differs and that is not changed.

    Attributes:
        check: whose row of `doctor` it stays in.
        what: differs, in words for a person.
        why: it is left.
        cost: what it would cost in a failover; empty where the check says it.
        cure: what a person would do.
    """

    check: str
    what: str
    why: str
    cost: str
    cure: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What fixes are made from, beside what the checks look at.

    Attributes:
        ours: topics of the source, by name.
        theirs: their copies, by name.
        names: of all topics of the target.
    """

    ours: Shapes
    theirs: Shapes
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Fixes:
    """All of it, in the order in which it is done: what can be taken back comes first.

    Attributes:
        left: differences of the link that a person has to take care of.
        beyond: what is not the link's alone, or what nobody compared.
    """

    rules: tuple[Fix[Acl], ...] = ()
    settings: tuple[Fix[SettingChange], ...] = ()
    partitions: tuple[Fix[Extension], ...] = ()
    topics: tuple[Fix[WantedTopic], ...] = ()
    left: tuple[Left, ...] = ()
    beyond: tuple[Left, ...] = ()

    @property
    def changes(self) -> tuple[Fix[object], ...]:
        """Everything that would be changed."""
        return (*self.rules, *self.settings, *self.partitions, *self.topics)

    def __add__(self, other: "Fixes") -> "Fixes":
        return Fixes(
            self.rules + other.rules,
            self.settings + other.settings,
            self.partitions + other.partitions,
            self.topics + other.topics,
            self.left + other.left,
            self.beyond + other.beyond,
        )
