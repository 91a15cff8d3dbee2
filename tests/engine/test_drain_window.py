"""Consumers may continue while they make progress, and no longer."""

from typing import Any, cast

import pytest

from drctl.engine.kind import Kind, Readback, State
from drctl.engine.ports import LinkReader
from drctl.model.groups import Committed
from drctl.steps.groups import Quiesce
from tests.engine.pair import ORDERS, PRIMARY, Pair, linked
from tests.engine.processes import MemoryReader, Process

FENCED = {"fence-producers": {"ends": {"audit-0": 1, "orders-0": 4}}}
WINDOW = {"cluster": PRIMARY, "drain_window": True}


QUIET = {"cluster": PRIMARY}
READS_FENCED: dict[str, Any] = {"fence-consumers": {}}


class Window:
    """A wait for the consumers of a link."""

    def __init__(
        self, pair: Pair, settings: dict[str, Any] = WINDOW, facts: dict[str, Any] = FENCED
    ) -> None:
        self.pair = pair
        self.seconds = 0.0
        self.kind = Kind(Quiesce(lambda: self.seconds))
        self.intent: Any = self.kind.check(settings, facts, self.look)

    @property
    def look(self) -> LinkReader:
        return cast(LinkReader, Process(self.pair).reader)

    def seen(self, later_s: float = 0.0) -> Readback:
        self.seconds += later_s
        return self.kind.verify(self.intent, self.look)

    def commit(self, offset: int) -> None:
        self.pair.sites[PRIMARY].positions.positions["app"][ORDERS] = Committed(offset)


def test_a_group_that_committed_up_to_the_fence_is_not_awaited() -> None:
    seen = Window(linked()).seen()
    assert seen.state is State.DONE
    assert "they have committed everything" in seen.message


def test_a_group_below_the_fence_is_awaited() -> None:
    window = Window(linked())
    window.commit(1)
    seen = window.seen()
    assert (seen.state, "that are not committed: 3" in seen.message) == (State.WAITING, True)
    window.commit(4)
    assert window.seen(0.5).state is State.DONE


def test_a_group_that_pauses_is_not_awaited_further() -> None:
    window = Window(linked())
    window.commit(1)
    assert window.seen().state is State.WAITING
    window.commit(2)
    assert window.seen(5.5).state is State.WAITING
    assert window.seen(5.5).state is State.WAITING
    seen = window.seen(0.6)
    assert seen.state is State.DONE
    assert "no offset has changed for 6 s" in seen.message


def test_a_group_without_commits_is_awaited_briefly() -> None:
    window = Window(linked())
    window.pair.sites[PRIMARY].positions.positions["app"] = {}
    assert window.seen().state is State.WAITING
    assert window.seen(6.1).state is State.DONE


def test_a_fenced_member_that_commits_once_more_is_awaited_until_offsets_are_stable() -> None:
    window = Window(linked(), QUIET, READS_FENCED)
    window.commit(3)
    assert [window.seen(each).state for each in (0, 5.5)] == [State.WAITING, State.WAITING]
    seen = window.seen(0.6)
    assert seen.state is State.DONE
    assert "their reads are fenced, and no offset has changed for 6 s" in seen.message


def test_offsets_that_moved_during_translation_are_translated_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair, kind = linked(), Kind(Quiesce())
    begun: list[frozenset[str] | None] = []
    monkeypatch.setattr(MemoryReader, "translate_ahead", lambda _reader, moved: begun.append(moved))
    look = cast(LinkReader, Process(pair).reader)
    ahead = {"cluster": PRIMARY, "translate_ahead": True}
    intent: Any = kind.check(ahead, {"fence-consumers": {}}, look)
    assert begun == [None], "not all groups were translated"
    assert kind.verify(intent, look).state is State.DONE
    assert len(begun) == 1, "a group was translated although no offset moved"
    pair.sites[PRIMARY].positions.positions["app"][ORDERS] = Committed(2)
    assert kind.verify({**intent, "ends": {}}, look).state is State.DONE, (
        "the step waits although nothing is left to read"
    )
    assert begun[1:] == [{"app"}], "not only the moved group was translated"
    digest = intent["digest"]
    kind.check(
        ahead, {"fence-consumers": {}, "quiesce-consumers": {"groups": 1, "digest": digest}}, look
    )
    assert len(begun) == 3, "offsets that moved since were not translated"
    pair.sites[PRIMARY].positions.positions["app"][ORDERS] = Committed(4)
    kind.check(
        ahead, {"fence-consumers": {}, "quiesce-consumers": {"groups": 1, "digest": digest}}, look
    )
    assert len(begun) == 3, "translated offsets were translated again"
