"""What several steps rest on, concluded once from the facts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drctl.failback.facts import Began, Cluster, Facts, Replication
from drctl.failback.gap_results import GapEvidence
from drctl.failback.matching import Chosen, choose, reference
from drctl.model.endpoints import EndpointState
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts, and what follows from them.

    Attributes:
        gap: the result of `drctl gap` that the way back rests on.
        first: the one that tells where new records on the target begin; None where none does.
        led_home: endpoints that send clients to the source.
        home: whether all of them do; None where that is not known.
    """

    facts: Facts
    gap: Chosen
    first: GapEvidence | None
    led_home: tuple[str, ...]
    home: bool | None

    @property
    def boundaries(self) -> Mapping[TopicPartition, int]:
        """Where new records begin on the target, by its own partitions; empty: not known."""
        found = self.facts.boundaries
        return {} if isinstance(found, Unavailable) else found

    @property
    def arrived(self) -> Mapping[TopicPartition, Began | Unavailable]:
        """What came to the source since, by its partitions; without those where nothing did."""
        began = self.facts.began
        if isinstance(began, Unavailable):
            return {}
        return {place: each for place, each in began.items() if each is not Began.NOTHING}

    @property
    def way_back_runs(self) -> bool:
        """Whether something copies from the target to the source."""
        reverse = self.facts.reverse
        return isinstance(reverse, Replication) and reverse.runs

    @property
    def way_back_begun(self) -> bool:
        """Whether it does, or did: what came first to the source was on the target before."""
        seen = (Began.BOUNDARY, Began.START)
        return self.way_back_runs or any(each in seen for each in self.arrived.values())

    @property
    def proven(self) -> bool:
        """Whether comparisons in both directions found nothing missing and nothing twice."""
        facts = self.facts
        return _clean(facts.gaps, facts.on_source, facts.on_target) and _clean(
            facts.back_gaps, facts.on_target, facts.on_source
        )


def situation(facts: Facts) -> Situation:
    """Conclude."""
    known = [each for each in facts.endpoints if isinstance(each, EndpointState)]
    led_home = tuple(each.endpoint for each in known if each.cluster == facts.source)
    home = _home(facts, known, led_home)
    return Situation(facts, choose(facts), reference(facts), led_home, home)


def _home(facts: Facts, known: Sequence[EndpointState], led_home: tuple[str, ...]) -> bool | None:
    if any(each.cluster not in (None, facts.source) for each in known):
        return False
    return True if facts.endpoints and len(led_home) == len(facts.endpoints) else None


def _clean(
    results: tuple[GapEvidence, ...],
    source: Cluster | Unavailable,
    target: Cluster | Unavailable,
) -> bool:
    """Whether the newest of them is of these clusters and found nothing."""
    if not results or isinstance(source, Unavailable) or isinstance(target, Unavailable):
        return False
    newest = results[0]
    same = (newest.source_id, newest.target_id) == (source.identity, target.identity)
    whole = newest.complete and newest.scope == "full"
    grown = all(
        isinstance(log := source.logs.get(each.place), OffsetRange) and log.end >= each.source.end
        for each in newest.partitions
    )
    return same and whole and grown and not (newest.unreplicated or newest.duplicated)
