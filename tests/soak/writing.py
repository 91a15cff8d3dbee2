"""An application that writes: its own keys, increasing numbers, a log of acknowledgements."""

import threading
import time
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from drctl.lab.cluster import LOGGER, LabCluster
from drctl.lab.scenarios.clients import USER, EndpointFile
from drctl.model.errors import DrctlError
from tests.soak.logs import Acknowledged, Failed, Log

KEYS = 40
UNKEYED = 23
"""One of this many records has no key."""
END_S = 30
RETRY_S = 1.0
_LOOK_S = 0.1
_SETTINGS: dict[str, str | int | float | bool] = {
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",
    "linger.ms": 5,
    "message.timeout.ms": 20_000,
    "reconnect.backoff.max.ms": 500,
}


class Writer:
    """One producer in a thread; refused or unanswered records are never sent again."""

    def __init__(
        self, number: int, endpoint: EndpointFile, topic: str, folder: Path, rate: float
    ) -> None:
        self.name = f"w{number}"
        self.failure = ""
        self.acknowledged: dict[str, int] = {}
        self.log = Log(folder / f"writer-{number}.jsonl")
        self._endpoint = endpoint
        self._topic = topic
        self._rate = rate
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
        producer = Producer({**_SETTINGS, **cluster.client_properties(USER)}, logger=LOGGER)
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
        key = None if number % UNKEYED == 0 else f"{self.name}-k{number % KEYS}"
        reported = partial(self._on_delivery, cluster, value)
        try:
            producer.produce(self._topic, key=key, value=value, on_delivery=reported)
        except (BufferError, KafkaException) as error:
            self.log.write(Failed(cluster, value, str(error)))
            self._refused = True

    def _on_delivery(
        self, cluster: str, value: str, error: KafkaError | None, message: Message
    ) -> None:
        partition, offset = message.partition(), message.offset()
        if error is None and partition is not None and offset is not None:
            self.log.write(Acknowledged(cluster, partition, offset, value))
            self.acknowledged[cluster] = self.acknowledged.get(cluster, 0) + 1
            return
        self.log.write(Failed(cluster, value, error.str() if error else "no offset"))
        self._refused = True
