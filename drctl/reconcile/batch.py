"""One transaction's worth of records: what is appended, and the progress that goes with it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from drctl.model.topology import TopicPartition
from drctl.reconcile.matching import Work
from drctl.reconcile.planning import Line
from drctl.reconcile.progress import Lane, Progress, Segment
from drctl.reconcile.results import Count
from drctl.reconcile.rows import Tally, Wanted


@dataclass(slots=True)
class _Step:
    """What was added to a lane."""

    through: int = -1
    records: int = 0
    bytes: int = 0
    gone: int = 0


@dataclass(slots=True)
class Batch:
    """What is to be committed together; nothing of it counts before."""

    gone: list[tuple[TopicPartition, int]] = field(default_factory=list)
    records: int = 0
    bytes: int = 0
    _steps: dict[Work, _Step] = field(default_factory=dict)

    def add(self, work: Work, row: Wanted) -> None:
        """A record that was appended."""
        step = self._steps.get(work) or self._steps.setdefault(work, _Step())
        step.through = row.offset
        step.records += 1
        step.bytes += row.size
        self.records += 1
        self.bytes += row.size

    def miss(self, work: Work, row: Wanted) -> None:
        """A record that the source does not hold any more."""
        step = self._steps.setdefault(work, _Step())
        step.through = row.offset
        step.gone += 1
        self.records += 1
        self.gone.append((work.line.lane.place, row.offset))

    def add_all(self, work: Work, tally: Tally) -> None:
        """All that is left of a lane, at once: for what appends nothing."""
        self._steps[work] = _Step(tally.last, tally.records, tally.bytes)
        self.records += tally.records

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines that it moves."""
        return tuple(work.line for work in self._steps)

    def progress(
        self,
        known: Mapping[Lane, Progress],
        beginnings: Mapping[Lane, Progress],
        last: Mapping[TopicPartition, int],
    ) -> dict[Lane, Progress]:
        """The progress of every lane of this batch once it counts.

        Args:
            known: what was reached before.
            beginnings: for lanes that nothing is known of.
            last: the last offset of each partition that was appended to.
        """
        return {
            lane: (known.get(lane) or beginnings[lane]).after(segment)
            for lane, segment in self._segments(last)
        }

    def counts(self) -> Mapping[Lane, Count]:
        """What it adds to each lane."""
        return {
            work.line.lane: Count(step.records, step.bytes, step.gone)
            for work, step in self._steps.items()
        }

    def _segments(self, last: Mapping[TopicPartition, int]) -> Iterator[tuple[Lane, Segment]]:
        for work, step in self._steps.items():
            line = work.line
            to_last = last[work.to] if line.to and step.records else -1
            yield (
                line.lane,
                Segment(
                    line.action,
                    step.through,
                    step.records,
                    step.bytes,
                    step.gone,
                    line.to,
                    to_last,
                ),
            )
