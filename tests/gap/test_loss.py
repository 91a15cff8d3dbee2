"""The estimated loss: a range with reliable ends; silence does not raise the likely number."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.gap.loss import (
    EDGES_S,
    Copied,
    Ends,
    EndSeen,
    LossEvidence,
    Pause,
    Sign,
    WriteHistory,
    estimate,
    last_sign,
    pause_around,
)
from drctl.model.loss import Loss
from drctl.model.topology import TopicPartition

NOW = 1_700_000_000_000
KEPT = "they stay on primary and are lost only if its disks are lost"
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


def ago(seconds: float) -> int:
    return NOW - round(seconds * 1000)


def beat(seconds: float) -> Sign:
    """Return a replicated heartbeat."""
    return Sign("a heartbeat", ago(seconds), copying=True)


def tracked(seconds: float) -> Sign:
    return Sign("observed by drctl offsets track", ago(seconds))


def own(seconds: float) -> Sign:
    return Sign("its own timestamp", ago(seconds), copying=True, by_record=True)


def written(
    pace: float,
    until: float,
    *,
    since: float = inf,
    last: float = 0.0,
    lag: float = 0.0,
    noted: float | None = None,
) -> WriteHistory:
    """Return evenly spaced writes from `since` to `until` seconds ago.

    Args:
        last: start of the observed period, seconds ago.
        lag: the last recorded lag in seconds, and how long ago it was recorded.
    """
    ages = [last + edge for edge in EDGES_S]
    counts = [round(pace * max(0.0, min(age, since) - until)) for age in ages]
    rows = tuple((ago(age), count) for age, count in zip(ages, counts, strict=True))
    begins = ago(since) if since < ages[-1] else None
    noted = ago(last if noted is None else noted)
    return WriteHistory(ago(until), rows, begins, round(lag * 1000), noted)


def stock(seconds: float, **ends: int) -> Ends:
    seen = {"a": A, "b": B}
    return Ends("a look", True, {seen[n]: EndSeen(end, ago(seconds)) for n, end in ends.items()})


def groups(seconds: float, offset: int) -> Ends:
    return Ends("checkpoints", False, {A: EndSeen(offset, ago(seconds))})


def look(
    *ends: Ends,
    a: WriteHistory | None = None,
    b: WriteHistory | None = None,
    copied: dict[TopicPartition, int] | None = None,
    signs: tuple[Sign, ...] = (),
    halted: str = "",
    failed: bool = False,
    now: int = NOW,
) -> Loss:
    write_history = {place: each for place, each in ((A, a), (B, b)) if each is not None}
    evidence_found = LossEvidence(
        "primary",
        (A, B),
        ends,
        [Copied("connector", copied)] if copied else [],
        signs,
        write_history,
        frozenset() if b else frozenset({B}),
        halted,
        failed,
    )
    return estimate(evidence_found, now)


def numbers(found: Loss) -> tuple[int | None, int | None, int | None]:
    return found.records.numbers


def test_unknown_ends_of_the_range_are_stated() -> None:
    found = estimate(LossEvidence("primary", (A, B)), NOW)
    assert numbers(found) == (None, None, None)
    assert (found.seconds, found.seconds_at_most) == (None, None)
    assert found.message == f"unknown how many records are not replicated; {KEPT}"
    for figure in (found.records.at_least, found.records.likely, found.records.at_most):
        assert figure.based_on


def test_a_sudden_death_loses_little_however_long_ago() -> None:
    paced = written(100, 20.3, last=20.3)
    found = look(a=paced, signs=(beat(20), own(20.3)))
    least, likely, most = numbers(found)
    assert (least, likely) == (None, 0), "records after the last heartbeat are assumed"
    assert 2_030 <= most <= 2_300, "not the records since then at the observed rate"
    later = look(a=paced, signs=(beat(20), own(20.3)), now=NOW + 86_400_000)
    assert numbers(later)[1] == likely
    assert later.records.at_most.records > 8_000_000
    assert (found.seconds, later.seconds) == (0.0, 0.0)
    assert found.message.startswith("about 0 records (at most ")
    assert found.message.endswith(
        f" are probably not replicated; primary was last known alive 20.0 s ago; {KEPT}"
    )


def test_stalled_replication_loses_everything_until_the_crash() -> None:
    hung, signs = written(200, 70, last=70), (beat(70), tracked(10))
    found = look(a=hung, signs=signs)
    assert numbers(found)[1] == 12_000, "not the 60 s until the last tracking pass"
    assert found.seconds == 60.0
    assert "observed by drctl offsets track, 10.0 s ago" in found.records.likely.based_on
    blind = look(a=hung, signs=(beat(70),), halted="connector mm2 is PAUSED")
    assert numbers(blind)[1] is None, "a number without evidence about the source"
    assert blind.records.likely.based_on.startswith("connector mm2 is PAUSED: ")
    most = numbers(blind)[2]
    assert 14_000 <= most < 15_000
    assert blind.message.startswith(f"at most {most:,} records (the likely number is unknown)")
    assert numbers(look(a=hung, signs=signs, halted="connector mm2 is PAUSED"))[1] == 12_000


def test_lagging_copies_are_complete_only_up_to_the_newest() -> None:
    slow = written(300, 14, last=14, lag=9, noted=6)
    found = look(a=slow, signs=(beat(5),))
    assert numbers(found)[1] == 2_700, "not the 9 s of lag at the last heartbeat"
    kept_up = look(a=replace(slow, lag_ms=200), signs=(beat(5),))
    assert numbers(kept_up)[1] == 0, "a silent partition without lag does not count as idle"
    assert numbers(kept_up)[2] == numbers(found)[2], "an unusually long silence may also be lag"
    caught_up = look(a=replace(slow, noted_ms=ago(25)), signs=(beat(5),))
    assert numbers(caught_up)[1] == 0, "a partition without lag, which is not tracked again"
    failed = look(a=replace(slow, lag_ms=200), signs=(beat(5),), failed=True)
    assert numbers(failed)[1] == 2_700, "a failed task counts as up to date"


def test_a_single_silent_partition_lags() -> None:
    silent, busy = written(100, 9, last=5), written(100, 5, last=5)
    assert numbers(look(a=silent, b=busy, signs=(beat(5),)))[1] == 400
    both = look(a=silent, b=silent, signs=(beat(5),))
    assert numbers(both)[1] == 0, "an idle topic counts as lagging"


def test_a_source_that_was_idle_when_it_died_lost_nothing() -> None:
    found = look(a=written(50, 900, last=5), signs=(beat(5),))
    assert numbers(found) == (None, 0, 1)
    assert found.seconds == 0.0


def test_a_burst_of_writes_may_repeat() -> None:
    """1,000 records within a second, a minute ago; nothing since."""
    wave = written(1_000, 65, since=66, last=5)
    found = look(a=wave, signs=(beat(5),))
    least, likely, most = numbers(found)
    assert (least, likely) == (None, 0)
    assert most > 1_000


def test_observed_unreplicated_records_are_a_lower_bound() -> None:
    paced = written(10, 300, last=40)
    copied = {A: 43, B: 25}
    found = look(stock(250, a=50), a=paced, copied=copied, signs=(beat(40),))
    assert numbers(found)[0] == 7
    assert found.records.at_least.based_on.startswith(
        "observed on primary and not replicated: a look"
    )
    assert numbers(look(groups(10, 60), a=paced, copied=copied))[0] == 17
    assert numbers(look(stock(300, a=50), groups(10, 60), a=paced, copied=copied))[0] == 17
    recreated = look(stock(10, a=50), groups(300, 90), a=paced, copied=copied)
    assert numbers(recreated)[0] == 7, (
        "older evidence was used, although the topic may have been recreated"
    )
    assert numbers(look(stock(10, a=40, b=25), a=paced, copied=copied))[0] == 0
    found = look(groups(10, 5_000), a=paced, copied=copied, signs=(beat(40),))
    least, likely, most = numbers(found)
    assert least == 4_957
    assert likely is not None
    assert least <= likely <= most, "the likely number is outside the bounds"


def test_an_observation_counts_until_its_time_and_the_rate_since() -> None:
    paced = written(100, 30, last=30)
    found = look(stock(10, a=2_100), a=paced, copied={A: 100}, signs=(beat(30), tracked(5)))
    assert numbers(found)[:2] == (2_000, 2_500)


def test_a_records_own_timestamp_counts_where_it_is_newest_and_not_of_the_future() -> None:
    evidence_found = LossEvidence("primary", (A,), signs=(own(5), beat(40)))
    assert last_sign(evidence_found, NOW) == own(5)
    assert last_sign(replace(evidence_found, signs=(own(-60), beat(40))), NOW) == beat(40)
    assert last_sign(replace(evidence_found, signs=(own(4.9), beat(5))), NOW) == beat(5)
    found = look(a=written(10, 5, last=5), signs=(own(5),))
    assert "record timestamp, set by the producer" in found.records.likely.based_on
    assert "(timestamp of the newest copy); " in found.message


def test_an_unknown_bound_of_one_partition_stays_unknown() -> None:
    evidence_found = LossEvidence(
        "primary", (A, B), signs=(beat(5),), write_history={A: written(10, 5, last=5)}
    )
    found = estimate(evidence_found, NOW)
    assert numbers(found)[2] is None
    assert "write rate unknown for 1 of 2 partitions" in found.records.at_most.based_on
    assert numbers(found)[1] is not None
    assert "write rate known for 1 of 2 partitions" in found.records.likely.based_on
    assert "no upper bound is known" in found.message


def test_each_piece_of_evidence_is_named_with_its_age() -> None:
    evidence_found = LossEvidence(
        "primary",
        (A, B),
        (stock(300, a=50, b=20), groups(7200, 45)),
        (Copied("connector", {A: 43, B: 25}),),
        (beat(40), tracked(20), own(39)),
        {A: written(1, 39, last=39), B: replace(written(1, 39, last=39), own=False, lag_ms=90_000)},
        silent=("Connect: no answer",),
    )
    assert estimate(evidence_found, NOW).evidence == (
        "primary was alive 20.0 s ago: observed by drctl offsets track",
        "replication worked 39.0 s ago: its own timestamp (record timestamp, set by the producer)",
        "replication worked 40.0 s ago: a heartbeat",
        "end offsets of 2 of 2 partitions, 5 min ago: a look",
        "end offsets of 1 of 2 partitions (lower bounds), 2 h ago: checkpoints",
        "replicated offsets of 2 of 2 partitions: connector",
        "write rates of 2 partitions: 1 from record timestamps, 1 from offset syncs",
        "1 partition lagged by more than 3 s when the lag was last recorded",
        "not readable: Connect: no answer",
    )


@pytest.mark.parametrize("pace", [1, 40, 3_000])
@pytest.mark.parametrize("stalled", [0.0, 4.0, 90.0])
@pytest.mark.parametrize("outage", [1.0, 60.0, 40_000.0])
def test_the_estimate_of_a_steady_writer_is_right(
    pace: float, stalled: float, outage: float
) -> None:
    ended = outage + stalled
    signs = (beat(ended), tracked(outage + 0.5), own(ended))
    found = look(a=written(pace, ended, last=ended), copied={A: 10}, signs=signs)
    least, likely, most = numbers(found)
    lost = pace * stalled
    assert least is None
    assert lost <= most
    assert likely is not None
    assert max(lost, 10) / 2 <= max(likely, 10) <= 2 * max(lost, 10)


def test_clock_skew_makes_nothing_negative() -> None:
    found = look(a=written(2.5, -9, last=-9), signs=(beat(-9),))
    assert numbers(found)[1] == 0
    assert (found.seconds, found.seconds_at_most) == (0.0, 0.0)


FLUSH, RESUMED = 0.4, 7.0
"""Seconds for which a resumed replicator writes its fetched records, and seconds until it
resumes."""


def suspended(
    pace: float, lived: float, resumed: float, outage: float, *, tracked_too: bool, beats: bool
) -> tuple[Loss, float]:
    """Return the estimate if MirrorMaker 2 was suspended and the source died meanwhile.

    Args:
        lived: seconds from the suspension to the death of the source.
        resumed: seconds from the suspension until it resumed.
        outage: seconds since it resumed.

    Returns:
        The estimate, and the number of unreplicated records.
    """
    begin = resumed + outage
    noted = [begin + each / 2 for each in range(240, 0, -1)] + [outage - FLUSH]
    heartbeats = [ago(begin + each) for each in range(120, -1, -1)] + [
        ago(outage - each) for each in range(int(outage))
    ]
    pause = pause_around(heartbeats, ago(noted[-1]), NOW) if beats else None
    last = begin if pause else noted[-1]
    signs = [Sign("the newest offset sync", ago(last), copying=True)]
    signs += [tracked(begin - lived + 0.5)] if tracked_too else []
    paced = replace(written(pace, begin, last=last), own=False)
    paced = replace(paced, newest_ms=ago(last))
    evidence_found = LossEvidence(
        "primary", (A,), signs=signs, write_history={A: paced}, pause=pause, pause_unseen=not beats
    )
    return estimate(evidence_found, NOW), pace * lived


@given(
    pace=st.floats(20, 3_000),
    lived=st.floats(2.6, 60),
    hung=st.floats(0.5, 60),
    outage=st.floats(2, 3_600),
)
def test_a_replicator_that_was_suspended_when_the_source_died(
    pace: float, lived: float, hung: float, outage: float
) -> None:
    given_ = (pace, lived, max(4.0, lived + hung), outage)
    found, lost = suspended(*given_, tracked_too=True, beats=True)
    least, likely, most = numbers(found)
    assert likely is not None
    assert (least or 0) <= lost / 2 <= likely <= lost * 2
    assert likely <= most
    assert lost <= most
    blind, _ = suspended(*given_, tracked_too=False, beats=True)
    assert numbers(blind)[1] is None, "a number without evidence about the source"
    assert numbers(blind)[2] >= lost
    assert "MirrorMaker 2 did not run for " in blind.records.likely.based_on
    assert any("MirrorMaker 2 did not run for " in each for each in blind.evidence)


def test_without_heartbeats_the_estimate_names_its_assumption() -> None:
    found, lost = suspended(500, 5, RESUMED, 29, tracked_too=True, beats=False)
    assert numbers(found)[1] < lost / 2, "the estimate is not wrong, so the warning is not tested"
    assert found.message.endswith(f", if replication ran until then; {KEPT}")
    assert "writes no heartbeats to the target" in found.records.likely.based_on
    assert numbers(found)[2] >= lost


STEADY = [NOW + 1_000 * each for each in range(60)]


@pytest.mark.parametrize(
    ("beats", "copied", "until", "pause"),
    [
        (STEADY, 30, 60, None),
        ([*STEADY[:30], *STEADY[38:]], 38.4, 60, (29, 38)),
        ([*STEADY[:30], *STEADY[38:]], 29.2, 60, (29, 38)),
        ([*STEADY[:30], *STEADY[38:]], 50, 60, None),
        ([*STEADY[:30], *STEADY[38:]], 10, 60, None),
        ([*STEADY[:30], *STEADY[32:]], 30, 60, None),
        (STEADY[:30], 29, 60, (29, 60)),
        (STEADY[:30], 29, None, None),
        ([*STEADY[:10], *STEADY[20:40], *STEADY[45:]], 44, 60, (39, 45)),
        ([NOW + 5_000 * each for each in range(12)], 30, 60, None),
        (STEADY[:1], 0, None, None),
        ([], 0, 60, None),
    ],
    ids=[
        *("steady", "flushed", "held up", "copied later", "stopped before", "late", "suspended"),
        *("told to stop", "the last one", "slow", "one", "none"),
    ],
)
def test_heartbeats_show_a_pause_of_the_replicator(
    beats: list[int], copied: float, until: float | None, pause: tuple[int, int] | None
) -> None:
    def at(seconds: float) -> int:
        return NOW + round(seconds * 1000)

    found = pause_around(beats[::-1], at(copied), None if until is None else at(until))
    assert found == (None if pause is None else Pause(*map(at, pause)))


def test_records_fetched_before_a_pause_are_synced_after_it() -> None:
    pause = Pause(NOW, NOW + 8_000)
    assert pause.before(NOW - 1) == NOW - 1
    assert pause.before(NOW + 8_300) == NOW
    assert pause.before(NOW + 20_000) == NOW + 20_000
