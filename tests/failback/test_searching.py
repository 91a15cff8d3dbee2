"""A run reads everything that its copies depend on; `--check-order` does not wait for that."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drctl.app.failback_search import found_here, searched
from drctl.config.configuration import Config
from drctl.config.link import Link
from drctl.failback.facts import Decision, Facts
from drctl.failback.gap_results import GapEvidence
from drctl.model.errors import Refused
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable
from tests.failback.failback_orders import (
    BOUNDARY,
    HERE,
    LOST_END,
    PLACE,
    gap,
    in_order_to_d,
    in_order_to_h,
    partition,
)
from tests.links import link

NOWHERE = cast(Config, None), link(keeps_partitions=True)
TOO_MANY = Unavailable("2,000,000 records are new on secondary")


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Record the read limit of each observation; below the limit the boundary is unknown."""
    asked: list[int | None] = []

    def look_at(_config: Config, _link: Link, _gap: None, most: int | None = None) -> Facts:
        asked.append(most)
        facts = in_order_to_h()
        if most == sys.maxsize:
            return facts
        return replace(facts, boundaries=TOO_MANY, reverse_start={PLACE: TOO_MANY})

    @contextmanager
    def readers(_link: Link) -> Iterator[tuple[None, None]]:
        yield None, None

    monkeypatch.setattr("drctl.app.failback.look_at", look_at)
    monkeypatch.setattr("drctl.app.adapters.both_readers", readers)
    monkeypatch.setattr("drctl.failback.observers.copies.forwarded_headers", lambda *_given: {})
    return asked


def test_a_run_counts_new_records_without_a_limit(looks: list[int | None]) -> None:
    assert searched(*NOWHERE).boundaries == {PLACE: BOUNDARY}
    assert looks == [sys.maxsize]


def test_the_valid_result_is_chosen_with_limited_reads(looks: list[int | None]) -> None:
    """Reverse replication has started, and only its counted records explain it."""
    assert found_here(*NOWHERE) == Path("gap/main-1")
    assert looks == [None, sys.maxsize]


QUARANTINED = {Decision("safe", "quarantine"): 9, Decision("unkeyed", "quarantine"): 1}
NEWER = gap(where="gap/main-2", id="result-2")
STATE = (cast(Config, SimpleNamespace(state_dir=Path("/nowhere"))), link(keeps_partitions=True))


class Compared(Exception):
    """Everything was compared again."""


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, looks: list[int | None]) -> Any:
    """Return the search of a failback before anything was replicated back."""

    def search(facts: Facts, *older: GapEvidence) -> str:
        def look_at(_config: Config, _link: Link, only: Path | None, _most: int) -> Facts:
            one = tuple(each for each in older if only == Path(each.where))
            return replace(facts, gaps=one) if only else facts

        def compare(_config: Config, _link: Link) -> Path:
            raise Compared

        def with_id(_state: Path, _link: str, ids: set[str]) -> list[GapEvidence]:
            return [each for each in older if each.id in ids]

        monkeypatch.setattr("drctl.app.failback.look_at", look_at)
        monkeypatch.setattr("drctl.app.failback_search._compare", compare)
        monkeypatch.setattr("drctl.app.reconcile_adapters.with_id", with_id)
        return searched(*STATE).id

    return search


@pytest.mark.parametrize("action", ["quarantine", "discard"])
def test_records_left_missing_by_decision_are_not_found_again(found: Any, action: str) -> None:
    """`drctl gap` ran since: its result lists these records without a decision."""
    facts = replace(in_order_to_d(), gaps=(NEWER, gap()))
    decided = {"result-1": {Decision("safe", action): 9}}
    assert found(replace(facts, decided=decided)) == "result-1"


def test_even_if_many_results_are_newer(found: Any) -> None:
    facts = replace(in_order_to_d(), gaps=(NEWER,), decided={"result-1": QUARANTINED})
    assert found(facts, gap()) == "result-1"


def test_a_decision_on_other_logs_or_to_copy_is_no_reason_to_take_an_old_result(found: Any) -> None:
    """From another incident; and copied records are no longer missing."""
    moved = gap(partition(source=OffsetRange(0, LOST_END - 5)))
    facts = replace(in_order_to_d(), decided={"result-1": QUARANTINED})
    copied = {"result-1": {Decision("safe", "copy"): 9}}
    for seen, older in (
        (replace(facts, gaps=(NEWER, moved)), ()),
        (replace(facts, gaps=(NEWER,)), (moved,)),
        (replace(facts, gaps=(NEWER, gap()), decided=copied), ()),
    ):
        with pytest.raises(Compared):
            found(seen, *older)


@pytest.mark.usefixtures("looks")
def test_new_records_that_a_filter_would_drop_are_named_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[object, ...]] = []

    def found(*given: object) -> dict[TopicPartition, int]:
        asked.append(given)
        return {PLACE: 117}

    monkeypatch.setattr("drctl.failback.observers.copies.forwarded_headers", found)
    with pytest.raises(Refused, match=r"not copied by drctl \(orders-0 offset 117;") as raised:
        searched(*NOWHERE)
    assert "drctl failback --link main --rebuild" in raised.value.hint
    assert asked[0][:3] == ({PLACE: BOUNDARY}, {PLACE: PLACE}, HERE)
    plain = link(keeps_partitions=True)
    mirror = plain.settings.replicator.model_copy(update={"kind": "offset-preserving"})
    settings = plain.settings.model_copy(update={"replicator": mirror})
    mirrored = replace(plain, settings=settings)
    assert searched(NOWHERE[0], mirrored).boundaries, (
        "a mirror has no filter that could drop records"
    )
