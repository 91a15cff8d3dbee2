"""Which consumers Spark may use again: it keeps them by group and partition, not by cluster."""

from dataclasses import dataclass, field
from typing import Any, Self

from drctl.gap.comparison import Side
from drctl.model.topology import OffsetRange
from drctl.spark.scan import KafkaRows

ORDERS = {"orders": {0: (OffsetRange(0, 10),)}}


@dataclass
class Options:
    """Stands for a session; collects the consumer groups of all reads."""

    groups: list[str] = field(default_factory=list)

    @property
    def read(self) -> Self:
        return self

    def format(self, _name: str) -> Self:
        return self

    def options(self, **given: str) -> Self:
        self.groups.append(given["kafka.group.id"])
        return self

    def load(self) -> Self:
        return self

    def select(self, *_names: str) -> Self:
        return self


def test_consumers_are_used_again_only_for_the_same_comparison_and_cluster() -> None:
    session: Any = Options()
    rows = KafkaRows(session, {side: {} for side in Side}, 2)
    for side in (Side.SOURCE, Side.TARGET, Side.SOURCE):
        rows.rows(side, ORDERS)
    rows.renew()
    rows.rows(Side.SOURCE, ORDERS)
    KafkaRows(session, {side: {} for side in Side}, 2).rows(Side.SOURCE, ORDERS)
    first, target, again, renewed, other = session.groups
    assert first == again
    assert len({first, target, renewed, other}) == 4
