"""Whether a drill went well enough: measures held against what the applications can bear."""

from collections.abc import Iterator
from dataclasses import dataclass

from drctl.drill.measuring import Measures


@dataclass(frozen=True, slots=True)
class Limits:
    """What is allowed.

    Attributes:
        rpo_s: `policy.max_rpo_seconds`.
        rto_s: of the drill; None where nobody set one.
        planned: whether nothing may be lost at all.
    """

    rpo_s: float
    rto_s: float | None
    planned: bool


def worse(measures: Measures, limits: Limits) -> tuple[str, ...]:
    """What is worse than allowed, each in words; empty where nothing is."""
    return tuple(_worse(measures, limits))


def _worse(measures: Measures, limits: Limits) -> Iterator[str]:
    outage, loss, translation = measures.outage, measures.loss, measures.translation
    if outage.seconds is None:
        yield "the applications did not get to work on the target: there is no RTO"
    elif limits.rto_s is not None and outage.seconds > limits.rto_s:
        yield f"RTO {outage.seconds:.1f} s is above {limits.rto_s:g} s"
    if limits.planned and loss.missing:
        yield f"{loss.missing:,} acknowledged records were lost, and a planned one loses none"
    elif loss.seconds > limits.rpo_s:
        yield f"RPO {loss.seconds:.1f} s is above {limits.rpo_s:g} s"
    if translation.skipped:
        yield f"the group skipped {translation.skipped:,} records"
    if translation.promised is None and translation.finished:
        yield (
            f"no position of the group was committed on the target: it read"
            f" {translation.reread:,} of {translation.finished:,} records again"
        )
    elif translation.promised is not None and translation.reread > translation.promised:
        yield (
            f"the group read {translation.reread:,} records again, and"
            f" {translation.promised:,} were promised at most"
        )
    if translation.left_out:
        yield f"{translation.left_out:,} positions had no place on the target"
