"""A starting worker responds 404 to everything for seconds, which says nothing about connectors.

The bodies are those of Kafka 4.3.1, recorded while a killed worker came back.
"""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from drctl.connect.client import ConnectReader, ConnectRejected, NoSuchConnector
from tests.connect.scripted_worker import scripted_worker

STARTING = (
    b'{\n"message":"Not Found",\n"url":"http://127.0.0.1/connectors/a/status",\n"status":"404"\n}'
)
ABSENT = b'{"error_code":404,"message":"No status found for connector a"}'


@contextmanager
def worker(body: bytes, *listed: str) -> Iterator[ConnectReader]:
    """Run a worker that responds 404 with this body, and lists its connectors."""

    def answer(path: str) -> tuple[int, bytes]:
        return (200, json.dumps(listed).encode()) if path == "/connectors" else (404, body)

    with scripted_worker(answer) as url, closing(ConnectReader(url)) as client:
        yield client


def test_a_starting_worker_does_not_prove_a_connector_missing() -> None:
    with worker(STARTING) as client, pytest.raises(ConnectRejected, match="answered 404"):
        client.status("a")


def test_a_worker_without_statuses_does_not_prove_it_either() -> None:
    """Between the first phase and the herder's start the body is one of Connect's own messages."""
    with worker(ABSENT, "a", "b") as client, pytest.raises(ConnectRejected, match="of connector a"):
        client.status("a")


def test_connects_own_404_proves_it() -> None:
    with worker(ABSENT, "b") as client, pytest.raises(NoSuchConnector, match="No status found"):
        client.status("a")
