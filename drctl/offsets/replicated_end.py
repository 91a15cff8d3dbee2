"""How far the copies of a partition go, where the last consumed records are none of them.

A replicator that was behind when its source was lost leaves groups that had consumed further than
the target holds. They go on behind the newest record that is there.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable
from drctl.offsets.consumed import trails_before
from drctl.offsets.searching import Match, Sought, TargetSearch
from drctl.offsets.trail import RangeReader, Trail
from drctl.wire.anchors import MOST_RECORDS

FIRST_STEP, GROWTH = 4 * MOST_RECORDS, 4


class Lost(NamedTuple):
    """A position behind which nothing was found.

    Attributes:
        offset: on the source; the records just before it are not on the target.
        log: of the source.
    """

    source: TopicPartition
    offset: int
    log: PartitionOffsets
    target: TopicPartition


class Reached(NamedTuple):
    """The newest consumed record that was found on the target.

    Attributes:
        match: where it is there.
        offset: of the source; the trail that was found ends there.
        trail: what was looked for.
    """

    match: Match
    offset: int
    trail: Trail


@dataclass(slots=True)
class _Quest:
    """One position: something is there before `low`, nothing just before `high`."""

    lost: Lost
    high: int
    step: int = FIRST_STEP
    low: int | None = None
    found: Reached | None = None
    ended: bool = False

    @property
    def probe(self) -> int:
        if self.low is not None:
            return (self.low + self.high) // 2
        return max(self.lost.log.log_start + 1, self.lost.offset - self.step)

    def note(self, probe: int, trail: Trail, match: Match | Unavailable | None) -> None:
        if isinstance(match, Unavailable):
            self.ended = True  # what was found before holds: it only lies further back
        elif match is None:
            self.high, self.step = probe, self.step * GROWTH
            self.ended = self.low is None and probe <= self.lost.log.log_start + 1
        else:
            self.low, self.found = probe, Reached(match, probe, trail)
            self.ended = match.missing > 0
        if self.low is not None and self.high - self.low <= MOST_RECORDS:
            self.ended = True


class ReplicatedEnd:
    """Goes back in the source in growing steps, then halves; all positions at once."""

    def __init__(self, source: RangeReader, search: TargetSearch) -> None:
        self._source = source
        self._search = search

    def find(self, lost: Iterable[Lost]) -> Mapping[Lost, Reached]:
        """Those of which anything was found.

        Raises:
            Unreachable: the target did not answer.
            ScanFailed: records could not be read to their end.
        """
        quests = {one: _Quest(one, one.offset) for one in lost if one.offset > one.log.log_start}
        waiting = list(quests.values())
        while waiting:
            probes = [(quest, quest.probe) for quest in waiting]
            logs = {(quest.lost.source, probe): quest.lost.log for quest, probe in probes}
            trails = trails_before(self._source, logs)
            sought = {
                (quest.lost, probe): Sought(
                    quest.lost.target, trails[quest.lost.source, probe].trail
                )
                for quest, probe in probes
            }
            matches = self._search.find(sought.values())
            for quest, probe in probes:
                wanted = sought[quest.lost, probe]
                quest.note(probe, wanted.trail, matches.get(wanted))
            waiting = [quest for quest in waiting if not quest.ended]
        return {one: quest.found for one, quest in quests.items() if quest.found}
