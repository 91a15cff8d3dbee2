"""The first replicated records, recognized without comparing key, value and timestamp together."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from drctl.engine.kind import BothClusters, State
from drctl.engine.ports import LinkReader
from drctl.model.topology import Record, TopicPartition, TopicState
from drctl.steps.first_records import FIELDS, KEY, VALUE, first_arrivals
from drctl.steps.source_offsets import SeedFacts
from tests.engine.test_failback_steps import ENDS, Around, Site, log

PLACE = TopicPartition("orders", 0)
CLUSTERS, SEEDS = BothClusters(**ENDS), SeedFacts({PLACE: 1}, {PLACE: 3})


@dataclass
class Timed(Site):
    """A cluster whose topic stores the append time, or keeps the producer's timestamp."""

    timestamp_type: str

    def topics(self, names: Collection[str]) -> Mapping[str, TopicState]:
        config = {"message.timestamp.type": self.timestamp_type}
        return {name: TopicState(name, {0: 1}, config) for name in names}


def late(*records: Record) -> tuple[Record, ...]:
    return tuple(replace(each, timestamp_ms=99) for each in records)


@pytest.mark.parametrize(
    ("came", "kept", "fields", "state"),
    [
        ("n1", "LogAppendTime", FIELDS, State.DONE),
        ("a", "LogAppendTime", FIELDS, State.FAILED),
        ("n1", "CreateTime", FIELDS, State.FAILED),
        ("n1", "CreateTime", (KEY, VALUE), State.DONE),
        ("a", "CreateTime", (KEY, VALUE), State.FAILED),
    ],
)
def test_timestamps_that_are_not_copied_prove_nothing(
    came: str, kept: str, fields: tuple[str, ...], state: State
) -> None:
    primary = Timed("primary", late(*log("a", "t1", "t2", came)), kept)
    world: Any = Around({"secondary": Site("secondary", log("a", "n1")), "primary": primary})
    arrived = first_arrivals(CLUSTERS, SEEDS, cast(LinkReader, world), fields)
    assert arrived.state is state
