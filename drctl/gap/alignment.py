"""Where on the target a place of the source is: found by the records that follow it."""

from collections.abc import Callable, Sequence

from drctl.model.topology import Record

RUN = 20
"""Records in a row that have to be equal."""

Name = Callable[[Record], object]
"""The value that is equal for equal records."""


def aligned(source: Sequence[Record], target: Sequence[Record], name: Name) -> int | None:
    """The target offset from which on its records are those of the source, one after the other.

    Where that is so more than once, the last one: what lies before is then taken as outside, and
    a record that is not found for that reason makes the window wider, never the answer wrong.

    Args:
        source: records in a row; the first `RUN` of them count.
        target: records in a row, among which they are looked for.
    """
    wanted = [name(r) for r in source[:RUN]]
    held = [name(r) for r in target]
    if not wanted:
        return None
    for start in range(len(held) - len(wanted), -1, -1):
        if held[start] == wanted[0] and held[start : start + len(wanted)] == wanted:
            return target[start].offset
    return None
