"""Takes records straight out of a consumer's memory and queues copies of them.

With confluent-kafka's Producer every record is made Python objects, which takes several times as
long.
"""

import ctypes as c
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError

from drctl.model.topology import TopicPartition
from drctl.reconcile.rows import Copy
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.reconcile_client import POLL_S, Tell, TransactionalClient
from drctl.systems.kafka.reconcile_route import (
    KEY,
    KEY_SIZE,
    LAST,
    STAMP_SIZE,
    TIME,
    TOLD,
    VALUE,
    VALUE_SIZE,
    Route,
)


class Untaken(Exception):
    """librdkafka does not take a record.

    Attributes:
        copy: what was given.
    """

    def __init__(self, error: KafkaError, copy: Copy) -> None:
        super().__init__(error, copy)
        self.error, self.copy = error, copy


class CopyingProducer(TransactionalClient):
    """A transactional client that copies raw records, each with one more header.

    Args:
        header: its name.

    Raises:
        KafkaException: librdkafka does not take the settings.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        header: str,
        on_error: Tell,
        on_failed: Tell,
        patience_s: float,
    ) -> None:
        super().__init__(settings, on_error, on_failed, patience_s)
        self._header = header.encode()
        self._routes: dict[TopicPartition, Route] = {}

    def copy(self, copies: Sequence[Copy]) -> None:
        """Queue copies of raw records.

        Raises:
            Untaken: librdkafka does not take one.
        """
        produce, handle = self._call["produceva"], self._handle
        last: TopicPartition | None = None
        for copy in copies:
            to, (_, time, _, _, (value, value_size, key, key_size, message)), stamp = copy
            if to is not last and to != last:
                last, route = to, self._route(to)
                words, room, address = route.words, route.stamp, route.address
            if message:
                self._copy_with_headers(copy, route)
                continue
            size = len(stamp)
            words[VALUE], words[VALUE_SIZE] = value, value_size
            words[KEY], words[KEY_SIZE] = key, key_size
            words[TIME] = time if time > 0 else 0  # 0 is "now" to librdkafka
            words[STAMP_SIZE] = size
            room[:size] = stamp
            if error := produce(handle, address, TOLD):
                self._insist(error, address, copy)
        self.poll(0)

    def _copy_with_headers(self, copy: Copy, route: Route) -> None:
        _, (_, time, _, _, (value, value_size, key, key_size, message)), stamp = copy
        headers = c.c_void_p()
        self._call["message_detach_headers"](message, c.byref(headers))
        self._call["header_add"](headers, self._header, len(self._header), stamp, len(stamp))
        words = route.more_words
        words[VALUE], words[VALUE_SIZE] = value, value_size
        words[KEY], words[KEY_SIZE] = key, key_size
        words[TIME], words[LAST] = max(0, time), headers.value or 0
        try:
            if error := self._call["produceva"](self._handle, route.more_address, TOLD):
                self._insist(error, route.more_address, copy)
        except Untaken:
            self._call["headers_destroy"](headers)  # they are librdkafka's only once it took them
            raise

    def _insist(self, error: int, address: int, copy: Copy) -> None:
        """Queue it again and again, as long as it is for want of room."""
        deadline = Deadline.after(self._patience_s)
        while error:
            failed = self._failure(error)
            if failed.code() != KafkaError._QUEUE_FULL:
                raise Untaken(failed, copy)
            if deadline.expired:
                raise Untaken(KafkaError(KafkaError._TIMED_OUT), copy)
            self.poll(POLL_S)
            error = self._call["produceva"](self._handle, address, TOLD)

    def _route(self, to: TopicPartition) -> Route:
        route = self._routes.get(to)
        if route is None:
            topic = self._topic(to.topic)
            route = self._routes[to] = Route(topic, to.partition, self._header)
        return route
