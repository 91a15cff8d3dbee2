"""Every known trap of a comparison, one topic each, with the result worked out by hand."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.cluster.filling import (
    COMPACTING,
    COPIED,
    Batch,
    Filling,
    R,
    await_compaction,
    copies,
    delete_before,
    holding,
    one_by_one,
    rows,
)

Ranges = Mapping[int, list[list[int]]]


@dataclass(frozen=True)
class Expected:
    """The numbers of one topic; 0 by default.

    Attributes:
        read: records read from source and target.
        ranges: by source partition, if there are any.
        notes: words that the topic's notes must contain; no notes if empty.
    """

    read: tuple[int, int]
    ranges: Ranges = field(default_factory=dict)
    safe: int = 0
    conflicting: int = 0
    unkeyed: int = 0
    only_on_target: int = 0
    duplicated_on_target: int = 0
    superseded: int = 0
    expired: int = 0
    undecided: int = 0
    misplaced: int = 0
    notes: tuple[str, ...] = ()

    @property
    def unreplicated(self) -> int:
        """The total of missing records."""
        return self.safe + self.conflicting + self.unkeyed


@dataclass(frozen=True)
class Trap:
    """One topic; `target` is None if the target has no such topic."""

    name: str
    source: Filling
    target: Filling | None
    expected: Expected


def _identity() -> list[Trap]:
    """Traps of what makes two records equal."""
    same = (*rows(7), *rows(6, p=1), R(None, b"v", 9), R(b"", b"v", 9), R(b"k", None, 9))
    a, b = ("a", b"1"), ("b", b"2")
    return [
        Trap("same", holding(*same), holding(*copies(same)), Expected((16, 16))),
        Trap(
            "null-key-is-not-empty",
            holding(R(None, b"v"), R(b"", b"v")),
            holding(R(None, b"v"), R(None, b"v")),
            Expected((2, 2), {0: [[1, 1]]}, safe=1, duplicated_on_target=1),
        ),
        Trap(
            "tombstone-is-not-empty",
            holding(R(b"k", None), R(b"k", b"")),
            holding(R(b"k", b""), R(b"k", b"")),
            Expected((2, 2), {0: [[0, 0]]}, conflicting=1, duplicated_on_target=1),
        ),
        Trap(
            "key-or-value",
            holding(R(None, b"x"), R(b"x", None), R(b"x", b"")),
            holding(R(b"x", None), R(b"", b"x")),
            Expected((3, 2), {0: [[0, 0], [2, 2]]}, safe=1, unkeyed=1, only_on_target=1),
        ),
        Trap(
            "order-of-headers",
            holding(R(b"k", b"v", 1, (a, b))),
            holding(R(b"k", b"v", 1, (b, a))),
            Expected((1, 1), {0: [[0, 0]]}, conflicting=1, only_on_target=1),
        ),
        Trap(
            "header-twice",
            holding(R(b"k", b"v", 1, (a, a))),
            holding(R(b"k", b"v", 1, (a,))),
            Expected((1, 1), {0: [[0, 0]]}, conflicting=1, only_on_target=1),
        ),
        Trap(
            "header-null-is-not-empty",
            holding(R(None, b"v", 1, (("a", None),)), R(None, b"v", 2, (("a", b""),))),
            holding(R(None, b"v", 1, (("a", b""),)), R(None, b"v", 2, (("a", b""),))),
            Expected((2, 2), {0: [[0, 0]]}, unkeyed=1, only_on_target=1),
        ),
        Trap(
            "headers-that-do-not-count",
            holding(R(b"k", b"v", 1, (a, ("trace", b"one"))), R(b"k", b"v", 2, COPIED)),
            holding(R(b"k", b"v", 1, (("trace", b"two"), a, *COPIED)), R(b"k", b"v", 2)),
            Expected((2, 2)),
        ),
        Trap(
            "another-time",
            holding(R(b"k", b"v", 1), R(b"l", b"v", 2)),
            holding(R(b"k", b"v", 1.001), R(b"l", b"v", 1.999)),
            Expected((2, 2), {0: [[0, 1]]}, safe=1, conflicting=1, only_on_target=2),
        ),
    ]


def _multisets() -> list[Trap]:
    equal = R(b"k", b"v", 5)
    five = tuple(rows(5))
    return [
        Trap(
            "three-equal-records",
            holding(equal, R(b"l", b"v", 6), equal, equal, R(b"m", b"v", 7)),
            holding(*copies((equal, R(b"l", b"v", 6), equal, R(b"m", b"v", 7)))),
            Expected((5, 4), {0: [[3, 3]]}, safe=1),
        ),
        Trap(
            "everything-twice",
            holding(*five),
            holding(*copies((*five, *five))),
            Expected((5, 10), duplicated_on_target=5),
        ),
        Trap(
            "another-order",
            holding(R(b"k", b"1", 1), R(b"k", b"2", 2)),
            holding(*copies((R(b"k", b"2", 2), R(b"k", b"1", 1)))),
            Expected((2, 2)),
        ),
        Trap(
            "after-failover",
            holding(*rows(3), R(b"a", b"old", 10), R(b"b", b"old", 11), R(None, b"log", 12)),
            holding(*copies(rows(3)), R(b"a", b"new", 20), R(b"b", b"older", 2), R(b"c", b"n", 21)),
            Expected((6, 6), {0: [[3, 5]]}, safe=1, conflicting=1, unkeyed=1, only_on_target=3),
        ),
        Trap(
            "copied-past-a-lost-one",
            holding(R(b"k", b"1", 1), R(b"k", b"2", 2), R(b"k", b"3", 3)),
            holding(*copies((R(b"k", b"1", 1), R(b"k", b"3", 3)))),
            Expected((3, 2), {0: [[1, 1]]}, conflicting=1),
        ),
    ]


def _partitions() -> list[Trap]:
    skewed = [r for p in (1, 2, 3) for r in rows(3, p=p)]
    lost = {*range(5_000, 5_017), 12_345, *range(19_500, 20_000)}
    long = rows(20_000, times=0.1)
    return [
        Trap("empty", Filling(partitions=2), Filling(partitions=2), Expected((0, 0))),
        Trap(
            "not-on-the-target",
            holding(*rows(4), *rows(2, p=1)),
            None,
            Expected((6, 0), {0: [[0, 3]], 1: [[0, 1]]}, safe=6, notes=("does not exist",)),
        ),
        Trap(
            "more-partitions-there",
            holding(*rows(3), *rows(3, p=1)),
            holding(*copies((*rows(3), *rows(2, p=1))), R(b"own", b"v", p=3), partitions=4),
            Expected((6, 6), {1: [[2, 2]]}, safe=1, only_on_target=1),
        ),
        Trap(
            "fewer-partitions-there",
            holding(*rows(3), *rows(2, p=1), *rows(1, p=2)),
            holding(*copies(rows(3))),
            Expected(
                (6, 3), {1: [[0, 1]], 2: [[0, 0]]}, safe=3, notes=("missing on the target: 1, 2",)
            ),
        ),
        Trap(
            "in-another-partition",
            holding(*rows(3, start=1), R(b"lost", b"its way", 9), partitions=2),
            holding(*copies((*rows(3, start=1), R(b"lost", b"its way", 9, p=1)))),
            Expected(
                (4, 4),
                {0: [[3, 3]]},
                safe=1,
                misplaced=1,
                only_on_target=1,
                notes=("another partition",),
            ),
        ),
        Trap(
            "skewed",
            holding(*long, *skewed, partitions=4),
            holding(
                *copies([r for n, r in enumerate(long) if n not in lost] + skewed[:-1]),
                partitions=4,
            ),
            Expected(
                (20_009, 20_008 - len(lost)),
                {0: [[5_000, 5_016], [12_345, 12_345], [19_500, 19_999]], 3: [[2, 2]]},
                safe=len(lost) + 1,
            ),
        ),
    ]


def _logs() -> list[Trap]:
    """Traps of logs with offsets that are not records."""
    ten = tuple(rows(10))
    return [
        Trap(
            "transactions",
            Filling(
                (
                    Batch(rows(2), "commit"),
                    Batch(rows(1, start=2), "abort"),
                    Batch(rows(1, start=3), "commit"),
                    Batch(rows(1, start=4)),
                )
            ),
            Filling(
                (
                    Batch(copies(rows(1)), "commit"),
                    Batch(copies(rows(1, start=1)), "abort"),
                    Batch(copies(rows(1, start=4))),
                )
            ),
            Expected((4, 2), {0: [[1, 5]]}, safe=2),
        ),
        Trap(
            "only-aborted",
            Filling((Batch(rows(3), "abort"), Batch((*rows(2), *rows(2, p=1)), "abort")), 2),
            Filling((Batch(rows(3), "abort"),), 2),
            Expected((0, 0)),
        ),
        Trap(
            "compacted-source",
            Filling(
                (
                    *one_by_one(R(b"a", b"1", 1), R(b"m", b"1", 2), R(b"a", b"2", 3)),
                    *one_by_one(R(b"n", b"1", 4), R(b"a", b"3", 5), R(b"z", b"1", 6)),
                    await_compaction(1, 3, 4, 5),
                ),
                config=COMPACTING,
            ),
            holding(*copies((R(b"a", b"3", 5), R(b"z", b"1", 6)))),
            Expected((4, 2), {0: [[1, 3]]}, safe=2),
        ),
        Trap(
            "compacted-target",
            holding(
                R(b"a", b"1", 1),
                R(b"b", b"1", 2),
                R(b"a", b"2", 3),
                R(b"c", b"1", 4),
                R(b"d", b"1", 5),
                R(b"z", b"1", 9),
                R(b"e", b"2", 9),
            ),
            Filling(
                (
                    *one_by_one(*copies((R(b"a", b"1", 1), R(b"a", b"2", 3)))),
                    *one_by_one(*copies((R(b"c", b"1", 4), R(b"z", b"1", 9)))),
                    # The source may have compacted e away: it is not newer than the missing one.
                    *one_by_one(R(b"d", b"newer", 10), R(b"e", b"1", 9)),
                    await_compaction(1, 2, 3, 4, 5),
                ),
                config=COMPACTING,
            ),
            Expected(
                (7, 5), {0: [[1, 1], [6, 6]]}, safe=1, conflicting=1, superseded=2, only_on_target=2
            ),
        ),
        Trap(
            "tombstones",
            Filling(
                (Batch((R(b"a", b"1", 1), R(b"b", b"1", 2), R(b"a", None, 3), R(b"b", None, 4))),)
            ),
            holding(*copies((R(b"a", b"1", 1), R(b"b", b"1", 2), R(b"a", None, 3)))),
            Expected((4, 3), {0: [[3, 3]]}, safe=1),
        ),
        Trap(
            "target-deleted-its-oldest",
            holding(*ten),
            Filling((Batch(copies(ten[:8])), delete_before(4))),
            Expected((10, 4), {0: [[8, 9]]}, safe=2, expired=4, notes=("deleted its oldest",)),
        ),
        Trap(
            "target-deleted-everything",
            holding(*ten),
            Filling((Batch(copies(ten[:8])), delete_before(8))),
            Expected((10, 0), {0: [[8, 9]]}, safe=2, expired=8, notes=("deleted its oldest",)),
        ),
        Trap(
            "both-deleted-their-oldest",
            Filling((Batch(ten), delete_before(6))),
            Filling((Batch(copies(ten[:8])), delete_before(6))),
            Expected((4, 2), {0: [[8, 9]]}, safe=2),
        ),
        Trap(
            "source-deleted-everything",
            Filling((Batch(ten), delete_before(10))),
            Filling((Batch(copies(ten)), delete_before(10))),
            Expected((0, 0)),
        ),
        Trap(
            "its-own-clock",
            holding(*rows(4), R(b"key-2", b"again", 8)),
            holding(
                *copies((*rows(3), R(b"key-2", b"again", 8))),
                config={"message.timestamp.type": "LogAppendTime"},
            ),
            Expected((5, 4), {0: [[3, 3]]}, safe=1, notes=("LogAppendTime",)),
        ),
    ]


def _payloads() -> list[Trap]:
    large = [R(b"large-%d" % n, bytes([n]) * 900_000, n) for n in range(4)]
    almost = R(large[2].key, (large[2].value or b"")[:-1] + b"!", large[2].t)
    hostile = [R(key, value, n) for n, (key, value) in enumerate(HOSTILE)]
    codecs = ("gzip", "snappy", "lz4", "zstd")
    packed = [
        Batch(rows(50, start=50 * n), settings={"compression__type": codec})
        for n, codec in enumerate(codecs)
    ]
    return [
        Trap(
            "large-values",
            holding(*large),
            holding(*copies((large[0], large[1], almost))),
            Expected((4, 3), {0: [[2, 3]]}, safe=1, conflicting=1, only_on_target=1),
        ),
        Trap(
            "hostile",
            holding(*hostile, *rows(1)),
            holding(*copies(rows(1))),
            Expected((len(hostile) + 1, 1), {0: [[0, len(hostile) - 1]]}, safe=len(hostile)),
        ),
        Trap(
            "compressed",
            Filling(tuple(packed)),
            holding(*copies([r for b in packed for r in b.records if r.t not in (60, 170)])),
            Expected((200, 198), {0: [[60, 60], [170, 170]]}, safe=2),
        ),
    ]


HOSTILE = (
    (b"<script>document.title='taken'</script>", b"<img src=x onerror=alert(1)>"),
    (b"\x1b[2J\x1b[31mred\x07", b"\x1b]0;title\x07"),
    (b"\xff\xfe\xc3\x28", b"\x00\xff"),
    ("a\u202eb\u0000".encode(), b"'\"; DROP TABLE records; --"),
    (b"\r\nkey: forged", b"{{ 7 * 7 }}"),
)
"""Keys and values that would do harm if they were shown unescaped."""

TRAPS = (*_identity(), *_multisets(), *_partitions(), *_logs(), *_payloads())
