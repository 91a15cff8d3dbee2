"""Checks whether all source records have arrived on the target, by content.

While replication catches up, only end offsets are read. Records are compared when they seem to have
arrived, and not compared again while the end offsets stay the same.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from drctl.config.link import Link
from drctl.gap.freeze import choose_topics
from drctl.model.gap import GapResult, TopicGap
from drctl.model.ports import OffsetReader
from drctl.model.text import plural
from drctl.model.topology import Found, Mark, Overview, TopicPartition, TopicState, Unavailable

Compare = Callable[[Collection[TopicPartition]], GapResult]
"""Compares the tails of these source partitions; all records if the start of the tail is unknown.

Raises:
    Unreachable: a cluster did not answer.
"""


AFTER_OPEN = "an open transaction: commit or abort it on the source"


def open_offsets(offsets: int) -> str:
    """Say that these offsets cannot be compared, and what to do."""
    return f"{plural(offsets, 'offset follows', 'offsets follow')} {AFTER_OPEN}"


UNCHANGED_LOOKS = 6
"""A partition unchanged for this many checks is compared even while others change."""


class Ends(NamedTuple):
    """End offsets of a partition and its copy; -1 for the copy if it does not exist.

    If replication does not preserve partitions, the copy's end is the sum over all partitions.

    Attributes:
        epochs: leader epochs of both, or their sums: they change if a log may have been truncated
            and written to again.
    """

    source: int
    target: int
    epochs: tuple[int, int] = (-1, -1)


class Compared(NamedTuple):
    """The result of a comparison: missing records at these end offsets."""

    ends: Ends
    missing: int


@dataclass(frozen=True, slots=True)
class ArrivalStatus:
    """The outcome of a check.

    Attributes:
        missing: missing records by source partition; only partitions with missing records.
        pending: partitions still to be compared: records are in flight.
        left_out: what could not be compared, and why.
    """

    missing: Mapping[TopicPartition, int] = field(default_factory=dict)
    pending: tuple[TopicPartition, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def proven(self) -> bool:
        """Whether all records are on the target."""
        return not (self.missing or self.pending or self.left_out)


@dataclass(slots=True)
class ArrivalCheck:
    """Checks repeatedly, and remembers what was compared."""

    link: Link
    source: OffsetReader
    target: OffsetReader
    compare: Compare
    _compared: dict[TopicPartition, Compared] = field(default_factory=dict, init=False)
    _before: Mapping[TopicPartition, Ends] = field(default_factory=dict, init=False)
    _newest: Mapping[TopicPartition, int | None] = field(default_factory=dict, init=False)
    _looks: Mapping[TopicPartition, int] = field(default_factory=dict, init=False)
    _ids: Mapping[str, tuple[str, str]] = field(default_factory=dict, init=False)

    def look(self) -> ArrivalStatus:
        """Check what has arrived by now.

        Raises:
            UsageError: the link matches no topics on the source.
            Unreachable: a cluster did not answer.
            Unknown: a comparison could not be completed.
        """
        places, left_out = self._places(self.source.overview())
        self._forget_recreated()
        ends, silent = self._ends(places)
        left_out += silent
        open_ = self._not_yet_known(ends)
        for place in open_:
            self._compared.pop(place, None)
        due, self._before = self._there(open_, ends), ends
        if due:
            left_out += self._note(self.compare(due))
        known = self._compared
        return ArrivalStatus(
            {p: known[p].missing for p in ends if p in known and known[p].missing},
            tuple(p for p in ends if p not in known and _written(ends[p])),
            tuple(left_out),
        )

    def look_ahead(self) -> None:
        """Compare what receives no records now, so that later checks need not compare it.

        Sound because the result is used only for topics with the same ids, and while end offsets
        and leader epochs are the same: then no record was appended or truncated since.

        Raises:
            UsageError, Unreachable, Unknown: as for `look`.
        """
        places, _ = self._places(self.source.overview())
        self._ids = self._topic_ids({place.topic for place in places})
        before, (ends, _) = self._ends(places)[0], self._ends(places)
        growing = {place for place, at in ends.items() if before.get(place) != at}
        if not self.link.settings.keeps_partitions:
            topics = {place.topic for place in growing}
            growing = {place for place in ends if place.topic in topics}
        due = [place for place in self._not_yet_known(ends) if place not in growing]
        self._before = ends
        if due:
            self._note(self.compare(due))

    def _forget_recreated(self) -> None:
        """Forget what `look_ahead` compared of topics that have been recreated since."""
        if not self._ids:
            return
        now = self._topic_ids(self._ids)
        same = {topic for topic, ids in self._ids.items() if now[topic] == ids and all(ids)}
        self._compared = {p: found for p, found in self._compared.items() if p.topic in same}
        self._ids = {}

    def _topic_ids(self, topics: Collection[str]) -> dict[str, tuple[str, str]]:
        """The ids of each topic on both clusters; empty if unknown."""
        names = {topic: self.link.target_topic(topic) for topic in sorted(topics)}
        here, there = self.source.topics(tuple(names)), self.target.topics(tuple(names.values()))
        return {topic: (_id(here[topic]), _id(there[name])) for topic, name in names.items()}

    def _places(self, overview: Overview) -> tuple[list[TopicPartition], list[str]]:
        there = overview.partitions
        names = choose_topics(self.link, there.keys(), ())
        unseen = [f"{n}: does not exist on {self.source.name}, or is not visible" for n in names]
        places = [TopicPartition(n, number) for n in names for number in there.get(n, ())]
        return places, [words for n, words in zip(names, unseen, strict=True) if n not in there]

    def _ends(
        self, places: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, Ends], list[str]]:
        """Read the end offsets; also return why some could not be read.

        The source is read first, so that records copied in between are on the target.
        """
        ours, theirs = self._asked(self.source, places), self._copies_of(places)
        found: dict[TopicPartition, Ends] = {}
        silent = []
        for place, (here, there) in zip(places, zip(ours, theirs, strict=True), strict=True):
            if isinstance(here, Unavailable):
                silent.append(f"{place}: {self.source.name}: {here.reason}")
            elif isinstance(there, Unavailable):
                silent.append(f"{place}: {self.target.name}: {there.reason}")
            else:
                epochs = here.leader_epoch, there.leader_epoch
                found[place] = Ends(here.offset, there.offset, epochs)
        return found, silent

    def _copies_of(self, places: Sequence[TopicPartition]) -> list[Found | Unavailable]:
        """Return the end offset of each copy."""
        there, link = self.target.overview().partitions, self.link
        names = {topic: link.target_topic(topic) for topic in {place.topic for place in places}}
        copies = [
            TopicPartition(name, number)
            for name in names.values()
            for number in there.get(name, ())
        ]
        ends = dict(zip(copies, self._asked(self.target, copies), strict=True))
        if link.settings.keeps_partitions:
            return [ends.get(TopicPartition(names[p.topic], p.partition), _ABSENT) for p in places]
        of_topic: dict[str, list[Found | Unavailable]] = {name: [] for name in names.values()}
        for copy, end in ends.items():
            of_topic[copy.topic].append(end)
        sums = {topic: _sum(of_topic[name]) for topic, name in names.items()}
        return [sums[place.topic] for place in places]

    def _not_yet_known(self, ends: Mapping[TopicPartition, Ends]) -> list[TopicPartition]:
        """Return partitions that were not compared at these end offsets."""
        known = self._compared
        asked = [p for p, at in ends.items() if _written(at)]
        found = [p for p in asked if p not in known or known[p].ends != ends[p]]
        if self.link.settings.keeps_partitions:
            return found
        topics = {place.topic for place in found}
        return [place for place in ends if place.topic in topics]

    def _there(
        self, places: Sequence[TopicPartition], ends: Mapping[TopicPartition, Ends]
    ) -> frozenset[TopicPartition]:
        """Return partitions that seem to have arrived, or to receive no more records.

        Only a comparison can prove it; this avoids comparing while records are still arriving.
        """
        settled, link = self._settled(places, ends), self.link
        if not link.settings.keeps_partitions:
            waited_for = {place.topic for place in places if place not in settled}
            return frozenset(place for place in settled if place.topic not in waited_for)
        others = [p for p in places if p not in settled and ends[p].target > 0]
        if link.settings.replicator.kind == "offset-preserving":
            return settled.union(p for p in others if ends[p].target >= ends[p].source)
        return settled.union(self._as_new(others))

    def _settled(
        self, places: Sequence[TopicPartition], ends: Mapping[TopicPartition, Ends]
    ) -> frozenset[TopicPartition]:
        """Return unchanged partitions, if nothing changes at all or they are stable for a while."""
        before = self._before
        still = [place for place in places if before.get(place) == ends[place]]
        self._looks = {place: self._looks.get(place, 0) + 1 for place in still}
        calm = all(before.get(place, at).target == at.target for place, at in ends.items())
        return frozenset(place for place in still if calm or self._looks[place] >= UNCHANGED_LOOKS)

    def _as_new(self, places: Sequence[TopicPartition]) -> Iterator[TopicPartition]:
        """Yield partitions whose copy has a record as new as the newest one in the last check."""
        copies = [TopicPartition(self.link.target_topic(p.topic), p.partition) for p in places]
        ours, theirs = _newest(self.source, places), _newest(self.target, copies)
        before = self._newest
        self._newest = dict(zip(places, ours, strict=True))
        for place, there in zip(places, theirs, strict=True):
            here = before.get(place, self._newest[place])
            # If a timestamp is unknown, compare.
            if here is None or there is None or there >= here:
                yield place

    def _asked(
        self, reader: OffsetReader, places: Sequence[TopicPartition]
    ) -> Sequence[Found | Unavailable]:
        return reader.look_up([(place, Mark.END) for place in places])()

    def _note(self, result: GapResult) -> list[str]:
        """Remember what was compared; the rest is compared again in the next check."""
        left_out = {(each.topic, each.partition): each.reason for each in result.not_compared}
        unknown = Ends(-1, -1)
        for topic in result.topics:
            copies = self._ends_of_copies(topic)
            for gap in topic.partitions:
                place = TopicPartition(topic.topic, gap.partition)
                if gap.counts.undecided:
                    # It may still be committed, even with the source fenced.
                    left_out[place] = open_offsets(gap.counts.undecided)
                if (place.topic, None) not in left_out and place not in left_out:
                    # The epochs were read before the records.
                    epochs = self._before.get(place, unknown).epochs
                    ends = Ends(gap.source_range.end, copies[gap.partition], epochs)
                    self._compared[place] = Compared(ends, gap.counts.unreplicated)
        return [
            f"{topic if number is None else TopicPartition(topic, number)}: {why}"
            for (topic, number), why in left_out.items()
        ]

    def _ends_of_copies(self, topic: TopicGap) -> dict[int, int]:
        ends = {g.partition: g.target_range.end if g.target_range else -1 for g in topic.partitions}
        if self.link.settings.keeps_partitions:
            return ends
        there = [end for end in ends.values() if end >= 0]
        return dict.fromkeys(ends, sum(there) if there else -1)


def _written(ends: Ends) -> bool:
    """Return whether the partition ever had a record."""
    return ends.source > 0


def _id(state: TopicState | Unavailable | None) -> str:
    return state.topic_id if isinstance(state, TopicState) else ""


def _newest(reader: OffsetReader, places: Sequence[TopicPartition]) -> list[int | None]:
    """Return the newest timestamp of each partition; None if unknown."""
    answers = reader.look_up([(place, Mark.NEWEST) for place in places])() if places else ()
    return [each.timestamp_ms if isinstance(each, Found) else None for each in answers]


_ABSENT = Found(-1, -1)


def _sum(ends: Sequence[Found | Unavailable]) -> Found | Unavailable:
    """Return the sums of offsets and epochs; -1 if there are none."""
    silent = next((each for each in ends if isinstance(each, Unavailable)), None)
    found = [each for each in ends if isinstance(each, Found)]
    if silent or not found:
        return silent or _ABSENT
    return Found(sum(e.offset for e in found), -1, sum(e.leader_epoch for e in found))
