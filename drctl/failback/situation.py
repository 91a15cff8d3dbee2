"""What several steps rest on, concluded once from the facts."""

from collections.abc import Mapping
from dataclasses import dataclass

from drctl.failback.facts import Began, Facts, Replication
from drctl.failback.gap_results import GapEvidence
from drctl.failback.matching import Chosen, Standing, choose, reference
from drctl.failback.peace import nobody_knows, nothing_to_fail_back
from drctl.failback.proof import Proof, home_of, proof_of
from drctl.failback.rebuilding import lost_records
from drctl.model.endpoints import EndpointState
from drctl.model.topology import TopicPartition, Unavailable


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts, and what follows from them.

    Attributes:
        gap: the result of `drctl gap` that the way back rests on.
        first: the one that tells where new records on the target begin; None where none does.
        led_home: endpoints that send clients to the source.
        home: whether all of them do; None where that is not known.
        proof: whether both clusters were seen to hold the same.
        lost: where the source holds less than was copied from it.
        failed_back: the run that led clients back to the source, to its end, where clients are
            there and nothing contradicts it; else empty.
        peace: why there is nothing to fail back; empty where there is, or may be.
        unclear: why nobody can tell whether there is; empty where anything tells.
    """

    facts: Facts
    gap: Chosen
    first: GapEvidence | None
    led_home: tuple[str, ...]
    home: bool | None
    proof: Proof
    lost: tuple[str, ...] = ()
    failed_back: str = ""
    peace: str = ""
    unclear: str = ""

    @property
    def boundaries(self) -> Mapping[TopicPartition, int]:
        """Where new records begin on the target, by its own partitions; empty: not known."""
        found = self.facts.boundaries
        return {} if isinstance(found, Unavailable) else found

    @property
    def arrived(self) -> Mapping[TopicPartition, Began | Unavailable]:
        """What came to the source since, by its partitions; without those where nothing did.

        Nothing that is told by a comparison of after the way home: there it is what applications
        write.
        """
        began = self.facts.began
        if isinstance(began, Unavailable) or (self.home is True and self.proof.holds is not False):
            return {}
        return {place: each for place, each in began.items() if each is not Began.NOTHING}

    @property
    def stand_behind(self) -> tuple[str, ...]:
        """Partitions whose records stand behind new ones of the target; at home nothing is new."""
        behind = self.facts.behind
        if isinstance(behind, Unavailable) or (self.home is True and self.proof.holds is not False):
            return ()
        return behind

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
    def rebuilding(self) -> bool:
        """Whether the source has lost its records, and is to be filled anew, or was."""
        if self.home is True and self.proof.holds is not False:
            return False
        return bool(self.lost) or (self.facts.filled and self.gap.valid is None)

    @property
    def proven(self) -> bool:
        """Whether comparisons in both directions found nothing missing and nothing twice."""
        return self.proof.holds is True


def situation(facts: Facts) -> Situation:
    """Conclude."""
    known = [each for each in facts.endpoints if isinstance(each, EndpointState)]
    led_home = tuple(each.endpoint for each in known if each.cluster == facts.source)
    home, proof = home_of(facts), proof_of(facts)
    back = facts.failed_back if home is True and not proof.contradicted else ""
    if back and proof.holds is False:
        proof = Proof(None, f"by the journal run {back} led clients back to its end")
    chosen, lost = _chosen(facts, home, proof), lost_records(facts, facts.names)
    peace = "" if back or lost else nothing_to_fail_back(facts, home)
    unclear = "" if peace or lost else nobody_knows(facts, home)
    first = reference(facts)
    return Situation(facts, chosen, first, led_home, home, proof, lost, back, peace, unclear)


def _chosen(facts: Facts, home: bool | None, proof: Proof) -> Chosen:
    """At home applications write to the source again: that it grows makes nothing stale."""
    if home is not True or proof.holds is False or not facts.gaps:
        return choose(facts)
    newest = facts.gaps[0]
    if proof.holds:
        return Chosen(Standing.VALID, newest, newest.told)
    return Chosen(Standing.UNKNOWN, newest, proof.why)
