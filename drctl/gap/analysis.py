"""The main job: freeze, digest, compare what differs, and say what became of every record."""

import re
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches

from drctl.config.link import Link
from drctl.gap.answer import Answer, topic_gaps
from drctl.gap.comparison import ComparePlan, Progress, RecordComparer, Side
from drctl.gap.failures import ScanFailed
from drctl.gap.freeze import Frozen, freeze
from drctl.gap.planning import plan_comparison
from drctl.gap.suspects import find_suspects
from drctl.model.errors import Unreachable, UsageError
from drctl.model.gap import Example, GapResult, OrderVerdict
from drctl.model.ports import ClusterReader
from drctl.model.topology import Record, TopicPartition

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")

ATTEMPTS = 3
"""How often a scan is begun anew after something moved under it."""

PREVIEW_BYTES = 256
"""How much of a key or value an example shows."""


OpenComparer = Callable[[int], AbstractContextManager[RecordComparer]]
"""Opens what compares the records; told how many offsets there are to read at most."""


@dataclass(frozen=True, slots=True)
class GapAnalysis:
    """Compares the two sides of a link.

    Attributes:
        now: the clock, UTC.
        out: where the comparer's records will be found, as said in the result.
    """

    link: Link
    source: ClusterReader
    target: ClusterReader
    open_comparer: OpenComparer
    progress: Progress
    now: Callable[[], datetime]
    out: str

    def run(self, topics: Sequence[str] = ()) -> GapResult:
        """Find every source record that is not on the target.

        Args:
            topics: only these of the link's topics; all if empty.

        Raises:
            UsageError: the link carries none of the source's topics, or not a named one.
            Unreachable: a cluster did not answer.
            ScanFailed: the records could not be read to their end.
        """
        started = self.now()
        self.progress("looking at both clusters", 0, 0)
        names = self._choose(topics)
        ids = self.source.cluster_id(), self.target.cluster_id()
        answer = self._answer(names)
        return GapResult(
            link=self.link.name,
            scope="full",
            source=self.source.name,
            source_id=ids[0],
            target=self.target.name,
            target_id=ids[1],
            started=started.astimezone(UTC),
            seconds=(self.now() - started).total_seconds(),
            out=self.out,
            topics=answer.topics,
            not_compared=answer.not_compared,
            histogram=answer.comparison.histogram,
            examples=self._examples(answer),
        )

    def _choose(self, topics: Sequence[str]) -> tuple[str, ...]:
        seen = self.source.topic_names()
        carried = self.link.topics_of(seen | self._unseen(seen))
        for name in topics:
            if name not in carried:
                close = get_close_matches(name, carried, 1)
                raise UsageError(
                    f"link {self.link.name} carries no topic {name!r} of {self.source.name}",
                    f"did you mean {close[0]!r}?" if close else "see `topics` of the link",
                )
        if not carried:
            raise UsageError(
                f"link {self.link.name} matches no topic of {self.source.name}",
                "check `topics` and `exclude` of the link, and what the user may describe",
            )
        return tuple(topics) or carried

    def _unseen(self, seen: Collection[str]) -> set[str]:
        """Topics that the link names, not by a pattern, and the user may not even see."""
        return {
            pattern
            for pattern in self.link.settings.topics
            if _TOPIC_NAME.fullmatch(pattern)
            and not any(re.fullmatch(pattern, name) for name in seen)
        }

    def _answer(self, names: Sequence[str]) -> Answer:
        """Compare; look again and begin anew when the scan failed because something moved."""
        frozen = self._freeze(names)
        plan = plan_comparison(self.link, frozen, self.source)
        with self.open_comparer(sum(map(plan.span, Side))) as comparer:
            for _ in range(ATTEMPTS - 1):
                try:
                    return self._compare(comparer, frozen, plan)
                except ScanFailed as failed:
                    moved = self._look_again(names, failed)
                    if readable(moved) == readable(frozen):
                        raise
                    frozen, plan = moved, plan_comparison(self.link, moved, self.source)
            return self._compare(comparer, frozen, plan)

    def _look_again(self, names: Sequence[str], failed: ScanFailed) -> Frozen:
        try:
            return self._freeze(names)
        except Unreachable as gone:
            raise Unreachable(f"{failed.message}; {gone.message}", gone.hint) from gone

    def _freeze(self, names: Sequence[str]) -> Frozen:
        return freeze(self.link, self.source, self.target, names)

    def _compare(self, comparer: RecordComparer, frozen: Frozen, plan: ComparePlan) -> Answer:
        digests = comparer.digest(plan, self.progress)
        comparison = comparer.compare(plan, find_suspects(plan, digests), self.progress)
        topics = topic_gaps(frozen, plan, digests, comparison)
        return Answer(topics, frozen.not_compared, comparison)

    def _examples(self, answer: Answer) -> tuple[Example, ...]:
        wanted = answer.comparison.examples
        positions = [(TopicPartition(e.topic, e.partition), e.offset) for e in wanted]
        found = self.source.records(positions) if positions else {}
        examples = []
        for example, position in zip(wanted, positions, strict=True):
            record = found.get(position)
            if isinstance(record, Record):
                order = OrderVerdict(example.order)
                examples.append(_example(example.topic, record, example.size, order))
        return tuple(examples)


def _example(topic: str, record: Record, size: int, order: OrderVerdict) -> Example:
    return Example(
        topic=topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=None if record.key is None else record.key[:PREVIEW_BYTES],
        value=None if record.value is None else record.value[:PREVIEW_BYTES],
        size=size,
        order=order,
    )


def readable(frozen: Frozen) -> frozenset[tuple[str, str, int, int]]:
    """What of a freeze a failed scan may have tripped over: partitions and their log starts."""
    return frozenset(
        (topic.topic, side, partition, offsets.log_start)
        for topic in frozen.topics
        for side, partitions in (("source", topic.source), ("target", topic.target))
        for partition, offsets in partitions.items()
    )
