"""A worker that is busy is asked again; a rejected configuration is not sent again.

The messages are those of Kafka 4.3.1; a real worker cannot be made to give them on demand.
"""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from drctl.connect import client as clients
from drctl.connect.client import ConnectRejected, ConnectWriter
from tests.connect.scripted_worker import scripted_worker

FOR_A_MOMENT = (
    (409, "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"),
    (
        409,
        "Cannot complete request momentarily due to stale configuration (typically caused by a"
        " concurrent config change)",
    ),
    (
        409,
        "Cannot complete request momentarily due to no known leader URL, likely because a"
        " rebalance was underway.",
    ),
    (500, "Request cannot be completed because a rebalance is expected"),
)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_PAUSE_S", 0.01)


@contextmanager
def worker(
    times: int, status: int, message: str, timeout_s: float = 30
) -> Iterator[tuple[ConnectWriter, list[str]]]:
    """Run a worker that gives this response a number of times; return a client and the requests."""
    asked: list[str] = []

    def answer(path: str) -> tuple[int, bytes]:
        asked.append(path)
        error = {"error_code": status, "message": message}
        return (status, json.dumps(error).encode()) if len(asked) <= times else (202, b"")

    with scripted_worker(answer) as url, closing(ConnectWriter(url, timeout_s=timeout_s)) as client:
        yield client, asked


@pytest.mark.parametrize(("status", "message"), FOR_A_MOMENT)
def test_a_busy_worker_is_asked_again(status: int, message: str) -> None:
    with worker(2, status, message) as (client, asked):
        client.stop("mm2")
    assert asked == ["/connectors/mm2/stop"] * 3


def test_retries_end_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    # Half of the deadline is left for the last answer, however busy this machine is.
    monkeypatch.setattr(clients, "_PAUSE_S", 0.5)
    status, message = FOR_A_MOMENT[1]
    with worker(1_000, status, message, timeout_s=1) as (client, asked):
        with pytest.raises(ConnectRejected, match="answered 409 to PUT /connectors/mm2/stop"):
            client.stop("mm2")
        assert len(asked) > 1


@pytest.mark.parametrize("status", [400, 404, 409, 500])
def test_an_invalid_configuration_is_reported_at_once(status: int) -> None:
    with worker(1_000, status, "Connector configuration is invalid") as (client, asked):
        with pytest.raises(Exception, match="Connector configuration is invalid"):
            client.stop("mm2")
        assert len(asked) == 1
