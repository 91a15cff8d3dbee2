"""What a fence of the source was proven with, and the prechecks that rest on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

CHANGED_AFTER_FENCE = "changed-after-fence"
"""Blocks opening a target while its source still takes records."""

ALIVE = "source-alive"
"""Blocks an unplanned failover while the source answers; `--override` overrides it."""


@dataclass(frozen=True, slots=True)
class FenceFacts:
    """What a fence of producers was proven with.

    Attributes:
        ends: of the logs, by partition, which did not move.
        brokers: that deny writes.
        answer: of the person who was asked whether it is set.
    """

    ends: Mapping[str, int] = field(default_factory=dict)
    brokers: tuple[int, ...] = ()
    answer: str = ""
