"""Step k: comparisons both ways, duplicates, group positions, and what is owed."""

from drctl.checks.wording import several
from drctl.failback.facts import Facts
from drctl.failback.proof import NO_PROOF
from drctl.failback.situation import Situation
from drctl.failback.step import Seen, done, not_done, unknown
from drctl.model.topology import Unavailable


def proven(seen: Situation) -> Seen:
    """What of it can be seen from outside: never all."""
    if seen.home is False:
        return not_done("it comes last")
    owed = _owed(seen.facts)
    if seen.failed_back:
        told = f"by the journal run {seen.failed_back} led clients back, and saw every group there"
        compared = "; comparisons both ways found nothing wrong" * seen.proven
        return not_done(f"{told}{owed}") if owed else done(f"{told}{compared}")
    if seen.proof.holds is None:
        return unknown(f"{seen.proof.why}{owed}")
    if not seen.proven:
        if seen.home is None:
            return unknown(f"{NO_PROOF}, and where clients are is not visible{owed}")
        return not_done(f"{NO_PROOF}{owed}")
    return unknown(
        "comparisons both ways found nothing missing but what was decided on, and nothing twice;"
        f" whether every group stands where it should cannot be seen from here{owed}"
    )


def _owed(facts: Facts) -> str:
    """What the journal says of it."""
    if isinstance(facts.journal, Unavailable):
        return f"; what is owed is not known: {facts.journal.reason}"
    owed = [f"{what} (run {run.run})" for run in facts.journal for what in run.owed]
    return f"; by the journal it is owed: {several(owed)}" if owed else ""
