"""Whether the source's records have arrived on the target: looked for cheaply, proven by content.

A look that only waits asks leaders where partitions end and reads no record. Compared is what seems
to be there; and what was compared is not compared again as long as neither of its ends moves.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from drctl.config.link import Link
from drctl.gap.freeze import choose_topics
from drctl.model.gap import GapResult, TopicGap
from drctl.model.ports import OffsetReader
from drctl.model.topology import Found, Mark, Overview, TopicPartition, Unavailable

Compare = Callable[[Collection[TopicPartition]], GapResult]
"""Compares the tails of these partitions of the source, and all of those whose tail has no place.

Raises:
    Unreachable: a cluster did not answer.
"""


UNDECIDED = "{:,} offsets lie behind an open transaction: commit or abort it on the source"

UNCHANGED_LOOKS = 6
"""A partition that stands still for so many looks is compared though others move."""


class Ends(NamedTuple):
    """Where a partition and its copy end; the copy at -1 where there is none.

    A topic whose partitions are not kept has one copy: its end is the sum of all of them.
    """

    source: int
    target: int


class Compared(NamedTuple):
    """What a comparison found: so many records were missing when the ends were these."""

    ends: Ends
    missing: int


@dataclass(frozen=True, slots=True)
class ArrivalStatus:
    """What a look showed.

    Attributes:
        missing: by partition of the source, records that its copy lacks; only where some are.
        pending: partitions of which a comparison has still to tell: something is on its way.
        left_out: what could not be compared, each in words.
    """

    missing: Mapping[TopicPartition, int] = field(default_factory=dict)
    pending: tuple[TopicPartition, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def proven(self) -> bool:
        """Whether everything is there."""
        return not (self.missing or self.pending or self.left_out)


@dataclass(slots=True)
class ArrivalCheck:
    """Looks again and again, and remembers what was compared."""

    link: Link
    source: OffsetReader
    target: OffsetReader
    compare: Compare
    _compared: dict[TopicPartition, Compared] = field(default_factory=dict, init=False)
    _before: Mapping[TopicPartition, Ends] = field(default_factory=dict, init=False)
    _newest: Mapping[TopicPartition, int | None] = field(default_factory=dict, init=False)
    _looks: Mapping[TopicPartition, int] = field(default_factory=dict, init=False)

    def look(self) -> ArrivalStatus:
        """What has arrived by now.

        Raises:
            UsageError: the link carries none of the source's topics.
            Unreachable: one of the clusters did not answer.
            Unknown: a comparison could not be finished.
        """
        places, left_out = self._places(self.source.overview())
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

    def _places(self, overview: Overview) -> tuple[list[TopicPartition], list[str]]:
        there = overview.partitions
        names = choose_topics(self.link, there.keys(), ())
        unseen = [f"{n}: {self.source.name} has it not, or does not show it" for n in names]
        places = [TopicPartition(n, number) for n in names for number in there.get(n, ())]
        return places, [words for n, words in zip(names, unseen, strict=True) if n not in there]

    def _ends(
        self, places: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, Ends], list[str]]:
        """Of those that can be looked at; and why of the others not.

        The source is asked first: what is copied in between is on the target's side then, too.
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
                found[place] = Ends(here, there)
        return found, silent

    def _copies_of(self, places: Sequence[TopicPartition]) -> list[int | Unavailable]:
        """Where the copy of each ends."""
        there, link = self.target.overview().partitions, self.link
        names = {topic: link.target_topic(topic) for topic in {place.topic for place in places}}
        copies = [
            TopicPartition(name, number)
            for name in names.values()
            for number in there.get(name, ())
        ]
        ends = dict(zip(copies, self._asked(self.target, copies), strict=True))
        if link.settings.keeps_partitions:
            return [ends.get(TopicPartition(names[p.topic], p.partition), -1) for p in places]
        of_topic: dict[str, list[int | Unavailable]] = {name: [] for name in names.values()}
        for copy, end in ends.items():
            of_topic[copy.topic].append(end)
        sums = {topic: _sum(of_topic[name]) for topic, name in names.items()}
        return [sums[place.topic] for place in places]

    def _not_yet_known(self, ends: Mapping[TopicPartition, Ends]) -> list[TopicPartition]:
        """Those that were not compared since one of their ends moved."""
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
        """Those that seem to have arrived, and those of which nothing more seems to come.

        Only a comparison tells; this is to compare each of them once, and not while it arrives.
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
        """Those that stand still: while nothing moves at all, or for a while already."""
        before = self._before
        still = [place for place in places if before.get(place) == ends[place]]
        self._looks = {place: self._looks.get(place, 0) + 1 for place in still}
        calm = all(before.get(place, at).target == at.target for place, at in ends.items())
        return frozenset(place for place in still if calm or self._looks[place] >= UNCHANGED_LOOKS)

    def _as_new(self, places: Sequence[TopicPartition]) -> Iterator[TopicPartition]:
        """Those whose copies have a record as new as the newest one at the look before."""
        copies = [TopicPartition(self.link.target_topic(p.topic), p.partition) for p in places]
        ours, theirs = _newest(self.source, places), _newest(self.target, copies)
        before = self._newest
        self._newest = dict(zip(places, ours, strict=True))
        for place, there in zip(places, theirs, strict=True):
            here = before.get(place, self._newest[place])
            # Where one of them does not tell, a comparison does, or says why not.
            if here is None or there is None or there >= here:
                yield place

    def _asked(
        self, reader: OffsetReader, places: Sequence[TopicPartition]
    ) -> list[int | Unavailable]:
        answers = reader.look_up([(place, Mark.END) for place in places])()
        return [each.offset if isinstance(each, Found) else each for each in answers]

    def _note(self, result: GapResult) -> list[str]:
        """Remember what was compared; what could not be is compared again at the next look."""
        left_out = {(each.topic, each.partition): each.reason for each in result.not_compared}
        for topic in result.topics:
            copies = self._ends_of_copies(topic)
            for gap in topic.partitions:
                place = TopicPartition(topic.topic, gap.partition)
                if gap.counts.undecided:
                    # Whoever has it open may still commit it, fence or not.
                    left_out[place] = UNDECIDED.format(gap.counts.undecided)
                if (place.topic, None) not in left_out and place not in left_out:
                    ends = Ends(gap.source_range.end, copies[gap.partition])
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
    """Whether there ever was a record."""
    return ends.source > 0


def _newest(reader: OffsetReader, places: Sequence[TopicPartition]) -> list[int | None]:
    """The time of each one's newest record; None where its leader does not tell."""
    answers = reader.look_up([(place, Mark.NEWEST) for place in places])() if places else ()
    return [each.timestamp_ms if isinstance(each, Found) else None for each in answers]


def _sum(ends: Sequence[int | Unavailable]) -> int | Unavailable:
    """Of all of them; -1 where there are none."""
    silent = next((each for each in ends if isinstance(each, Unavailable)), None)
    numbers = [each for each in ends if isinstance(each, int)]
    return silent or (sum(numbers) if numbers else -1)
