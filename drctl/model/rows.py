"""Records as plain tuples: where there are millions of them, and Python makes each one."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from drctl.model.topology import OffsetRange

Headers = tuple[tuple[bytes, bytes | None], ...]
"""In order; names may repeat."""

Row = tuple[int, int, bytes | None, bytes | None, Headers]
"""Offset, timestamp in milliseconds (-1 where there is none), key, value and headers."""

TopicRanges = Mapping[str, Mapping[int, Sequence[OffsetRange]]]
"""By the topic's own name on its cluster, then partition: disjoint ranges, ascending."""


class Chunk(NamedTuple):
    """Some records of one partition; the next chunk of it goes on behind them."""

    topic: str
    partition: int
    rows: Sequence[Row]
