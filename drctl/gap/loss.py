"""What an unplanned failover probably loses, from what is left of a source that is gone.

Pure: traces in, a range out. It is never proof: drctl gap makes it exact once the source is back.
Offsets are counted as records; control records of transactions are among them.

Of each partition it is asked until when its copies are complete, and how fast it was written to
before. The likely loss is what that pace makes until the source's last sign of life: it does not
grow while the source is silent. The upper end is what the highest recent pace makes until now.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, sqrt
from statistics import median
from typing import NamedTuple

from drctl.model.loss import Figure, Loss, LossRange
from drctl.model.topology import TopicPartition


class EndSeen(NamedTuple):
    """Up to where a partition of the source held records, and when somebody saw that."""

    offset: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Ends:
    """Ends of the source's partitions, as somebody saw them.

    Attributes:
        evidence: who, in words.
        exact: whether they are the ends of then; else records lay at least up to there.
    """

    evidence: str
    exact: bool
    seen: Mapping[TopicPartition, EndSeen]


@dataclass(frozen=True, slots=True)
class Copied:
    """Up to which offset of the source partitions are on the target, at least."""

    evidence: str
    copied_to: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Sign:
    """The source was alive then.

    Attributes:
        copying: whether it is of something that was written to the source then, and copied: what
            replication keeps up with is complete until then, too.
        by_record: whether it is only a record's own timestamp, which any producer may set.
    """

    evidence: str
    at_ms: int
    copying: bool = False
    by_record: bool = False


@dataclass(frozen=True, slots=True)
class WriteHistory:
    """How a partition was written to, by what was copied of it.

    Attributes:
        newest_ms: when the newest copied record was written to the source.
        since: moments, the newest first, and how many copied records were written since each.
        begins_ms: when the first record was written, where all of them are of after the oldest of
            these moments; else None.
        lag_ms: by how much the copies were behind the source when replication last noted it, at
            least; None where it never did.
        noted_ms: when that was.
        own: whether all this is by the records' own timestamps; else by replication's notes.
    """

    newest_ms: int
    since: tuple[tuple[int, int], ...]
    begins_ms: int | None = None
    lag_ms: int | None = None
    noted_ms: int = 0
    own: bool = True


@dataclass(slots=True)
class LossEvidence:
    """All that is left.

    Attributes:
        places: the source's partitions that the link carries.
        write_history: of those that have copies, where something tells when these were written.
        empty: partitions that have no copy at all.
        halted: why replication may have ended before the source did; empty where nothing says so.
        failed: whether that is so of a part of it: the other partitions were copied longer.
        silent: who might have told more and did not, with the reason.
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


EDGES_S = (
    0.5,
    *range(1, 10),
    *range(10, 30, 2),
    *range(30, 60, 5),
    *range(60, 120, 10),
    *range(120, 601, 30),
)
"""How long before the newest copy paces are looked at; nothing older tells of today's pace."""

KEEPING_UP_MS = 3_000
"""Copies that are no further behind than this are what replication is about."""

_PAUSE_MS = 10_000

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
_SAME_MS = 2_000
"""Signs of life this near to each other are of the same moment: clocks and ways differ so much."""
_SHORTEST_S, _LONGEST_S = 10.0, EDGES_S[-1]
_BURST_S = 60.0
_WAVE = 3.0
_ENOUGH = 10
"""Fewer records than this tell no pace, if there are more to look at."""


class _Known(NamedTuple):
    """The newest that is known of where a partition ended."""

    end: EndSeen
    exact: bool
    evidence: str


@dataclass(frozen=True, slots=True)
class _Part:
    """What a partition has to do with the loss.

    Attributes:
        missing: records that were seen on the source and are not copied; None where nothing tells.
        likely: with what was written until the last sign of life.
        most: with what was written until now at its highest pace.
        since_ms: until when its copies are complete; None where it was idle.
        firm_ms: the same, if no silence of it counts as idleness that it had not had before.
    """

    missing: int | None
    likely: float | None = 0.0
    most: float | None = 0.0
    pace: float = 0.0
    peak: float = 0.0
    since_ms: int | None = None
    firm_ms: int | None = None


def estimate(evidence_found: LossEvidence, now_ms: int) -> Loss:
    """The range that the traces allow."""
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
        """All of it."""
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
        firm = newest if _unlike_it(write_history, newest, since) else since
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
        """Replication that works and keeps up has nothing to copy of a partition that is idle."""
        if self._copying is None or self._found.failed:
            return newest
        # A partition that is behind is copied, and noted, without a pause; else it has caught up.
        still = self._copying - write_history.noted_ms <= _PAUSE_MS
        lag = write_history.lag_ms or 0 if still else 0
        lag = 0 if lag < _SAME_MS // 2 else lag
        return max(newest, self._copying - lag)

    def _others_continued(self, place: TopicPartition, newest: int) -> bool:
        """Whether other partitions of its topic were copied when it no longer was.

        A topic that is not written to any more falls silent as a whole.
        """
        return any(
            other.topic == place.topic and write_history.newest_ms - newest >= _SAME_MS // 2
            for other, write_history in self._found.write_history.items()
        )

    def _least(self) -> Figure:
        told = {place: part.missing for place, part in self._parts.items() if part.missing}
        looked = [part for part in self._parts.values() if part.missing is not None]
        source = self._found.source
        if not looked:
            return Figure(None, f"nobody saw where {source} ended, and how far it is copied")
        beside = self._of_all(len(looked), "both the end and the copies were seen")
        if not told:
            return Figure(0, f"{source} was seen nowhere to hold more than is copied{beside}")
        which = {self._known[place].evidence for place in told}
        seen = f"seen on {source} and not copied: {'; '.join(sorted(which))}"
        return Figure(sum(told.values()), seen + beside)

    def _likely(self, least: int, most: int | None) -> Figure:
        known = [part for part in self._parts.values() if part.likely is not None]
        source = self._found.source
        if not known or self._alive is None:
            return Figure(None, f"nothing tells when {source} was alive last, or how it was used")
        if self._found.halted and not self._outlived():
            return Figure(
                None,
                f"{self._found.halted}: replication may have ended before {source} did, and"
                " nothing was seen of it since",
            )
        records = max(least, round(sum(part.likely or 0 for part in known)))
        records = records if most is None else min(records, most)
        pace = sum(part.pace for part in known)
        resort = " (the last resort: any producer may set it)" if self._alive.by_record else ""
        sign = f"{self._alive.evidence}, {_since(self._alive_ms, self._now)}{resort}"
        beside = self._of_all(len(known), "there was a pace to tell")
        return Figure(
            records,
            f"until the last sign of life of {source}: {sign}; it was written to at {pace:,.1f}"
            f" records a second before{beside}",
        )

    def _most(self, least: int) -> Figure:
        unknown = sum(part.most is None for part in self._parts.values())
        if unknown or not self._parts:
            return Figure(
                None,
                f"of {unknown:,} of {len(self._parts):,} partitions nothing tells how fast they"
                " were written to",
            )
        total = sum(part.most or 0 for part in self._parts.values())
        firm = min((p.firm_ms for p in self._parts.values() if p.firm_ms is not None), default=None)
        silence = (self._now - (firm or self._copying or self._alive_ms)) / 1000
        # Three deviations of a steady writer, and whom nobody saw write in all the time looked at.
        chance = 3 * sqrt(total) + 3 * silence / _LONGEST_S
        peak = sum(part.peak for part in self._parts.values())
        return Figure(
            max(least, ceil(total + chance)),
            f"if {self._found.source} was written to until now at {peak:,.1f} records a second,"
            f" the highest pace of the last {_ago(_LONGEST_S)} that were copied",
        )

    def _outlived(self) -> bool:
        """Whether the source was seen alive after the last that was copied of it."""
        if self._alive is None:
            return False
        if self._copying is not None:
            seen = (self._known[p].end.at_ms for p, part in self._parts.items() if part.missing)
            behind_it = any(at_ms > self._copying for at_ms in seen)
            return behind_it or self._alive_ms > self._copying + _SAME_MS
        return not (self._alive.copying or self._alive.by_record)

    def _of_all(self, number: int, what: str) -> str:
        every = len(self._parts)
        return "" if number == every else f"; {what} of {number:,} of {every:,} partitions"

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
            alive = f"; {source} was alive {_since(self._alive_ms, self._now)}"
            alive += " by the newest copy's own timestamp" if self._alive.by_record else ""
        if not records.known:
            return f"nothing tells how many records are lost{alive}"
        if records.likely.records is None:
            return f"{records.words} may be lost{alive}, and {records.likely.based_on}"
        verb = "is" if records.likely.records == 1 else "are"
        return f"{records.words} {verb} probably lost{alive}"

    def _evidence(self) -> Iterator[str]:
        evidence_found, now = self._found, self._now
        every = len(evidence_found.places)
        for sign in sorted(evidence_found.signs, key=lambda sign: -sign.at_ms):
            what = "replication worked" if sign.copying else f"{evidence_found.source} was alive"
            resort = " (the last resort: any producer may set it)" if sign.by_record else ""
            yield f"{what} {_since(sign.at_ms, now)}: {sign.evidence}{resort}"
        for ends in evidence_found.ends:
            if ends.seen:
                when = _since(max(seen.at_ms for seen in ends.seen.values()), now)
                least = "" if ends.exact else " at least"
                where = f"where {len(ends.seen):,} of {every:,} partitions ended{least}"
                yield f"{where}, {when}: {ends.evidence}"
        for copied in evidence_found.copied:
            so_far = f"how far {len(copied.copied_to):,} of {every:,} partitions are copied"
            yield f"{so_far}: {copied.evidence}"
        if evidence_found.write_history:
            own = sum(each.own for each in evidence_found.write_history.values())
            others = len(evidence_found.write_history) - own
            told = [f"{own:,} by the copies' own timestamps"] if own else []
            told += [f"{others:,} by when replication noted them"] if others else []
            number = len(evidence_found.write_history)
            yield f"how {number:,} partitions were written to: {', '.join(told)}"
        late = [
            a.lag_ms
            for a in evidence_found.write_history.values()
            if (a.lag_ms or 0) > KEEPING_UP_MS
        ]
        if late:
            least = f"{len(late):,} partitions were more than {KEEPING_UP_MS / 1000:g} s behind"
            yield f"{least} the source when replication last noted it"
        if evidence_found.halted:
            yield evidence_found.halted
        yield from (f"not known: {each}" for each in evidence_found.silent)


def last_sign(evidence_found: LossEvidence, now_ms: int) -> Sign | None:
    """The source's newest sign of life; of what was copied or looked at.

    A record's own timestamp counts where it is newer, and not of the future: copies bear the time
    at which they were written to the source, and that was alive then.
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
    """Of each partition the newest true end, or an offset that was seen behind it since then.

    What is older does not count: the topic may have been made anew meanwhile.
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
    """Seconds before a moment, ascending, and how many records were copied of since then."""
    rows = [((until_ms - at) / 1000, count) for at, count in write_history.since if at < until_ms]
    if write_history.begins_ms is not None and rows:
        whole = max(1.0, (until_ms - write_history.begins_ms) / 1000), rows[-1][1]
        rows = [row for row in rows if row[0] < whole[0]] + [whole]
    return rows


def _pace(write_history: WriteHistory, until_ms: int, horizon_s: float) -> float:
    """What is said of a few seconds rests on the last ones; of minutes, on many of them."""
    rows = _course(write_history, until_ms)
    if write_history.begins_ms is not None and len(rows) > 2:
        # All of a log would be one record, or one wave, more than the time in it.
        rows = rows[:-1]
    wanted = min(max(3 * horizon_s, _SHORTEST_S), _LONGEST_S)
    chosen = [row for row in rows if row[0] >= wanted and row[1] >= _ENOUGH] or rows[-1:]
    return chosen[0][1] / chosen[0][0] if chosen else 0.0


def _highest(write_history: WriteHistory, until_ms: int, horizon_s: float) -> tuple[float, float]:
    """The highest pace over any stretch that is long enough to be of use, and the highest wave.

    A wave is what came within a stretch that is longer than is asked about, and far more than in
    others: all of it may have come at once, and may come again.
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


def _unlike_it(write_history: WriteHistory, newest: int, since: int) -> bool:
    """Whether it was silent for longer than it ever was in the minutes before.

    Then it may have ended to be copied, and not to be written to.
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
    """`4.5 s`, `3 min`, `5 h`, `2 d`."""
    for width, name in _UNITS:
        if seconds >= 2 * width:
            return f"{seconds / width:,.0f} {name}"
    return f"{max(0.0, seconds):.1f} s"
