"""The numbers of a gap analysis with their meaning, as lines of a table.

All text that came from a cluster is made printable here.
"""

from dataclasses import dataclass

from drctl.model.gap import GapResult, PartitionGap
from drctl.model.gap_order import OrderScope
from drctl.report.printable import plain, plural, sentence


@dataclass(frozen=True, slots=True)
class Line:
    """A number with its name and what it means."""

    name: str
    count: int | None
    meaning: str


@dataclass(frozen=True, slots=True)
class Blind:
    """Partitions of a topic that could not be compared for one reason; all text is printable."""

    topic: str
    partitions: str
    reason: str


def total_lines(result: GapResult) -> tuple[Line, ...]:
    """Every total with what it means."""
    totals, source, target = result.totals, plain(result.source), plain(result.target)
    return (
        Line("read from source", totals.read_from_source, f"committed records of {source}"),
        Line("read from target", totals.read_from_target, f"committed records of {target}"),
        Line("unreplicated", totals.unreplicated, f"on {source}, with no equal on {target}"),
        Line(
            "superseded",
            totals.superseded,
            f"not on {target}, which is compacted and holds something later of their key",
        ),
        Line(
            "expired",
            totals.expired,
            f"not on {target}, which may have deleted them: it cannot be told any more",
        ),
        Line(
            "undecided",
            totals.undecided,
            f"offsets of {source} behind the last stable one: transactions that have not ended",
        ),
        Line(
            "only on target",
            totals.only_on_target,
            f"on {target}, with no equal on {source}: for example written since a failover",
        ),
        Line(
            "duplicated on target",
            totals.duplicated_on_target,
            f"further copies on {target} of records that {source} holds fewer times",
        ),
    )


def order_lines(result: GapResult) -> tuple[Line, ...]:
    """What copying the missing records would do; a count of None was not checked."""
    order, target = result.order, plain(result.target)
    within = "of their key" if result.within is OrderScope.KEY else "in their partition"
    return (
        Line("safe", order.safe, f"{target} holds nothing later {within}: a copy keeps order"),
        Line(
            "conflicting",
            order.conflicting,
            f"{target} holds something later {within}: a copy would put the older behind the "
            "newer; the owner of the data decides",
        ),
        Line("unkeyed", order.unkeyed, "no key, so no order by key to keep or to break"),
        Line("inversions", order.inversions, f"replicated records in another order on {target}"),
    )


def blind_spots(result: GapResult) -> tuple[Blind, ...]:
    """What could not be compared, partitions with the same topic and reason together."""
    places: dict[tuple[str, str], list[int]] = {}
    for item in result.not_compared:
        numbers = places.setdefault((item.topic, item.reason), [])
        numbers += [] if item.partition is None else [item.partition]
    return tuple(
        Blind(plain(topic), _runs(sorted(numbers)) or "all partitions", sentence(reason))
        for (topic, reason), numbers in places.items()
    )


def _runs(numbers: list[int]) -> str:
    """`0-3, 7` for 0, 1, 2, 3, 7."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n <= runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)


def offsets(gap: PartitionGap) -> str:
    """The first missing run of offsets and how many there are beside it."""
    runs = max(gap.ranges_total, len(gap.ranges))
    more = f" +{plural(runs - 1, 'run')}" if runs > 1 else ""
    return "".join(f"{a}-{b}" if b > a else f"{a}" for a, b in gap.ranges[:1]) + more
