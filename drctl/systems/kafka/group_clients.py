"""Many requests about what groups have committed, under way at once over a few connections."""

from collections.abc import Callable, Iterator, Sequence

from confluent_kafka import KafkaError

from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.faults import Fault
from drctl.systems.kafka.group_faults import moving
from drctl.systems.kafka.group_requests import GroupRequests, Replied
from drctl.systems.kafka.requests import pauses

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
