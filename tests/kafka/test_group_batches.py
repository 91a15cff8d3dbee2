"""Very many groups at once: told and moved as one by one, whatever a broker leaves unanswered."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError

from drctl.kafka.broker_socket import Address, BrokerSocket
from drctl.kafka.brokers import Brokers
from drctl.kafka.connection import Connection, Nodes
from drctl.kafka.faults import Fault
from drctl.kafka.group_batches import GroupBatches
from drctl.kafka.group_requests import GroupClients, Replied, Request
from drctl.kafka.group_writer import KafkaGroupWriter
from drctl.kafka.protocol import Api
from drctl.kafka.protocol_groups import (
    COMMIT,
    FETCH,
    FIND_COORDINATOR,
    Answered,
    Coordinator,
    GroupHeld,
    Held,
)
from drctl.model.errors import Unknown, Unreachable
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition

TOPIC = "orders"
GROUPS = tuple(f"g{number:02}" for number in range(40))
WANTED = [(group, {TopicPartition(TOPIC, 0): Committed(5)}) for group in GROUPS]


@dataclass
class Broker:
    """Answers for every group, until it hangs up.

    Attributes:
        answers: requests that it answers; the next one is lost.
        knows: kinds of requests that it takes.
        error: what it says of each position.
    """

    answers: int = 1_000
    knows: tuple[Api, ...] = (FETCH, COMMIT)
    error: int = 0
    taken: list[bytes] = field(default_factory=list)
    _asked: list[tuple[Api, bytes]] = field(default_factory=list)

    def __contains__(self, api: Api) -> bool:
        return api in self.knows

    def send(self, api: Api, body: bytes) -> None:
        if api not in self:
            raise Unknown(f"it does not know {api.name}")
        self.taken.append(body)
        self._asked.append((api, body))

    def receive(self, api: Api, _read: object) -> Any:
        self._asked.pop(0)
        if not self.answers:
            raise Unreachable("it hung up")
        self.answers -= 1
        return [Answered(TOPIC, 0, self.error)]

    def exchange(self, api: Api, body: bytes, _read: object) -> Any:
        if api == FIND_COORDINATOR:
            return [Coordinator(group, 1, 0, "") for group in GROUPS if group.encode() in body]
        if api not in self:
            raise Unknown(f"it does not know {api.name}")
        asked = [group for group in GROUPS if group.encode() in body]
        held = (Held(TOPIC, 0, 5, -1, "", 0), Held(TOPIC, 1, -1, -1, "", 0))
        return [GroupHeld(group, self.error, held) for group in asked]


Batched = Callable[[Broker], GroupBatches]


@pytest.fixture
def batched(monkeypatch: pytest.MonkeyPatch) -> Batched:
    def opened(broker: Broker) -> GroupBatches:
        address = Address(1, "broker", 9092)
        monkeypatch.setattr(Connection, "nodes", lambda *_: Nodes("id", {1: address}))
        monkeypatch.setattr(BrokerSocket, "__enter__", lambda _: broker)
        monkeypatch.setattr(Brokers, "_secured", lambda _: None)
        return GroupBatches(Connection("target", {}, 10))

    return opened


def test_all_are_told_at_once(batched: Batched) -> None:
    found = batched(Broker()).committed(GROUPS)
    held = {TopicPartition(TOPIC, 0): Committed(5)}
    assert {name: reply.positions for name, reply in found.items()} == dict.fromkeys(GROUPS, held)


@pytest.mark.parametrize("broker", [Broker(error=16), Broker(knows=())])
def test_what_is_not_told_plainly_is_left_to_others(batched: Batched, broker: Broker) -> None:
    assert batched(broker).committed(GROUPS) == {}


def test_all_are_committed_and_each_is_answered(batched: Batched) -> None:
    broker = Broker()
    found = batched(broker).commit(WANTED)
    assert found == {number: Replied(number, None, {}, {}) for number in range(len(GROUPS))}
    assert len(broker.taken) == len(GROUPS)


def test_a_broker_that_is_too_old_is_sent_nothing(batched: Batched) -> None:
    broker = Broker(knows=(FETCH,))
    assert batched(broker).commit(WANTED) == {}
    assert broker.taken == []


def test_what_was_sent_and_not_answered_says_so_and_is_not_sent_again(
    batched: Batched, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(answers=3)
    others: list[object] = []

    def one_by_one(_: GroupClients, requests: Sequence[Request]) -> Iterator[Replied]:
        others.extend(requests)
        fault = Fault(KafkaError._TIMED_OUT, "no answer")
        return (Replied(number, fault, {}, {}) for number in range(len(requests)))

    monkeypatch.setattr(GroupClients, "write", one_by_one)
    batches = batched(broker)
    monkeypatch.setattr("drctl.kafka.group_writer.GroupBatches", lambda _: batches)
    with KafkaGroupWriter("target", {}) as writer:
        answers = writer.commit(dict(WANTED))
    done = [group for group, places in answers.items() if None in places.values()]
    assert len(done) == 3
    assert len(broker.taken) + len(others) == len(GROUPS), "each once, in one way or the other"
