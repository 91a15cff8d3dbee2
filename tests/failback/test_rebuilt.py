"""`--check-order` if the source has lost its records and is rebuilt."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from drctl.engine.failback_state import filter_to_add
from drctl.failback.answer import Answer, Verdict
from drctl.failback.facts import Cluster, Facts
from drctl.failback.observers.records import observe_filled
from drctl.model.topology import OffsetRange, Record, TopicPartition, Unavailable
from tests.failback.failback_orders import (
    DROP,
    HERE,
    NOTHING_MISSING,
    PLACE,
    SILENT,
    TARGET_END,
    THERE,
    after_failback,
    back_gap,
    copying,
    endpoint,
    gap,
    in_order_to_d,
    judged,
    states,
)
from tests.failback.observed import reader, record
from tests.failback.test_answer import drawn

STOPPED = copying("mm2-back", "STOPPED")
RUNNING = copying("mm2-back", "RUNNING", {PLACE: 40})


def holding(number: int) -> Cluster:
    return Cluster(HERE, {PLACE: OffsetRange(0, number)})


def lost(number: int = 0, **changed: Any) -> Answer:
    """The source was replicated up to 100 and has fewer records now; this host has no result."""
    facts: Facts = replace(in_order_to_d(), on_source=holding(number), gaps=(), reverse=STOPPED)
    return judged(facts, **changed)


def test_an_empty_source_before_the_rebuild() -> None:
    found = lost()
    assert (states(found), found.verdict, found.next) == ("DDDDDNDNNNN", Verdict.OK, "f")
    assert "orders-0 ends at 0 but was replicated up to 100" in found.steps["f"].why
    assert "start-reverse-replication is next" in found.steps["f"].why
    assert "is not visible" in found.steps["e"].why


def test_old_connector_offsets_are_reset_first() -> None:
    found = lost(reverse=copying("mm2-back", "STOPPED", {PLACE: 130}))
    assert (found.verdict, found.next) == (Verdict.OK, "f")
    assert "set-start-offsets is next" in found.steps["f"].why
    blind = lost(reverse=copying("mm2-back", "STOPPED", SILENT))
    assert (blind.verdict, blind.steps["f"].observed) == (Verdict.UNKNOWN, "unknown")


@pytest.mark.parametrize("config", [DROP["config"], filter_to_add({})])
def test_a_filter_would_skip_records_that_exist_nowhere_else(config: dict[str, str]) -> None:
    found = lost(reverse=copying("mm2-back", "RUNNING", {PLACE: 40}, config), filled=True)
    assert found.steps["g"].observed == "not-done"
    assert "include-reconciled-records is next" in found.steps["g"].why


def test_remaining_records_are_decided_before_it_is_emptied() -> None:
    searched = gap(replace(NOTHING_MISSING, source=OffsetRange(0, 50)))
    first, then = lost(50), lost(50, gaps=(searched,))
    assert (states(first)[:6], first.verdict, first.next) == ("DDNNNN", Verdict.OK, "c")
    assert (states(then)[:6], then.verdict, then.next) == ("DDDDDN", Verdict.OK, "f")
    assert "next is empty-primary" in then.steps["f"].why
    assert "50 old offsets" in then.steps["f"].why


def test_a_rebuild_in_progress_is_in_order() -> None:
    partly = lost(50, filled=True, reverse=RUNNING)
    assert (states(partly), partly.verdict, partly.next) == ("DDDDDDDNNNN", Verdict.OK, "h")
    assert "about 80 records" in partly.steps["h"].why
    stopped = lost(50, filled=True, reverse=copying("mm2-back", "STOPPED", {PLACE: 50}))
    assert (stopped.verdict, stopped.next) == (Verdict.OK, "f")
    started = lost(0, reverse=copying("mm2-back", "RUNNING"))
    assert (started.verdict, started.next) == (Verdict.OK, "f")


def test_a_larger_cluster_is_recognized_by_its_records() -> None:
    """Its run was killed, and this host has no result; the other table would count too much."""
    partly = lost(120, filled=True, reverse=RUNNING)
    assert (states(partly), partly.verdict, partly.next) == ("DDDDDDDNNNN", Verdict.OK, "h")
    assert lost(120, reverse=RUNNING).verdict is Verdict.VIOLATED
    searched = gap(replace(NOTHING_MISSING, source=OffsetRange(0, 120), only_on_target=10))
    other = lost(120, filled=True, reverse=RUNNING, gaps=(searched,))
    assert not other.seen.rebuilding, "a compared cluster counts as one to rebuild"


def test_a_rebuilt_cluster_is_compared_before_clients_move() -> None:
    found = lost(TARGET_END, filled=True, reverse=RUNNING)
    assert (found.verdict, found.next) == (Verdict.UNKNOWN, "h")
    whole = lost(
        TARGET_END, filled=True, reverse=RUNNING, reverse_gaps=(back_gap(TARGET_END, TARGET_END),)
    )
    assert (states(whole), whole.verdict, whole.next) == ("DDDDDDDDNNN", Verdict.OK, "i")


def test_clients_moved_to_an_empty_cluster() -> None:
    found = lost(endpoints=(endpoint("primary"),))
    assert (found.verdict, found.next) == (Verdict.VIOLATED, "f")
    running = lost(forward=copying("mm2-source", "RUNNING", {PLACE: 100}))
    assert (running.verdict, running.next) == (Verdict.VIOLATED, "b")


def test_a_completed_rebuild_is_judged_by_its_comparison() -> None:
    found = judged(after_failback(), filled=True)
    assert (states(found), found.violations) == ("DDDDDDDDDDU", ())
    assert not found.seen.rebuilding


def test_text_shows_the_steps_of_a_rebuild() -> None:
    text = drawn(lost(), width=400)
    assert "Next: step f (primary was emptied and is refilled from secondary" in text
    assert "curl -s -X DELETE http://back:8083/connectors/mm2-back/offsets" in text
    assert "drctl failback --link main --rebuild" in text
    assert "boundary.json" not in text


COPY = TopicPartition("primary.orders", 0)
LOG = tuple(record(n, f"k{n}", n) for n in range(10, 30))


@pytest.mark.parametrize(
    ("log", "start", "filled"),
    [
        ([record(n, f"k{n + 10}", n + 10) for n in range(5)], 0, True),
        ([record(n, f"k{n + 3}", n + 3) for n in range(7, 12)], 7, True),
        ([record(n, f"k{n + 11}", n + 11) for n in range(5)], 0, False),
        ([record(n, f"k{n + 10 + (n > 2)}", n + 10) for n in range(5)], 0, False),
        ([record(n, f"k{n + 10}", n + 10) for n in (0, 1, 2, 4)], 0, True),
        (
            [record(n, f"k{n + 10 - (n > 2)}", n + 10 - (n > 2)) for n in range(5) if n != 2],
            0,
            False,
        ),
        ([], 0, False),
        ([record(n, f"k{n + 10}", n + 10) for n in range(21)], 0, False),
    ],
)
def test_whether_it_has_the_first_records_of_the_target(
    log: Sequence[Record], start: int, filled: bool
) -> None:
    end = log[-1].offset + 1 if log else start
    here = Cluster(HERE, {PLACE: OffsetRange(start, end)})
    there = Cluster(THERE, {COPY: OffsetRange(10, 30)})
    readers = reader(*log), reader(*LOG)
    assert observe_filled({COPY.topic: PLACE.topic}, here, there, *readers) is filled


def test_an_unreadable_log_does_not_count_as_rebuilt() -> None:
    here = Cluster(HERE, {PLACE: Unavailable("it has no leader")})
    there = Cluster(THERE, {PLACE: OffsetRange(10, 30)})
    readers = reader(*LOG), reader(*LOG)
    assert not observe_filled({}, here, there, *readers)
