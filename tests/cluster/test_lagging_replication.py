"""Groups that had consumed thousands of records more than were replicated when the source died."""

from uuid import uuid4

import pytest

from drctl.kafka.connection import Connection
from drctl.kafka.group_writer import KafkaGroupWriter
from drctl.model.groups import Committed
from drctl.model.topology import Record, TopicPartition
from drctl.offsets.consumed import SPACING
from tests.cluster.conftest import NewDrctl
from tests.cluster.offsets_command import OffsetsCommand
from tests.cluster.silent_source import alive_and_silent
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

NOON = 1_700_000_000_000
RECORDS, COPIED, SINCE = 12_000, 7_000, 500
TRACK = ("track", "--once", "--execute", "--yes")


def record(number: int) -> Record:
    return Record(0, number, NOON + number // 3, b"k%d" % (number % 50), b"v%d" % number)


class Stage:
    """A topic of which a part was copied, before somebody went on writing on the target."""

    def __init__(
        self, alive: OffsetsCommand, silent: OffsetsCommand, source: ClusterUnderTest, topic: str
    ) -> None:
        self.alive, self.silent = alive, silent
        self._source, self._topic = source, topic

    def commit(self, prefix: str, **offsets: int) -> None:
        wanted = {
            f"{prefix}-{name}": {TopicPartition(self._topic, 0): Committed(offset)}
            for name, offset in offsets.items()
        }
        with KafkaGroupWriter(Connection("primary", self._source.properties())) as writer:
            answers = writer.commit(wanted)
        assert {a for of in answers.values() for a in of.values()} == {None}


@pytest.fixture
def prefix() -> str:
    return f"app-{uuid4().hex[:8]}"


@pytest.fixture
def stage(
    new_drctl: NewDrctl,
    new_topic: NewTopic,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    prefix: str,
) -> Stage:
    topic = new_topic(1)
    primary.produce(topic, map(record, range(RECORDS)))
    secondary.produce(topic, map(record, range(COPIED)))
    late = [Record(0, 0, NOON + 10**9 + n, None, b"since%d" % n) for n in range(SINCE)]
    secondary.produce(topic, late)
    link = {"topics": [topic], "groups": [f"{prefix}-.*"]}
    alive, silent = alive_and_silent(new_drctl, (primary, secondary), link)
    return Stage(alive, silent, primary, topic)


def test_groups_go_on_at_the_newest_copy_that_is_noted(stage: Stage, prefix: str) -> None:
    stage.commit(prefix, end=6_500, middle=9_000, copied=COPIED)
    stage.alive.json(*TRACK)
    positions = {"end": RECORDS, "middle": 9_500, "copied": COPIED}
    stage.commit(prefix, end=RECORDS, middle=9_500)
    assert stage.alive.json(*TRACK)["totals"]["moved"] == 2
    document = stage.silent.json("translate", code=5)
    rows = {row["group"].removeprefix(f"{prefix}-"): row for row in document["rows"]}
    assert {name: row["source_offset"] for name, row in rows.items()} == positions
    for name, row in rows.items():
        lag = positions[name] - COPIED
        assert (row["method"], row["skips_at_most"], row["blocked"]) == ("anchor", 0, None)
        again = COPIED - row["target_offset"]
        assert again >= 0, row
        assert row["rereads_at_most"] == COPIED + SINCE - row["target_offset"]
        likely = min(again + lag, row["rereads_at_most"])
        assert likely <= row["rereads_likely"] <= SPACING * lag, row
    assert rows["copied"]["target_offset"] == COPIED
