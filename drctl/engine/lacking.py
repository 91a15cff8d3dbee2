"""What a target lacks of its source: counted by content."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Missing:
    """What a comparison says.

    Attributes:
        records: that are on the source and not on the target.
        not_compared: what could not be compared, each in words; empty where nothing was left out.
        partitions: of the source that lack some, each in words.
        duplicated: records that the target holds more often than the source.
        repeated: of `records`, those with an equal on the target: second copies of the source.
        undecided: partitions of the source with an open transaction, each in words: what it wrote
            counts in none of these numbers, and is a record once it is committed.
        left_before: records that are missing as was decided, and are not counted in `records`: they
            were quarantined or discarded in an earlier incident.
    """

    records: int
    not_compared: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    duplicated: int = 0
    repeated: int = 0
    undecided: tuple[str, ...] = ()
    left_before: int = 0

    @property
    def unproven(self) -> tuple[str, ...]:
        """Why more may be missing than was counted, each in words."""
        return (*self.not_compared, *self.undecided)

    def but_for(self, second_copies: int) -> int:
        """Records that are missing, but for as many known second copies of the source.

        One without an equal on the target is never such a copy, whatever was counted before.
        """
        return self.records - min(second_copies, self.repeated)
