"""What steps are judged by once clients are home, where their traces are gone."""

from drctl.failback.situation import Situation
from drctl.failback.step import Seen, done, unknown


def afterwards(seen: Situation) -> Seen | None:
    """By comparisons that found nothing; None where clients are not home, or there are none."""
    if seen.home is not True or seen.proof.holds is False:
        return None
    home = f"clients are home on {seen.facts.source}"
    if seen.proof.holds is None:
        return unknown(f"{home}; {seen.proof.why}")
    return done(
        f"{home}; comparisons both ways found nothing missing and nothing twice, and what was"
        f" written since is on {seen.facts.target}, too, or on its way"
    )
