"""Facts of a fence on the source, and the ids of prechecks that depend on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

CHANGED_AFTER_FENCE = "changed-after-fence"
"""Blocks enabling writes on the target if the source received topics or records after the fence."""

ALIVE = "source-alive"
"""Blocks an unplanned failover while the source answers; `--override` overrides it."""


@dataclass(frozen=True, slots=True)
class FenceFacts:
    """How a fence of producers was verified.

    Attributes:
        ends: end offsets by partition, which did not change.
        brokers: ids of the brokers that deny writes.
        answer: the engineer's answer to whether the fence is set.
    """

    ends: Mapping[str, int] = field(default_factory=dict)
    brokers: tuple[int, ...] = ()
    answer: str = ""
