"""The nearest milestone of a position that was replicated, for very many positions at once.

Copies stand in the source's order: where one milestone is on the target, those further back are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from drctl.model.topology import TopicPartition, Unavailable
from drctl.offsets.searching import Match, Sought, TargetSearch
from drctl.offsets.trail import Step, Trail
from drctl.wire.anchors import Milestone

Line = tuple[TopicPartition, tuple[Milestone, ...]]
"""A partition of the target, and milestones of the source, the nearest one first."""


class Copied(NamedTuple):
    """A milestone that is on the target."""

    milestone: Milestone
    match: Match


def nearest_copied(
    search: TargetSearch, lines: Iterable[Line]
) -> Mapping[Line, Copied | Unavailable]:
    """The nearest one of each line; lines of which none was found are left out.

    Raises:
        Unreachable: the target did not answer.
        ScanFailed: records could not be read to their end.
    """
    quests = {line: _Quest(line[1], 0, len(line[1])) for line in lines}
    while waiting := {line: quest for line, quest in quests.items() if quest.low < quest.high}:
        sought = {line: Sought(line[0], Trail((quest.step,))) for line, quest in waiting.items()}
        matches = search.find(sought.values())
        for line, quest in waiting.items():
            quest.note(matches.get(sought[line]))
    return {line: quest.found for line, quest in quests.items() if quest.found}


@dataclass(slots=True)
class _Quest:
    """One line: its milestones before `low` are not on the target, those from `high` on are."""

    milestones: Sequence[Milestone]
    low: int
    high: int
    found: Copied | Unavailable | None = None

    @property
    def step(self) -> Step:
        milestone = self.milestones[self._middle]
        return Step(milestone.timestamp_ms, milestone.fingerprint)

    def note(self, match: Match | Unavailable | None) -> None:
        middle = self._middle
        if match is None:
            self.low = middle + 1
        elif isinstance(match, Unavailable):
            self.found = self.found or match  # one further back will do
            self.low = self.high
        else:
            self.found, self.high = Copied(self.milestones[middle], match), middle

    @property
    def _middle(self) -> int:
        return (self.low + self.high) // 2
