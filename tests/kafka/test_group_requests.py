"""Requests about many groups: each is sent once, whatever a broker leaves unanswered."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError

from drctl.kafka.brokers import Address, Brokers, BrokerSocket
from drctl.kafka.connection import Connection, Nodes
from drctl.kafka.group_requests import (
    COMMIT,
    DELETE,
    FETCH,
    FIND_COORDINATOR,
    Coordinator,
    FetchedGroup,
    FetchedOffset,
    GroupRequests,
    Reply,
    WriteResult,
)
from drctl.kafka.protocol import Api
from drctl.model.errors import ConfigError, Unknown, Unreachable
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition

TOPIC = "orders"
GROUPS = tuple(f"g{number:02}" for number in range(40))
WANTED = [(group, {TopicPartition(TOPIC, 0): Committed(5)}) for group in GROUPS]


@dataclass
class Broker:
    """Answers for every group, until it disconnects.

    Attributes:
        answers: how many requests it answers before it disconnects.
        knows: the requests that it supports.
        errors: the error code of each offset, in order; then 0.
    """

    answers: int = 1_000
    knows: tuple[Api, ...] = (FETCH, COMMIT)
    errors: list[int] = field(default_factory=list)
    taken: list[bytes] = field(default_factory=list)

    def __contains__(self, api: Api) -> bool:
        return api in self.knows

    def send(self, api: Api, body: bytes) -> None:
        if api not in self:
            raise Unknown(f"it does not know {api.name}")
        self.taken.append(body)

    def receive(self, api: Api, _read: object) -> Any:
        self.answers -= 1
        if self.answers == -1:
            raise Unreachable("it hung up")
        return 0, [WriteResult(TOPIC, 0, self._error())]

    def _error(self) -> int:
        return self.errors.pop(0) if self.errors else 0

    def exchange(self, api: Api, body: bytes, _read: object) -> Any:
        if api == FIND_COORDINATOR:
            return [Coordinator(group, 1, 0, "") for group in GROUPS if group.encode() in body]
        if api not in self:
            raise Unknown(f"it does not know {api.name}")
        asked = [group for group in GROUPS if group.encode() in body]
        held = (FetchedOffset(TOPIC, 0, 5, -1, "", 0), FetchedOffset(TOPIC, 1, -1, -1, "", 0))
        return [FetchedGroup(group, held, self._error()) for group in asked]


Opened = Callable[..., GroupRequests]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    def requests(broker: Broker, timeout_s: float = 10) -> GroupRequests:
        address = Address(1, "broker", 9092)
        monkeypatch.setattr(Connection, "nodes", lambda *_: Nodes("id", {1: address}))
        monkeypatch.setattr(Connection, "wait", lambda *_: None)
        monkeypatch.setattr(BrokerSocket, "__enter__", lambda _: broker)
        monkeypatch.setattr(Brokers, "_secured", lambda _: None)
        connection = Connection("target", {}, timeout_s)
        return GroupRequests(connection, Brokers(connection))

    return requests


HELD = {TopicPartition(TOPIC, 0): Committed(5)}


def test_all_groups_are_read_at_once(opened: Opened) -> None:
    found = opened(Broker()).committed(GROUPS)
    assert {name: reply.positions for name, reply in found.items()} == dict.fromkeys(GROUPS, HELD)


def test_groups_whose_coordinator_moves_are_asked_again(opened: Opened) -> None:
    broker = Broker(errors=[KafkaError.NOT_COORDINATOR] * 70)
    found = opened(broker).committed(GROUPS)
    assert {name: reply.positions for name, reply in found.items()} == dict.fromkeys(GROUPS, HELD)


def test_a_coordinator_that_moves_forever_is_reported(opened: Opened) -> None:
    broker = Broker(errors=[KafkaError.COORDINATOR_LOAD_IN_PROGRESS] * 1_000_000)
    (reply,) = opened(broker, timeout_s=1).committed(GROUPS[:1]).values()
    assert reply.resend
    assert not reply.unanswered


def test_a_denied_group_is_reported(opened: Opened) -> None:
    broker = Broker(errors=[KafkaError.GROUP_AUTHORIZATION_FAILED])
    (reply,) = opened(broker).committed(GROUPS[:1]).values()
    assert reply.failed is not None
    assert reply.failed.code == KafkaError.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize("ask", ["committed", "commit"])
def test_a_broker_that_is_too_old_is_sent_nothing(opened: Opened, ask: str) -> None:
    broker = Broker(knows=())
    requests = opened(broker, timeout_s=0.5)
    found = requests.commit(WANTED) if ask == "commit" else requests.committed(GROUPS).values()
    for reply in found:
        assert reply.failed is not None
        assert "it does not know" in reply.failed.text
        assert not reply.sent
        assert not reply.unanswered
    assert broker.taken == []


def test_a_login_that_drctls_own_connections_do_not_support(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Brokers) -> None:
        raise ConfigError("cannot log in with sasl.mechanism GSSAPI")

    requests = opened(Broker())
    monkeypatch.setattr(Brokers, "_secured", refused)
    (reply,) = requests.committed(GROUPS[:1]).values()
    assert reply.failed is not None
    assert "GSSAPI" in reply.failed.text
    assert not reply.unanswered


def test_all_groups_are_committed_and_each_has_a_result(opened: Opened) -> None:
    broker = Broker()
    assert opened(broker).commit(WANTED) == [Reply()] * len(GROUPS)
    assert len(broker.taken) == len(GROUPS)


def test_unanswered_requests_are_reported_and_not_repeated(opened: Opened) -> None:
    broker = Broker(answers=3)
    replies = opened(broker).commit(WANTED)
    lost = [reply for reply in replies if reply.unanswered]
    assert lost
    assert all(reply.sent for reply in lost)
    assert len(broker.taken) == len(set(broker.taken)) == len(GROUPS), (
        "a group was requested more than once, or not at all"
    )


def test_offsets_are_removed(opened: Opened) -> None:
    broker = Broker(knows=(DELETE,), errors=[0, KafkaError.GROUP_SUBSCRIBED_TO_TOPIC])
    place = TopicPartition(TOPIC, 0)
    first, second = opened(broker).delete([(GROUPS[0], [place]), (GROUPS[0], [place])])
    assert first == Reply()
    assert second.faults[place].code == KafkaError.GROUP_SUBSCRIBED_TO_TOPIC
    assert len(broker.taken) == 2
