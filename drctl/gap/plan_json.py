"""What a comparer is asked, as JSON: it travels to a Spark application of its own.

There is nothing secret in it: how to reach the clusters is no part of a plan.
"""

from collections.abc import Sequence
from typing import Any

from drctl.gap.comparison import ComparePlan, Reads, TopicSuspects
from drctl.gap.json_values import plain, restored


def plan_to_json(plan: ComparePlan) -> Any:
    """The plan of a comparison."""
    return plain(plan)


def plan_from_json(data: Any) -> ComparePlan:
    """Raises ValueError where the data is no plan."""
    plan: ComparePlan = restored(ComparePlan, data)
    return plan


def reads_to_json(reads: Reads) -> Any:
    """The offset ranges to digest."""
    return plain(reads)


def reads_from_json(data: Any) -> Reads:
    """Raises ValueError where the data is no such ranges."""
    reads: Reads = restored(Reads, data)
    return reads


def suspects_to_json(suspects: Sequence[TopicSuspects]) -> Any:
    """What to compare record by record."""
    return plain(tuple(suspects))


def suspects_from_json(data: Any) -> tuple[TopicSuspects, ...]:
    """Raises ValueError where the data is no suspects."""
    suspects: tuple[TopicSuspects, ...] = restored(tuple[TopicSuspects, ...], data)
    return suspects
