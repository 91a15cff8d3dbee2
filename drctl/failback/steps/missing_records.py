"""Step c: what the target lacks was found, and the source has not moved since."""

from drctl.failback.facts import Began
from drctl.failback.matching import Standing
from drctl.failback.situation import Situation
from drctl.failback.step import Seen, done, not_done, unknown


def missing_records(seen: Situation) -> Seen:
    """Whether a result of `drctl gap` is still about what the clusters hold."""
    result = seen.gap.valid
    if result is None:
        say = unknown if seen.gap.standing is Standing.UNKNOWN else not_done
        return say(seen.gap.why)
    told = f"{result.unreplicated:,} records are missing on {seen.facts.target} ({seen.gap.why})"
    back = [place for place, each in seen.arrived.items() if each is Began.BOUNDARY]
    if back:
        told += (
            f"; {len(back):,} partitions of {seen.facts.source} have grown since, by what comes"
            " back: the first record of each is the first new one"
        )
    return done(told)
