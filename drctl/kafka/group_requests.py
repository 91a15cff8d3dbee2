"""What a group has committed: asked, changed and removed through librdkafka's C interface.

confluent-kafka cannot remove a position; where it writes one it adds a NUL to the metadata, and
where it reads one without that NUL, as Java clients write it, it reads on in memory behind it.
Here what is read is what was written, and what is written is what was given.
"""

import ctypes as c
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, cimpl

from drctl.host.connections import Closing
from drctl.kafka.connection import Connection, client_properties, pauses
from drctl.kafka.deadline import Deadline, uninterrupted
from drctl.kafka.faults import Fault
from drctl.model.errors import ConfigError
from drctl.model.groups import Committed, Positions
from drctl.model.topology import TopicPartition

_MOVING = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
_OCCUPIED = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
    }
)
# Refused here, before anything was sent; every other code of librdkafka's own may hide a write.
_NEVER_SENT = frozenset(
    {KafkaError._INVALID_ARG, KafkaError._UNSUPPORTED_FEATURE, KafkaError._NOT_CONFIGURED}
)
_GROUP_FAULTS_NO_ANSWER = frozenset(
    {
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        # Also what a coordinator says whose own write was appended and not replicated in time.
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.UNKNOWN,
    }
)


@dataclass(frozen=True, slots=True)
class Moving(Fault):
    """The group is about to have another coordinator: asking again helps."""

    @property
    def retried(self) -> bool:
        """Always."""
        return True


def settling(answer: Any) -> Any:
    """The same answer; a fault that passes is one that is asked again."""
    if isinstance(answer, Fault) and moving(answer):
        return Moving(answer.code, answer.text)
    return answer


def moving(fault: Fault) -> bool:
    """Whether the group is about to have another coordinator."""
    return fault.code in _MOVING


def occupied(fault: Fault) -> bool:
    """Whether the coordinator refuses because the group has members."""
    return fault.code in _OCCUPIED


def unanswered(fault: Fault) -> bool:
    """Whether a write may have happened, or may happen yet."""
    return fault.code in _GROUP_FAULTS_NO_ANSWER or (
        fault.code < 0 and fault.code not in _NEVER_SENT
    )


def reason(group: str, fault: Fault) -> str:
    """Why, for a person."""
    if fault.code == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return f"not authorized for group {group}"
    return fault.text


_CONSUMER = 1
_LEAVE_NOTHING = 0x8
"""RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE: there is no group to leave."""

_TEXT = 512
# Asked for a group's positions, librdkafka 2.16 dereferences the group of the client itself when a
# connection breaks or a coordinator moves; a client without one, as confluent-kafka's AdminClient
# is, takes the process with it. So this one has the name of a group, which it never joins.
_SETTINGS = {"group.id": "drctl", "enable.auto.commit": "false"}
# librdkafka ends the process with an assertion where the answer to such a request comes while the
# request times out (its issue 4605). So none ever does: who waits no longer closes the client.
_NO_TIMEOUT_MS = 3_600_000
_OPERATIONS = {
    "DeleteConsumerGroupOffsets": 8,
    "ListConsumerGroupOffsets": 14,
    "AlterConsumerGroupOffsets": 15,
}
"""rd_kafka_admin_op_t, as rdkafka.h declares it."""

_UNUSUAL = "surrogateescape"
"""Metadata is text; what some client wrote that is none comes back as it was."""


class _Partition(c.Structure):
    """rd_kafka_topic_partition_t, as rdkafka.h declares it."""

    _fields_ = (
        ("topic", c.c_char_p),
        ("partition", c.c_int32),
        ("offset", c.c_int64),
        ("metadata", c.c_void_p),
        ("metadata_size", c.c_size_t),
        ("opaque", c.c_void_p),
        ("err", c.c_int),
        ("private", c.c_void_p),
    )


class _Partitions(c.Structure):
    """rd_kafka_topic_partition_list_t, as rdkafka.h declares it."""

    _fields_ = (("count", c.c_int), ("size", c.c_int), ("elements", c.POINTER(_Partition)))


_PartitionPointer = c.POINTER(_Partition)
_PartitionsPointer = c.POINTER(_Partitions)
_GroupsPointer = c.POINTER(c.c_void_p)
_FUNCTIONS: Mapping[str, tuple[Any, ...]] = {
    "conf_new": (c.c_void_p,),
    "conf_set": (c.c_int, c.c_void_p, c.c_char_p, c.c_char_p, c.c_char_p, c.c_size_t),
    "conf_set_log_cb": (None, c.c_void_p, c.c_void_p),
    "conf_destroy": (None, c.c_void_p),
    "new": (c.c_void_p, c.c_int, c.c_void_p, c.c_char_p, c.c_size_t),
    "destroy_flags": (None, c.c_void_p, c.c_int),
    "poll": (c.c_int, c.c_void_p, c.c_int),
    "err2str": (c.c_char_p, c.c_int),
    "mem_malloc": (c.c_void_p, c.c_void_p, c.c_size_t),
    "queue_new": (c.c_void_p, c.c_void_p),
    "queue_destroy": (None, c.c_void_p),
    "queue_poll": (c.c_void_p, c.c_void_p, c.c_int),
    "topic_partition_list_new": (_PartitionsPointer, c.c_int),
    "topic_partition_list_add": (_PartitionPointer, _PartitionsPointer, c.c_char_p, c.c_int32),
    "topic_partition_list_destroy": (None, _PartitionsPointer),
    "topic_partition_set_leader_epoch": (None, _PartitionPointer, c.c_int32),
    "topic_partition_get_leader_epoch": (c.c_int32, c.c_void_p),
    "AdminOptions_new": (c.c_void_p, c.c_void_p, c.c_int),
    "AdminOptions_destroy": (None, c.c_void_p),
    "AdminOptions_set_request_timeout": (
        c.c_int,
        c.c_void_p,
        c.c_int,
        c.c_char_p,
        c.c_size_t,
    ),
    "AdminOptions_set_opaque": (None, c.c_void_p, c.c_void_p),
    "event_opaque": (c.c_void_p, c.c_void_p),
    "event_error": (c.c_int, c.c_void_p),
    "event_error_string": (c.c_char_p, c.c_void_p),
    "event_destroy": (None, c.c_void_p),
    "group_result_error": (c.c_void_p, c.c_void_p),
    "group_result_partitions": (_PartitionsPointer, c.c_void_p),
    "error_code": (c.c_int, c.c_void_p),
    "error_string": (c.c_char_p, c.c_void_p),
}

_OF_OPERATIONS: Mapping[str, tuple[Any, ...]] = {
    "{}_new": (c.c_void_p, c.c_char_p, _PartitionsPointer),
    "{}_destroy": (None, c.c_void_p),
    "{}": (None, c.c_void_p, c.POINTER(c.c_void_p), c.c_size_t, c.c_void_p, c.c_void_p),
    "event_{}_result": (c.c_void_p, c.c_void_p),
    "{}_result_groups": (_GroupsPointer, c.c_void_p, c.POINTER(c.c_size_t)),
}
_ELEMENT = Struct("@PiqPNPiP")
"""_Partition once more: cheaper to take apart by the thousand."""

Places = Collection[TopicPartition]


class Replied(NamedTuple):
    """How a request ended.

    Attributes:
        failed: why there is no answer for any partition; None where there is one for each.
        faults: of the partitions for which it did not work.
        positions: what was committed, where that was asked.
    """

    number: int
    failed: Fault | None
    faults: Mapping[TopicPartition, Fault]
    positions: Positions

    @property
    def silent(self) -> bool:
        """Whether nobody answered."""
        return self.failed is not None and unanswered(self.failed)


class GroupRequests(Closing):
    """One client with any number of requests under way; a context manager.

    Attributes:
        unanswered: requests whose replies have not been taken.

    A request never times out: to give it up, close the client; what was not sent yet never is.
    A broker takes one request of a connection after another: for many at once, use several.

    Raises:
        ConfigError: librdkafka does not take the properties.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._call = _functions()
        given = client_properties(properties).items()
        ours = {key: value for key, value in given if not key.startswith("group.")}
        self._handle = self._open({**ours, **_SETTINGS})
        self._queue = self._call["queue_new"](self._handle)
        self.unanswered = 0

    def list(self, number: int, group: str) -> None:
        """Ask for all positions of a group."""
        self._send("ListConsumerGroupOffsets", number, group, None)

    def alter(self, number: int, group: str, positions: Positions) -> None:
        """Have a group stand at these positions."""
        self._send("AlterConsumerGroupOffsets", number, group, positions)

    def delete(self, number: int, group: str, places: Places) -> None:
        """Have a group stand nowhere in these partitions."""
        unwanted = dict.fromkeys(places, Committed(0))
        self._send("DeleteConsumerGroupOffsets", number, group, unwanted)

    def replies(self, wait_s: float) -> Iterator[Replied]:
        """Those that have come; waits so long for the first."""
        self._call["poll"](self._handle, 0)
        wait_ms = max(0, int(wait_s * 1000))
        while event := self._call["queue_poll"](self._queue, wait_ms):
            wait_ms = 0
            self.unanswered -= 1
            try:
                yield self._replied(event)
            finally:
                self._call["event_destroy"](event)

    def close(self) -> None:
        """Release everything; may be called again."""
        if self._handle:
            with uninterrupted():
                self._call["queue_destroy"](self._queue)
                self._call["destroy_flags"](self._handle, _LEAVE_NOTHING)
                self._handle = self._queue = None

    def _send(self, name: str, number: int, group: str, positions: Positions | None) -> None:
        why = c.create_string_buffer(_TEXT)
        with uninterrupted():
            partitions = None if positions is None else self._partitions(positions)
            request = c.c_void_p(self._call[f"{name}_new"](group.encode(), partitions))
            options = self._call["AdminOptions_new"](self._handle, _OPERATIONS[name])
            self._call["AdminOptions_set_request_timeout"](options, _NO_TIMEOUT_MS, why, _TEXT)
            # 0 would come back as None.
            self._call["AdminOptions_set_opaque"](options, number + 1)
            self._call[name](self._handle, c.byref(request), 1, options, self._queue)
            self.unanswered += 1
            self._call["AdminOptions_destroy"](options)
            self._call[f"{name}_destroy"](request)
            if partitions is not None:
                self._call["topic_partition_list_destroy"](partitions)

    def _partitions(self, positions: Positions) -> Any:
        partitions = self._call["topic_partition_list_new"](len(positions))
        add = self._call["topic_partition_list_add"]
        set_epoch = self._call["topic_partition_set_leader_epoch"]
        for place, position in positions.items():
            added = add(partitions, place.topic.encode(), place.partition)
            added.contents.offset = position.offset
            if position.leader_epoch >= 0:
                set_epoch(added, position.leader_epoch)
            if position.metadata:
                data = position.metadata.encode(errors=_UNUSUAL)
                # librdkafka frees it with the list.
                copy = self._call["mem_malloc"](self._handle, len(data))
                c.memmove(copy, data, len(data))
                added.contents.metadata = copy
                added.contents.metadata_size = len(data)
        return partitions

    def _replied(self, event: Any) -> Replied:
        number = self._call["event_opaque"](event) - 1
        if code := self._call["event_error"](event):
            fault = self._fault(code, self._call["event_error_string"](event))
            return Replied(number, fault, {}, {})
        for name in _OPERATIONS:
            if result := self._call[f"event_{name}_result"](event):
                count = c.c_size_t()
                groups = self._call[f"{name}_result_groups"](result, c.byref(count))
                return self._group_replied(number, groups[0])
        raise AssertionError("librdkafka answered what was not asked")

    def _group_replied(self, number: int, group: Any) -> Replied:
        if error := self._call["group_result_error"](group):
            code = self._call["error_code"](error)
            fault = self._fault(code, self._call["error_string"](error))
            return Replied(number, fault, {}, {})
        faults: dict[TopicPartition, Fault] = {}
        positions: dict[TopicPartition, Committed] = {}
        found = self._call["group_result_partitions"](group).contents
        first = c.cast(found.elements, c.c_void_p).value or 0
        elements = c.string_at(first, found.count * _ELEMENT.size)
        for at, element in enumerate(_ELEMENT.iter_unpack(elements)):
            name, partition, offset, metadata, size, _, code, _ = element
            place = TopicPartition(c.string_at(name).decode(), partition)
            if code:
                faults[place] = self._fault(code, None)
            elif offset >= 0:
                epoch = self._call["topic_partition_get_leader_epoch"](first + at * _ELEMENT.size)
                text = c.string_at(metadata, size).decode(errors=_UNUSUAL) if metadata else ""
                positions[place] = Committed(offset, epoch, text)
        return Replied(number, None, faults, positions)

    def _fault(self, code: int, text: bytes | None) -> Fault:
        if code > 0 or text is None:
            # A broker's own word, without what librdkafka says around it.
            text = self._call["err2str"](code)
        return Fault(code, (text or b"no reason given").decode(errors="replace"))

    def _open(self, properties: Mapping[str, str]) -> Any:
        why = c.create_string_buffer(_TEXT)
        conf = self._call["conf_new"]()
        self._call["conf_set_log_cb"](conf, None)
        for key, value in properties.items():
            if self._call["conf_set"](conf, key.encode(), value.encode(), why, _TEXT):
                self._call["conf_destroy"](conf)
                raise ConfigError(f"librdkafka refuses the property {key}")
        handle = self._call["new"](_CONSUMER, conf, why, _TEXT)
        if not handle:
            self._call["conf_destroy"](conf)
            raise ConfigError(f"librdkafka cannot start: {why.value.decode(errors='replace')}")
        return handle


def _functions() -> dict[str, Any]:
    # Symbols of the librdkafka that confluent-kafka is linked to, wherever that is.
    library = c.CDLL(cimpl.__file__)
    of_operations = {
        name.format(operation): types
        for operation in _OPERATIONS
        for name, types in _OF_OPERATIONS.items()
    }
    bound = {}
    for name, (result, *arguments) in {**_FUNCTIONS, **of_operations}.items():
        function = getattr(library, f"rd_kafka_{name}")
        function.restype, function.argtypes = result, arguments
        bound[name] = function
    return bound


WAVE = 500
"""Requests that share a deadline."""

# A broker takes one request of a connection after another; where it writes, it waits for its
# replicas in between.
_CLIENTS = 4
_REQUESTS_A_CLIENT = 10
_POLL_S = 0.005
_NO_ANSWER = Fault(KafkaError._TIMED_OUT, "no answer within the deadline")

Request = Callable[[GroupRequests, int], None]
"""Sends itself by a client, under a number."""


class GroupClients:
    """Opened when first needed; each wave of requests ends within the connection's deadline.

    A request that a coordinator puts off, because the group gets another one, is sent again.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._clients: list[GroupRequests] = []

    def read(self, requests: Sequence[Request]) -> Iterator[Replied]:
        """One for each request, in their order; what was not answered is asked again.

        Raises:
            ConfigError: librdkafka does not take the properties.
        """
        return self._replies(requests, lambda deadline: deadline.attempts(), _unread)

    def write(self, requests: Sequence[Request]) -> Iterator[Replied]:
        """One for each request, in their order; what may have been done is not sent again.

        Raises:
            ConfigError: librdkafka does not take the properties.
        """
        return self._replies(requests, _whole, put_off)

    def close(self) -> None:
        """Release connections; may be called again."""
        while self._clients:
            self._clients.pop().close()

    def _replies(
        self,
        requests: Sequence[Request],
        timeouts: Callable[[Deadline], Iterator[float]],
        again: Callable[[Replied], bool],
    ) -> Iterator[Replied]:
        silent = False
        for start in range(0, len(requests), WAVE):
            wave = requests[start : start + WAVE]
            # The next would wait as long, and as much in vain.
            found = _unanswered(wave) if silent else self._wave(wave, timeouts, again)
            silent = all(reply.silent for reply in found)
            yield from found

    def _wave(
        self,
        requests: Sequence[Request],
        timeouts: Callable[[Deadline], Iterator[float]],
        again: Callable[[Replied], bool],
    ) -> list[Replied]:
        deadline, waits = self._connection.deadline(), pauses()
        replies = _unanswered(requests)
        pending: Sequence[int] = range(len(requests))
        for timeout in timeouts(deadline):
            clients = self._opened(len(pending))
            for at, number in enumerate(pending):
                requests[number](clients[at % len(clients)], number)
            for reply in _collected(clients, len(pending), timeout):
                replies[reply.number] = reply
            self._let_go()
            pending = [n for n in pending if again(replies[n])]
            if not pending:
                break
            self._connection.wait(min(next(waits), deadline.remaining))
        return replies

    def _let_go(self) -> None:
        """Of those that still wait: maybe for a broker that has been back for long.

        What they had not sent yet is never sent.
        """
        waiting = [client for client in self._clients if client.unanswered]
        self._clients = [client for client in self._clients if not client.unanswered]
        for client in waiting:
            client.close()

    def _opened(self, requests: int) -> Sequence[GroupRequests]:
        wanted = min(_CLIENTS, -(-requests // _REQUESTS_A_CLIENT))
        while len(self._clients) < wanted:
            self._clients.append(GroupRequests(self._connection.properties))
        return self._clients[:wanted]


def _whole(deadline: Deadline) -> Iterator[float]:
    while not deadline.expired:
        yield deadline.remaining


def _unanswered(requests: Sequence[Request]) -> list[Replied]:
    return [Replied(n, _NO_ANSWER, {}, {}) for n in range(len(requests))]


def _collected(clients: Sequence[GroupRequests], wanted: int, timeout: float) -> Iterator[Replied]:
    until = Deadline.after(timeout)
    while wanted and not until.expired:
        before = wanted
        for client in clients:
            for reply in client.replies(0):
                wanted -= 1
                yield reply
        if wanted == before:
            # Nothing has come from anybody: wait, and not for long, for one of them.
            for reply in clients[0].replies(_POLL_S):
                wanted -= 1
                yield reply


def _unread(reply: Replied) -> bool:
    return reply.silent or put_off(reply)


def put_off(reply: Replied) -> bool:
    """Whether to send it again: the group is about to have another coordinator."""
    if reply.failed is not None:
        return moving(reply.failed)
    return any(map(moving, reply.faults.values()))
