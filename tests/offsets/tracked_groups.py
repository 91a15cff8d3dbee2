"""Groups of a source and the tracked offsets topic, in memory."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from drctl.formats.tracked_offsets import TrackedOffset
from drctl.formats.tracking_passes import Scope
from drctl.model.errors import Unreachable
from drctl.model.ports import ClusterReader
from drctl.model.topology import Row, TopicPartition
from drctl.model.translation import GroupPartition
from drctl.offsets.consumed import step_of
from drctl.offsets.link_translation import Cluster
from drctl.offsets.tracking import Passes, PassResult, Tracker
from drctl.offsets.tracking_log import Change, TrackingLog, tracked_offsets_of
from tests.fakes import FakeCluster, FakeLog

NOON = 1_700_000_000_000
HOUR = 3_600_000
ORDERS = TopicPartition("orders", 0)
SOURCE_ID, TARGET_ID = "id-of-source", "id-of-target"


def row(offset: int) -> Row:
    """Return a unique record."""
    return (offset, NOON - HOUR + offset, b"k%d" % offset, b"v%d" % offset, ())


def log(end: int, start: int = 0, rows: Sequence[Row] | None = None) -> FakeLog:
    return FakeLog([row(n) for n in range(start, end)] if rows is None else list(rows), end, start)


def source_of(logs: dict[TopicPartition, FakeLog]) -> FakeCluster:
    """Create a cluster with topics and groups."""
    return FakeCluster(dict(logs), "source", config={})


@dataclass
class Topic:
    """The tracked offsets topic before compaction.

    Attributes:
        silent: whether it does not respond.
    """

    records: list[Change] = field(default_factory=list)
    exists: bool = False
    silent: bool = False

    def compacted(self) -> "Topic":
        """Return what compaction leaves."""
        return Topic(list(dict(self.records).items()), self.exists)

    def log(self) -> TrackingLog:
        found = TrackingLog()
        found.take(self.records)
        return found

    def tracked_offsets(self) -> Mapping[GroupPartition, TrackedOffset]:
        """Return the tracked offsets as read for a translation with a dead source."""
        found, damaged = tracked_offsets_of(self.log(), SOURCE_ID, None, None)
        assert not damaged
        return found


class Store:
    """One tracker's view of the topic."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.exists = False
        self._log = TrackingLog()
        self._read = 0

    def cluster_id(self) -> str:
        return TARGET_ID

    def catch_up(self) -> TrackingLog:
        if self.topic.silent:
            raise Unreachable("cluster target did not answer within 10 s")
        self.exists = self.topic.exists
        self._log.take(self.topic.records[self._read :])
        self._read = len(self.topic.records)
        return self._log

    def check(self) -> None:
        """Allow writing."""

    def write(self, changes: Sequence[Change]) -> None:
        self.catch_up()
        self.topic.records += changes
        self.topic.exists = True
        self.catch_up()


class Carries:
    """A link that carries these topics and groups."""

    def __init__(self, topics: Collection[str], groups: Collection[str]) -> None:
        self._topics, self._groups = topics, groups

    def carries(self, topic: str) -> bool:
        return not self._topics or topic in self._topics

    def carries_group(self, group: str) -> bool:
        return not self._groups or group in self._groups

    def target_topic(self, topic: str) -> str:
        return topic

    def source_topic(self, topic: str) -> str | None:
        return topic


class Clock:
    """Advances only when told to."""

    def __init__(self, now_ms: int = NOON) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def after(self, milliseconds: int) -> int:
        self.now_ms += milliseconds
        return self.now_ms


class OneTracker:
    """A `drctl offsets track` that makes a pass when told to."""

    def __init__(
        self,
        source: FakeCluster,
        topic: Topic,
        clock: Clock,
        *,
        topics: Sequence[str] = (),
        groups: Sequence[str] = (),
    ) -> None:
        scope = Scope("source", tuple(topics) or (".*",), (), tuple(groups) or (".*",))
        cluster = Cluster(cast(ClusterReader, source), source, source)
        self.tracker = Tracker(Carries(topics, groups), scope, cluster, clock)
        self.store = Store(topic)
        self.passes = Passes(self.tracker, self.store, self.store)

    def run(self) -> PassResult:
        return self.passes.run(lambda _phase: None)


def fingerprints(tracked: TrackedOffset) -> list[int]:
    return [record.fingerprint for record in tracked.records]


def of_rows(*offsets: int) -> list[int]:
    """Return the fingerprints of these records."""
    return [step_of(row(offset)).fingerprint for offset in offsets]
