"""Decisions on records, read from the target if the search's result is on another host."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from drctl.app import failback
from drctl.config.configuration import Config
from drctl.config.link import Link
from drctl.engine.failback_state import ReconcileRequest, Reconciliation
from drctl.model.gap import OrderVerdict
from drctl.model.topology import TopicPartition
from drctl.reconcile.policy import Action
from drctl.reconcile.progress import Key, Progress, RecordSet, Segment

COPIED = Segment(Action.COPY, 9, 4, 400, gone=1)
QUARANTINED = Segment(Action.QUARANTINE, 7, 2, 200)
ALL = {OrderVerdict.SAFE: COPIED, OrderVerdict.CONFLICTING: QUARANTINED}


class Searched(Exception):
    """The result was created again."""


def kept(done: Mapping[OrderVerdict, Segment], result: str = "r1") -> dict[Key, Progress]:
    place = TopicPartition("orders", 0)
    return {
        Key(result, "p-id", RecordSet(place, order)): Progress("", "", (each,))
        for order, each in done.items()
    }


def reconciled(
    monkeypatch: pytest.MonkeyPatch, there: Mapping[Key, Progress], wish: Mapping[str, Any]
) -> Reconciliation:
    class Topic:
        def kept(self) -> Mapping[Key, Progress]:
            return there

    @contextmanager
    def topic(_link: Link) -> Iterator[Topic]:
        yield Topic()

    def search(*_given: object) -> Path:
        raise Searched

    monkeypatch.setattr("drctl.app.reconcile_adapters.reconcile_topic", topic)
    monkeypatch.setattr("drctl.app.failback_search.found_here", search)
    monkeypatch.setattr("drctl.app.failback.await_transactions", lambda _: None)
    nowhere = cast(Config, None), cast(Link, None)
    return failback.reconciliation(
        *nowhere,
        ReconcileRequest(folder="/nowhere", policy=None, topics=(), conflicting="refuse", **wish),
    )


def test_completed_decisions_need_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    found = reconciled(monkeypatch, kept(ALL), {"result": "r1", "records": 7})
    assert found == Reconciliation(0, done={"copy": 5, "quarantine": 2})


@pytest.mark.parametrize(
    ("there", "wish"),
    [
        pytest.param(kept(ALL), {"result": "r1", "records": 8}, id="some-are-left"),
        pytest.param(kept(ALL, "r0"), {"result": "r1", "records": 7}, id="of-another-result"),
        pytest.param(kept(ALL), {"result": "r1"}, id="before-they-are-counted"),
        pytest.param(kept(ALL), {"records": 7}, id="a-journal-of-before"),
        pytest.param({}, {"result": "r1", "records": 7}, id="nothing-is-kept"),
    ],
)
def test_other_records_are_searched_again(
    monkeypatch: pytest.MonkeyPatch, there: Mapping[Key, Progress], wish: Mapping[str, Any]
) -> None:
    with pytest.raises(Searched):
        reconciled(monkeypatch, there, wish)
