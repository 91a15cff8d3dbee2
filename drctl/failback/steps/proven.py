"""Step k: comparisons both ways, duplicates, group positions, and what is owed."""

from drctl.checks.wording import several
from drctl.failback.facts import Facts
from drctl.failback.proof import NO_PROOF
from drctl.failback.situation import Situation
from drctl.failback.step import Seen, not_done, unknown
from drctl.model.topology import Unavailable


def proven(seen: Situation) -> Seen:
    """What of it can be seen from outside: never all."""
    if seen.home is False:
        return not_done("it comes last")
    owed = _owed(seen.facts)
    if seen.proof.holds is None:
        return unknown(f"{seen.proof.why}{owed}")
    if not seen.proven:
        if seen.home is None:
            return unknown(f"{NO_PROOF}, and where clients are is not visible{owed}")
        return not_done(f"{NO_PROOF}{owed}")
    groups = (
        f"whether every group stands where it should cannot be seen from here{_told(seen.facts)}"
    )
    return unknown(
        "comparisons both ways found nothing missing but what was decided on, and nothing twice;"
        f" {groups}{owed}"
    )


def _told(facts: Facts) -> str:
    """The newest run that led home, where nothing came after it: it looked at every group."""
    newest = facts.journal[:1] if not isinstance(facts.journal, Unavailable) else ()
    return "".join(
        f"; by the journal run {run.run} led home to its end: its report says what it saw of them"
        for run in newest
        if run.home
    )


def _owed(facts: Facts) -> str:
    """What the journal says of it."""
    if isinstance(facts.journal, Unavailable):
        return f"; what is owed is not known: {facts.journal.reason}"
    owed = [f"{what} (run {run.run})" for run in facts.journal for what in run.owed]
    return f"; by the journal it is owed: {several(owed)}" if owed else ""
