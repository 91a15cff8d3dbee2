"""The order of records on both sides: within what it counts, and where it is another one."""

from dataclasses import dataclass
from enum import StrEnum


class OrderScope(StrEnum):
    """Within what records have an order that somebody relies upon."""

    KEY = "key"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True)
class Inversion:
    """A replicated record that stands on the target before one that it follows on the source.

    Attributes:
        offset: of the record on the source.
        target_partition: where its copy is; both copies are in the same one.
        earlier_offset: of the record that it follows on the source.
        earlier_target_offset: of that one's copy, which stands behind.
    """

    topic: str
    partition: int
    offset: int
    target_partition: int
    target_offset: int
    earlier_offset: int
    earlier_target_offset: int
