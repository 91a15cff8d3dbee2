"""A query is awaited only up to its time limit."""

import threading
from time import monotonic

import pytest

from drctl.checks.bounded_query import BoundedQuery
from drctl.model.errors import ConfigError, Unreachable
from drctl.model.health import AuthenticationFailed, Locked, Silent
from drctl.model.topology import Unavailable


def test_an_answer() -> None:
    assert BoundedQuery(lambda: 5, 10).value() == 5


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unreachable("it is dead"), Silent("it is dead")),
        (AuthenticationFailed("wrong password"), Locked("wrong password")),
        (ConfigError("no password"), Unavailable("no password")),
    ],
)
def test_error_instead_of_a_result(error: Exception, expected: Unavailable) -> None:
    def ask() -> None:
        raise error

    query = BoundedQuery(ask, 10)
    assert query.answer() == expected
    with pytest.raises(type(error)):
        query.value()


def test_deadline_of_a_query_that_never_ends() -> None:
    for_ever = threading.Event()
    begun = monotonic()
    dead = BoundedQuery(for_ever.wait, 0.2)
    waiting = BoundedQuery(lambda: dead.value() or 1, 10)
    assert isinstance(waiting.answer(), Silent)
    assert isinstance(dead.answer(), Silent)
    assert monotonic() - begun < 5
    for_ever.set()


def test_bug_is_not_reported_as_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    raised = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: raised.set())

    def ask() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        BoundedQuery(ask, 10).answer()
    assert raised.wait(10)
