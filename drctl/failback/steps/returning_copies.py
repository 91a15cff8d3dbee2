"""Step g: what was brought over to the target does not come back to the source as a second copy."""

from drctl.engine.copies_filter import drops_copies
from drctl.failback.facts import Copies, Replication
from drctl.failback.situation import Situation
from drctl.failback.step import Observed, Seen, done, not_done, unknown
from drctl.failback.steps.afterwards import afterwards
from drctl.failback.steps.reconciled import copied, ever_copied, reconciled
from drctl.model.topology import Unavailable
from drctl.wire.provenance import HEADER

_LEFT_OUT = f"records with header {HEADER} are left out on the way back"


def returning_copies(seen: Situation) -> Seen:
    """Whether there is anything to keep away, and whether something does."""
    facts = seen.facts
    before = reconciled(seen)
    if isinstance(facts.came_back, Copies) and facts.came_back.total:
        return not_done(
            f"{facts.came_back.total:,} records that were brought over have come back to"
            f" {facts.source}: it holds them twice",
            begun=True,
        )
    home = afterwards(seen)
    if home is not None:
        return home
    if before.observed is Observed.UNKNOWN:
        return unknown("what was brought over is not known (step e)")
    if before.observed is Observed.NOT_DONE:
        return not_done("it is not decided yet what is brought over (step e)")
    total = copied(seen)
    if total:
        return _kept_away(seen, total)
    if not isinstance(facts.brought, Unavailable) and facts.brought.whole:
        return done("nothing was brought over, so nothing can come back")
    if isinstance(facts.decided, Unavailable) or ever_copied(facts.decided):
        if _left_out(facts.reverse) and isinstance(facts.came_back, Copies):
            return done(_LEFT_OUT)
        return unknown(
            f"too much was written to {facts.target} to look through it for copies: nobody knows"
            " whether any of an earlier result were brought over"
        )
    return done("drctl reconcile has copied nothing, so nothing can come back")


def _kept_away(seen: Situation, brought: int) -> Seen:
    reverse = seen.facts.reverse
    if isinstance(reverse, Unavailable):
        return unknown(f"whether {brought:,} copies are left out cannot be seen: {reverse.reason}")
    if not isinstance(seen.facts.came_back, Copies):
        # What leaves them out now may have been added behind the first that came.
        why = seen.facts.came_back.reason
        return unknown(f"whether any of {brought:,} copies came back is not known: {why}")
    if _left_out(reverse):
        return done(_LEFT_OUT)
    return not_done(
        f"{brought:,} copies of its own records are on {seen.facts.target}, and nothing"
        f" leaves records with header {HEADER} out on the way back"
    )


def _left_out(reverse: Replication | Unavailable) -> bool:
    """Whether whatever copies back leaves copies out."""
    copying = () if isinstance(reverse, Unavailable) else reverse.copying
    return bool(copying) and all(drops_copies(each.connector.config) for each in copying)
