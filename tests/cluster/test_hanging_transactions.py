"""Transactions that block the drain of a planned failover: named, aborted when allowed, once."""

import time
from typing import Any

import pytest
from confluent_kafka import KafkaException

from drctl.kafka.connection import Connection
from drctl.kafka.health import KafkaHealthReader
from drctl.kafka.open_transactions import KafkaTransactionWriter
from drctl.model.health import BlockingTransaction
from drctl.model.topology import Record, TopicPartition
from drctl.steps.transactions import AbortTransactions
from tests.cli.documents import check
from tests.cluster.failover_stage import PARTITIONS, Stage, connect, consumed
from tests.cluster.isolated_links import RECORDS, OwnLinks, at_work
from tests.cluster.link_command import GO, steps_of
from tests.kafka.hanging import hang, unverified
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

WHY = "hanging-transactions=the owner gave up its producers"
HANGS, EPOCH = 977, 4
OLD_MS = 10 * 60_000
AFTER = 20


def open_in(cluster: ClusterUnderTest, topic: str) -> list[BlockingTransaction]:
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    with KafkaHealthReader(Connection(cluster.name, cluster.properties())) as reader:
        found = reader.open_transactions(places)
    assert all(isinstance(each, tuple) for each in found.values()), found
    return [BlockingTransaction.at(p, each) for p, there in found.items() for each in there]  # type: ignore[union-attr]


def crash(*_: object) -> None:
    """The process ends after the transactions were aborted."""
    raise RuntimeError("the process is gone")


def read_committed(stage: Stage, cluster: ClusterUnderTest, count: int) -> list[str]:
    enough = lambda values: len(values) >= count  # noqa: E731
    settings: dict[str, Any] = {"isolation.level": "read_committed"}
    values, came = consumed(cluster, f"{stage.group}-all", [stage.topic], enough, **settings)
    assert came, len(values)
    return values


def test_hanging_transactions_are_named_and_aborted_once_with_the_override(
    links: OwnLinks, primary: ClusterUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = links.make()
    # Running tasks would keep their old configuration for a while.
    stage.stop(stage.copies)
    with connect(stage.lab) as client:
        client.configure(stage.copies, {"source.consumer.isolation.level": "read_committed"})
    stage.resume(stage.copies)
    written = at_work(stage)
    at_ms, topic = int(time.time() * 1000) - OLD_MS, stage.topic
    place = TopicPartition(topic, 0)
    with unverified(primary):
        values = [b"hanging-1", b"hanging-2"]
        hang(primary.properties(), place, at_ms, producer_id=HANGS, values=values, epoch=EPOCH)
    silent = [Record(1, -1, at_ms, b"k", b"silent")]
    primary.produce(topic, silent, "open", transaction__timeout__ms=800_000)
    hanging, known = open_in(primary, topic)
    assert (hanging.hanging, known.hanging) == (True, False)
    # Replication with read_committed cannot pass the open transactions: these records wait.
    written += stage.write(AFTER, "after")

    refused = stage.refused("failover", *GO)
    since = f"epoch {EPOCH}, open since offset {hanging.since}, last record 10 min ago, hanging"
    assert "hanging, or idle for at least 5 minutes: 2 open transactions" in refused
    shown = check(stage.json("failover", code=3))
    (finding,) = [each for each in shown["findings"] if each["status"] == "fail"]
    assert f"{place} (producer id {HANGS}, {since})" in finding["evidence"]
    assert f"transactional id {known.transactional_id}, producer id" in finding["evidence"]
    assert "--override hanging-transactions=REASON" in finding["remedy"]
    assert open_in(primary, topic) == [hanging, known], "the refused failover changed a transaction"

    with monkeypatch.context() as patched:
        patched.setattr(AbortTransactions, "verify", crash)
        ran = stage.drctl("failover", "--override", WHY, *GO, "--link", stage.link)
        assert ran.code == 70, ran.stdout + ran.stderr
    with monkeypatch.context() as patched:
        # The resumed run reads that the transactions are aborted, and does not abort them again.
        patched.setattr(KafkaTransactionWriter, "abort", crash)
        done = stage.json("resume", *GO, code=0)
    assert done["status"] == "done"
    message = steps_of(done, "detail")["abort-transactions"]
    assert message.startswith("aborted on primary: ")
    assert str(HANGS) in message
    assert known.transactional_id in message
    assert open_in(primary, topic) == []
    with pytest.raises(KafkaException, match=r"(?i)fenced"):
        primary.close()
    for cluster in (stage.source, stage.target):
        count = RECORDS + AFTER
        assert sorted(read_committed(stage, cluster, count)) == sorted(written), cluster.name
