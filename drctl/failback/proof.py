"""Whether clients are home, and both clusters hold the same: how a way back ends.

Comparisons that found nothing may be older than the loss, as nightly ones are. So what was written
since the newest of them is looked at, too: two clusters that have parted show it there.
"""

from typing import NamedTuple

from drctl.failback.decided_before import decided_before
from drctl.failback.facts import Cluster, Facts
from drctl.failback.gap_results import GapEvidence
from drctl.model.endpoints import EndpointState
from drctl.model.topology import OffsetRange, Unavailable

NO_PROOF = (
    "no full comparisons of both directions are here that found nothing but what was decided on"
)


class Proof(NamedTuple):
    """What comparisons, and a look at what was written since, say.

    Attributes:
        holds: None where nobody can see it.
        why: it does not hold, or is not known; empty where it does.
    """

    holds: bool | None
    why: str = ""

    @property
    def contradicted(self) -> bool:
        """Whether the clusters were seen to differ; that nobody compared them is less."""
        return self.holds is False and self.why != NO_PROOF


def home_of(facts: Facts) -> bool | None:
    """Whether every endpoint leads to the source; None where that is not known.

    Where drctl.yaml names no endpoints, the run that led clients back tells.
    """
    if not facts.endpoints:
        return True if facts.failed_back else None
    known = [each for each in facts.endpoints if isinstance(each, EndpointState)]
    if any(each.cluster not in (None, facts.source) for each in known):
        return False
    home = [each for each in known if each.cluster == facts.source]
    return True if len(home) == len(facts.endpoints) else None


def proof_of(facts: Facts) -> Proof:
    """Of comparisons in both directions, and of what was written since."""
    there = clean_there(facts)
    back = clean(facts.of_now(facts.back_gaps), facts.on_target, facts.on_source)
    if not (there and back):
        return Proof(False, NO_PROOF)
    if isinstance(facts.apart, Unavailable):
        told = f"whether both clusters hold what was written since {facts.gaps[0].told}"
        return Proof(None, f"{told} is not known: {facts.apart.reason}")
    return Proof(not facts.apart, facts.apart)


def clean_there(facts: Facts) -> bool:
    """Whether the target has all of the source but what was put aside or given up."""
    results = facts.of_now(facts.gaps)
    aside = decided_before(results[0], facts) if results else 0
    return clean(results, facts.on_source, facts.on_target, aside)


def clean(
    results: tuple[GapEvidence, ...],
    source: Cluster | Unavailable,
    target: Cluster | Unavailable,
    aside: int = 0,
) -> bool:
    """Whether the newest of them is of these clusters and found nothing.

    Args:
        aside: so many missing records are decided on.
    """
    if not results or isinstance(source, Unavailable) or isinstance(target, Unavailable):
        return False
    newest = results[0]
    same = (newest.source_id, newest.target_id) == (source.identity, target.identity)
    whole = newest.complete and newest.scope == "full"
    grown = all(
        isinstance(log := source.logs.get(each.place), OffsetRange) and log.end >= each.source.end
        for each in newest.partitions
    )
    return same and whole and grown and not (newest.unreplicated - aside or newest.duplicated)
