"""An application in a group: processes records, then commits; logs both."""

import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from drctl.lab.cluster import LabCluster
from drctl.lab.scenarios.clients import USER, EndpointFile
from drctl.model.errors import DrctlError
from tests.soak.client_log import ClientLog
from tests.soak.logs import Committed, Log, Processed, What

END_S = 30
ALONE_S = 45.0
"""A client that has been in no group for this long is created again, as by a supervisor.

librdkafka 2.16 forgets its only broker if the first metadata response after a pause lists none,
because that broker is still fenced by the controller; it never looks for another one.
"""
_REFUSALS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
    }
)
"""After these errors the commit had no effect; after any other error the result is unknown."""
_POLL_S = 0.2
_SETTINGS: dict[str, str | int | float | bool] = {
    "enable.auto.commit": False,
    # Without a committed offset the group starts at the log start, on either cluster.
    "auto.offset.reset": "earliest",
    "reconnect.backoff.max.ms": 500,
}
CLASSIC: Mapping[str, str | int] = {"session.timeout.ms": 6_000}
NEW: Mapping[str, str | int] = {"group.protocol": "consumer"}
"""The group protocol of KIP-848; brokers have its session timeout."""


class Member:
    """The only member of a group, in a thread; it follows the endpoint."""

    def __init__(
        self,
        group: str,
        endpoint: EndpointFile,
        topic: str,
        folder: Path,
        batch: int,
        protocol: Mapping[str, str | int] = CLASSIC,
    ) -> None:
        self.group = group
        self.failure = ""
        self.rejoined = 0
        self.log = Log(folder / f"{group}.jsonl")
        self.client_log = ClientLog(group)
        self.reached: dict[str, dict[int, int]] = {}
        self._endpoint = endpoint
        self._topic = topic
        self._batch = batch
        self._protocol = protocol
        self._stay = -1
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=group, daemon=True)

    def start(self) -> None:
        """Start."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Request a stop without waiting."""
        self._stopping.set()

    def stop(self) -> bool:
        """Stop; return whether it left in time."""
        self._stopping.set()
        self._thread.join(2 * END_S)
        return not self._thread.is_alive()

    def committed(self, cluster: str) -> int:
        """Return the sum of its acknowledged committed offsets on a cluster."""
        return sum(dict(self.reached.get(cluster, {})).values())

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._read_on(self._endpoint.cluster())
        except DrctlError as error:
            self.failure = f"{self.group}: {error.message}"
        except KafkaException as error:
            self.failure = f"{self.group}: {error.args[0].str()}"

    def _read_on(self, cluster: LabCluster) -> None:
        self._stay += 1
        self.reached[cluster.name] = {}
        while self._should_stay(cluster):
            self._read_with_a_client(cluster)

    def _read_with_a_client(self, cluster: LabCluster) -> None:
        """Read until the endpoint changes or the client has left the group."""
        stay, settings = self._stay, {**_SETTINGS, **cluster.client_properties(USER)}
        own: dict[str, Any] = {"on_commit": partial(self._on_delivery, stay, cluster.name)}
        own |= {"group.id": self.group, "debug": "cgrp", **self._protocol}
        consumer = Consumer({**settings, **own}, logger=self.client_log.logger)
        try:
            consumer.subscribe([self._topic])
            assigned = time.monotonic()
            while self._should_stay(cluster):
                if consumer.assignment():
                    assigned = time.monotonic()
                elif time.monotonic() - assigned > ALONE_S:
                    self.rejoined += 1
                    return
                # Errors may come from a fence or a dead broker: both are temporary.
                found = consumer.consume(self._batch, timeout=_POLL_S)
                messages = [message for message in found if message.error() is None]
                if messages:
                    self._process(consumer, stay, cluster.name, messages)
        finally:
            # Closing a consumer of a dead cluster can block forever, so nothing waits for it.
            threading.Thread(target=consumer.close, name="on_failover", daemon=True).start()

    def _should_stay(self, cluster: LabCluster) -> bool:
        return not self._stopping.is_set() and self._endpoint.cluster().name == cluster.name

    def _process(
        self, consumer: Consumer, stay: int, cluster: str, messages: Sequence[Message]
    ) -> None:
        following: dict[int, int] = {}
        for message in messages:
            partition, offset = message.partition() or 0, message.offset() or 0
            value = (message.value() or b"").decode()
            self.log.write(Processed(stay, cluster, partition, offset, value))
            following[partition] = offset + 1
        places = [TopicPartition(self._topic, number, at) for number, at in following.items()]
        for number, at in following.items():
            self.log.write(Committed(stay, cluster, number, at, What.SENT))
        # A synchronous commit can block forever if the cluster dies meanwhile.
        consumer.commit(offsets=places, asynchronous=True)

    def _on_delivery(
        self, stay: int, cluster: str, error: KafkaError | None, places: list[TopicPartition]
    ) -> None:
        for each in places:
            problem = error or each.error
            what = What.REFUSED if problem and problem.code() in _REFUSALS else What.ACKNOWLEDGED
            if each.offset < 0 or (problem and what is not What.REFUSED):
                continue
            self.log.write(Committed(stay, cluster, each.partition, each.offset, what))
            if what is What.ACKNOWLEDGED and stay == self._stay:
                self.reached[cluster][each.partition] = each.offset
