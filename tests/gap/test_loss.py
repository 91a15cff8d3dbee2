"""What is probably lost: the best bound that the traces allow, and nothing where none tells."""

import pytest

from drctl.gap.loss import LossEstimate, ago, best_sign, estimate
from drctl.gap.traces import Copied, Ends, EndSeen, Pace, Sign, Traces
from drctl.model.topology import TopicPartition

NOW = 1_700_000_000_000
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
BEAT = Sign("a heartbeat", NOW - 40_000)
OWN = Sign("the newest copy's own timestamp", NOW - 5_000, by_record=True)
PACE = Pace("syncs", 2.5)


def stock(seconds: float, **ends: int) -> Ends:
    seen = {"a": A, "b": B}
    at = NOW - round(seconds * 1000)
    return Ends("take-stock", True, {seen[name]: EndSeen(end, at) for name, end in ends.items()})


def groups(seconds: float, offset: int) -> Ends:
    return Ends("groups", False, {A: EndSeen(offset, NOW - round(seconds * 1000))})


def look(
    *ends: Ends,
    copied: dict[TopicPartition, int] | None = None,
    signs: tuple[Sign, ...] = (),
    paces: tuple[Pace, ...] = (),
    silent: tuple[str, ...] = (),
) -> LossEstimate:
    upto = [Copied("connector", copied)] if copied else []
    return estimate(Traces("primary", (A, B), ends, upto, signs, paces, silent), NOW)


def test_where_nothing_tells_it_says_so() -> None:
    found = look()
    assert (found.records, found.at_least, found.seconds) == (None, None, None)
    assert found.words == "nothing tells what is lost"
    assert found.evidence == ("of 2 partitions nobody saw both the end and the copies",)


def test_a_sign_of_life_bounds_the_seconds_and_with_a_pace_the_records() -> None:
    found = look(signs=(BEAT,))
    assert (found.records, found.at_least, found.seconds) == (None, None, 40.0)
    assert "the last 40.0 s is probably lost; how many records, nothing tells" in found.words
    found = look(signs=(BEAT,), paces=(PACE,))
    assert (found.records, found.at_least, found.seconds) == (100, None, 40.0)
    assert found.words == (
        "about 100 records of the last 40.0 s are probably lost, at 2.5 records a second as"
        " before; nobody saw where primary ended"
    )


def test_a_records_own_timestamp_is_the_last_resort_and_is_called_so() -> None:
    assert best_sign((OWN, BEAT)) is BEAT
    found = look(signs=(OWN,))
    assert found.seconds == 5.0
    assert "by the newest copy's own timestamp" in found.words
    assert "the last resort" in found.evidence[0]
    assert "own timestamp" not in look(signs=(OWN, BEAT)).words


def test_what_was_seen_and_not_copied_is_lost_at_least() -> None:
    found = look(stock(300, a=50, b=20), copied={A: 43, B: 25}, signs=(BEAT,))
    assert (found.records, found.at_least, found.seconds) == (7, 7, 300.0)
    assert found.words.startswith("at least 7 records of the last 5 min are probably lost")
    found = look(stock(300, a=50, b=20), copied={A: 43, B: 25}, signs=(BEAT,), paces=(PACE,))
    assert (found.records, found.at_least) == (107, 7)


def test_a_source_that_was_just_seen_accounts_for_everything_until_then() -> None:
    found = look(stock(2, a=50, b=20), copied={A: 43, B: 20}, signs=(BEAT,), paces=(PACE,))
    assert (found.records, found.at_least, found.seconds) == (12, 7, 2.0)
    caught_up = look(stock(2, a=50, b=20), copied={A: 50, B: 20}, signs=(BEAT,), paces=(PACE,))
    assert (caught_up.records, caught_up.at_least, caught_up.seconds) == (5, 0, 2.0)
    half = look(stock(2, a=50), copied={A: 50, B: 20}, signs=(BEAT,), paces=(PACE,))
    assert half.seconds == 40.0, "of the other partition nobody saw the end"


def test_a_pace_over_a_while_is_better_than_one_of_a_burst() -> None:
    burst = Pace("syncs of 11 s", 1_700, NOW - 40_000, span_s=11)
    own = Pace("timestamps", 9, NOW, by_record=True)
    looks = stock(300, a=50, b=20), stock(100, a=450, b=20)
    copied = {A: 50, B: 20}
    found = look(*looks, copied=copied, signs=(BEAT,), paces=(burst, own))
    assert (found.at_least, found.records) == (400, 480), "400 in 200 s, for another 40 s"
    about = "400 to about 480 records (up to 68,400 by another pace) of the last 100.0 s are prob"
    assert found.words.startswith(about)
    told = [each for each in found.evidence if each.startswith("how fast was written")]
    assert [each.rpartition(": ")[2] for each in told] == [
        "two looks at where partitions ended, 3 min apart",
        "syncs of 11 s",
        "timestamps",
    ]
    late = Pace("syncs of 10 min", 3, NOW - 40_000, span_s=600)
    assert look(*looks, copied=copied, signs=(BEAT,), paces=(late,)).records == 520
    shrunk = stock(300, a=500, b=20), stock(100, a=450, b=20)
    assert look(*shrunk, copied=copied, signs=(BEAT,), paces=(burst,)).records == 68_400
    half = stock(300, a=50), stock(100, a=450)
    assert look(*half, copied=copied, signs=(BEAT,)).records == 400, "a partition was not seen"


def test_positions_of_groups_are_bounds_where_they_are_newer() -> None:
    copied = {A: 43, B: 20}
    assert look(groups(10, 60), copied=copied).at_least == 17
    assert look(stock(300, a=50), groups(10, 60), copied=copied).at_least == 17
    assert look(stock(10, a=50), groups(300, 60), copied=copied).at_least == 7, "made anew"
    assert look(stock(10, a=50), stock(300, a=90), copied=copied).at_least == 7, "made anew"
    assert look(stock(300, a=50), groups(10, 45), copied=copied).at_least == 7


def test_the_furthest_copy_counts_and_other_topics_do_not() -> None:
    other = TopicPartition("other", 0)
    traces = Traces(
        "primary",
        (A,),
        (stock(10, a=50), Ends("x", True, {other: EndSeen(99, NOW)})),
        (Copied("connector", {A: 30, other: 0}), Copied("syncs", {A: 48})),
    )
    assert estimate(traces, NOW).at_least == 2


def test_each_piece_of_evidence_is_named_with_its_age() -> None:
    found = look(
        stock(300, a=50, b=20),
        groups(7200, 45),
        copied={A: 43, B: 25},
        signs=(BEAT, OWN),
        paces=(PACE,),
        silent=("Connect: no answer",),
    )
    assert found.evidence == (
        "replication was alive 40.0 s ago: a heartbeat",
        "where 2 of 2 partitions ended, 5 min ago: take-stock",
        "where 1 of 2 partitions ended at least, 2 h ago: groups",
        "how far 2 of 2 partitions are copied: connector",
        "how fast was written, 2.5 records a second: syncs",
        "not known: Connect: no answer",
    )


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(None, "-"), (-3, "0.0 s"), (119, "119.0 s"), (120, "2 min"), (2e5, "2 d")],
)
def test_ages(seconds: float | None, told: str) -> None:
    assert ago(seconds) == told


def test_clocks_that_do_not_agree_make_nothing_negative() -> None:
    found = look(signs=(Sign("a heartbeat", NOW + 9_000),), paces=(PACE,))
    assert (found.records, found.seconds) == (0, 0.0)
