"""Requests to group coordinators: committed offsets are read, written and deleted here.

confluent-kafka is not used for this. It cannot delete a committed offset. It appends a NUL to the
metadata that it commits, and when it reads metadata without that NUL, as Java clients write it, it
reads past the end of the buffer. Here one request covers hundreds of groups, and commits are sent
without waiting for each response.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from struct import Struct
from types import MappingProxyType
from typing import NamedTuple

from confluent_kafka import KafkaError

from drctl.formats.primitives import Cursor, varint
from drctl.kafka.brokers import Address, Brokers, BrokerSocket, NotRetriable
from drctl.kafka.connection import Connection, in_chunks, in_rounds
from drctl.kafka.deadline import Deadline
from drctl.kafka.faults import Fault, protocol_fault
from drctl.kafka.protocol import (
    INT8,
    INT16,
    INT32,
    INT64,
    NO_TAGS,
    NULLABLE_STRING,
    SHORT_STRING,
    STRING,
    TEXT,
    THROTTLE,
    Api,
    Field,
    Read,
    array,
    body_reader,
    body_writer,
    by_topic,
    only_field,
    rows,
    skipped,
    struct,
    topic_rows,
)
from drctl.model.errors import ConfigError, Unreachable
from drctl.model.groups import Committed, Positions
from drctl.model.topology import TopicPartition, Unavailable

FIND_COORDINATOR = Api("FindCoordinator", 10, 4, True, "3.0")
FETCH = Api("OffsetFetch", 9, 8, True, "3.0")
COMMIT = Api("OffsetCommit", 8, 8, True, "2.4")
DELETE = Api("OffsetDelete", 47, 0, False, "2.4")

_GROUP, _TRANSACTION = 0, 1
_ALL_TOPICS = None
_INCLUDE_UNSTABLE = 0
_NO_MEMBER = (-1, "", None)
_NOT_UTF8 = "surrogateescape"
"""Metadata should be text; bytes that are not UTF-8 are returned as they were written."""


def _write_metadata(text: str) -> bytes:
    data = text.encode(errors=_NOT_UTF8)
    return varint(len(data) + 1) + data


def _read_metadata(cursor: Cursor) -> str:
    return cursor.take(max(0, cursor.varint() - 1)).decode(errors=_NOT_UTF8)


_METADATA = Field(_write_metadata, _read_metadata)


class Coordinator(NamedTuple):
    """The broker that coordinates a group.

    Attributes:
        error: Kafka's error code; 0 for success.
    """

    group: str
    node: int
    error: int
    text: str


class FetchedOffset(NamedTuple):
    """A group's committed offset in one partition.

    Attributes:
        offset: negative if there is none.
        error: Kafka's error code; 0 for success.
    """

    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    error: int


class FetchedGroup(NamedTuple):
    """All committed offsets of a group.

    Attributes:
        error: Kafka's error code of the whole group; 0 for success.
    """

    group: str
    offsets: tuple[FetchedOffset, ...]
    error: int


class WriteResult(NamedTuple):
    """The result of a commit or deletion in one partition.

    Attributes:
        error: Kafka's error code; 0 for success.
    """

    topic: str
    partition: int
    error: int


_COORDINATORS_REQUEST = body_writer(INT8, array(STRING))
find_coordinators = partial(_COORDINATORS_REQUEST, _GROUP)
"""Request the coordinators of groups."""


def find_transaction_coordinator(transactional_id: str) -> bytes:
    """Request the coordinator of a transactional id."""
    return _COORDINATORS_REQUEST(_TRANSACTION, [transactional_id])


_COORDINATOR = (STRING, INT32, skipped(STRING), skipped(INT32), INT16, TEXT)
read_coordinators: Read[tuple[Coordinator, ...]] = body_reader(
    only_field, THROTTLE, rows(*_COORDINATOR, into=Coordinator)
)

_FETCH_REQUEST = body_writer(rows(STRING, rows()), INT8)


def write_fetch(groups: Iterable[str]) -> bytes:
    """Request all committed offsets of each group, including those of open transactions."""
    return _FETCH_REQUEST(((group, _ALL_TOPICS) for group in groups), _INCLUDE_UNSTABLE)


_FETCHED = topic_rows(INT32, INT64, INT32, _METADATA, INT16, into=FetchedOffset)
read_fetched: Read[tuple[FetchedGroup, ...]] = body_reader(
    only_field, THROTTLE, rows(STRING, _FETCHED, INT16, into=FetchedGroup)
)

_POSITION = Struct(">iqi")


def _write_position(partition_and_position: tuple[int, Committed]) -> bytes:
    partition, at = partition_and_position
    packed = _POSITION.pack(partition, at.offset, at.leader_epoch)
    return packed + _write_metadata(at.metadata) + NO_TAGS


# Encoded by hand: a failover commits very many, and this takes less than half the time.
_COMMITTED = struct(INT32, INT64, INT32, _METADATA)._replace(write=_write_position)
_COMMIT_REQUEST = body_writer(
    STRING, INT32, STRING, NULLABLE_STRING, rows(STRING, array(_COMMITTED))
)


def write_commit(group: str, positions: Positions) -> bytes:
    """Commit these offsets for a group without members."""
    topics: dict[str, list[tuple[int, Committed]]] = defaultdict(list)
    for (topic, partition), position in positions.items():
        topics[topic].append((partition, position))
    return _COMMIT_REQUEST(group, *_NO_MEMBER, topics.items())


read_committed: Read[list[WriteResult]] = body_reader(
    list, THROTTLE, topic_rows(INT32, INT16, into=WriteResult)
)

_PARTITIONS = rows(SHORT_STRING, array(INT32, flexible=False), flexible=False)
_DELETE_REQUEST = body_writer(SHORT_STRING, _PARTITIONS, flexible=False)


def write_delete(group: str, partitions: Iterable[TopicPartition]) -> bytes:
    """Delete the committed offsets of a group without members in these partitions."""
    return _DELETE_REQUEST(group, by_topic(partitions).items())


_DELETED = topic_rows(INT32, INT16, into=WriteResult, flexible=False)
read_deleted: Read[tuple[int, list[WriteResult]]] = body_reader(
    lambda error, results: (error, list(results)), INT16, THROTTLE, _DELETED, flexible=False
)
"""Kafka's error code of the whole request, and the result of each partition."""

_MOVING = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
_NO_ANSWER = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        # Also returned if the coordinator's own write was appended but not replicated in time.
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.UNKNOWN,
    }
)


def coordinator_moves(fault: Fault) -> bool:
    """Whether the group is getting another coordinator."""
    return fault.code in _MOVING


def unanswered(fault: Fault) -> bool:
    """Whether the outcome is unknown: a write may have happened, or may still happen."""
    return fault.code in _NO_ANSWER


def reason(group: str, fault: Fault) -> str:
    """The reason of a failure, for a person."""
    if fault.code == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return f"not authorized for group {group}"
    return fault.text


class Reply(NamedTuple):
    """How a request about one group ended.

    Attributes:
        failed: why it failed for all partitions; None if each has its own result.
        faults: by partition, why it failed there.
        positions: the committed offsets, if the request reads them.
        sent: whether a coordinator may have received it.
    """

    failed: Fault | None = None
    faults: Mapping[TopicPartition, Fault] = MappingProxyType({})
    positions: Positions = MappingProxyType({})
    sent: bool = True

    @property
    def unanswered(self) -> bool:
        """Whether no coordinator answered."""
        return self.failed is not None and unanswered(self.failed)

    @property
    def resend(self) -> bool:
        """Whether to send the request again: it was not received, or the coordinator moves."""
        if self.failed is not None:
            return coordinator_moves(self.failed) or (not self.sent and unanswered(self.failed))
        return any(map(coordinator_moves, self.faults.values()))


GROUPS_PER_TIMEOUT = 500
"""Groups that one timeout allows for; more groups get proportionally more time."""

_NAMES_PER_REQUEST = 500
_GROUPS_PER_REQUEST = 100
_PIPELINED = 20
_REQUESTS_PER_CONNECTION = 30
_CONNECTIONS, _MAX_CONNECTIONS = 8, 32
"""Connections to each coordinator. It handles one request per connection at a time and waits for
its replicas; Kafka 4 also batches commits for some milliseconds before it answers them."""

_LOST = Fault(KafkaError._TIMED_OUT, "no answer within the deadline")
_UNSENT = Reply(_LOST, sent=False)


class Pipeline:
    """Requests over one connection; knows which were in flight if the connection is lost.

    Attributes:
        numbers: the numbers of the requests.
        sent: those that the coordinator may have received.
        replies: the replies so far, by number.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = numbers
        self.sent: set[int] = set()
        self.replies: dict[int, Reply] = {}
        self._ended = False

    def send(self, broker: BrokerSocket, api: Api, write: Callable[[int], bytes]) -> Iterator[int]:
        """Send all requests, several at a time; yield each number when its response can be read."""
        for chunk in in_chunks(self.numbers, _PIPELINED):
            for number in chunk:
                body = write(number)
                if self._ended:
                    return  # the deadline has passed: another round may send the rest
                if api in broker:
                    # If sending fails, part of it may have been sent.
                    self.sent.add(number)
                broker.send(api, body)
            yield from chunk

    def end(self, lost: Fault) -> dict[int, Reply]:
        """Stop sending; return the reply to each request, or `lost` for those not sent."""
        self._ended = True
        sent, replies = set(self.sent), dict(self.replies)
        in_flight, unsent = Reply(_LOST), Reply(lost, sent=False)
        return {n: replies.get(n) or (in_flight if n in sent else unsent) for n in self.numbers}


Work = Callable[[Pipeline, BrokerSocket], object]
"""Sends a coordinator all requests of a pipeline and stores the replies."""


class GroupRequests:
    """Asks the coordinators of groups, all in parallel."""

    def __init__(self, connection: Connection, brokers: Brokers) -> None:
        self._connection = connection
        self._brokers = brokers

    def committed(self, names: Sequence[str]) -> dict[str, Reply]:
        """The committed offsets of each group.

        Raises:
            Unreachable: no broker answered within the deadline.
        """

        def fetch(pipeline: Pipeline, broker: BrokerSocket) -> None:
            for chunk in in_chunks(pipeline.numbers, _GROUPS_PER_REQUEST):
                numbers = {names[number]: number for number in chunk}
                for each in broker.exchange(FETCH, write_fetch(numbers), read_fetched):
                    pipeline.replies[numbers[each.group]] = _fetched(each)

        replies = self.ask(names, fetch, lambda reply: reply.unanswered)
        return dict(zip(names, replies, strict=True))

    def commit(self, wanted: Sequence[tuple[str, Positions]]) -> list[Reply]:
        """Commit these offsets; a request that may have been received is not sent again."""
        read = lambda cursor: (0, read_committed(cursor))  # noqa: E731
        names = [group for group, _ in wanted]
        return self._write(names, COMMIT, lambda number: write_commit(*wanted[number]), read)

    def delete(self, unwanted: Sequence[tuple[str, Collection[TopicPartition]]]) -> list[Reply]:
        """Delete the committed offsets in these partitions."""
        names = [group for group, _ in unwanted]
        write = lambda number: write_delete(*unwanted[number])  # noqa: E731
        return self._write(names, DELETE, write, read_deleted)

    def ask(
        self,
        groups: Sequence[str],
        work: Work,
        again: Callable[[Reply], bool],
        *,
        whole: bool = False,
    ) -> list[Reply]:
        """Send one request per group, again if `Reply.resend`; return the replies in order.

        Args:
            again: further replies after which to send a request again.
            whole: whether each round may take all remaining time.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        deadline = Deadline.after(
            self._connection.timeout_s * -(-len(groups) // GROUPS_PER_TIMEOUT)
        )
        found = in_rounds(
            self._connection,
            range(len(groups)),
            lambda some, timeout: self._round(groups, some, work, deadline.sooner(timeout)),
            lambda reply: reply.resend or again(reply),
            deadline,
            _all_remaining(deadline) if whole else None,
        )
        return [found.get(number, _UNSENT) for number in range(len(groups))]

    def _write(
        self,
        groups: Sequence[str],
        api: Api,
        write: Callable[[int], bytes],
        read: Callable[[Cursor], tuple[int, list[WriteResult]]],
    ) -> list[Reply]:
        def work(pipeline: Pipeline, broker: BrokerSocket) -> None:
            for number in pipeline.send(broker, api, write):
                error, results = broker.receive(api, read)
                faults = {
                    TopicPartition(t, p): protocol_fault(code) for t, p, code in results if code
                }
                pipeline.replies[number] = Reply(protocol_fault(error) if error else None, faults)

        try:
            return self.ask(groups, work, lambda _: False, whole=True)
        except Unreachable:
            return [_UNSENT] * len(groups)

    def _round(
        self, groups: Sequence[str], pending: Collection[int], work: Work, deadline: Deadline
    ) -> dict[int, Reply]:
        numbers: dict[str, list[int]] = defaultdict(list)
        for number in pending:
            numbers[groups[number]].append(number)
        addresses = self._brokers.addresses(deadline)
        try:
            without, coordinated = self._coordinators(tuple(numbers), addresses, deadline)
            pipelines = _pipelines(coordinated, numbers, len(pending))
            tasks = {key: partial(work, pipeline) for key, pipeline in pipelines.items()}
            places = {key: addresses[key[0]] for key in pipelines if key[0] in addresses}
            answers = self._brokers.ask(tasks, places, deadline)
        except ConfigError as unsupported:
            permanent = Fault(KafkaError._NOT_CONFIGURED, unsupported.message)
            return {number: Reply(permanent) for number in pending}
        found = {n: Reply(f, sent=False) for name, f in without.items() for n in numbers[name]}
        for key, pipeline in pipelines.items():
            answer = answers[key]
            found |= pipeline.end(_not_asked(answer) if isinstance(answer, Unavailable) else _LOST)
        for number, reply in found.items():
            if reply.resend or reply.unanswered:
                self._connection.coordinators.pop(groups[number], None)
        return found

    def _coordinators(
        self, names: Sequence[str], addresses: Mapping[int, Address], deadline: Deadline
    ) -> tuple[dict[str, Fault], dict[int, list[str]]]:
        """Find the coordinators, asking one broker after another.

        A known coordinator is not looked up again: if a group has another coordinator by now, the
        former one says so.

        Returns:
            The fault of each group without a coordinator, and the groups by coordinator.
        """
        without: dict[str, Fault] = {}
        coordinated: dict[int, list[str]] = defaultdict(list)
        known = self._connection.coordinators
        unknown = []
        for name in names:
            if (node := known.get(name, -1)) in addresses:
                coordinated[node].append(name)
            else:
                unknown.append(name)
        if not unknown:
            return without, coordinated
        ask = partial(_find_coordinators, unknown)
        for (node, address), timeout in zip(
            sorted(addresses.items()), deadline.attempts(), strict=False
        ):
            soon = deadline.sooner(timeout)
            found = self._brokers.ask({node: ask}, {node: address}, soon)[node]
            if isinstance(found, Unavailable):
                without = dict.fromkeys(unknown, _not_asked(found))
                continue
            without = {
                each.group: protocol_fault(each.error, each.text) for each in found if each.error
            }
            for each in found:
                if not each.error:
                    coordinated[each.node].append(each.group)
                    known[each.group] = each.node
            break
        return without, coordinated


def _not_asked(why: Unavailable) -> Fault:
    permanent = isinstance(why, NotRetriable)
    code = KafkaError._UNSUPPORTED_FEATURE if permanent else KafkaError._TIMED_OUT
    return Fault(code, why.reason)


def _all_remaining(deadline: Deadline) -> Iterator[float]:
    while not deadline.expired:
        yield deadline.remaining


def _pipelines(
    coordinated: Mapping[int, Sequence[str]], numbers: Mapping[str, Sequence[int]], requests: int
) -> dict[tuple[int, int], Pipeline]:
    """Distribute each coordinator's requests over several connections."""
    width = min(
        _MAX_CONNECTIONS,
        max(min(_CONNECTIONS, -(-requests // 3)), requests // _REQUESTS_PER_CONNECTION),
    )
    shares: dict[tuple[int, int], list[int]] = defaultdict(list)
    for node, names in coordinated.items():
        for at, name in enumerate(names):
            shares[node, at % width] += numbers[name]
    return {key: Pipeline(share) for key, share in shares.items()}


def _find_coordinators(names: Sequence[str], broker: BrokerSocket) -> list[Coordinator]:
    found: list[Coordinator] = []
    for chunk in in_chunks(names, _NAMES_PER_REQUEST):
        found += broker.exchange(FIND_COORDINATOR, find_coordinators(chunk), read_coordinators)
    return found


def _fetched(each: FetchedGroup) -> Reply:
    if each.error:
        return Reply(protocol_fault(each.error))
    faults: dict[TopicPartition, Fault] = {}
    positions: dict[TopicPartition, Committed] = {}
    for topic, partition, offset, epoch, metadata, error in each.offsets:
        if error:
            faults[TopicPartition(topic, partition)] = protocol_fault(error)
        elif offset >= 0:
            positions[TopicPartition(topic, partition)] = Committed(offset, epoch, metadata)
    return Reply(None, faults, positions)
