"""One transaction's worth of records: what is appended, and the progress that goes with it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from drctl.model.topology import TopicPartition
from drctl.reconcile.left import LeftBuilder
from drctl.reconcile.matching import Match, Work
from drctl.reconcile.planning import Line
from drctl.reconcile.policy import LEFT_MISSING
from drctl.reconcile.progress import Lane, Progress, Segment
from drctl.reconcile.results import Count
from drctl.reconcile.rows import Copy, Tally, WantedRow


@dataclass(slots=True)
class _Step:
    """What was added to a lane.

    Attributes:
        left: the records, where they stay missing; None where they do not.
    """

    through: int = -1
    records: int = 0
    bytes: int = 0
    gone: int = 0
    left: LeftBuilder | None = None


@dataclass(slots=True)
class Batch:
    """What is to be committed together; nothing of it counts before."""

    gone: list[tuple[TopicPartition, int]] = field(default_factory=list)
    records: int = 0
    bytes: int = 0
    _steps: dict[Work, _Step] = field(default_factory=dict)

    def take(self, matches: Sequence[Match]) -> list[Copy]:
        """All of these, also those that are gone; what is to be appended for it."""
        copies: list[Copy] = []
        current, bytes_now = None, self.bytes
        for work, wanted, seen in matches:
            if work is not current:
                current, to, stamp = work, work.to, work.stamp
                step = self._step(work)
                left = step.left
            offset, timestamp_ms, _, size, _ = wanted
            step.through = offset
            if left is not None:
                left.add(offset, timestamp_ms)
            if seen is None:
                step.gone += 1
                self.gone.append((work.line.lane.place, offset))
                continue
            step.records += 1
            step.bytes += size
            bytes_now += size
            copies.append((to, seen, stamp(offset, timestamp_ms)))
        self.records += len(matches)
        self.bytes = bytes_now
        return copies

    def add_all(self, work: Work, tally: Tally, rows: Iterable[WantedRow]) -> None:
        """All that is left of a lane, at once: for what appends nothing."""
        step = self._step(work)
        step.through, step.records, step.bytes = tally.last, tally.records, tally.bytes
        if step.left is not None:
            for row in rows:
                step.left.add(*row[:2])
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

    def _step(self, work: Work) -> _Step:
        step = self._steps.get(work)
        if step is None:
            stays = work.line.action in LEFT_MISSING
            step = self._steps[work] = _Step(left=LeftBuilder() if stays else None)
        return step

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
                    step.left.left if step.left else None,
                ),
            )
