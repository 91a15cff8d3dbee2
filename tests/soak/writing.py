"""Applications that write: their own keys, increasing numbers, a log of acknowledgements."""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from drctl.lab.cluster import LOGGER, LabCluster
from drctl.lab.scenarios.clients import USER, EndpointFile
from drctl.model.errors import DrctlError
from tests.soak.logs import Aborted, Acknowledged, Failed, Line, Log

KEYS = 40
UNKEYED = 23
"""One of this many records has no key."""
END_S = 30
RETRY_S = 1.0
TOGETHER = 5
"""Records per transaction."""
ABORTS_EVERY = 7
ANSWER_S = 10
TRANSACTION_MS = 15_000
"""Brokers abort the transaction of a lost producer after this time."""
_LOOK_S = 0.1
_SETTINGS: dict[str, str | int | float | bool] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",
    "linger.ms": 5,
    "message.timeout.ms": 20_000,
    "reconnect.backoff.max.ms": 500,
}


def key_of(value: str) -> str:
    """Return the key of a record that has one."""
    writer, _, number = value.rpartition("-")
    return f"{writer}-k{int(number) % KEYS}"


class Writer:
    """One producer in a thread; refused or unanswered records are never sent again."""

    def __init__(
        self,
        number: int,
        endpoint: EndpointFile,
        topic: str,
        folder: Path,
        rate: float,
        *,
        keyless: bool = True,
    ) -> None:
        self.name = f"w{number}"
        self.topic = topic
        self.failure = ""
        self.acknowledged: dict[str, int] = {}
        self.log = Log(folder / f"writer-{number}.jsonl")
        self._endpoint = endpoint
        self._rate = rate
        self._keyless = keyless
        self._next = 0
        self._refused = False
        self._stopping = threading.Event()
        self._quiet = threading.Event()
        self._silent = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        """Start."""
        self._thread.start()

    def rest(self) -> bool:
        """Pause; return whether no record is in flight."""
        self._silent.clear()
        self._quiet.set()
        return self._silent.wait(END_S)

    @property
    def resting(self) -> bool:
        """Whether it is paused."""
        return self._quiet.is_set()

    def resume(self) -> None:
        """Write again."""
        self._quiet.clear()

    def ask_to_stop(self) -> None:
        """Request a stop without waiting."""
        self._stopping.set()

    def stop(self) -> bool:
        """Stop; return whether it ended in time."""
        self._stopping.set()
        self._thread.join(2 * END_S)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._write_to(self._endpoint.cluster())
                self._stopping.wait(RETRY_S)
        except DrctlError as error:
            self.failure = f"{self.name}: {error.message}"
        except KafkaException as error:
            self.failure = f"{self.name}: {error.args[0].str()}"

    def _write_to(self, cluster: LabCluster) -> None:
        """Write until the cluster refuses, or the endpoint changes."""
        producer = self._producer(cluster)
        self._refused = False
        due = time.monotonic()
        while self._should_stay(cluster):
            if self._quiet.is_set():
                self._close_producer(producer, cluster)
                due = time.monotonic()
                continue
            self._send(producer, cluster.name)
            due += 1 / self._rate
            while (left := due - time.monotonic()) > 0 and self._should_stay(cluster):
                producer.poll(min(left, _LOOK_S))
        producer.flush(2)
        producer.purge()
        producer.flush(END_S)

    def _producer(self, cluster: LabCluster, **more: str | int) -> Producer:
        settings = {**_SETTINGS, **cluster.client_properties(USER), **more}
        return Producer(settings, logger=LOGGER)

    def _close_producer(self, producer: Producer, cluster: LabCluster) -> None:
        if not producer.flush(END_S):
            self._silent.set()
        while self._quiet.is_set() and self._should_stay(cluster):
            producer.poll(_LOOK_S)
        self._silent.clear()

    def _should_stay(self, cluster: LabCluster) -> bool:
        here = not (self._stopping.is_set() or self._refused)
        return here and self._endpoint.cluster().name == cluster.name

    def _send(self, producer: Producer, cluster: str) -> None:
        number, self._next = self._next, self._next + 1
        value = f"{self.name}-{number}"
        key = None if self._keyless and number % UNKEYED == 0 else key_of(value)
        reported = partial(self._on_delivery, cluster, value)
        try:
            producer.produce(self.topic, key=key, value=value, on_delivery=reported)
        except (BufferError, KafkaException) as error:
            self.log.write(Failed(cluster, value, str(error)))
            self._refused = True

    def _on_delivery(
        self, cluster: str, value: str, error: KafkaError | None, message: Message
    ) -> None:
        partition, offset = message.partition(), message.offset()
        if error is None and partition is not None and offset is not None:
            self._has_delivered(Acknowledged(cluster, partition, offset, value))
            return
        self.log.write(Failed(cluster, value, error.str() if error else "no offset"))
        self._refused = True

    def _has_delivered(self, record: Acknowledged) -> None:
        self.log.write(record)
        self.acknowledged[record.cluster] = self.acknowledged.get(record.cluster, 0) + 1


class TransactionalWriter(Writer):
    """It writes in transactions, and aborts some; a record counts once its transaction does."""

    def __init__(
        self,
        number: int,
        endpoint: EndpointFile,
        topic: str,
        folder: Path,
        rate: float,
        transactional_id: str,
    ) -> None:
        super().__init__(number, endpoint, topic, folder, rate)
        self._ids: dict[str, str | int] = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": TRANSACTION_MS,
            "message.timeout.ms": TRANSACTION_MS,
        }
        self._delivered: list[Acknowledged] = []
        self._transactions = 0

    def _write_to(self, cluster: LabCluster) -> None:
        producer = self._producer(cluster, **self._ids)
        self._refused = False
        try:
            producer.init_transactions(ANSWER_S)
        except KafkaException:
            return  # the cluster may be down
        while self._should_stay(cluster):
            if self._quiet.is_set():
                self._silent.set()
                self._stopping.wait(_LOOK_S)
                continue
            self._silent.clear()
            self._transact(producer, cluster.name)
        with suppress(KafkaException):  # after a failed abort, every call repeats its error
            producer.purge()
            producer.flush(2)

    def _transact(self, producer: Producer, cluster: str) -> None:
        first, self._delivered = self._next, []
        self._transactions += 1
        try:
            producer.begin_transaction()
        except KafkaException:
            self._refused = True  # brokers aborted the last one: this producer cannot go on
            return
        for _ in range(TOGETHER):
            self._send(producer, cluster)
            producer.poll(1 / self._rate)
        values = [f"{self.name}-{number}" for number in range(first, self._next)]
        whole = producer.flush(ANSWER_S) == 0 and not self._refused
        if not whole or self._transactions % ABORTS_EVERY == 0:
            self._end(producer.abort_transaction)
            self._log(Aborted(cluster, value) for value in values)
        elif self._end(producer.commit_transaction):
            for record in self._delivered:
                self._has_delivered(record)
        else:
            self._log(Failed(cluster, value, "the commit has no result") for value in values)

    def _end(self, request: Callable[[float], object]) -> bool:
        """Commit or abort; whether that succeeded. After a failure, the producer is not used."""
        until = time.monotonic() + ANSWER_S
        while True:
            try:
                request(ANSWER_S)
            except KafkaException as error:
                if error.args[0].retriable() and time.monotonic() < until:
                    continue
                self._refused = True
                return False
            return True

    def _log(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self.log.write(line)

    def _on_delivery(
        self, cluster: str, value: str, error: KafkaError | None, message: Message
    ) -> None:
        partition, offset = message.partition(), message.offset()
        if error is None and partition is not None and offset is not None:
            self._delivered.append(Acknowledged(cluster, partition, offset, value))
        else:
            self._refused = True
