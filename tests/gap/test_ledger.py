"""A run with a ledger has the same digests as one without, whatever happened to the logs."""

import hashlib
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from drctl.gap.comparison import BucketDigest, ComparePlan, Reads, Side, span_of
from drctl.gap.freeze import Frozen, freeze, plan_comparison
from drctl.gap.ledger import Book, Cell, KnownLog, LogKey, Row, Rules
from drctl.gap.ledger_updates import LedgerUpdate
from drctl.gap.reference import identify
from drctl.model.errors import ConfigError
from drctl.model.gap import LedgerUse
from drctl.model.topology import TopicPartition
from drctl.stores.ledger import DatabaseLedger
from tests.depth import examples
from tests.fakes import FakeCluster, FakeLog, record_of
from tests.links import link

CELL_BITS = 2
PARTITIONS = (0, 1)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


Summed = dict[tuple[Side, int, int, int], tuple[int, int, int, int, int]]


def digested(
    plan: ComparePlan, reads: Reads, clusters: Mapping[Side, FakeCluster]
) -> list[BucketDigest]:
    (topic,) = plan.topics
    groups: dict[tuple[Side, int, int, int], list[tuple[int, int, int]]] = defaultdict(list)
    for side, cluster in clusters.items():
        for partition, ranges in reads[side].get("t", {}).items():
            for row in cluster.log(TopicPartition("t", partition)).rows:
                record, offset = record_of(partition, row), row[0]
                if any(r.start <= offset < r.end for r in ranges):
                    name = (plan.salt, identify(record, plan.identity, topic.timestamps))
                    digest = hashlib.sha256(repr(name).encode()).digest()
                    sums = int.from_bytes(digest[:8]), int.from_bytes(digest[8:16])
                    width = topic.bucket_ms
                    bucket = (record.timestamp_ms // width if width else sums[0]) % plan.buckets
                    cell = offset >> plan.cell_bits
                    groups[side, partition, bucket, cell].append((offset, *sums))
    return [
        BucketDigest(
            "t",
            side,
            partition,
            bucket,
            len(rows),
            sum(r[1] for r in rows),
            sum(r[2] for r in rows),
            min(r[0] for r in rows),
            max(r[0] for r in rows),
            cell,
        )
        for (side, partition, bucket, cell), rows in groups.items()
    ]


def summed(digests: Sequence[BucketDigest]) -> Summed:
    """Return digests as later steps see them: those of a bucket and cell are added."""
    found: Summed = {}
    for d in digests:
        key = (d.side, d.partition, d.bucket, d.cell)
        n, one, two, first, last = found.get(key, (0, 0, 0, d.first, d.last))
        found[key] = (
            n + d.records,
            (one + d.sum1) % 2**64,
            (two + d.sum2) % 2**64,
            min(first, d.first),
            max(last, d.last),
        )
    return found


@dataclass
class Run:
    """A run up to the point where its digests are known."""

    plan: ComparePlan
    frozen: Frozen
    ledger_update: LedgerUpdate
    fresh: list[BucketDigest]
    use: LedgerUse | None = None
    offsets_read: int = 0


class Histories(RuleBasedStateMachine):
    """Random changes of two clusters and their ledger."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.source, self.target = FakeCluster({}, "primary"), FakeCluster({}, "secondary")
        self.identity = "key, value, headers, timestamp"

    def teardown(self) -> None:
        self.folder.cleanup()

    def begun(self) -> Run:
        """Freeze, recall, and read the unknown rest; also compute the digests of a full read."""
        over = link(topics=["t"], identity=self.identity.split(", "))
        clusters = {Side.SOURCE: self.source, Side.TARGET: self.target}
        store = DatabaseLedger(Path(self.folder.name) / "ledger.db")
        ledger_update = LedgerUpdate(
            over,
            store,
            self.source,  # type: ignore[arg-type]
            self.target,  # type: ignore[arg-type]
            lambda: NOW,
            CELL_BITS,
        )
        frozen = freeze(over, self.source, self.target, ["t"])  # type: ignore[arg-type]
        basis = ledger_update.basis(frozen)
        plan = plan_comparison(over, frozen, self.source, basis)  # type: ignore[arg-type]
        known = ledger_update.recall(plan, frozen)
        fresh = digested(plan, known.reads, clusters)
        everything = digested(plan, plan.everything(), clusters)
        assert summed([*known.digests, *fresh]) == summed(everything)
        run = Run(plan, frozen, ledger_update, fresh, offsets_read=span_of(known.reads))
        self.known = known
        return run

    def finished(self, run: Run) -> LedgerUse:
        return run.ledger_update.keep(run.plan, run.frozen, self.known, run.fresh)

    @initialize()
    def some_records(self) -> None:
        for side in ("source", "target"):
            self.recreate(side)
            for n in range(6):
                self.log(side, 0).append(b"k%d" % n, n)

    sides = st.sampled_from(["source", "target"])
    partitions = st.sampled_from(PARTITIONS)
    numbers = st.integers(0, 9)

    def log(self, side: str, partition: int) -> FakeLog:
        cluster: FakeCluster = getattr(self, side)
        return cluster.log(TopicPartition("t", partition))

    @rule(side=sides, partition=partitions, n=st.integers(1, 9), key=numbers, time=numbers)
    def append(self, side: str, partition: int, n: int, key: int, time: int) -> None:
        for _ in range(n):
            self.log(side, partition).append(b"k%d" % key, time)

    @rule(side=sides, partition=partitions)
    def end_a_transaction(self, side: str, partition: int) -> None:
        self.log(side, partition).append(b"", 0, holds_record=False)

    @rule(partition=partitions)
    def replicate(self, partition: int) -> None:
        copies = self.log("target", partition)
        for _, time, key, *_ in self.log("source", partition).rows[len(copies.rows) :]:
            copies.append(key, time)

    @rule(side=sides, partition=partitions, n=numbers)
    def open_a_transaction(self, side: str, partition: int, n: int) -> None:
        log = self.log(side, partition)
        stable = log.last_stable
        log.append(b"open", n)
        log.stable = stable

    @rule(side=sides, partition=partitions, n=numbers)
    def delete_records(self, side: str, partition: int, n: int) -> None:
        log = self.log(side, partition)
        log.delete_before(min(log.start + n, log.last_stable))

    @rule(side=sides, partition=partitions)
    def elect(self, side: str, partition: int) -> None:
        self.log(side, partition).epoch += 1

    @rule(side=sides, partition=partitions, n=numbers, rewritten=numbers)
    def elect_uncleanly(self, side: str, partition: int, n: int, rewritten: int) -> None:
        log = self.log(side, partition)
        log.truncate(max(log.start, log.end - n))
        log.epoch += 1
        for _ in range(rewritten):
            log.append(b"rewritten", rewritten)

    @rule(side=sides)
    def recreate(self, side: str) -> None:
        cluster: FakeCluster = getattr(self, side)
        cluster.ids["t"] = cluster.ids.get("t", "") + "+"
        cluster.logs = {TopicPartition("t", p): FakeLog(epoch=0) for p in PARTITIONS}

    @rule(side=sides)
    def compact(self, side: str) -> None:
        """Allow compaction and compact at once; later steps may compact again."""
        cluster: FakeCluster = getattr(self, side)
        cluster.config = {**cluster.config, "cleanup.policy": "compact"}
        for partition in PARTITIONS:
            self.log(side, partition).compact()

    @rule()
    def target_keeps_its_own_time(self) -> None:
        self.target.config = {**self.target.config, "message.timestamp.type": "LogAppendTime"}

    @rule(identity=st.sampled_from(["key", "key, value", "key, value, headers, timestamp"]))
    def change_the_identity(self, identity: str) -> None:
        self.identity = identity

    @rule()
    def run(self) -> None:
        self.finished(self.begun())

    @rule()
    def run_twice(self) -> None:
        """Without changes nothing is read twice, except what may have been compacted."""
        self.finished(self.begun())
        again = self.begun()
        compacted = any("compact" in c.config["cleanup.policy"] for c in (self.source, self.target))
        later = sum(
            log.last_stable
            - max((row[0] for row in log.read(0, log.last_stable)), default=log.start - 1)
            - 1
            for c in (self.source, self.target)
            for log in c.logs.values()
        )
        if not compacted:
            assert again.offsets_read == later

    @rule()
    def crash_before_the_end(self) -> None:
        self.begun()

    @rule(side=sides, partition=partitions, n=numbers, rewritten=numbers)
    def elect_uncleanly_during_a_run(
        self, side: str, partition: int, n: int, rewritten: int
    ) -> None:
        run = self.begun()
        self.elect_uncleanly(side, partition, n, rewritten)
        self.finished(run)

    @rule(side=sides, partition=partitions, n=st.integers(1, 9))
    def two_runs_at_once(self, side: str, partition: int, n: int) -> None:
        one = self.begun()
        known = self.known
        self.append(side, partition, n, 1, 1)
        other = self.begun()
        self.finished(other)
        self.known = known
        self.finished(one)

    @precondition(lambda self: "compact" in self.source.config["cleanup.policy"])
    @rule()
    def compact_again(self) -> None:
        for log in self.source.logs.values():
            log.compact()

    @invariant()
    def the_next_run_would_be_right(self) -> None:
        if (Path(self.folder.name) / "ledger.db").exists():
            self.begun()


Histories.TestCase.settings = settings(
    max_examples=examples(15), stateful_step_count=20, deadline=None
)
TestHistories = Histories.TestCase


def test_an_unchanged_log_is_not_read_again() -> None:
    machine = Histories()
    try:
        machine.some_records()
        first = machine.begun()
        assert machine.finished(first).offsets_known == 0
        again = machine.begun()
        assert again.offsets_read == 0
        use = machine.finished(again)
        assert (use.offsets_known, use.kept) == (12, True)
        assert use.oldest_ms == NOW.timestamp() * 1000
    finally:
        machine.teardown()


def test_outdated_entries_are_reported() -> None:
    machine = Histories()
    try:
        machine.some_records()
        machine.run()
        machine.recreate("source")
        machine.elect_uncleanly("target", 0, 3, 3)
        machine.begun()
        reasons = {(f.side, f.partition): f.reason for f in machine.known.forgotten}
        assert reasons == {
            ("source", 0): "the topic was recreated",
            ("target", 0): "a new leader was elected, and its log differs",
        }
    finally:
        machine.teardown()


def test_of_two_runs_at_once_the_faster_one_is_kept() -> None:
    machine = Histories()
    try:
        machine.some_records()
        one, known = machine.begun(), machine.known
        machine.append("source", 0, 3, 1, 1)
        assert machine.finished(machine.begun()).kept
        machine.known = known
        assert not machine.finished(one).kept
        assert machine.begun().offsets_read == 0
    finally:
        machine.teardown()


def test_a_file_that_is_not_a_ledger(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    file.write_bytes(b"these are not the bytes of a database" * 100)
    with pytest.raises(ConfigError, match=r"ledger\.db"):
        DatabaseLedger(file).book("x")


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    store = DatabaseLedger(tmp_path / "deep" / "ledger.db")
    assert store.logs("x", ["t"]) == {}
    assert (tmp_path / "deep" / "ledger.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("UPDATE book SET salt = 'x'", "another type"),
        ("UPDATE rules SET bucket_ms = 1.5", "another type"),
        ("UPDATE log SET side = 'neither'", "neither"),
        ("UPDATE log SET leader_epoch = NULL", "another type"),
        ("UPDATE cell SET digests = x'0102'", "cut short"),
        ("UPDATE cell SET first = x'01'", "another type"),
    ],
)
def test_a_ledger_with_other_values_is_not_used(tmp_path: Path, change: str, why: str) -> None:
    file, key = tmp_path / "ledger.db", LogKey(Side.SOURCE, "t", 0)
    ledger = DatabaseLedger(file)
    book = ledger.begin("f", Book(7, 64, 20, 0))
    log = KnownLog("id", 3, 41, 2, {0: Cell(0, 0, 9, 5, (Row(0, 1, 2, 3, 4, 5),))})
    assert ledger.keep("f", book.version, {"t": Rules("t", True, 60_000)}, (), {key: log})
    assert ledger.logs("f", ["t"]) == {key: log}
    with sqlite3.connect(file) as database:
        assert database.execute(change).rowcount == 1
    with pytest.raises(ConfigError, match=why):
        _ = ledger.book("f") and ledger.logs("f", ["t"])
