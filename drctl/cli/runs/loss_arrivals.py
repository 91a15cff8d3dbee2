"""How the source was written to before it was lost, by the copies that the target holds.

Copies bear the time at which their record was written to the source. Times are looked up, records
are not read: it costs what an estimate of `drctl gap` costs, and only of partitions that are busy.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drctl.gap.loss import EDGES_S, KEEPING_UP_MS
from drctl.gap.traces import Arrivals, EndSeen, Sign
from drctl.model.topology import Found, PartitionOffsets, TopicPartition, Unavailable

if TYPE_CHECKING:
    from drctl.cli.runs.loss_sight import LossSight
    from drctl.offsets.offset_syncs import Sync

_LAGS_MS = (
    *(0, 100, 200, 400, 700, 1_000, 1_500, 2_000, KEEPING_UP_MS, 5_000, 7_000, 10_000, 15_000),
    *(20_000, 30_000, 60_000, 300_000, 3_600_000, 86_400_000),
)
"""Lags that are told apart. Who gives records the time of an event of days ago tells no lag."""

_FEW = 200
_COARSER = 4
"""Of more partitions than this every fourth moment is looked up: answers come within a second."""

_AHEAD_MS = 1_000
"""A record that was copied so long before its own timestamp was not written then."""

Answers = Mapping[tuple[TopicPartition, int], Found]
"""What a look-up by time found, by partition of the source and time."""


@dataclass(slots=True)
class Copies:
    """Looks the copies up.

    Args:
        into: gets what is found.
        logs: of the partitions on the target, by partition of the source.
        syncs: of MirrorMaker 2, as far as there are any, by partition of the source.
    """

    into: "LossSight"
    logs: Mapping[TopicPartition, PartitionOffsets]
    syncs: Mapping[TopicPartition, Sequence["Sync"]]

    def gather(self, now_ms: int) -> None:
        """All of it."""
        held = {place: log for place, log in self.logs.items() if log.end > log.log_start}
        self.into.empty |= self.logs.keys() - held.keys()
        newest = {p: at for p, at in self._newest(held).items() if at <= now_ms}
        if newest:
            last = max(newest.values())
            worked = [s.at_ms for s in self.into.signs if s.copying and s.at_ms <= now_ms]
            every = 1 if len(newest) <= _FEW else _COARSER
            edges = edges_before(max([last, *worked]))[::-every][::-1]
            asked = {p: self._times(p, edges) for p, at in newest.items() if at >= edges[-1]}
            answers = self._look_up(asked)
            for place, at_ms in newest.items():
                found = by_own_times(held[place], at_ms, self._last(place), edges, answers, place)
                if found is not None:
                    self.into.arrivals[place] = found
        self._noted(held, now_ms)
        self._alive(newest)

    def _newest(self, held: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        copies = {self.into.copy_of(place): place for place in held}
        times = self.into.target.max_timestamps(tuple(copies)) if copies else {}
        return {
            copies[copy]: at
            for copy, at in times.items()
            if not isinstance(at, Unavailable) and at >= 0
        }

    def _last(self, place: TopicPartition) -> "Sync | None":
        """The last note of MirrorMaker 2 that holds for the log as it is."""
        syncs, log = self.syncs.get(place, ()), self.logs[place]
        kept = [sync for sync in syncs[-1:] if log.log_start <= sync.downstream < log.end]
        return kept[0] if kept else None

    def _times(self, place: TopicPartition, edges: Sequence[int]) -> list[int]:
        sync = self._last(place)
        return [*edges, *(lag_times(sync.at_ms) if sync is not None else ())]

    def _look_up(self, asked: Mapping[TopicPartition, Sequence[int]]) -> Answers:
        questions = [(place, max(0, at)) for place, times in asked.items() for at in times]
        if not questions:
            return {}
        copies = [(self.into.copy_of(place), at) for place, at in questions]
        answers = self.into.target.look_up(copies)()
        return {
            question: answer
            for question, answer in zip(questions, answers, strict=True)
            if isinstance(answer, Found)
        }

    def _noted(self, held: Iterable[TopicPartition], now_ms: int) -> None:
        """Where the copies' own timestamps tell nothing, replication's and others' notes may."""
        for place in held:
            if place in self.into.arrivals:
                continue
            points = [EndSeen(sync.upstream + 1, sync.at_ms) for sync in self.syncs.get(place, ())]
            looks = [e.seen[place] for e in self.into.ends if e.exact and place in e.seen]
            upto = max((c.upto[place] for c in self.into.copied if place in c.upto), default=0)
            found = by_notes(points or looks, upto, now_ms)
            if found is not None:
                self.into.arrivals[place] = found

    def _alive(self, newest: Mapping[TopicPartition, int]) -> None:
        """Until when the copies' own timestamps show the source alive.

        Believed where MirrorMaker 2 noted that it copied such a record at about that time.
        """
        noted = [kept[-1].at_ms for p, kept in self.syncs.items() if not self._is_own(p)]
        if noted:
            words = "the newest offset sync of MirrorMaker 2"
            self.into.signs.append(Sign(words, max(noted), copying=True))
        own = {p: newest[p] for p, each in self.into.arrivals.items() if each.own}
        if not own:
            return
        sure = [p for p in own if self._agrees(self.into.arrivals[p])]
        if sure:
            at_ms = max(own[p] for p in sure)
            words = "the newest copy's own timestamp, of a clock that agrees with replication's"
            self.into.signs.append(Sign(words, at_ms, copying=True))
        at_ms = max(own.values())
        if not sure or at_ms > max(own[p] for p in sure):
            sign = Sign("the newest copy's own timestamp", at_ms, copying=True, by_record=True)
            self.into.signs.append(sign)

    def _agrees(self, each: Arrivals) -> bool:
        return each.lag_ms is not None and each.lag_ms <= KEEPING_UP_MS

    def _is_own(self, place: TopicPartition) -> bool:
        return place in self.into.arrivals and self.into.arrivals[place].own


def edges_before(last_ms: int) -> list[int]:
    """Moments at which paces are looked at, the newest first."""
    return [last_ms - round(seconds * 1000) for seconds in EDGES_S]


def lag_times(at_ms: int) -> list[int]:
    """What to look up to tell by how much a record that was copied at a moment was behind."""
    return [at_ms + _AHEAD_MS, *(at_ms - lag for lag in _LAGS_MS)]


def by_own_times(
    log: PartitionOffsets,
    newest_ms: int,
    sync: "Sync | None",
    edges: Sequence[int],
    answers: Answers,
    place: TopicPartition,
) -> Arrivals | None:
    """By the copies' own timestamps; None where these are no times of writing."""
    if sync is not None and sync.at_ms - newest_ms > _LAGS_MS[-1]:
        return None
    if newest_ms < edges[-1]:
        return Arrivals(newest_ms, tuple((edge, 0) for edge in edges))
    lag = None
    noted = 0 if sync is None else sync.at_ms
    if sync is not None:
        lag = _lag(sync, place, answers)
        if lag is None:
            return None
    since = []
    for edge in edges:
        found = answers.get((place, max(0, edge)))
        if found is None:
            return None
        since.append((edge, log.end - found.offset if found.offset >= 0 else 0))
    oldest = answers[place, max(0, edges[-1])]
    whole = 0 <= oldest.offset <= log.log_start and oldest.timestamp_ms >= edges[-1]
    begins = oldest.timestamp_ms if whole else None
    return Arrivals(newest_ms, tuple(since), begins, lag, noted)


def _lag(sync: "Sync", place: TopicPartition, answers: Answers) -> int | None:
    """By how much the synced record was behind when it was copied, at least.

    None where its timestamp is of the future, or of days ago: its producer gave it another time.
    """
    ahead, *times = lag_times(sync.at_ms)

    def written_since(at_ms: int) -> bool:
        found = answers.get((place, max(0, at_ms)))
        return found is not None and 0 <= found.offset <= sync.downstream

    if written_since(ahead):
        return None
    lags = zip((0, *_LAGS_MS), times, strict=False)
    return next((lag for lag, at_ms in lags if written_since(at_ms)), None)


def by_notes(points: Sequence[EndSeen], upto: int, now_ms: int) -> Arrivals | None:
    """By when somebody noted that the source held records up to an offset.

    Args:
        upto: where the copies end.
    """
    noted = sorted((p for p in points if p.at_ms <= now_ms), key=lambda point: point.at_ms)
    if len(noted) < 2:
        return None
    first, last = noted[0], noted[-1]
    end = max(upto, last.offset)
    edges = edges_before(last.at_ms)
    since = []
    for edge in edges:
        before = [point.offset for point in noted if point.at_ms <= edge]
        since.append((edge, end - (before[-1] if before else first.offset)))
    whole = first.at_ms > edges[-1]
    return Arrivals(last.at_ms, tuple(since), first.at_ms if whole else None, own=False)
