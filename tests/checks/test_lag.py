"""Replication lag, from offsets and times alone."""

from typing import NamedTuple

import pytest

from drctl.checks.cluster_pair import (
    SOON_MS,
    Ages,
    Limits,
    NewestTimes,
    by_size,
    lags,
    limits,
    tail,
)
from drctl.model.replication import Lag, Tail
from drctl.model.topology import OffsetRange, TopicPartition, TopicState, Unavailable

PLACE = TopicPartition("orders", 0)
HOUR_MS = 3_600_000
NOW_MS = 1_800_000_000_000


class ReportedEnd(NamedTuple):
    offset: int
    evidence: str = "it says so"


def lag(log: tuple[int, int], reported: int | None, newer: int | None) -> Lag | Unavailable:
    found = lags(
        {PLACE: OffsetRange(*log)},
        {} if reported is None else {PLACE: ReportedEnd(reported)},
        {} if newer is None else {PLACE: NewestTimes(1_000, newer)},
    )
    return found[PLACE]


@pytest.mark.parametrize(
    ("log", "reported", "newer", "records", "at_most"),
    [
        ((0, 100), 100, None, 0, 0),
        ((0, 100), 60, None, 40, 40),
        ((0, 100), None, 70, 30, 30),
        # Connect stored the replicator's offset before the newest copy was written.
        ((0, 100), 60, 97, 3, 40),
        # With timestamps out of order the lag is never higher than by the replicator's own offset.
        ((0, 100), 60, 20, 40, 40),
        ((80, 100), 60, None, 20, 20),
        ((80, 100), 0, 90, 10, 20),
        # The topic was recreated: the stored offset belongs to the deleted one.
        ((0, 100), 500, None, 0, 0),
        ((100, 100), 60, None, 0, 0),
        ((0, 0), None, None, 0, 0),
    ],
)
def test_lag(
    log: tuple[int, int], reported: int | None, newer: int | None, records: int, at_most: int
) -> None:
    found = lag(log, reported, newer)
    assert isinstance(found, Lag)
    assert (found.records, found.at_most) == (records, at_most)


def test_age_of_the_lag() -> None:
    known, newest = {PLACE: ReportedEnd(60)}, {PLACE: NewestTimes(1_000, 97, 1_500)}
    found = lags({PLACE: OffsetRange(0, 100)}, known, newest)[PLACE]
    assert isinstance(found, Lag)
    assert found.oldest_ms == 1_500
    nothing = lags({PLACE: OffsetRange(0, 97)}, known, newest)[PLACE]
    assert isinstance(nothing, Lag)
    assert (nothing.records, nothing.oldest_ms) == (0, -1)


def test_evidence_of_the_lag() -> None:
    found = lag((0, 100), 60, 97)
    assert isinstance(found, Lag)
    assert found.evidence == "it says so, its newest copy is from 1970-01-01 00:00:01 UTC"


def test_unknown_lag() -> None:
    assert isinstance(lag((0, 100), None, None), Unavailable)
    found = lags({PLACE: OffsetRange(0, 1)}, {}, {}, "Connect is dead")[PLACE]
    assert isinstance(found, Unavailable)
    assert found.reason.endswith("Connect is dead")
    dark = Unavailable("orders-0 has no leader")
    assert lags({PLACE: dark}, {PLACE: ReportedEnd(3)}, {}) == {PLACE: dark}


def topic(**config: str) -> TopicState:
    return TopicState("orders", {0: 1}, {k.replace("_", "."): v for k, v in config.items()})


def test_retention_limits() -> None:
    kept = topic(retention_ms=str(8 * HOUR_MS), cleanup_policy="compact,delete")
    begin = NOW_MS - 8 * HOUR_MS
    assert limits(kept, NOW_MS) == Limits(begin + SOON_MS, begin + 2 * HOUR_MS)
    assert limits(topic(retention_ms="-1"), NOW_MS) is None
    assert limits(topic(retention_ms="1", cleanup_policy="compact"), NOW_MS) is None
    assert isinstance(limits(topic(), NOW_MS), Unavailable)
    assert isinstance(limits(topic(cleanup_policy="delete"), NOW_MS), Unavailable)


@pytest.mark.parametrize(
    ("config", "deletes"),
    [
        ({"retention_bytes": "1000"}, True),
        ({"retention_bytes": "-1"}, False),
        ({}, False),
        ({"retention_bytes": "1000", "cleanup_policy": "compact"}, False),
    ],
)
def test_size_limits(config: dict[str, str], deletes: bool) -> None:
    assert bool(by_size(topic(**config))) == deletes


@pytest.mark.parametrize(
    ("log", "reported", "ages", "expected"),
    [
        ((0, 100), 60, (50, 55), Tail(0, 0, 0)),
        ((0, 100), 60, (61, 75), Tail(0, 1, 15)),
        ((80, 100), 60, (80, 80), Tail(20, 0, 0)),
        ((80, 100), 60, (90, 100), Tail(20, 10, 20)),
        ((0, 100), None, (61, 75), Tail(0, 61, 75)),
        # Retention deleted all records, some of them before they were copied.
        ((100, 100), 60, (100, 100), Tail(40, 0, 0)),
    ],
)
def test_tail(
    log: tuple[int, int], reported: int | None, ages: tuple[int, int], expected: Tail
) -> None:
    whole = OffsetRange(*log)
    seen = lag(log, reported, None)
    behind = seen if isinstance(seen, Lag) else Lag(whole.span, whole.span, "")
    reported_end = None if reported is None else ReportedEnd(reported)
    assert tail(whole, behind, reported_end, Ages(*ages), "") == expected
