"""Applications that write in transactions, and what became of each record by their own account."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from uuid import uuid4

from confluent_kafka import KafkaException, Producer

from tests.cluster.failover_stage import APP, PARTITIONS
from tests.lab.cluster_under_test import ClusterUnderTest

TOGETHER = 3
"""Records of a transaction."""
ABORTS_EVERY = 4
LEFT_ALONE_S = 20
"""After so many seconds brokers abort the transaction of an application that died."""
PAUSE_S = 0.2
DEADLINE_S = 30


@dataclass
class Told:
    """What applications were told of their records.

    Attributes:
        unclear: commits of which nobody knows whether they came about.
    """

    committed: list[str] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)


class Transaction:
    """One whose producer is ready; its records are in the log once it is open."""

    def __init__(self, cluster: ClusterUnderTest, topic: str, prefix: str, timeout_s: int) -> None:
        self.values = [f"{prefix}-{number}" for number in range(TOGETHER * 2)]
        self._topic = topic
        self._producer = transactional(cluster, timeout_s)

    def open(self) -> None:
        """Write all of it, and leave it open."""
        self._producer.begin_transaction()
        append(self._producer, self._topic, self.values)

    def commit(self) -> list[str]:
        """What is committed by it."""
        self._producer.commit_transaction(DEADLINE_S)
        return self.values

    def abort(self) -> list[str]:
        """What is in the log, and no record."""
        self._producer.abort_transaction(DEADLINE_S)
        return self.values


class Application:
    """Transaction after transaction, some of them aborted, until it is refused or told to stop."""

    def __init__(self, cluster: ClusterUnderTest, topic: str, prefix: str, told: Told) -> None:
        self._topic, self._prefix, self._told = topic, prefix, told
        self._producer = transactional(cluster, LEFT_ALONE_S)
        self._stop = threading.Event()
        self._refused = False

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Until the end of the block."""
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(DEADLINE_S)

    @property
    def refused(self) -> bool:
        """Whether the cluster has taken no more of its records."""
        return self._refused

    def _work(self) -> None:
        number = 0
        while not self._stop.is_set() and not self._refused:
            values = [f"{self._prefix}{number}-{each}" for each in range(TOGETHER)]
            self._one(values, aborts=number % ABORTS_EVERY == ABORTS_EVERY - 1)
            number += 1
            self._stop.wait(PAUSE_S)

    def _one(self, values: list[str], *, aborts: bool) -> None:
        """A transaction; where its records are refused, it is aborted."""
        self._producer.begin_transaction()
        try:
            append(self._producer, self._topic, values)
        except KafkaException:
            self._refused = aborts = True
        if aborts or not self._committed(values):
            # Where it was refused from the first record on the coordinator knows of none.
            with suppress(KafkaException) if self._refused else nullcontext():
                self._producer.abort_transaction(DEADLINE_S)
            self._told.aborted += values

    def _committed(self, values: list[str]) -> bool:
        """Whether it came about; where nobody knows it is left as it is."""
        try:
            self._producer.commit_transaction(DEADLINE_S)
        except KafkaException as failed:
            self._refused = True
            if failed.args[0].txn_requires_abort():
                return False
            self._told.unclear += values
            return True
        self._told.committed += values
        return True


def transactional(cluster: ClusterUnderTest, timeout_s: int) -> Producer:
    """A producer of the application, with a transactional id of its own that the lab allows."""
    producer = cluster.producer(
        APP,
        transactional__id=f"{APP}-{uuid4().hex[:8]}",
        transaction__timeout__ms=timeout_s * 1000,
        linger__ms=0,
    )
    producer.init_transactions(DEADLINE_S)
    return producer


def append(producer: Producer, topic: str, values: list[str]) -> None:
    """To all partitions in turn, each under a key of its own, all of them acknowledged.

    Raises:
        KafkaException: the cluster did not take one.
    """
    failed: list[KafkaException] = []

    def told(error: object, _message: object) -> None:
        if error is not None:
            failed.append(KafkaException(error))

    for number, value in enumerate(values):
        where = {"partition": number % PARTITIONS, "on_delivery": told}
        producer.produce(topic, key=value, value=value, **where)
    assert producer.flush(DEADLINE_S) == 0
    if failed:
        raise failed[0]
