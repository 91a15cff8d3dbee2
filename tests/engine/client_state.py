"""Producer ids and consumer groups of two clusters, in memory."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace

from drctl.model.errors import Unreachable
from drctl.model.groups import Group, GroupProtocol, GroupState
from drctl.model.producer_ids import Advanced, Producer, Producers
from drctl.model.topology import TopicPartition, Unavailable

SOURCE, TARGET = "primary", "secondary"
ENDS = {"source": SOURCE, "target": TARGET}
STEP = 1000
"""Producer ids that a broker can skip in one call."""

NEW, OLD = GroupProtocol.CONSUMER, GroupProtocol.CLASSIC


def empty(name: str, protocol: GroupProtocol) -> Group:
    return Group(name, protocol, GroupState.EMPTY)


@dataclass
class Arrivals:
    """The state that clients meet on both clusters; implements the ports that steps read and write.

    Attributes:
        remembered: highest producer id by source partition, or why it cannot be read.
        given: last producer id issued by each target broker, or why it cannot be read.
        groups_of: groups by cluster.
        silent: clusters that do not respond.
        fall: called with a name at every point where the process may end.
        applied: every change that was made.
        batches: number of partitions in each request.
    """

    remembered: dict[TopicPartition, int | Unavailable] = field(
        default_factory=lambda: {TopicPartition("orders", 0): 2500, TopicPartition("orders", 1): -1}
    )
    given: dict[int, int | Unavailable] = field(default_factory=lambda: {1: 40, 2: 1040})
    groups_of: dict[str, dict[str, Group | Unavailable]] = field(
        default_factory=lambda: {
            SOURCE: {"app": empty("app", NEW), "old": empty("old", OLD)},
            TARGET: {"app": empty("app", OLD), "old": empty("old", OLD)},
        }
    )
    silent: set[str] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)
    fall: Callable[[str], None] = lambda point: None
    applied: list[tuple[str, bool]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    @property
    def end(self) -> object:
        """Return the state that clients find."""
        highest = max((n for n in self.remembered.values() if isinstance(n, int)), default=-1)
        ids = [each for each in self.given.values() if isinstance(each, int)]
        return min(ids, default=0) > highest, dict(self.groups_of[TARGET])

    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(place.topic for place in self.remembered))

    def cluster_reader(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(overview=lambda: self._overview(name))

    def early_snapshot(self) -> None:
        """Return None: nothing is read in the background here."""

    def link_groups(self, name: str, *, incomplete: bool = False) -> tuple[str, ...]:
        self._look(name)
        return tuple(sorted(self.groups_of[name]))

    def groups(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(described=lambda names: self._described(name, names))

    def producer_ids(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(
            in_use=lambda places: self._in_use(name, places),
            next_ids=lambda: self._next_ids(name),
            advance=lambda beyond: self._advance(name, beyond),
        )

    def group_creator(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(create=lambda names: self._create(name, names))

    def _look(self, name: str) -> None:
        self.fall(f"look at {name}")
        if name in self.silent:
            raise Unreachable(f"cluster {name} did not answer within 3 s")

    def _overview(self, name: str) -> SimpleNamespace:
        self._look(name)
        partitions: dict[str, tuple[int, ...]] = {"another": (0,)}
        for topic, number in self.remembered:
            partitions[topic] = (*partitions.get(topic, ()), number)
        return SimpleNamespace(partitions=partitions)

    def _described(self, name: str, names: Collection[str]) -> dict[str, Group | Unavailable]:
        self._look(name)
        absent = Group("", GroupProtocol.UNKNOWN, GroupState.DEAD)
        return {each: self.groups_of[name].get(each, absent) for each in names}

    def _in_use(self, name: str, places: Collection[TopicPartition]) -> Producers:
        self._look(name)
        self.batches.append(len(places))
        found: dict[TopicPartition, tuple[Producer, ...] | Unavailable] = {}
        for place in places:
            highest = self.remembered[place]
            if isinstance(highest, Unavailable):
                found[place] = highest
            else:
                found[place] = tuple(Producer(n, 0) for n in (0, highest) if highest >= 0)
        return found

    def _next_ids(self, name: str) -> Mapping[int, int | Unavailable]:
        self._look(name)
        for broker, last in self.given.items():
            self.given[broker] = last if isinstance(last, Unavailable) else last + 1
        return dict(self.given)

    def _advance(self, name: str, beyond: int) -> Mapping[int, Advanced | Unavailable]:
        assert name == TARGET
        self.fall("before ids are skipped")
        found: dict[int, Advanced | Unavailable] = {}
        before = self.end
        for broker, last in self.given.items():
            if isinstance(last, Unavailable):
                found[broker] = last
            else:
                self.given[broker] = now = max(last + 1, min(last + STEP, beyond + 1))
                found[broker] = Advanced(last + 1, now, beyond)
        self._note("advance-producer-ids", before)
        self.fall("after ids are skipped")
        return found

    def _create(self, name: str, names: Collection[str]) -> Mapping[str, Unavailable | None]:
        assert name == TARGET
        self.fall("before groups are made")
        before = self.end
        found: dict[str, Unavailable | None] = {}
        for each in names:
            found[each] = Unavailable("its coordinator is away") if each in self.deaf else None
            if each not in self.deaf:
                self.groups_of[TARGET][each] = empty(each, NEW)
        self._note("prepare-groups", before)
        self.fall("after groups are made")
        return found

    def _note(self, step: str, before: object) -> None:
        if self.end != before:
            self.applied.append((step, True))
