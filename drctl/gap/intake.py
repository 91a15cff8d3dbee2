"""Records of one partition come in, digests of its buckets come out; entries stay."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from drctl.gap.comparison import ONE_CELL, BucketDigest, ComparePlan, Side, TopicPlan
from drctl.gap.encoding import Digest
from drctl.gap.held import NO_KEY, NOT_KEPT, PACKED, KeyRoom
from drctl.model.rows import Row

_WORD = 2**64

_Sums = list[int]
"""Of a bucket: records, first and second sum, first and last offset."""


@dataclass(slots=True)
class Intake:
    """One partition of one side.

    Attributes:
        digest: of a record's identity, in this topic.
        entries: where to keep what is kept of each record; None where nothing is.
        keys: where to keep keys; None where none are.
    """

    plan: ComparePlan
    topic: TopicPlan
    side: Side
    partition: int
    digest: Digest
    entries: bytearray | None
    keys: KeyRoom | None
    sums: dict[tuple[int, int], _Sums] = field(default_factory=dict)

    def take(self, rows: Sequence[Row]) -> None:
        """Digest these records, and keep what is to be kept of them."""
        # One loop without calls that can be done without: it runs for every record.
        width, buckets, sums = self.topic.bucket_ms, self.plan.buckets, self.sums
        bits = min(self.plan.cell_bits, ONE_CELL)
        of, entries, pack, room, limit = self.digest, self.entries, PACKED.pack, bytearray(), 0
        if self.keys is not None:
            room, limit = self.keys.kept, self.keys.limit
        for offset, time, key, value, headers in rows:
            first, second = of(time, key, value, headers)
            name = ((time // width if width else _signed(first)) % buckets, offset >> bits)
            known = sums.get(name)
            if known is None:
                sums[name] = [1, first, second, offset, offset]
            else:
                known[0] += 1
                known[1] += first
                known[2] += second
                known[4] = offset
            if entries is None:
                continue
            size = len(value) if value else 0
            if headers:
                size += sum(len(name) + len(content or b"") for name, content in headers)
            if key is None:
                entries += pack(offset, time, size, NO_KEY, 0, NO_KEY, first, second)
                continue
            length, place = len(key), len(room)
            if place + length <= limit:
                room += key
            else:
                place = NOT_KEPT
            entries += pack(offset, time, size + length, hash(key), place, length, first, second)

    def digests(self) -> Iterator[BucketDigest]:
        """The digest of each bucket in each cell."""
        for (bucket, cell), (records, sum1, sum2, first, last) in self.sums.items():
            yield BucketDigest(
                self.topic.topic,
                self.side,
                self.partition,
                bucket,
                records,
                _signed(sum1),
                _signed(sum2),
                first,
                last,
                cell,
            )


def _signed(number: int) -> int:
    return (number + _WORD // 2) % _WORD - _WORD // 2
