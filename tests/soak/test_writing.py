"""The transactional application: a record counts once its transaction has an outcome."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.soak.logs import Aborted, Acknowledged, Failed, Line, read_log
from tests.soak.writing import ABORTS_EVERY, KEYS, TOGETHER, TransactionalWriter, key_of

UNKNOWN = KafkaError(KafkaError._FATAL)
REFUSED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)


class Scripted:
    """A producer whose records are refused, or whose requests fail."""

    def __init__(self, *, refuses: bool = False, fails: tuple[str, ...] = ()) -> None:
        self._refuses, self._fails = refuses, fails
        self._offset = 0
        self.done: list[str] = []

    def produce(self, _topic: str, key: str, value: str, on_delivery: Callable[..., None]) -> None:
        message = SimpleNamespace(partition=lambda: 0, offset=lambda: self._offset)
        on_delivery(REFUSED if self._refuses else None, message)
        self._offset += 1

    def poll(self, _seconds: float) -> int:
        return 0

    def flush(self, _seconds: float) -> int:
        return 0

    def begin_transaction(self) -> None:
        self._request("begin")

    def commit_transaction(self, _seconds: float) -> None:
        self._request("commit")

    def abort_transaction(self, _seconds: float) -> None:
        self._request("abort")

    def _request(self, name: str) -> None:
        self.done.append(name)
        if name in self._fails:
            raise KafkaException(UNKNOWN)


def lines(folder: Path, producer: Scripted, transactions: int = 1) -> list[Line]:
    """Return what the application logs."""
    endpoint: Any = SimpleNamespace()
    writer = TransactionalWriter(1, endpoint, "flights", folder, 1_000, "orders-app-x")
    speaking: Any = producer
    for _ in range(transactions):
        writer._transact(speaking, "primary")
    writer.log.close()
    return list(read_log(writer.log.path))


VALUES = tuple(f"w1-{number}" for number in range(TOGETHER))


def test_a_record_is_acknowledged_once_its_transaction_is_committed(tmp_path: Path) -> None:
    found = lines(tmp_path, Scripted())
    assert found == [Acknowledged("primary", 0, at, value) for at, value in enumerate(VALUES)]


def test_some_transactions_are_aborted(tmp_path: Path) -> None:
    producer = Scripted()
    found = lines(tmp_path, producer, ABORTS_EVERY)
    assert producer.done.count("commit") == ABORTS_EVERY - 1
    first = TOGETHER * (ABORTS_EVERY - 1)
    assert found[first:] == [
        Aborted("primary", f"w1-{number}") for number in range(first, first + TOGETHER)
    ]


def test_a_refused_transaction_is_aborted_even_if_that_fails(tmp_path: Path) -> None:
    producer = Scripted(refuses=True, fails=("abort",))
    assert lines(tmp_path, producer) == [Aborted("primary", value) for value in VALUES]
    assert producer.done == ["begin", "abort"]


def test_the_result_of_a_commit_that_fails_is_unknown(tmp_path: Path) -> None:
    found = lines(tmp_path, Scripted(fails=("commit",)))
    assert [type(each) for each in found] == [Failed] * TOGETHER
    assert [each.value for each in found if isinstance(each, Failed)] == list(VALUES)


def test_nothing_is_written_without_a_transaction(tmp_path: Path) -> None:
    assert lines(tmp_path, Scripted(fails=("begin",))) == []


@pytest.mark.parametrize("number", [0, 1, KEYS, KEYS + 1])
def test_a_key_belongs_to_one_writer(number: int) -> None:
    assert key_of(f"w1-{number}") == f"w1-k{number % KEYS}"
