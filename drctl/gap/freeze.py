"""The state of both sides at one moment: what will be compared, and what cannot be.

The source is frozen first: whatever is replicated in between is then on the target's side too.
"""

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Protocol, TypeGuard

from drctl.config.link import Link
from drctl.model.errors import UsageError
from drctl.model.gap import NotCompared
from drctl.model.ports import ClusterReader
from drctl.model.topology import (
    OffsetRange,
    PartitionOffsets,
    TopicPartition,
    TopicState,
    Unavailable,
)

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def choose_topics(link: Link, seen: Collection[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """The wanted topics, or all that the link carries; some of them may not exist.

    Args:
        seen: the source's topics, as far as the user may see them.

    Raises:
        UsageError: the link carries none of the source's topics, or not a wanted one.
    """
    carried = link.topics_of({*seen, *_unseen(link, seen)})
    for name in wanted:
        if name not in carried:
            close = get_close_matches(name, carried, 1)
            raise UsageError(
                f"link {link.name} carries no topic {name!r} of {link.source}",
                f"did you mean {close[0]!r}?" if close else "see `topics` of the link",
            )
    if not carried:
        raise UsageError(
            f"link {link.name} matches no topic of {link.source}",
            "check `topics` and `exclude` of the link, and what the user may describe",
        )
    return tuple(dict.fromkeys(wanted)) or carried


def _unseen(link: Link, seen: Collection[str]) -> set[str]:
    """Topics that the link names, not by a pattern, and the user may not even see."""
    return {
        pattern
        for pattern in link.settings.topics
        if _TOPIC_NAME.fullmatch(pattern) and not any(re.fullmatch(pattern, name) for name in seen)
    }


StableOffsets = Mapping[TopicPartition, PartitionOffsets | Unavailable]

_PAUSE_S = 0.5


class OffsetsReader(Protocol):
    """What of a `ClusterReader` is needed."""

    @property
    def name(self) -> str:
        """The cluster's, as in drctl.yaml."""
        ...

    def offsets(self, partitions: Collection[TopicPartition], /) -> StableOffsets:
        """The log of each partition, by its leader."""
        ...


@dataclass(frozen=True, slots=True)
class Patience:
    """How long open transactions are waited for.

    Attributes:
        seconds: for each cluster; 0: not at all.
        told: what is waited for, in words, again and again.
        now: a clock that only goes forward, in seconds.
    """

    seconds: float = 0
    told: Callable[[str], None] = lambda _words: None
    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = time.sleep

    def offsets(
        self, reader: OffsetsReader, partitions: Collection[TopicPartition]
    ) -> StableOffsets:
        """The logs as they are at first, where patience suffices with all of it decided.

        What is not decided in time, or was cut off by an election, is as it was.

        Raises:
            Unreachable: the cluster did not answer.
        """
        first = reader.offsets(partitions)
        found, until = dict(first), self.now() + self.seconds
        waiting = {p: at for p, at in first.items() if _open(at)}
        while waiting and self.now() < until:
            self.told(_words(reader.name, waiting, until - self.now()))
            self.pause(_PAUSE_S)
            for place, at in reader.offsets(list(waiting)).items():
                if isinstance(at, PartitionOffsets) and at.last_stable >= waiting[place].end:
                    known = waiting.pop(place)
                    found[place] = replace(known, last_stable=known.end)
        return found


NO_PATIENCE = Patience()
"""Waits for nothing."""


def decided(reader: OffsetsReader, before: StableOffsets) -> StableOffsets:
    """The same ends, and what became meanwhile of transactions that were open before them.

    Raises:
        Unreachable: the cluster did not answer.
    """
    waiting = {place: at for place, at in before.items() if _open(at)}
    if not waiting:
        return before
    later = reader.offsets(list(waiting))
    known = {
        place: replace(at, last_stable=min(at.end, again.last_stable))
        for place, at in waiting.items()
        if isinstance(again := later[place], PartitionOffsets) and again.end >= at.end
    }
    return {**before, **known}


def _open(at: PartitionOffsets | Unavailable) -> TypeGuard[PartitionOffsets]:
    return isinstance(at, PartitionOffsets) and at.last_stable < at.end


def _words(name: str, waiting: Collection[TopicPartition], left_s: float) -> str:
    more = f" and {len(waiting) - 1:,} others" if len(waiting) > 1 else ""
    return (
        f"a transaction is open in {min(waiting)}{more} of {name}: waiting until it ends,"
        f" {left_s:.0f} s at most"
    )


Offsets = Mapping[int, PartitionOffsets]


def at_once() -> None:
    """The target is frozen right behind the source."""


@dataclass(frozen=True, slots=True)
class FrozenTopic:
    """Both sides of one topic.

    Attributes:
        target_state: None where the target has no such topic.
        source: readable partitions only, and in a comparison by partition only those whose
            partition on the target could be looked at; `target` likewise.
    """

    topic: str
    target_topic: str
    state: TopicState
    target_state: TopicState | None
    source: Offsets
    target: Offsets

    def committed(self, offsets: Offsets) -> dict[int, OffsetRange]:
        """What read_committed gives: from the log start to the last stable offset."""
        return {p: OffsetRange(o.log_start, o.last_stable) for p, o in offsets.items()}


@dataclass(frozen=True, slots=True)
class Frozen:
    """All topics of a link."""

    topics: tuple[FrozenTopic, ...]
    not_compared: tuple[NotCompared, ...]


@dataclass(slots=True)
class _Freezer:
    """Collects what can be compared and what cannot."""

    _link: Link
    _source: ClusterReader
    _target: ClusterReader
    _settle: Callable[[], None]
    _patience: Patience
    _left_out: list[NotCompared] = field(default_factory=list)

    def freeze(self, names: Sequence[str]) -> Frozen:
        states = self._source_states(names)
        targets = self._target_states(states)
        states = {name: state for name, state in states.items() if name in targets}
        source = self._patience.offsets(self._source, _partitions(states.values()))
        self._settle()
        source = decided(self._source, source)
        present = [state for state in targets.values() if state is not None]
        target = self._patience.offsets(self._target, _partitions(present))
        topics = [
            self._topic(states[name], targets[name], source, target) for name in sorted(states)
        ]
        return Frozen(tuple(t for t in topics if t is not None), tuple(self._left_out))

    def _leave_out(self, topic: str, partition: int | None, reason: str) -> None:
        self._left_out.append(NotCompared(topic, partition, reason))

    def _source_states(self, names: Sequence[str]) -> dict[str, TopicState]:
        found: dict[str, TopicState] = {}
        for name, state in self._source.topics(names).items():
            if state is None:
                self._leave_out(name, None, f"does not exist on {self._source.name}")
            elif isinstance(state, Unavailable):
                self._leave_out(name, None, f"{self._source.name}: {state.reason}")
            elif not state.readable:
                self._leave_out(name, None, f"{self._source.name}: not authorized to read it")
            else:
                found[name] = state
        return found

    def _target_states(self, names: Iterable[str]) -> dict[str, TopicState | None]:
        on_target = {self._link.target_topic(name): name for name in names}
        found: dict[str, TopicState | None] = {}
        for target_name, state in self._target.topics(tuple(on_target)).items():
            name = on_target[target_name]
            if isinstance(state, Unavailable):
                self._leave_out(name, None, f"{self._target.name}: {state.reason}")
            elif state is not None and not state.readable:
                self._leave_out(name, None, f"{self._target.name}: not authorized to read it")
            else:
                found[name] = state
        return found

    def _topic(
        self,
        state: TopicState,
        target_state: TopicState | None,
        source: StableOffsets,
        target: StableOffsets,
    ) -> FrozenTopic | None:
        by_partition = self._link.settings.keeps_partitions
        theirs, dark_there = self._readable(state.name, target_state, target, self._target.name)
        ours, dark_here = self._readable(state.name, state, source, self._source.name)
        if (dark_there or dark_here) and not by_partition:
            self._leave_out(state.name, None, "compared as a whole, and part of it is unreadable")
            return None
        # Against a partition that cannot be read, all records of the other side would look alone.
        ours = {p: o for p, o in ours.items() if p not in dark_there}
        theirs = {p: o for p, o in theirs.items() if p not in dark_here}
        for partition, offsets in theirs.items():
            if waiting := offsets.end - offsets.last_stable:
                reason = (
                    f"{self._target.name}: an open transaction keeps {waiting} offsets"
                    f" from {offsets.last_stable} on from being read"
                )
                self._leave_out(state.name, partition, reason)
        return FrozenTopic(
            topic=state.name,
            target_topic=self._link.target_topic(state.name),
            state=state,
            target_state=target_state,
            source=ours,
            target=theirs,
        )

    def _readable(
        self,
        topic: str,
        state: TopicState | None,
        offsets: StableOffsets,
        cluster: str,
    ) -> tuple[dict[int, PartitionOffsets], frozenset[int]]:
        readable: dict[int, PartitionOffsets] = {}
        unreadable = set()
        for partition in sorted(state.partitions) if state else ():
            assert state is not None
            found = offsets[TopicPartition(state.name, partition)]
            if isinstance(found, Unavailable):
                unreadable.add(partition)
                self._leave_out(topic, partition, f"{cluster}: {found.reason}")
            else:
                readable[partition] = found
        return readable, frozenset(unreadable)


def freeze(
    link: Link,
    source: ClusterReader,
    target: ClusterReader,
    topics: Sequence[str],
    settle: Callable[[], None] = at_once,
    patience: Patience = NO_PATIENCE,
) -> Frozen:
    """Take the offsets of both sides of these source topics.

    Args:
        settle: waits for records that are on their way between the two.
        patience: for transactions that are open.

    Raises:
        Unreachable: one of the clusters did not answer at all.
    """
    return _Freezer(link, source, target, settle, patience).freeze(topics)


def _partitions(states: Iterable[TopicState]) -> list[TopicPartition]:
    return [TopicPartition(s.name, p) for s in states for p in sorted(s.partitions)]
