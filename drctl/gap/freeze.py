"""Reads the offsets of both clusters at one moment, and plans their comparison.

The source is read first, so that records replicated in between are on the target.
"""

import math
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from heapq import nsmallest
from typing import TypeGuard

from drctl.config.link import Link
from drctl.formats import migrator_headers, provenance, replicator_headers
from drctl.gap.comparison import ONE_CELL, ComparePlan, Identity, TopicPlan
from drctl.gap.reference import identify
from drctl.model.errors import UsageError
from drctl.model.gap import NotCompared, OrderScope
from drctl.model.ports import ClusterReader
from drctl.model.text import plural
from drctl.model.topology import (
    OffsetRange,
    PartitionOffsets,
    Record,
    TopicPartition,
    TopicState,
    Unavailable,
)

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def choose_topics(link: Link, seen: Collection[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the wanted topics, or all topics of the link; some may not exist.

    Args:
        seen: topics on the source that are visible to the user.

    Raises:
        UsageError: the link matches no topics on the source, or not all of the wanted topics.
    """
    carried = link.topics_of({*seen, *_unseen(link, seen)})
    for name in wanted:
        if name not in carried:
            close = get_close_matches(name, carried, 1)
            raise UsageError(
                f"topic {name!r} on {link.source} is not part of link {link.name}",
                f"did you mean {close[0]!r}?" if close else "check `topics` of the link",
            )
    if not carried:
        raise UsageError(
            f"link {link.name} matches no topics on {link.source}",
            "check `topics` and `exclude` of the link, and the DESCRIBE permissions of the user",
        )
    return tuple(dict.fromkeys(wanted)) or carried


def _unseen(link: Link, seen: Collection[str]) -> set[str]:
    """Return topics named in the link (not by a pattern) that are not visible."""
    return {
        pattern
        for pattern in link.settings.topics
        if _TOPIC_NAME.fullmatch(pattern) and not any(re.fullmatch(pattern, name) for name in seen)
    }


StableOffsets = Mapping[TopicPartition, PartitionOffsets | Unavailable]

_PAUSE_S, _HANGING_S = 0.5, 10.0

Hanging = Mapping[TopicPartition, str]
"""By partition with a hanging transaction: the command that aborts it."""


@dataclass(frozen=True, slots=True)
class TransactionWait:
    """How long to wait for open transactions.

    Attributes:
        seconds: per cluster; 0 to not wait.
        progress: called repeatedly with a description of what is waited for.
        now: monotonic clock, in seconds.
        find_hanging: finds transactions that nothing will ever end, by cluster name and partitions.
    """

    seconds: float = 0
    progress: Callable[[str], None] = lambda _words: None
    now: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] = time.sleep
    find_hanging: Callable[[str, Collection[TopicPartition]], Hanging] = lambda _name, _places: {}

    def offsets(
        self, reader: ClusterReader, partitions: Collection[TopicPartition]
    ) -> tuple[StableOffsets, Hanging]:
        """Read the offsets, and wait until transactions that were open have ended.

        If they do not end in time, or after an election, the offsets stay as they were first read.
        If nothing else is written to a log, its offsets include the transaction's end marker.
        Transactions that hang are not awaited: those found twice, because a coordinator that has
        just been elected may not know its transactions yet.

        Raises:
            Unreachable: the cluster did not answer.
        """
        first = reader.offsets(partitions)
        found, until = dict(first), self.now() + self.seconds
        waiting = {p: at for p, at in first.items() if _open(at)}
        idle: dict[TopicPartition, PartitionOffsets] = {}
        hanging: dict[TopicPartition, str] = {}
        seen: Hanging = {}
        look = self.now() + _HANGING_S
        while waiting and self.now() < until:
            self.progress(_words(reader.name, waiting, until - self.now()))
            self.pause(_PAUSE_S)
            if self.now() >= look:
                before, seen = seen, self.find_hanging(reader.name, list(waiting))
                look = self.now() + _HANGING_S
                hanging |= {p: command for p, command in seen.items() if before.get(p) == command}
                waiting = {p: at for p, at in waiting.items() if p not in hanging}
            for place, at in reader.offsets(list(waiting)).items():
                if isinstance(at, PartitionOffsets) and at.last_stable >= waiting[place].end:
                    known = waiting.pop(place)
                    found[place] = replace(known, last_stable=known.end)
                    if not _open(at):
                        idle[place] = at
        if idle:
            self.pause(_PAUSE_S)
            for place, at in reader.offsets(list(idle)).items():
                if at == idle[place]:
                    found[place] = at
        return found, hanging


NO_WAIT = TransactionWait()
"""Does not wait."""


def decided(reader: ClusterReader, before: StableOffsets) -> StableOffsets:
    """Update the last stable offsets for transactions that have ended since.

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
    more = f" and {plural(len(waiting) - 1, 'other')}" if len(waiting) > 1 else ""
    return (
        f"waiting for an open transaction in {min(waiting)}{more} on {name}, at most {left_s:.0f} s"
    )


Offsets = Mapping[int, PartitionOffsets]


def at_once() -> None:
    """Do not wait between reading source and target offsets."""


@dataclass(frozen=True, slots=True)
class FrozenTopic:
    """The frozen offsets of a topic.

    Attributes:
        target_state: None if the topic does not exist on the target.
        source: readable partitions only; in a comparison by partition, only those with a readable
            partition on the target. `target` likewise.
    """

    topic: str
    target_topic: str
    state: TopicState
    target_state: TopicState | None
    source: Offsets
    target: Offsets


@dataclass(frozen=True, slots=True)
class Frozen:
    """The frozen offsets of a link."""

    topics: tuple[FrozenTopic, ...]
    not_compared: tuple[NotCompared, ...]


@dataclass(slots=True)
class _Freezer:
    """Collects what can be compared and what cannot."""

    _link: Link
    _source: ClusterReader
    _target: ClusterReader
    _stabilize: Callable[[], None]
    _transaction_wait: TransactionWait
    _left_out: list[NotCompared] = field(default_factory=list)
    _hanging: dict[str, Hanging] = field(default_factory=dict)

    def freeze(self, names: Sequence[str]) -> Frozen:
        ours = self._states(self._source, {name: name for name in names})
        targets = self._states(self._target, {self._link.target_topic(n): n for n in ours})
        states = {n: state for n, state in ours.items() if state is not None and n in targets}
        source = self._offsets(self._source, states.values())
        self._stabilize()
        source = decided(self._source, source)
        present = [state for state in targets.values() if state is not None]
        target = self._offsets(self._target, present)
        topics = [
            self._topic(states[name], targets[name], source, target) for name in sorted(states)
        ]
        return Frozen(tuple(t for t in topics if t is not None), tuple(self._left_out))

    def _offsets(self, reader: ClusterReader, states: Iterable[TopicState]) -> StableOffsets:
        """Read the offsets of these topics once their open transactions have ended."""
        places = _partitions(states)
        found, self._hanging[reader.name] = self._transaction_wait.offsets(reader, places)
        return found

    def _leave_out(self, topic: str, partition: int | None, reason: str) -> None:
        self._left_out.append(NotCompared(topic, partition, reason))

    def _states(
        self, reader: ClusterReader, names: Mapping[str, str]
    ) -> dict[str, TopicState | None]:
        """Return topic states by source topic; None for topics that do not exist on the target.

        Args:
            names: source topic by name on this cluster.
        """
        found: dict[str, TopicState | None] = {}
        for own, state in reader.topics(tuple(names)).items():
            if state is None and reader is self._source:
                self._leave_out(names[own], None, f"does not exist on {reader.name}")
            elif isinstance(state, Unavailable):
                self._leave_out(names[own], None, f"{reader.name}: {state.reason}")
            elif state is not None and not state.readable:
                self._leave_out(names[own], None, f"{reader.name}: not authorized to read it")
            else:
                found[names[own]] = state
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
            reason = "all partitions are compared together, and some are not readable"
            self._leave_out(state.name, None, reason)
            return None
        # Compared with an unreadable partition, all records of the other cluster would be extra.
        ours = {p: o for p, o in ours.items() if p not in dark_there}
        theirs = {p: o for p, o in theirs.items() if p not in dark_here}
        target_topic = self._link.target_topic(state.name)
        for partition, offsets in theirs.items():
            if _open(offsets):
                place = TopicPartition(target_topic, partition)
                self._leave_out(state.name, partition, self._unread(self._target, place, offsets))
        for partition, offsets in ours.items():
            place = TopicPartition(state.name, partition)
            # Records after other open transactions are counted as undecided.
            if _open(offsets) and place in self._hanging[self._source.name]:
                self._leave_out(state.name, partition, self._unread(self._source, place, offsets))
        return FrozenTopic(state.name, target_topic, state, target_state, ours, theirs)

    def _unread(
        self, reader: ClusterReader, place: TopicPartition, offsets: PartitionOffsets
    ) -> str:
        """Why a partition with an open transaction is not read to its end."""
        command = self._hanging[reader.name].get(place)
        what = "hanging transaction" if command else "open transaction"
        remedy = f"; stop its producer, then abort it: {command}" if command else ""
        waiting = plural(offsets.end - offsets.last_stable, "offset")
        return (
            f"{reader.name}: {what}: {waiting} from {offsets.last_stable} on cannot be read{remedy}"
        )

    def _readable(
        self, topic: str, state: TopicState | None, offsets: StableOffsets, cluster: str
    ) -> tuple[dict[int, PartitionOffsets], frozenset[int]]:
        numbers = sorted(state.partitions) if state else ()
        found = {n: offsets[TopicPartition(state.name, n)] for n in numbers if state}
        unreadable = {n: each for n, each in found.items() if isinstance(each, Unavailable)}
        for number, each in unreadable.items():
            self._leave_out(topic, number, f"{cluster}: {each.reason}")
        readable = {n: each for n, each in found.items() if not isinstance(each, Unavailable)}
        return readable, frozenset(unreadable)


def freeze(
    link: Link,
    source: ClusterReader,
    target: ClusterReader,
    topics: Sequence[str],
    stabilize: Callable[[], None] = at_once,
    transaction_wait: TransactionWait = NO_WAIT,
) -> Frozen:
    """Read the offsets of these topics on both clusters.

    Args:
        stabilize: waits for records in flight after the source offsets are read.
        transaction_wait: waits for open transactions.

    Raises:
        Unreachable: a cluster did not answer.
    """
    return _Freezer(link, source, target, stabilize, transaction_wait).freeze(topics)


def _partitions(states: Iterable[TopicState]) -> list[TopicPartition]:
    return [TopicPartition(s.name, p) for s in states for p in sorted(s.partitions)]


REPLICATION_HEADERS = frozenset(
    {
        replicator_headers.HEADER,
        provenance.HEADER,
        migrator_headers.OFFSET_HEADER,
        migrator_headers.ORIGIN_HEADER,
        "mskreplicator-provenance",
    }
)
"""Headers that replicators add to records."""

DIGEST_ROWS = 2**15
"""Target number of digest buckets per cluster, over all partitions."""

OFFSETS_A_BUCKET = 1000
"""Fewer are not worth a bucket: reading them again takes hardly longer."""

PARTITIONS_LOOKED_AT = 500
"""Number of partitions (the longest of each topic) whose timestamps determine the bucket width."""

HEADER = "header:"


def identity_of(link: Link) -> Identity:
    """Return what makes two records equal on this link."""
    fields, origin = link.settings.identity, link.settings.origin_header
    marks = frozenset({origin, provenance.HEADER}) if origin else frozenset[str]()
    return Identity(
        key="key" in fields,
        value="value" in fields,
        headers="headers" in fields,
        timestamp="timestamp" in fields,
        header_names=tuple(f.removeprefix(HEADER) for f in fields if f.startswith(HEADER)),
        ignored_headers=REPLICATION_HEADERS | marks | set(link.settings.ignore_headers),
        origin_headers=marks,
    )


@dataclass(frozen=True, slots=True)
class Basis:
    """Digest parameters for digests that must be comparable with other runs.

    Attributes:
        widths: `bucket_ms` by topic; for other topics it is computed, at least `min_width`.
    """

    salt: int
    buckets: int
    cell_bits: int = ONE_CELL
    widths: Mapping[str, int] = field(default_factory=dict)
    min_width: int = 1


def bucket_count(frozen: Frozen) -> int:
    """Return the digest buckets per partition: fewer if there are many partitions."""
    partitions = sum(max(len(t.source), len(t.target)) for t in frozen.topics)
    return max(8, min(1024, DIGEST_ROWS // max(1, partitions)))


def plan_comparison(
    link: Link,
    frozen: Frozen,
    source: ClusterReader,
    basis: Basis | None = None,
    within: OrderScope = OrderScope.KEY,
) -> ComparePlan:
    """Decide how each topic is read and bucketed.

    Args:
        within: the scope in which copies must keep their order (policy.order).
    """
    identity = identity_of(link)
    # A new salt for each run (unless digests are stored), so that collisions cannot be prepared.
    basis = basis or Basis(secrets.randbits(62), bucket_count(frozen))
    timed = [t for t in frozen.topics if identity.timestamp and keeps_timestamps(t)]
    widths = _widths(timed, source, basis)
    topics = tuple(
        TopicPlan(
            topic=t.topic,
            target_topic=t.target_topic,
            by_partition=link.settings.keeps_partitions,
            timestamps=keeps_timestamps(t),
            bucket_ms=widths.get(t.topic, 0),
            compacted=t.target_state is not None and t.target_state.compacted,
            source=_committed(t.source),
            target=_committed(t.target),
            target_deleted={p: o.log_start for p, o in t.target.items()},
        )
        for t in frozen.topics
    )
    return ComparePlan(topics, identity, basis.buckets, basis.salt, basis.cell_bits, within)


LOOKED_AT = 16
"""Partitions in which the place of missing records is looked up."""

IN_A_ROW = 100
"""Consecutive records that show whether a log has offsets without records."""


def missing_throughout(plan: ComparePlan, source: ClusterReader, target: ClusterReader) -> bool:
    """Return whether records seem to be missing in many places, not only at the end.

    They seem to be if the target has fewer offsets than the source, every source offset holds a
    record, and the target's last record is not the source record at the same place. A wrong answer
    only costs time.

    Raises:
        Unreachable: a cluster did not answer.
    """
    fewer = nsmallest(
        LOOKED_AT,
        (
            (there.span - here.span, topic, partition)
            for topic in plan.topics
            for partition, here in topic.source.items()
            if (there := topic.target.get(partition, OffsetRange(0, 0))).span < here.span
        ),
        key=lambda each: each[0],
    )
    middle = {
        TopicPartition(t.topic, p): (t.source[p].start + t.source[p].end) // 2 for _, t, p in fewer
    }
    found = source.following(middle, IN_A_ROW) if middle else {}
    dense = [
        (topic, partition)
        for _, topic, partition in fewer
        if not isinstance(
            rows := found.get(TopicPartition(topic.topic, partition), ()), Unavailable
        )
        and rows
        and rows[-1].offset - rows[0].offset == len(rows) - 1
    ]
    return any(not _at_the_end(plan.identity, *each, source, target) for each in dense)


def _at_the_end(
    identity: Identity,
    topic: TopicPlan,
    partition: int,
    source: ClusterReader,
    target: ClusterReader,
) -> bool:
    """Return whether records can be missing only after the target's last record."""
    here, there = topic.source[partition], topic.target.get(partition)
    if not topic.by_partition or not there or not there.span:
        return False
    last = there.end - 1
    theirs = target.records([(TopicPartition(topic.target_topic, partition), last)])
    places = {here.start + there.span - 1, last}  # the same offset, if replication keeps offsets
    ours = source.records([(TopicPartition(topic.topic, partition), place) for place in places])
    names = [
        {identify(r, identity, topic.timestamps) for r in found.values() if isinstance(r, Record)}
        for found in (ours, theirs)
    ]
    return not names[0].isdisjoint(names[1])


def _committed(offsets: Offsets) -> dict[int, OffsetRange]:
    """Return what read_committed reads: from the log start to the last stable offset."""
    return {p: OffsetRange(o.log_start, o.last_stable) for p, o in offsets.items()}


def keeps_timestamps(topic: FrozenTopic) -> bool:
    """Return whether the target keeps the timestamps of the source."""
    return topic.target_state is None or not topic.target_state.log_append_time


def _widths(topics: Sequence[FrozenTopic], source: ClusterReader, basis: Basis) -> dict[str, int]:
    """Return the bucket width in milliseconds, for topics with comparable timestamps."""
    known = {t.topic: width for t in topics if (width := basis.widths.get(t.topic))}
    spans = _time_spans([t for t in topics if t.topic not in known], source)
    longest = {
        t.topic: max((o.last_stable - o.log_start for o in t.source.values()), default=0)
        for t in topics
    }
    buckets = {t: max(1, min(basis.buckets, longest[t] // OFFSETS_A_BUCKET)) for t in spans}
    # Powers of two, so that topics of similar age share a width; at least 1 ms.
    return known | {
        topic: max(basis.min_width, 1 << math.ceil(math.log2(max(1, span_ms / buckets[topic]))))
        for topic, span_ms in spans.items()
    }


def _time_spans(topics: list[FrozenTopic], source: ClusterReader) -> Mapping[str, int]:
    """Return the milliseconds between first and largest timestamp, by topic."""
    starts = {
        TopicPartition(t.topic, p): o.log_start
        for t in topics
        for p, o in nsmallest(
            max(1, min(8, PARTITIONS_LOOKED_AT // len(topics))),
            t.source.items(),
            key=lambda item: item[1].log_start - item[1].last_stable,
        )
        if o.last_stable > o.log_start
    }
    spans: dict[str, int] = {t.topic: 0 for t in topics}
    if not starts:
        return spans
    first = source.first_timestamps(starts)
    last = source.max_timestamps(tuple(starts))
    for partition in starts:
        oldest, newest = first.get(partition), last.get(partition)
        if isinstance(oldest, int) and isinstance(newest, int):
            spans[partition.topic] = max(spans[partition.topic], newest - oldest)
    return spans
