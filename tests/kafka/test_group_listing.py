"""Errors of a listing that a real cluster shows only briefly."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, ListConsumerGroupsResult  # type: ignore[attr-defined, unused-ignore]

from drctl.kafka.connection import Connection
from drctl.kafka.deadline import Deadline
from drctl.kafka.groups import KafkaGroupReader, list_groups
from drctl.model.errors import Unreachable


def test_groups_of_connect_workers_are_not_groups_of_consumers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = [
        SimpleNamespace(id=name, error=None, state=state, protocol_type=kind, members=[])
        for name, state, kind in (
            ("billing", "Stable", "consumer"),
            ("connect-workers", "Stable", "connect"),
            ("offsets-only", "Empty", ""),
            ("share-group", "Dead", ""),
        )
    ]
    future: Future[Any] = Future()
    future.set_result(ListConsumerGroupsResult([], []))
    monkeypatch.setattr(AdminClient, "list_consumer_groups", lambda *_, **__: future)
    monkeypatch.setattr(AdminClient, "list_groups", lambda *_, **__: listed)
    monkeypatch.setattr(Connection, "nodes", lambda *_: None)
    connection = Connection("primary", {"bootstrap.servers": "127.0.0.1:1"}, 0.5)
    found = KafkaGroupReader(connection).groups(incomplete=True)
    assert found == ("billing", "offsets-only", "share-group")


def test_a_coordinator_that_keeps_loading_counts_as_not_answering(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loading = KafkaError(KafkaError.COORDINATOR_LOAD_IN_PROGRESS, "it loads")
    asked: list[float] = []

    def listed(_: Any, request_timeout: float) -> "Future[Any]":
        asked.append(request_timeout)
        future: Future[Any] = Future()
        future.set_result(ListConsumerGroupsResult([], [loading]))
        return future

    monkeypatch.setattr(AdminClient, "list_consumer_groups", listed)
    monkeypatch.setattr(AdminClient, "list_groups", lambda *_, **__: [])
    monkeypatch.setattr(Connection, "nodes", lambda *_: None)
    connection = Connection("primary", {"bootstrap.servers": "127.0.0.1:1"}, 0.5)
    with pytest.raises(Unreachable, match="did not answer"):
        list_groups(connection, Deadline.after(0.5))
    assert len(asked) > 2
