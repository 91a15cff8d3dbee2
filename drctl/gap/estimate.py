"""The estimate: how many records may be missing, and since when, without reading one.

Totals first; then look-ups by time where the totals differ or the newest records do.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from drctl.config.link import Link
from drctl.gap.choice import choose_topics
from drctl.gap.comparison import Progress
from drctl.gap.estimating import Terms, Unit, judge
from drctl.gap.narrowing import Narrowing
from drctl.gap.sighting import Side, Sight, Sighting
from drctl.gap.stretches import Timeline
from drctl.model.estimate import EstimateResult, PartitionEstimate, TopicEstimate
from drctl.model.ports import OffsetReader


@dataclass(frozen=True, slots=True)
class GapEstimate:
    """Estimates what the target of a link lacks.

    Attributes:
        now: the clock, UTC.
    """

    link: Link
    source: OffsetReader
    target: OffsetReader
    progress: Progress
    now: Callable[[], datetime]

    def run(self, topics: Sequence[str] = ()) -> EstimateResult:
        """Look at both sides and judge.

        Args:
            topics: only these of the link's topics; all if empty.

        Raises:
            UsageError: the link carries none of the source's topics, or not a named one.
            Unreachable: a cluster did not answer.
        """
        started = self.now()
        self.progress("looking at both clusters", 0, 0)
        ends = Side(self.source, self.source.overview()), Side(self.target, self.target.overview())
        names = choose_topics(self.link, ends[0].overview.partitions.keys(), topics)
        sight = Sight(self.link, *ends)
        seen = sight.look(names)
        narrowing = Narrowing(self.source, self.target, self.progress)
        differing = narrowing.differing(seen.units, seen.terms.timed)
        # Configurations tell why sides differ; of those that do not they need not be asked.
        terms = sight.terms(sorted({u.topic for u in differing if u.target}), seen.terms)
        timed = {u: n for u, n in differing.items() if terms.get(u.topic, seen.terms).timed}
        judged = self._judged(seen, terms, narrowing.run(timed))
        return EstimateResult(
            link=self.link.name,
            source=self.source.name,
            source_id=ends[0].overview.cluster_id,
            target=self.target.name,
            target_id=ends[1].overview.cluster_id,
            started=started.astimezone(UTC),
            seconds=(self.now() - started).total_seconds(),
            topics=judged,
            not_compared=seen.not_compared,
        )

    def _judged(
        self, seen: Sighting, terms: Mapping[str, Terms], lines: Mapping[Unit, Timeline]
    ) -> tuple[TopicEstimate, ...]:
        judged: dict[str, list[PartitionEstimate]] = {topic: [] for topic in seen.topics}
        for unit in seen.units:
            known = terms.get(unit.topic, seen.terms)
            judged[unit.topic].append(judge(unit, known, lines.get(unit)))
        return tuple(
            TopicEstimate(topic, self.link.target_topic(topic), tuple(partitions))
            for topic, partitions in judged.items()
        )
