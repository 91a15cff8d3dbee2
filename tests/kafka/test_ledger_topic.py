"""A ledger in a topic: consistent whoever writes, dies or deletes meanwhile."""

import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import (
    AclOperation,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from drctl.gap.comparison import Side
from drctl.gap.ledger import Book, Cell, KnownLog, LogKey, Row, Rules
from drctl.kafka import ledger_topic
from drctl.kafka.connection import Connection
from drctl.kafka.ledger_topic import TopicLedger, TopicLedgerReader
from drctl.kafka.own_topics import Change
from drctl.kafka.reader import KafkaClusterReader
from drctl.kafka.transactions import TransactionalWriter
from drctl.model.errors import ConfigError, Unknown, Unreachable
from drctl.model.topology import TopicPartition as Place
from tests.kafka.conftest import Bench
from tests.kafka.rights import Rights
from tests.kafka.tls_broker import TlsCluster, wait_until

pytestmark = pytest.mark.jvm

NEW = Book(salt=2**62 - 1, buckets=64, cell_bits=20, version=0)
RULES = {"orders": Rules("primary.orders", True, 65536), "clicks": Rules("clicks", False, 0)}
SOURCE, TARGET = LogKey(Side.SOURCE, "orders", 0), LogKey(Side.TARGET, "orders", 0)
CLICKS = LogKey(Side.SOURCE, "clicks", 11)
TOPICS = ("orders", "clicks")


def cell(number: int, rows: int, seed: int = 0) -> Cell:
    start = number << 20
    found = (Row(b, 1 + seed, 2**64 - 1 - b, b, start + b, start + b) for b in range(rows))
    return Cell(number, start, start + rows + seed, 1_700_000_000_000, tuple(found))


def log(*cells: Cell, topic_id: str = "id") -> KnownLog:
    return KnownLog(topic_id, 3, 41, 2, {c.number: c for c in cells})


class Ledgers:
    """Processes of drctl that share a topic."""

    def __init__(self, properties: Mapping[str, str], bench: Bench) -> None:
        self.properties = dict(properties)
        self.topic = f"__ledger-{uuid4().hex[:8]}"
        self.fingerprint = uuid4().hex * 2
        self.bench = bench

    def writer(self, **settings: str) -> TopicLedger:
        return TopicLedger(Connection("secondary", {**self.properties, **settings}), self.topic)

    def reader(self, **settings: str) -> TopicLedgerReader:
        return TopicLedgerReader(
            Connection("secondary", {**self.properties, **settings}), self.topic
        )

    def seen(self) -> tuple[Book | None, Mapping[LogKey, KnownLog]]:
        """What a new reader finds."""
        reader = self.reader()
        return reader.book(self.fingerprint), reader.logs(self.fingerprint, TOPICS)

    def end(self) -> int:
        """The end offset, read without the code under test."""
        place = TopicPartition(self.topic, 0)
        return int(
            self.bench.admin.list_offsets({place: OffsetSpec.latest()})[place].result().offset
        )

    def records(self) -> list[tuple[str, bytes | None]]:
        """All committed records; a plain consumer would create __consumer_offsets."""
        place = Place(self.topic, 0)
        with KafkaClusterReader(Connection("bench", self.bench.properties)) as reader:
            found = reader.following({place: 0}, 10_000)[place]
        assert isinstance(found, tuple), found
        return [((record.key or b"").decode(), record.value) for record in found]

    def topics(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.bench.admin.list_topics(timeout=20).topics
        return found


@pytest.fixture
def ledgers(cluster: TlsCluster, bench: Bench) -> Iterator[Ledgers]:
    made = Ledgers(cluster.properties(), bench)
    yield made
    if made.topic in made.topics():
        for future in bench.admin.delete_topics([made.topic]).values():
            future.result()


@pytest.fixture
def begun(ledgers: Ledgers) -> Ledgers:
    """A book at version 1 with three logs."""
    store = ledgers.writer()
    assert store.begin(ledgers.fingerprint, NEW) == NEW
    logs = {SOURCE: log(cell(0, 3), cell(1, 2)), TARGET: log(cell(0, 3)), CLICKS: log(cell(7, 1))}
    assert store.keep(ledgers.fingerprint, 0, RULES, [], logs)
    return ledgers


def test_reading_creates_no_topic(ledgers: Ledgers) -> None:
    before = set(ledgers.topics())
    reader = ledgers.reader()
    assert reader.book(ledgers.fingerprint) is None
    assert reader.begin(ledgers.fingerprint, NEW) == NEW
    assert reader.logs(ledgers.fingerprint, TOPICS) == {}
    assert not reader.keep(ledgers.fingerprint, 0, RULES, [], {SOURCE: log(cell(0, 1))})
    assert ledgers.writer().book(ledgers.fingerprint) is None
    assert set(ledgers.topics()) == before


def test_stored_entries_are_read_back(begun: Ledgers) -> None:
    logs = {SOURCE: log(cell(0, 3), cell(1, 2)), TARGET: log(cell(0, 3)), CLICKS: log(cell(7, 1))}
    assert begun.seen() == (replace(NEW, version=1, rules=RULES), logs)
    reader = begun.reader()
    reader.book(begun.fingerprint)
    assert set(reader.logs(begun.fingerprint, ["clicks"])) == {CLICKS}
    other = begun.reader()
    assert other.book("f" * 64) is None
    assert other.logs("f" * 64, TOPICS) == {}


def test_the_topic_is_compacted_and_replicated(begun: Ledgers) -> None:
    resource = ConfigResource(ResourceType.TOPIC, begun.topic)
    config = begun.bench.admin.describe_configs([resource])[resource].result()
    assert config["cleanup.policy"].value == "compact"
    partitions = begun.topics()[begun.topic].partitions
    assert [len(p.replicas) for p in partitions.values()] == [2]


def test_a_cell_larger_than_a_record(ledgers: Ledgers) -> None:
    store = ledgers.writer()
    store.begin(ledgers.fingerprint, NEW)
    large = log(cell(0, 20_001))
    assert store.keep(ledgers.fingerprint, 0, RULES, [], {SOURCE: large})
    assert ledgers.seen()[1] == {SOURCE: large}
    assert max(len(value or b"") for _, value in ledgers.records()) < 900_000
    assert store.keep(ledgers.fingerprint, 1, RULES, [], {SOURCE: log(cell(0, 2, seed=1))})
    assert ledgers.seen()[1] == {SOURCE: log(cell(0, 2, seed=1))}


def test_an_incomplete_cell_is_unknown() -> None:
    values = ledger_topic.log_of("f", 1, SOURCE, log(cell(0, 20_001), cell(1, 1)))
    assert ledger_topic.logs_in(values) == {SOURCE: log(cell(0, 20_001), cell(1, 1))}
    del values[b"f/cell/source/orders/0/0/1"]
    assert ledger_topic.logs_in(values) == {SOURCE: log(cell(1, 1))}


def test_removed_entries_leave_tombstones(begun: Ledgers) -> None:
    store = begun.writer()
    book = store.book(begun.fingerprint)
    assert book
    recreated = log(cell(1, 4), topic_id="another")
    assert store.keep(begun.fingerprint, book.version, RULES, [SOURCE, TARGET], {SOURCE: recreated})
    assert begun.seen() == (replace(book, version=2), {SOURCE: recreated, CLICKS: log(cell(7, 1))})
    dead = {key.partition("/")[2] for key, value in begun.records() if value is None}
    assert dead == {"cell/source/orders/0/0/0", "log/target/orders/0", "cell/target/orders/0/0/0"}


def test_only_changes_are_written(begun: Ledgers) -> None:
    before = len(begun.records())
    grown = log(cell(0, 3), cell(1, 5))
    assert begun.writer().keep(begun.fingerprint, 1, RULES, [], {SOURCE: grown})
    new = [key.partition("/")[2] for key, _ in begun.records()[before:]]
    assert new == ["cell/source/orders/0/1/0", "book"], "the header is not written last"


def test_entries_of_a_topic_are_dropped_if_its_rules_change(begun: Ledgers) -> None:
    rules = {**RULES, "orders": replace(RULES["orders"], timestamps=False)}
    assert begun.writer().keep(begun.fingerprint, 1, rules, [], {})
    assert begun.seen() == (replace(NEW, version=2, rules=rules), {CLICKS: log(cell(7, 1))})


def test_an_outdated_version_is_not_written(begun: Ledgers) -> None:
    slow, fast = begun.writer(), begun.writer()
    for store in (slow, fast):
        store.book(begun.fingerprint)
    assert fast.keep(begun.fingerprint, 1, RULES, [CLICKS], {})
    before, end = begun.seen(), begun.end()
    assert not slow.keep(begun.fingerprint, 1, RULES, [], {SOURCE: log(cell(0, 1))})
    assert begun.seen() == before
    assert begun.end() == end
    assert slow.begin(begun.fingerprint, NEW) == before[0]


def test_two_concurrent_writers(begun: Ledgers) -> None:
    both = Barrier(2)

    def keep(seed: int) -> bool:
        store = begun.writer()
        store.book(begun.fingerprint)
        both.wait(20)
        return store.keep(begun.fingerprint, 1, RULES, [CLICKS], {TARGET: log(cell(0, 9, seed))})

    with ThreadPoolExecutor(2) as pool:
        kept = list(pool.map(keep, (5, 6)))
    assert sorted(kept) == [False, True]
    winner = log(cell(0, 9, (5, 6)[kept.index(True)]))
    book, logs = begun.seen()
    assert book == replace(NEW, version=2, rules=RULES)
    assert logs == {SOURCE: log(cell(0, 3), cell(1, 2)), TARGET: winner}


def test_two_concurrent_first_runs(ledgers: Ledgers) -> None:
    both = Barrier(2)

    def begin(salt: int) -> Book:
        store = ledgers.writer()
        both.wait(20)
        return store.begin(ledgers.fingerprint, replace(NEW, salt=salt))

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(begin, (1, 2))
    assert one == other == ledgers.seen()[0]


@pytest.mark.parametrize("step", ["write", "_commit"])
def test_a_second_writer_fences_the_first(
    begun: Ledgers, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The first is about to produce or to commit when the second starts."""
    first, second = begun.writer(), begun.writer()
    original = getattr(TransactionalWriter, step)

    def late(writer: TransactionalWriter, *arguments: object) -> None:
        monkeypatch.setattr(TransactionalWriter, step, original)
        assert second.keep(begun.fingerprint, 1, RULES, [TARGET], {})
        original(writer, *arguments)

    monkeypatch.setattr(TransactionalWriter, step, late)
    for store in (first, second):
        store.book(begun.fingerprint)
    assert not first.keep(begun.fingerprint, 1, RULES, [CLICKS], {SOURCE: log(cell(0, 1))})
    book, logs = begun.seen()
    assert book == replace(NEW, version=2, rules=RULES)
    assert set(logs) == {SOURCE, CLICKS}
    assert logs[SOURCE] == log(cell(0, 3), cell(1, 2))


DIES = """
import os, sys
from drctl.kafka.reader import KafkaClusterReader
from drctl.kafka.transactions import TransactionalWriter
TransactionalWriter._commit = lambda writer, deadline: os._exit(9)
from tests.kafka.test_ledger_topic import *
store = TopicLedger(Connection("secondary", eval(sys.stdin.read())), sys.argv[1])
store.book(sys.argv[2])
store.keep(sys.argv[2], 1, RULES, [CLICKS, TARGET], {SOURCE: log(cell(0, 1))})
"""


def test_a_crash_before_the_end_changes_nothing(begun: Ledgers) -> None:
    before, end = begun.seen(), begun.end()
    died = subprocess.run(
        [sys.executable, "-c", DIES, begun.topic, begun.fingerprint],
        input=repr(begun.properties).encode(),
        timeout=60,
        check=False,
    )
    assert died.returncode == 9
    assert begun.end() > end, "the process died before it wrote"
    assert begun.seen() == before, "a reader sees an uncommitted change"
    assert begun.writer().keep(begun.fingerprint, 1, RULES, [CLICKS], {})
    assert begun.seen() == (
        replace(NEW, version=2, rules=RULES),
        {key: known for key, known in before[1].items() if key != CLICKS},
    )


def test_a_transaction_of_another_book_stays_hidden(begun: Ledgers) -> None:
    """Half of a change is before it, half after it: what is visible is no state of the book."""
    book = replace(NEW, version=2)
    half = ledger_topic.log_of(begun.fingerprint, 2, TARGET, log(cell(0, 1), topic_id="new"))
    end = ledger_topic.header_of(begun.fingerprint, book)
    ours, other = (begun.bench.producer(**{"transactional.id": uuid4().hex}) for _ in range(2))
    for producer in (ours, other):
        producer.init_transactions(30)
        producer.begin_transaction()
    for producer, values in ((ours, half), (other, {b"other/book": b"x"}), (ours, end)):
        for key, value in values.items():
            producer.produce(begun.topic, key=key, value=value, partition=0)
        assert producer.flush(20) == 0
    ours.commit_transaction(30)
    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(begun.seen)
        with pytest.raises(TimeoutError):
            seen.result(1)
        other.commit_transaction(30)
        found, logs = seen.result(30)
    assert found == replace(book, rules=RULES)
    assert logs[TARGET].topic_id == "new"


def test_a_topic_that_is_deleted_meanwhile(begun: Ledgers) -> None:
    store = begun.writer()
    book = store.book(begun.fingerprint)
    assert book
    for future in begun.bench.admin.delete_topics([begun.topic]).values():
        future.result()
    wait_until(lambda: begun.topic not in begun.topics(), "the topic is gone")
    with pytest.raises(Unknown, match=f"topic {begun.topic} of secondary was deleted") as caught:
        store.keep(begun.fingerprint, book.version, RULES, [], {SOURCE: log(cell(0, 1))})
    assert "run the command again" in caught.value.hint
    assert begun.topic not in begun.topics(), "the topic was auto-created"
    assert begun.writer().begin(begun.fingerprint, NEW) == NEW
    with pytest.raises(Unknown, match="deleted or recreated"):
        store.book(begun.fingerprint)
    assert begun.seen() == (NEW, {})


def test_a_topic_that_is_deleted_just_before_it_is_written(
    begun: Ledgers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These brokers auto-create topics, not compacted: a producer must not request one."""
    write = TransactionalWriter.write

    def late(writer: TransactionalWriter, changes: Iterable[Change]) -> None:
        for future in begun.bench.admin.delete_topics([begun.topic]).values():
            future.result()
        wait_until(lambda: begun.topic not in begun.topics(), "the topic is gone")
        write(writer, changes)

    monkeypatch.setattr(TransactionalWriter, "write", late)
    store = begun.writer(**{"topic.metadata.propagation.max.ms": "500"})
    with pytest.raises(Unknown, match="was deleted") as caught:
        store.keep(begun.fingerprint, 1, RULES, [], {SOURCE: log(cell(0, 1))})
    assert caught.value.hint
    assert begun.topic not in begun.topics()


def test_a_topic_that_could_lose_records_is_refused(begun: Ledgers) -> None:
    entry = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, begun.topic, incremental_configs=[entry])
    for future in begun.bench.admin.incremental_alter_configs([resource]).values():
        future.result()
    with pytest.raises(ConfigError, match=r"cleanup\.policy delete"):
        begun.reader().book(begun.fingerprint)


def test_records_of_another_drctl(begun: Ledgers) -> None:
    key = ledger_topic.header_key(begun.fingerprint)
    before = begun.seen()
    foreign = {"key": b"not/ours/at/all", "value": b"of somebody else"}
    begun.bench.produce(begun.topic, foreign)
    assert begun.seen() == before
    for value in (b"", b"\x02and so on", b"\x01short"):
        begun.bench.produce(begun.topic, foreign, {"key": key, "value": value})
        with pytest.raises(ConfigError, match="not written by this version of drctl") as caught:
            begun.reader().book(begun.fingerprint)
        assert "can be deleted at any time" in caught.value.hint


def test_a_value_of_another_drctl_below_a_valid_header(begun: Ledgers) -> None:
    key = f"{begun.fingerprint}/cell/source/orders/0/0/0".encode()
    for value in (b"", b"\x02and so on"):
        begun.bench.produce(begun.topic, {"key": key, "value": value})
        with pytest.raises(ConfigError, match="not written by this version of drctl"):
            begun.seen()


def test_a_cluster_that_does_not_answer(ledgers: Ledgers) -> None:
    ledgers.properties["bootstrap.servers"] = "127.0.0.1:1"
    store = TopicLedger(Connection("secondary", ledgers.properties, timeout_s=1), ledgers.topic)
    for call in (store.book, lambda name: store.begin(name, NEW)):
        with pytest.raises(Unreachable, match="cluster secondary"):
            call(ledgers.fingerprint)


def test_required_permissions_and_the_errors_without_them(
    cluster: TlsCluster, ledgers: Ledgers, bob: Rights
) -> None:
    do, name = AclOperation, ledgers.fingerprint
    ledgers.properties = cluster.properties("bob")
    secret = ledgers.properties["sasl.password"]

    def refused(words: str) -> None:
        with pytest.raises(ConfigError, match=words) as caught:
            ledgers.writer().begin(name, NEW)
        assert "grant" in caught.value.hint
        assert secret not in caught.value.message

    refused("may not read")
    bob.grant(ResourceType.TOPIC, ledgers.topic, do.DESCRIBE)
    refused("cannot create")
    bob.grant(ResourceType.TOPIC, ledgers.topic, do.READ, do.DESCRIBE_CONFIGS, do.CREATE)
    refused("transactional id drctl-ledger-")
    bob.grant(ResourceType.TRANSACTIONAL_ID, "drctl-ledger-", do.WRITE, prefixed=True)
    refused("may not write to")
    assert ledgers.end() == 0
    bob.grant(ResourceType.TOPIC, ledgers.topic, do.WRITE)

    def granted() -> bool:
        try:
            return ledgers.writer().begin(name, NEW) == NEW
        except ConfigError:
            return False

    wait_until(granted, "both brokers know what bob may do")
    store = ledgers.writer()
    assert store.book(name) == NEW
    assert store.keep(name, 0, RULES, [], {SOURCE: log(cell(0, 1))})
    assert ledgers.seen()[1] == {SOURCE: log(cell(0, 1))}


def test_missing_write_permission_is_reported_before_any_read(
    cluster: TlsCluster, begun: Ledgers, bob: Rights
) -> None:
    begun.properties = cluster.properties("bob")
    bob.grant(ResourceType.TOPIC, begun.topic, AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)
    wait_until(lambda: _readable(begun), "bob may read")
    assert len(begun.seen()[1]) == 3
    with pytest.raises(ConfigError, match="may not write to"):
        begun.writer().book(begun.fingerprint)


def _readable(ledgers: Ledgers) -> bool:
    try:
        return ledgers.reader().book(ledgers.fingerprint) is not None
    except ConfigError:
        return False


def test_an_unfinished_transaction_names_the_broker_to_restart() -> None:
    """On real brokers only a coordinator that cannot reach a leader for minutes answers so."""
    connection = Connection("secondary", {"bootstrap.servers": "127.0.0.1:1"}, 1)
    writer = TransactionalWriter(connection, "drctl.pair", "t")
    ended = writer._ended(KafkaError(KafkaError.CONCURRENT_TRANSACTIONS))
    assert isinstance(ended, Unknown)
    assert "has not ended yet" in ended.message
    assert "restart the broker that coordinates drctl.pair" in ended.hint
