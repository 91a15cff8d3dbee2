"""Step c: what the target lacks was found, and the source has not moved since."""

from drctl.failback.facts import Began, Fence
from drctl.failback.matching import Standing
from drctl.failback.situation import Situation
from drctl.failback.step import Seen, done, not_done, unknown


def _past_fence(seen: Situation) -> str:
    """A fence that a person has set does not say since when it stands."""
    fence = seen.facts.fence
    if not isinstance(fence, Fence) or not fence.held:
        return ""
    return "; if the fence stood by then already, somebody writes past it: find who"


def missing_records(seen: Situation) -> Seen:
    """Whether a result of `drctl gap` is still about what the clusters hold."""
    result = seen.gap.valid
    if result is None:
        if seen.gap.standing is Standing.UNKNOWN:
            return unknown(seen.gap.why)
        if seen.gap.standing is Standing.STALE and not seen.gap.written_to:
            return not_done(f"the comparison is to be repeated: {seen.gap.why}{_past_fence(seen)}")
        return not_done(seen.gap.why)
    told = f"{result.unreplicated:,} records are missing on {seen.facts.target} ({seen.gap.why})"
    back = [place for place, each in seen.arrived.items() if each is Began.BOUNDARY]
    if back:
        told += (
            f"; {len(back):,} partitions of {seen.facts.source} have grown since, by what comes"
            " back: the first record of each is the first new one"
        )
    return done(told)
