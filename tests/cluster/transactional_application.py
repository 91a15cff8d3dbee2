"""Applications that write in transactions, and their own account of each record."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from uuid import uuid4

from confluent_kafka import KafkaException, Producer

from tests.cluster.failover_stage import APP, PARTITIONS
from tests.lab.cluster_under_test import ClusterUnderTest

TOGETHER = 3
"""Records per transaction."""
ABORTS_EVERY = 4
LEFT_ALONE_S = 20
"""Seconds after which brokers abort the transaction of a dead application."""
PAUSE_S = 0.2
DEADLINE_S = 30


@dataclass
class Outcomes:
    """What applications know of their records.

    Attributes:
        unclear: commits with an unknown result.
    """

    committed: list[str] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)


class Transaction:
    """A transaction with an initialized producer; its records are written once it is open."""

    def __init__(self, cluster: ClusterUnderTest, topic: str, prefix: str, timeout_s: int) -> None:
        self.values = [f"{prefix}-{number}" for number in range(TOGETHER * 2)]
        self._topic = topic
        self._producer = transactional(cluster, timeout_s)

    def open(self) -> None:
        """Write all records, and leave it open."""
        self._producer.begin_transaction()
        append(self._producer, self._topic, self.values)

    def commit(self) -> list[str]:
        """Commit; return the committed values."""
        self._producer.commit_transaction(DEADLINE_S)
        return self.values

    def abort(self) -> list[str]:
        """Abort; its records stay in the log without effect."""
        self._producer.abort_transaction(DEADLINE_S)
        return self.values


class Application:
    """Writes transaction after transaction, some aborted, until it is refused or stopped."""

    def __init__(
        self, cluster: ClusterUnderTest, topic: str, prefix: str, outcomes: Outcomes
    ) -> None:
        self._topic, self._prefix, self._outcomes = topic, prefix, outcomes
        self._producer = transactional(cluster, LEFT_ALONE_S)
        self._stop = threading.Event()
        self._refused = False

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Run it during the block."""
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(DEADLINE_S)

    @property
    def refused(self) -> bool:
        """Whether the cluster refuses its records."""
        return self._refused

    def _work(self) -> None:
        number = 0
        while not self._stop.is_set() and not self._refused:
            values = [f"{self._prefix}{number}-{each}" for each in range(TOGETHER)]
            self._one(values, aborts=number % ABORTS_EVERY == ABORTS_EVERY - 1)
            number += 1
            self._stop.wait(PAUSE_S)

    def _one(self, values: list[str], *, aborts: bool) -> None:
        """Write one transaction; abort it if its records are refused."""
        self._producer.begin_transaction()
        try:
            append(self._producer, self._topic, values)
        except KafkaException:
            self._refused = aborts = True
        if aborts or not self._committed(values):
            # If the first record was refused, the coordinator has no transaction to abort.
            with suppress(KafkaException) if self._refused else nullcontext():
                self._producer.abort_transaction(DEADLINE_S)
            self._outcomes.aborted += values

    def _committed(self, values: list[str]) -> bool:
        """Whether it was committed; an unknown result is left unknown."""
        try:
            self._producer.commit_transaction(DEADLINE_S)
        except KafkaException as failed:
            self._refused = True
            if failed.args[0].txn_requires_abort():
                return False
            self._outcomes.unclear += values
            return True
        self._outcomes.committed += values
        return True


def transactional(cluster: ClusterUnderTest, timeout_s: int) -> Producer:
    """Return a producer with a transactional id that the lab allows."""
    producer = cluster.producer(
        APP,
        transactional__id=f"{APP}-{uuid4().hex[:8]}",
        transaction__timeout__ms=timeout_s * 1000,
        linger__ms=0,
    )
    producer.init_transactions(DEADLINE_S)
    return producer


def append(producer: Producer, topic: str, values: list[str]) -> None:
    """Append to all partitions in turn, each under its own key; all are acknowledged.

    Raises:
        KafkaException: the cluster did not accept one.
    """
    failed: list[KafkaException] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failed.append(KafkaException(error))

    for number, value in enumerate(values):
        where = {"partition": number % PARTITIONS, "on_delivery": delivered}
        producer.produce(topic, key=value, value=value, **where)
    assert producer.flush(DEADLINE_S) == 0
    if failed:
        raise failed[0]
