"""Estimates the data loss of an unplanned failover, from evidence about a lost source.

Pure: evidence in, a range out. It is not proof: drctl gap gives the exact number when the source is
back. Offsets are counted as records, including control records of transactions.

For each partition: until when are its copies complete, and how fast was it written to before? The
likely loss is that write rate until the source was last known to be alive, so it does not grow
while the source is down. The upper bound is the highest recent write rate until now.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, sqrt
from statistics import median
from typing import NamedTuple

from drctl.model.loss import Figure, Loss, LossRange
from drctl.model.text import plural
from drctl.model.topology import TopicPartition


class EndSeen(NamedTuple):
    """An observed end offset of a source partition, and when it was observed."""

    offset: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Ends:
    """Observed end offsets of source partitions.

    Attributes:
        evidence: where they come from.
        exact: whether they were the end offsets at that time; else lower bounds.
    """

    evidence: str
    exact: bool
    seen: Mapping[TopicPartition, EndSeen]


@dataclass(frozen=True, slots=True)
class Copied:
    """Source offsets up to which partitions are replicated, at least."""

    evidence: str
    copied_to: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Sign:
    """Evidence that the source was alive at a time.

    Attributes:
        copying: whether something written to the source at that time was also copied: caught-up
            partitions are then complete until that time.
        by_record: whether it is only the timestamp of a record, which producers can set.
    """

    evidence: str
    at_ms: int
    copying: bool = False
    by_record: bool = False


@dataclass(frozen=True, slots=True)
class WriteHistory:
    """How fast a partition was written to, according to its copied records.

    Attributes:
        newest_ms: when the newest copied record was written to the source.
        since: times, the newest first, with the number of copied records written since.
        begins_ms: when the first record was written, if it is after the oldest of these times;
            else None.
        lag_ms: minimum replication lag when it was last recorded; None if never.
        noted_ms: when the lag was last recorded.
        own: whether this is from record timestamps; else from offset syncs or the like.
    """

    newest_ms: int
    since: tuple[tuple[int, int], ...]
    begins_ms: int | None = None
    lag_ms: int | None = None
    noted_ms: int = 0
    own: bool = True


class Pause(NamedTuple):
    """When the replicator itself was not running, for example suspended with its host."""

    begin_ms: int
    end_ms: int

    def before(self, noted_ms: int) -> int:
        """Return when a record was fetched at the latest, if its copy was noted at this time.

        A replicator that resumes first writes what it had fetched before the pause, even if the
        source is down by then.
        """
        return self.begin_ms if self.begin_ms < noted_ms <= self.end_ms + _FLUSH_MS else noted_ms


def pause_around(
    heartbeats_ms: Iterable[int], copied_ms: int, until_ms: int | None
) -> Pause | None:
    """Find the last pause of the replicator in which its newest copy may have been held up.

    A source that dies does not stop these heartbeats: the replicator writes them to the target.

    Args:
        heartbeats_ms: when the replicator wrote heartbeats to the target.
        copied_ms: when the replicator noted its newest copy.
        until_ms: until when heartbeats should have continued; None if the replicator was stopped.
    """
    times = sorted(heartbeats_ms)
    intervals = [after - before for before, after in pairwise(times)]
    usual = median(intervals) if intervals else 0
    least = max(_LEAST_PAUSE_MS, _LEAST_HEARTBEATS * usual)
    if times and until_ms is not None:
        times.append(max(until_ms, times[-1]))
    pauses = [Pause(*each) for each in pairwise(times) if each[1] - each[0] >= least]
    near = [
        pause
        for pause in pauses
        if pause.begin_ms - _FLUSH_MS <= copied_ms <= pause.end_ms + _FLUSH_MS
    ]
    return near[-1] if near else None


@dataclass(slots=True)
class LossEvidence:
    """All evidence about a lost source.

    Attributes:
        places: source partitions of the link.
        write_history: for partitions with copies, if it is known when these were written.
        empty: partitions without any copies.
        halted: why replication may have stopped before the source; empty if it did not.
        failed: whether only a part of replication stopped: other partitions were copied longer.
        silent: evidence that could not be read, with the reason.
        pause: when the replicator itself was not running, around its newest copy.
        pause_unseen: whether a pause would not be seen, because the target has no heartbeats.
    """

    source: str = ""
    places: Sequence[TopicPartition] = ()
    ends: list[Ends] = field(default_factory=list)
    copied: list[Copied] = field(default_factory=list)
    signs: list[Sign] = field(default_factory=list)
    write_history: dict[TopicPartition, WriteHistory] = field(default_factory=dict)
    empty: set[TopicPartition] = field(default_factory=set)
    halted: str = ""
    failed: bool = False
    silent: list[str] = field(default_factory=list)
    pause: Pause | None = None
    pause_unseen: bool = False


EDGES_S = (
    0.5,
    *range(1, 10),
    *range(10, 30, 2),
    *range(30, 60, 5),
    *range(60, 120, 10),
    *range(120, 601, 30),
)
"""Intervals before the newest copy over which write rates are computed."""

KEEPING_UP_MS = 3_000
"""Replication with at most this lag counts as caught up."""

_PAUSE_MS = 10_000
_LEAST_PAUSE_MS, _LEAST_HEARTBEATS = 3_000, 4
"""Heartbeats that are missing for this long, and this many times their interval, are a pause."""
_FLUSH_MS = 5_000
"""How long a replicator that resumes may take to write what it had fetched before."""

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_SAME_MS = 2_000
"""Observations this close to each other count as simultaneous, because clocks differ."""
_SHORTEST_S, _LONGEST_S = 10.0, EDGES_S[-1]
_BURST_S = 60.0
_WAVE = 3.0
_ENOUGH = 10
"""Minimum number of records to compute a write rate from, if there are more."""


class _Known(NamedTuple):
    """The newest known end offset of a partition."""

    end: EndSeen
    exact: bool
    evidence: str


@dataclass(frozen=True, slots=True)
class _Part:
    """The estimated loss of a partition.

    Attributes:
        missing: records observed on the source that were not copied; None if unknown.
        likely: including records written until the source was last known to be alive.
        most: including records written until now at the highest rate.
        since_ms: until when its copies are complete; None if it was idle.
        firm_ms: like `since_ms`, without assuming unusually long idle times.
    """

    missing: int | None
    likely: float | None = 0.0
    most: float | None = 0.0
    pace: float = 0.0
    peak: float = 0.0
    since_ms: int | None = None
    firm_ms: int | None = None


def estimate(evidence_found: LossEvidence, now_ms: int) -> Loss:
    """Estimate the loss from the evidence."""
    return _Estimate(evidence_found, now_ms).found()


class _Estimate:
    """One estimate."""

    def __init__(self, evidence_found: LossEvidence, now_ms: int) -> None:
        self._found = evidence_found
        self._now = now_ms
        self._known = _newest_ends(evidence_found)
        self._reached = _reached(evidence_found)
        self._copying = (
            min(now_ms, sign.at_ms) if (sign := _newest(_copying(evidence_found))) else None
        )
        self._alive = last_sign(evidence_found, now_ms)
        self._parts = {place: self._part(place) for place in evidence_found.places}

    def found(self) -> Loss:
        """Return the estimate."""
        least = self._least()
        most = self._most(least.records or 0)
        likely = self._likely(least.records or 0, most.records)
        records = LossRange(least, likely, most)
        return Loss(
            records,
            None
            if likely.records is None
            else self._seconds((part.since_ms for part in self._parts.values()), self._alive_ms),
            self._seconds((part.firm_ms for part in self._parts.values()), self._now),
            self._words(records),
            tuple(self._evidence()),
        )

    @property
    def _alive_ms(self) -> int:
        return self._now if self._alive is None else min(self._now, self._alive.at_ms)

    def _part(self, place: TopicPartition) -> _Part:
        known, copied_to = self._known.get(place), self._reached.get(place)
        missing = (
            None if known is None or copied_to is None else max(0, known.end.offset - copied_to)
        )
        write_history = self._found.write_history.get(place)
        if write_history is None:
            idle = place in self._found.empty
            if idle and not missing:
                return _Part(missing)
            return _Part(missing, None, None)
        newest = min(write_history.newest_ms, self._now)
        behind = missing and known is not None and known.end.at_ms < (self._copying or 0)
        since = newest if behind else self._complete_until(write_history, newest)
        firm = newest if _unusually_idle(write_history, newest, since) else since
        if firm == newest and self._others_continued(place, newest):
            since = newest
        pace = _pace(write_history, since, (self._alive_ms - since) / 1000)
        peak, wave = _highest(write_history, firm, (self._now - firm) / 1000)
        peak = max(pace, peak)
        likely = _written(pace, since, self._alive_ms)
        most = max(wave, _written(peak, firm, self._now))
        if missing and known is not None:
            seen_ms = min(known.end.at_ms, self._now)
            if seen_ms - since >= _SAME_MS:
                pace = max(pace, missing * 1000 / (seen_ms - since))
            peak = max(peak, pace)
            if known.exact:
                likely = missing + _written(pace, seen_ms, self._alive_ms)
                most = missing + max(wave, _written(peak, seen_ms, self._now))
            else:
                likely = max(missing, _written(pace, since, self._alive_ms))
                most = max(missing, wave, _written(peak, firm, self._now))
        active = bool(missing or peak)
        return _Part(
            missing, likely, most, pace, peak, since if active else None, firm if active else None
        )

    def _complete_until(self, write_history: WriteHistory, newest: int) -> int:
        """Return until when copies are complete: caught-up idle partitions have nothing to copy."""
        if self._copying is None or self._found.failed:
            return newest
        # A lagging partition is copied continuously; else it has caught up.
        still = self._copying - write_history.noted_ms <= _PAUSE_MS
        lag = write_history.lag_ms or 0 if still else 0
        lag = 0 if lag < _SAME_MS // 2 else lag
        return max(newest, self._copying - lag)

    def _others_continued(self, place: TopicPartition, newest: int) -> bool:
        """Return whether other partitions of the same topic were still copied later.

        If producers stop writing to a topic, all of its partitions become idle.
        """
        return any(
            other.topic == place.topic and write_history.newest_ms - newest >= _SAME_MS // 2
            for other, write_history in self._found.write_history.items()
        )

    def _least(self) -> Figure:
        reported = {place: part.missing for place, part in self._parts.items() if part.missing}
        looked = [part for part in self._parts.values() if part.missing is not None]
        source = self._found.source
        if not looked:
            return Figure(None, f"no evidence of end offsets on {source} and of replicated offsets")
        beside = self._of_all(len(looked), "end offset and replicated offset are known")
        if not reported:
            return Figure(0, f"no record observed on {source} is missing on the target{beside}")
        which = {self._known[place].evidence for place in reported}
        seen = f"observed on {source} and not replicated: {'; '.join(sorted(which))}"
        return Figure(sum(reported.values()), seen + beside)

    def _likely(self, least: int, most: int | None) -> Figure:
        known = [part for part in self._parts.values() if part.likely is not None]
        source = self._found.source
        if self._alive is None:
            return Figure(None, f"it is unknown when {source} was last alive")
        if not known:
            return Figure(None, f"it is unknown how fast {source} was written to")
        halted = self._found.halted or self._paused()
        if halted and not self._outlived():
            return Figure(
                None,
                f"{halted}: replication may have stopped before {source} did, and there is no later"
                " evidence",
            )
        records = max(least, round(sum(part.likely or 0 for part in known)))
        records = records if most is None else min(records, most)
        pace = sum(part.pace for part in known)
        resort = " (record timestamp, set by the producer)" if self._alive.by_record else ""
        sign = f"{self._alive.evidence}, {_since(self._alive_ms, self._now)}{resort}"
        beside = self._of_all(len(known), "write rate known")
        unseen = ""
        if self._unsure():
            unseen = (
                "; this assumes that replication ran until then: MirrorMaker 2 writes no heartbeats"
                " to the target, so a pause would not be seen"
            )
        return Figure(
            records,
            f"{source} last known alive: {sign}; write rate before: {pace:,.1f}"
            f" records/s{beside}{unseen}",
        )

    def _paused(self) -> str:
        pause = self._found.pause
        if pause is None:
            return ""
        seconds = (pause.end_ms - pause.begin_ms) / 1000
        return (
            f"MirrorMaker 2 did not run for {_ago(seconds)}, from"
            f" {_since(pause.begin_ms, self._now)}"
        )

    def _unsure(self) -> bool:
        """Return whether the likely number relies on replication that nothing else confirms."""
        return self._found.pause_unseen and not self._outlived()

    def _most(self, least: int) -> Figure:
        unknown = sum(part.most is None for part in self._parts.values())
        if unknown or not self._parts:
            return Figure(
                None, f"write rate unknown for {unknown:,} of {len(self._parts):,} partitions"
            )
        total = sum(part.most or 0 for part in self._parts.values())
        firm = min((p.firm_ms for p in self._parts.values() if p.firm_ms is not None), default=None)
        silence = (self._now - (firm or self._copying or self._alive_ms)) / 1000
        # Three standard deviations of a steady writer, and writers that were idle in all intervals.
        chance = 3 * sqrt(total) + 3 * silence / _LONGEST_S
        peak = sum(part.peak for part in self._parts.values())
        return Figure(
            max(least, ceil(total + chance)),
            f"if {self._found.source} took writes until now at {peak:,.1f} records/s, the highest"
            f" rate in the {_ago(_LONGEST_S)} before the newest copy",
        )

    def _outlived(self) -> bool:
        """Return whether the source was known to be alive after the newest copy."""
        if self._alive is None:
            return False
        if self._copying is not None:
            seen = (self._known[p].end.at_ms for p, part in self._parts.items() if part.missing)
            seen_later = any(at_ms > self._copying for at_ms in seen)
            return seen_later or self._alive_ms > self._copying + _SAME_MS
        return not (self._alive.copying or self._alive.by_record)

    def _of_all(self, number: int, what: str) -> str:
        every = len(self._parts)
        return "" if number == every else f"; {what} for {number:,} of {every:,} partitions"

    def _seconds(self, since: Iterable[int | None], until: int) -> float | None:
        if self._alive is None:
            return None
        times = [each for each in since if each is not None]
        return max(0, until - min([*times, until])) / 1000

    def _words(self, records: LossRange) -> str:
        source = self._found.source
        if self._alive is None:
            alive = ""
        else:
            alive = f"; {source} was last known alive {_since(self._alive_ms, self._now)}"
            alive += " (timestamp of the newest copy)" if self._alive.by_record else ""
        kept = f"they stay on {source} and are lost only if its disks are lost"
        if not records.known:
            return f"unknown how many records are not replicated{alive}; {kept}"
        if records.likely.records is None:
            message = f"{records.message} may not have been replicated{alive}"
            return f"{message}, and {records.likely.based_on}; {kept}"
        verb = "is" if records.likely.records == 1 else "are"
        unsure = ", if replication ran until then" if self._unsure() else ""
        return f"{records.message} {verb} probably not replicated{alive}{unsure}; {kept}"

    def _evidence(self) -> Iterator[str]:
        evidence_found, now = self._found, self._now
        every = len(evidence_found.places)
        places = set(evidence_found.places)
        for sign in sorted(evidence_found.signs, key=lambda sign: -sign.at_ms):
            what = "replication worked" if sign.copying else f"{evidence_found.source} was alive"
            resort = " (record timestamp, set by the producer)" if sign.by_record else ""
            yield f"{what} {_since(sign.at_ms, now)}: {sign.evidence}{resort}"
        for ends in evidence_found.ends:
            if ends.seen:
                when = _since(max(seen.at_ms for seen in ends.seen.values()), now)
                least = "" if ends.exact else " (lower bounds)"
                where = (
                    f"end offsets of {len(places & ends.seen.keys()):,} of {every:,}"
                    f" partitions{least}"
                )
                yield f"{where}, {when}: {ends.evidence}"
        for copied in evidence_found.copied:
            so_far = (
                f"replicated offsets of {len(places & copied.copied_to.keys()):,} of"
                f" {every:,} partitions"
            )
            yield f"{so_far}: {copied.evidence}"
        if evidence_found.write_history:
            own = sum(each.own for each in evidence_found.write_history.values())
            others = len(evidence_found.write_history) - own
            reported = [f"{own:,} from record timestamps"] if own else []
            reported += [f"{others:,} from offset syncs"] if others else []
            number = len(evidence_found.write_history)
            yield f"write rates of {plural(number, 'partition')}: {', '.join(reported)}"
        late = [
            a.lag_ms
            for a in evidence_found.write_history.values()
            if (a.lag_ms or 0) > KEEPING_UP_MS
        ]
        if late:
            yield (
                f"{plural(len(late), 'partition')} lagged by more than"
                f" {KEEPING_UP_MS / 1000:g} s when the lag was last recorded"
            )
        yield from filter(None, (evidence_found.halted, self._paused()))
        yield from (f"not readable: {each}" for each in evidence_found.silent)


def last_sign(evidence_found: LossEvidence, now_ms: int) -> Sign | None:
    """Return the newest evidence that the source was alive.

    A record timestamp counts if it is newer, and not in the future: copies keep the time at which
    they were written to the source.
    """
    looks = [
        Sign(ends.evidence, max(seen.at_ms for seen in ends.seen.values()))
        for ends in evidence_found.ends
        if ends.seen
    ]
    signs = [*evidence_found.signs, *looks]
    believed = [s for s in signs if not (s.by_record and s.at_ms > now_ms)]
    newest = _newest(believed)
    surer = _newest([s for s in believed if not s.by_record])
    if newest is None or surer is None:
        return newest
    return surer if newest.at_ms - surer.at_ms <= _SAME_MS // 4 else newest


def _newest(signs: Sequence[Sign]) -> Sign | None:
    return max(signs, key=lambda sign: sign.at_ms, default=None)


def _copying(evidence_found: LossEvidence) -> list[Sign]:
    return [sign for sign in evidence_found.signs if sign.copying and not sign.by_record]


def _newest_ends(evidence_found: LossEvidence) -> dict[TopicPartition, _Known]:
    """Return the newest exact end offset of each partition, or a higher offset observed later.

    Older observations are ignored: the topic may have been recreated since.
    """
    found: dict[TopicPartition, _Known] = {}
    for ends in evidence_found.ends:
        for place, seen in ends.seen.items() if ends.exact else ():
            if place not in found or seen.at_ms >= found[place].end.at_ms:
                found[place] = _Known(seen, True, ends.evidence)
    for ends in evidence_found.ends:
        for place, seen in () if ends.exact else ends.seen.items():
            before = found.get(place)
            newer = before is None or seen.at_ms >= before.end.at_ms
            if newer and (before is None or seen.offset > before.end.offset):
                found[place] = _Known(seen, False, ends.evidence)
    wanted = set(evidence_found.places)
    return {place: known for place, known in found.items() if place in wanted}


def _reached(evidence_found: LossEvidence) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for copied in evidence_found.copied:
        for place, offset in copied.copied_to.items():
            found[place] = max(offset, found.get(place, offset))
    return found


def _course(write_history: WriteHistory, until_ms: int) -> list[tuple[float, int]]:
    """Return seconds before a time, ascending, and the number of copied records since then."""
    rows = [((until_ms - at) / 1000, count) for at, count in write_history.since if at < until_ms]
    if write_history.begins_ms is not None and rows:
        whole = max(1.0, (until_ms - write_history.begins_ms) / 1000), rows[-1][1]
        rows = [row for row in rows if row[0] < whole[0]] + [whole]
    return rows


def _pace(write_history: WriteHistory, until_ms: int, horizon_s: float) -> float:
    """Return the write rate over an interval that fits the horizon."""
    rows = _course(write_history, until_ms)
    if write_history.begins_ms is not None and len(rows) > 2:
        # An interval from the first record on counts it, too: one record, or burst, too many.
        rows = rows[:-1]
    wanted = min(max(3 * horizon_s, _SHORTEST_S), _LONGEST_S)
    chosen = [row for row in rows if row[0] >= wanted and row[1] >= _ENOUGH] or rows[-1:]
    return chosen[0][1] / chosen[0][0] if chosen else 0.0


def _highest(write_history: WriteHistory, until_ms: int, horizon_s: float) -> tuple[float, float]:
    """Return the highest write rate over any sufficient interval, and the largest burst.

    A burst is the number of records in an interval longer than the horizon with an unusually high
    rate: they may all have been written at once, and it may happen again.
    """
    rows = [(0.0, 0), *_course(write_history, until_ms)]
    shortest = min(max(horizon_s / 2, 1.0), _BURST_S, rows[-1][0])
    paces = [
        (count - less) / (far - near)
        for n, (near, less) in enumerate(rows)
        for far, count in rows[n + 1 :]
        if far - near >= shortest
    ]
    stretches = [
        (far - near, count - less)
        for (near, less), (far, count) in zip(rows, rows[2:] or rows[1:], strict=False)
        if far - near >= 1.0
    ]
    usual = median(count / length for length, count in stretches) if stretches else 0.0
    waves = [
        float(count)
        for length, count in stretches
        if length > horizon_s > 0 and count / length > _WAVE * usual
    ]
    return max(paces, default=0.0), max(waves, default=0.0)


def _unusually_idle(write_history: WriteHistory, newest: int, since: int) -> bool:
    """Return whether the partition was idle for longer than at any time in the minutes before.

    Then replication may have stopped, rather than its producers.
    """
    silence = (since - newest) / 1000
    if silence * 1000 < _SAME_MS:
        return True
    rows = _course(write_history, newest)
    steady = [b[1] > a[1] for a, b in pairwise(rows) if b[0] - a[0] <= silence]
    return bool(steady) and all(steady)


def _written(pace: float, since_ms: int, until_ms: int) -> float:
    return pace * max(0, until_ms - since_ms) / 1000


def _since(at_ms: int, now_ms: int) -> str:
    return f"{_ago((now_ms - at_ms) / 1000)} ago"


def _ago(seconds: float) -> str:
    """Return `4.5 s`, `3 min`, `5 h` or `2 d`."""
    for width, name in _UNITS:
        if seconds >= 2 * width:
            return f"{seconds / width:,.0f} {name}"
    return f"{max(0.0, seconds):.1f} s"
