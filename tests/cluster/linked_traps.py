"""Traps of links that rename topics, change partitions, or transform records."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.cluster.filling import COPIED, Batch, Filling, R, copies, delete_before, holding, rows
from tests.cluster.traps import Expected, Trap

WHOLE = ("compared across partitions",)


@dataclass(frozen=True)
class LinkCase:
    """A link with traps of its own.

    Attributes:
        settings: the link's section of drctl.yaml.
        rename: the target name of a topic.
    """

    name: str
    settings: Mapping[str, object]
    traps: tuple[Trap, ...]
    rename: Callable[[str], str] = str
    by_partition: bool = True


def _moved(records: tuple[R, ...], partitions: int) -> tuple[R, ...]:
    return tuple(
        R(r.key, r.value, r.t, r.headers, n % partitions) for n, r in enumerate(copies(records))
    )


def _spread(records: list[R]) -> tuple[R, ...]:
    return tuple(R(r.key, r.value, r.t, r.headers, n % 2) for n, r in enumerate(records))


_eight = _spread(rows(8))
_equal = R(b"k", b"v", 5)
_late = R(b"key-0", b"late", 30)

RENAMED = LinkCase(
    "renamed",
    {"keeps_partitions": False, "replicator": {"kind": "none", "rename": "primary.${topic}"}},
    (
        Trap(
            "moved",
            holding(*_eight),
            holding(*_moved((*_eight[:5], *_eight[6:]), 3), R(b"own", b"v", 40, p=2)),
            Expected((8, 8), {1: [[2, 2]]}, safe=1, only_on_target=1, notes=WHOLE),
        ),
        Trap(
            "equal-in-two-partitions",
            holding(_equal, _equal, R(b"k", b"v", 5, p=1)),
            holding(R(b"k", b"v", 5, p=2), R(b"k", b"v", 5, p=2)),
            Expected((3, 2), {0: [[1, 1]]}, safe=1, notes=WHOLE),
        ),
        Trap(
            "expired",
            holding(*_eight, _late),
            Filling((Batch(copies(_eight[:7])), delete_before(2, 0), delete_before(1, 1)), 2),
            Expected(
                (9, 4),
                {0: [[4, 4]], 1: [[3, 3]]},
                safe=2,
                expired=3,
                notes=(*WHOLE, "deleted its oldest"),
            ),
        ),
        Trap(
            "its-own-clock",
            holding(*_eight),
            holding(
                *_moved(_eight[:6], 2),
                R(b"key-7", b"newer", 40),
                config={"message.timestamp.type": "LogAppendTime"},
            ),
            Expected(
                (8, 7),
                {0: [[3, 3]], 1: [[3, 3]]},
                safe=1,
                conflicting=1,
                only_on_target=1,
                notes=("LogAppendTime", *WHOLE),
            ),
        ),
        Trap(
            "not-on-the-target",
            holding(*_eight),
            None,
            Expected(
                (8, 0), {0: [[0, 3]], 1: [[0, 3]]}, safe=8, notes=("does not exist on the target",)
            ),
        ),
    ),
    rename=lambda topic: f"primary.{topic}",
    by_partition=False,
)


def _event(number: int, value: bytes, t: float = 0) -> R:
    return R(None, value, t, (("event-id", b"%d" % number), ("noise", value)))


BY_KEY = LinkCase(
    "by-key",
    {"identity": ["key"]},
    (
        Trap(
            "values-changed",
            holding(R(b"a", b"1", 1), R(b"a", b"2", 2), R(b"b", b"1", 3), R(b"c", None, 4)),
            holding(R(b"a", b"A", 7, COPIED), R(b"b", None, 8), R(b"d", b"D", 9)),
            Expected((4, 3), {0: [[1, 1], [3, 3]]}, safe=2, only_on_target=1),
        ),
        Trap(
            "null-keys-are-equal",
            holding(R(None, b"1", 1), R(None, b"2", 2), R(b"", b"3", 3)),
            holding(R(None, b"x", 1), R(b"", b"y", 1)),
            Expected((3, 2), {0: [[1, 1]]}, unkeyed=1),
        ),
    ),
)

BY_HEADER = LinkCase(
    "by-header",
    {"identity": ["header:event-id"]},
    (
        Trap(
            "everything-else-changed",
            holding(_event(1, b"a"), _event(2, b"b", 1), _event(3, b"c", 2), _event(4, b"d", 3)),
            holding(_event(1, b"A", 50), _event(2, b"B", 51), _event(4, b"D", 52)),
            Expected((4, 3), {0: [[2, 2]]}, unkeyed=1),
        ),
        Trap(
            "id-is-missing-or-empty",
            holding(R(b"k", b"v", 1), R(b"k", b"v", 1, (("event-id", None),))),
            holding(R(b"k", b"v", 1, (("event-id", b""),))),
            Expected((2, 1), {0: [[0, 1]]}, conflicting=2, only_on_target=1),
        ),
    ),
)

LINK_CASES = (RENAMED, BY_KEY, BY_HEADER)
