"""A cluster of consumer groups in memory: where they stand, who reads, and what breaks when."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from drctl.model.errors import Unreachable
from drctl.model.groups import (
    Committed,
    Group,
    GroupProtocol,
    GroupState,
    Member,
    Occupied,
    Positions,
)
from drctl.model.topology import Found, Mark, OffsetRange, TopicPartition, Unanswered, Unavailable

READER = Member("reader", "/127.0.0.1")

Answers = Mapping[str, Mapping[TopicPartition, Unavailable | None]]


def group(
    name: str,
    *,
    members: int = 0,
    protocol: GroupProtocol = GroupProtocol.CLASSIC,
    state: GroupState | None = None,
) -> Group:
    found = state or (GroupState.STABLE if members else GroupState.EMPTY)
    return Group(name, protocol, found, (READER,) * members)


class Crash(BaseException):
    """The process ends here; nothing of drctl may catch it."""


@dataclass
class Standing:
    """Implements GroupReader, GroupWriter and as much of OffsetReader as is asked.

    Attributes:
        silent: from which call on nobody answers; the calls are counted.
        at_effect: called before each position is written, with how many were before.
        lost: groups whose writes happen and are never answered.
        eaten: groups whose writes never happen and are never answered.
        looking: nothing may be written now.
    """

    logs: Mapping[TopicPartition, OffsetRange]
    groups_held: dict[str, Group | Unavailable] = field(default_factory=dict)
    positions: dict[str, dict[TopicPartition, Committed] | Unavailable] = field(
        default_factory=dict
    )
    silent: Callable[[str], bool] = lambda _call: False
    at_effect: Callable[[int], None] = lambda _count: None
    lost: frozenset[str] = frozenset()
    eaten: frozenset[str] = frozenset()
    effects: list[tuple[str, TopicPartition, Committed | None]] = field(default_factory=list)
    looking: bool = False

    def cluster_id(self) -> str:
        return "id"

    def groups(self) -> tuple[str, ...]:
        self._called("groups")
        return tuple(self.groups_held)

    def described(self, names: Collection[str]) -> Mapping[str, Group | Unavailable]:
        self._called("described")
        dead = {name: group(name, state=GroupState.DEAD) for name in names}
        return {name: self.groups_held.get(name, dead[name]) for name in names}

    def committed(self, names: Collection[str]) -> Mapping[str, Positions | Unavailable]:
        self._called("committed")
        return {name: self._copy(name) for name in names}

    def look_up(
        self, questions: Sequence[tuple[TopicPartition, int]]
    ) -> Callable[[], Sequence[Found | Unavailable]]:
        return lambda: [self._found(*question) for question in questions]

    def commit(self, wanted: Mapping[str, Positions]) -> Answers:
        return {name: self._write(name, dict(wanted[name])) for name in wanted}

    def delete(self, unwanted: Mapping[str, Collection[TopicPartition]]) -> Answers:
        return {name: self._write(name, dict.fromkeys(unwanted[name])) for name in unwanted}

    def stands(self) -> dict[tuple[str, TopicPartition], Committed]:
        """Every position."""
        return {
            (name, place): position
            for name, held in self.positions.items()
            if isinstance(held, dict)
            for place, position in held.items()
        }

    def copy(self) -> "Standing":
        """The same state, in good health."""
        held = {n: dict(p) if isinstance(p, dict) else p for n, p in self.positions.items()}
        return Standing(self.logs, dict(self.groups_held), held)

    def join(self, name: str) -> None:
        """Somebody begins to read in the group."""
        self.groups_held[name] = group(name, members=1)

    def _copy(self, name: str) -> Positions | Unavailable:
        held = self.positions.get(name, {})
        return dict(held) if isinstance(held, dict) else held

    def _called(self, call: str) -> None:
        if self.silent(call):
            raise Unreachable("cluster target did not answer within 10 s: gone")

    def _found(self, place: TopicPartition, mark: int) -> Found | Unavailable:
        log = self.logs.get(place)
        if log is None:
            return Unavailable(f"partition {place} does not exist")
        return Found(log.start if mark == Mark.START else log.end, -1)

    def _write(
        self, name: str, wanted: Mapping[TopicPartition, Committed | None]
    ) -> dict[TopicPartition, Unavailable | None]:
        assert not self.looking, "a look has written"
        known = self.groups_held.get(name)
        if isinstance(known, Group) and known.active:
            return dict.fromkeys(wanted, Occupied("somebody reads in the group"))
        if name not in self.eaten:
            for place, position in wanted.items():
                self._effect(name, place, position)
        if name in self.eaten | self.lost:
            return dict.fromkeys(wanted, Unanswered("no answer within the deadline"))
        return dict.fromkeys(wanted)

    def _effect(self, name: str, place: TopicPartition, position: Committed | None) -> None:
        self.at_effect(len(self.effects))
        held = self.positions.setdefault(name, {})
        assert isinstance(held, dict)
        if position is None:
            held.pop(place, None)
        else:
            held[place] = position
        self.effects.append((name, place, position))
        self.groups_held.setdefault(name, replace(group(name)))
