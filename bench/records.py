"""The records to compare, and which of them are missing on a target."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

PARTITIONS = 4
KEYS = 200_000
CHUNK = 20_000
RECORDS_PER_MS = 2

_SEED = 20_260_101
_NOTES = 997
_SCATTER = 2_654_435_761  # Knuth's multiplicative hash: spreads neighbours


class Message(NamedTuple):
    """A record to write."""

    key: bytes
    value: bytes
    partition: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Variant:
    """What is missing on the target.

    Attributes:
        scattered: per thousand, spread over all records.
        tail: per thousand, at the end.
        last: number of records at the end.
    """

    name: str
    title: str
    scattered: int = 0
    tail: int = 0
    last: int = 0

    def omits(self, number: int, total: int) -> bool:
        """Whether record `number` of `total` never reached the target."""
        if number * 1000 >= total * (1000 - self.tail) or number >= total - self.last:
            return True
        return number * _SCATTER % 2**32 % 1000 < self.scattered


IDENTICAL = Variant("identical", "identical")
FEW = Variant("scattered-1", "0.1 % missing", scattered=1)
MANY = Variant("scattered-100", "10 % missing", scattered=100)
TAIL = Variant("tail-10", "last 1 % missing", tail=10)
BEHIND = Variant("last-50000", "the last 50,000 missing", last=50_000)
VARIANTS = (IDENTICAL, FEW, MANY, TAIL)


def chunks(
    total: int, start_ms: int, *, partitions: int = PARTITIONS, more_bytes: int = 0
) -> Iterator[tuple[int, list[Message]]]:
    """Generate the same records for the same arguments: about 200 bytes each, timestamps ascending.

    Args:
        more_bytes: added to each value.

    Yields:
        The number of the first record, and the next records.
    """
    random = Random(_SEED)
    keys = [b"customer-%06d" % number for number in range(KEYS)]
    notes = [random.randbytes(50).hex().encode() for _ in range(_NOTES)]
    if more_bytes:
        notes = [note + random.randbytes(more_bytes // 2).hex().encode() for note in notes]
    for first in range(0, total, CHUNK):
        numbers = range(first, min(first + CHUNK, total))
        chosen = random.choices(range(KEYS), k=len(numbers))
        yield (
            first,
            [
                Message(
                    keys[key],
                    _value(number, notes[number % _NOTES]),
                    key % partitions,
                    start_ms + number // RECORDS_PER_MS,
                )
                for number, key in zip(numbers, chosen, strict=True)
            ],
        )


def _value(number: int, note: bytes) -> bytes:
    return b'{"order":%012d,"state":"accepted","currency":"EUR","lines":3,"note":"%b"}' % (
        number,
        note,
    )
