"""A run reads all that what it copies rests on; who only looks does not wait for that."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from drctl.cli.failback.search import found_here, searched
from drctl.config.configuration import Config
from drctl.config.link import Link
from drctl.failback.facts import Facts
from drctl.model.topology import Unavailable
from tests.failback.ways import BOUNDARY, PLACE, in_order_to_h

NOWHERE = cast(Config, None), cast(Link, None)
TOO_MANY = Unavailable("2,000,000 records are new on secondary")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """How much each look was let read; where that is not all, nobody knows the boundary."""
    asked: list[int | None] = []

    def look_at(_config: Config, _link: Link, _gap: None, most: int | None = None) -> Facts:
        asked.append(most)
        facts = in_order_to_h()
        if most == sys.maxsize:
            return facts
        return replace(facts, boundaries=TOO_MANY, began={PLACE: TOO_MANY})

    monkeypatch.setattr("drctl.cli.failback.sight.look_at", look_at)
    return asked


def test_where_new_records_begin_is_counted_however_many_there_are(
    looks: list[int | None],
) -> None:
    assert searched(*NOWHERE).boundaries == {PLACE: BOUNDARY}
    assert looks == [sys.maxsize]


def test_which_result_holds_is_looked_at_shortly_first(looks: list[int | None]) -> None:
    """The way back has begun, and only what was counted explains it."""
    assert found_here(*NOWHERE) == Path("gap/main-1")
    assert looks == [None, sys.maxsize]
