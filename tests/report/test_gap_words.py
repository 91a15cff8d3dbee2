"""The sentences: each verdict agrees with the exit code, and suggestions fit the finding."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from drctl.model.errors import ExitCode
from drctl.model.gap import Counts, DiscardedDigests, GapResult, LedgerUse, NotCompared, Window
from drctl.views.gap_page import render
from drctl.views.gap_text import (
    Tone,
    circumstances,
    facts,
    known,
    next_steps,
    offsets,
    order_lines,
    times,
    tone,
    total_lines,
    uncompared_parts,
    unknown,
    verdict,
)
from tests.report import gaps

VERDICTS = {
    "nothing_missing": "Fully replicated: all 5,000,000 records are on secondary.",
    "tail_lost": "1,440 records of 3 topics are not replicated to secondary.",
    "scattered": "398,194 records of topic clicks are not replicated to secondary.",
    "not_complete": (
        "Not complete: 1 topic and 2 partitions could not be compared and 40 offsets are "
        "undecided. In the rest, 1,293 records of 3 topics are not replicated to secondary."
    ),
    "unknown_only": (
        "Not complete: 1 offset is undecided. In the rest, every record is replicated "
        "(52,000 records compared)."
    ),
    "target_topic_missing": "360 records of topic invoices are not replicated to secondary.",
    "one_record": "1 record of topic orders is not replicated to secondary.",
    "accounted_for": (
        "Fully replicated: 9,450 of 10,000 records are on secondary, 550 are superseded or "
        "expired there."
    ),
    "vast": (
        "Not complete: 3,000 partitions could not be compared. In the rest, 618,100 records of "
        "100 topics are not replicated to secondary."
    ),
}
every = pytest.mark.parametrize("make", gaps.EVERY.values(), ids=gaps.EVERY)


@pytest.mark.parametrize(("name", "sentence"), VERDICTS.items(), ids=VERDICTS)
def test_the_verdict_in_one_sentence(name: str, sentence: str) -> None:
    assert verdict(gaps.EVERY[name]()) == sentence


def test_nothing_read_is_not_called_found() -> None:
    empty = gaps.result(gaps.topic("orders", gaps.gap(0, 0)))
    assert verdict(empty) == "Fully replicated: no records in 1 topic on primary."


@every
def test_text_and_exit_code_agree(make: Callable[[], GapResult]) -> None:
    result = make()
    text = verdict(result)
    starts = {ExitCode.DONE: "Fully replicated:", ExitCode.UNKNOWN: "Not complete:"}
    start = starts.get(result.exit_code)
    assert start is None or text.startswith(start)
    assert (result.exit_code is ExitCode.FOUND) == (tone(result) is Tone.FOUND)
    if result.exit_code is ExitCode.FOUND:
        assert not text.startswith(tuple(starts.values()))
        assert "not replicated to" in text


@every
def test_all_words_are_printable(make: Callable[[], GapResult]) -> None:
    result = make()
    lines = (*total_lines(result), *order_lines(result))
    texts = [verdict(result), *known(result), *unknown(result), *(line.meaning for line in lines)]
    texts += [word for step in next_steps(result) for word in (step.what, step.why)]
    texts += [word for b in uncompared_parts(result) for word in (b.topic, b.partitions, b.reason)]
    assert [word for word in texts if not word.isprintable()] == []


def advice(result: GapResult) -> str:
    return "\n".join(f"{step.what} {step.why}" for step in next_steps(result))


def test_after_a_failover_forward_replication_must_stay_stopped() -> None:
    steps = next_steps(gaps.tail_lost())
    first, meanwhile = steps[0].what.split(" while ")
    assert first == "Do not restart replication from primary to secondary"
    assert meanwhile == "applications write to secondary."
    assert "Do not truncate" in steps[1].what


def test_plain_lag_is_not_mistaken_for_a_failover() -> None:
    text = advice(gaps.one_record())
    assert "may be replication lag" in text
    assert "Do not restart" not in text


def test_a_newer_record_of_a_key_rules_out_plain_lag() -> None:
    order = replace(gaps.gap(0, 10, 1).order, safe=0, conflicting=1)
    conflicting = gaps.result(gaps.topic("orders", gaps.gap(0, 10, 1, order=order)))
    assert "Do not restart replication" in advice(conflicting)


def test_unknown_records_come_first_and_are_not_called_missing() -> None:
    steps = next_steps(gaps.unknown_only())
    assert "open transactions on primary" in steps[0].what
    assert steps[0].command == "drctl gap --link main"
    assert "not compared may exist nowhere else" in advice(gaps.unknown_only())
    assert "unreplicated record" not in advice(gaps.unknown_only())


@every
def test_commands_of_a_reverse_direction_name_the_link_of_the_file(
    make: Callable[[], GapResult],
) -> None:
    """A failback compares from secondary to primary; drctl.yaml has no link of that name."""
    back = replace(
        make(), link="main-back", reverse_of="main", source="secondary", target="primary"
    )
    steps = next_steps(back)
    commands = {step.command for step in steps if step.command}
    assert commands <= {"drctl failback --link main", "drctl gap --link main"}
    assert bool(back.exit_code) == ("drctl failback --link main" in commands)
    assert bool(back.totals.only_on_target) == ("drctl gap --link main" in commands)
    assert circumstances(back).startswith("link main in reverse, secondary to primary,")
    assert "main-back" not in render(back)
    assert not any("drctl gap" in line for line in unknown(back))


def test_an_incomplete_result_always_has_an_action() -> None:
    for make in (gaps.unknown_only, gaps.not_complete):
        assert "Nothing needs to be copied" not in advice(make())
    assert "Nothing needs to be copied" in advice(gaps.nothing_missing())


def test_target_only_records_matter_for_the_failback() -> None:
    assert "50 records from secondary to primary before a failback" in advice(gaps.accounted_for())


def test_a_missing_target_topic_is_named() -> None:
    (named,) = (fact for fact in facts(gaps.target_topic_missing()) if "not exist" in fact)
    assert named.startswith("invoices does not exist on secondary")


def test_a_topic_that_was_not_compared_is_not_called_absent() -> None:
    assert not any("does not exist" in fact for fact in facts(gaps.not_complete()))


def test_misplaced_records_are_named() -> None:
    misplaced = gaps.result(gaps.topic("orders", gaps.gap(0, 10, 3, misplaced=2)))
    assert "2 unreplicated records are on secondary, but in another partition." in facts(misplaced)


def test_unchecked_order_is_reported_as_unknown() -> None:
    assert any("--order" in line for line in unknown(gaps.nothing_missing()))
    assert order_lines(gaps.nothing_missing())[-1].count is None


def test_a_limited_scope_is_reported_as_incomplete() -> None:
    window = Window("orders", 0, 90, 80, 95, "connector mm2 reports offset 94 as copied", 5, False)
    tail = gaps.result(gaps.topic("orders", gaps.gap(0, 10, 1, window=window)), scope="tail")
    text = " ".join(unknown(tail))
    assert "before the tail are replicated, in 1 partition: connector mm2 reports offset 94" in text
    whole = gaps.gap(0, 10, 1, window=replace(window, whole=True))
    assert "before the tail" not in " ".join(unknown(gaps.result(gaps.topic("orders", whole))))


def test_the_ledgers_part_is_reported() -> None:
    gone = (DiscardedDigests("orders", "target", 1, "the log was truncated"),)
    use = LedgerUse(
        "ledger.db",
        1_000_000,
        0,
        kept=False,
        discarded=gone,
        not_kept_reason="another run wrote to it",
    )
    text = " ".join(facts(gaps.result(gaps.topic("orders", gaps.gap(0, 10)), ledger=use)))
    assert "Not read again: 1,000,000 offsets of both clusters" in text
    assert "1 partition on the target were discarded" in text
    assert "another run wrote to it" in text
    empty = replace(
        use, offsets_known=0, oldest_ms=None, kept=True, discarded=(), not_kept_reason=""
    )
    text = " ".join(facts(gaps.result(gaps.topic("orders", gaps.gap(0, 10)), ledger=empty)))
    assert "had no digests" in text


def test_every_total_is_explained() -> None:
    totals = Counts(*range(1, 9))
    result = gaps.result(gaps.topic("orders", gaps.gap(0, 9, counts=totals)))
    lines = {line.name: line.count for line in total_lines(result)}
    assert lines == {
        "read from source": totals.read_from_source,
        "read from target": totals.read_from_target,
        "not replicated": totals.unreplicated,
        "superseded": totals.superseded,
        "expired": totals.expired,
        "undecided": totals.undecided,
        "only on target": totals.only_on_target,
        "duplicated on target": totals.duplicated_on_target,
    }
    assert all(line.meaning for line in total_lines(result))


def test_uncompared_parts_are_grouped_by_reason() -> None:
    reason = "no leader on primary"
    parts = [NotCompared("orders", n, reason) for n in (3, 0, 1, 2, 7)]
    (spot,) = uncompared_parts(replace(gaps.one_record(), not_compared=tuple(parts)))
    assert (spot.topic, spot.partitions, spot.reason) == ("orders", "0-3, 7", reason)
    whole, *_ = uncompared_parts(gaps.not_complete())
    assert (whole.topic, whole.partitions) == ("audit", "all partitions")


def test_offsets_in_short() -> None:
    assert offsets(gaps.gap(0, 100, 3)) == "97-99"
    assert offsets(gaps.gap(0, 100, 1)) == "99"
    many = gaps.gap(0, 100, 3, ranges=((2, 2), (5, 5)), ranges_total=9)
    assert offsets(many) == "2 +8 ranges"


def test_old_records_are_shown_by_their_timestamps_not_by_age() -> None:
    week = 1_356_998_400_000, 1_357_516_800_000
    assert times(*week) == "2013-01-01 .. 2013-01-07"
    assert times(week[0], week[0] + 60_000) == "2013-01-01 00:00:00 .. 00:01:00"
    assert times(week[0], week[0]) == "2013-01-01 00:00:00"
    old = replace(gaps.gap(0, 10, 3), oldest_timestamp=week[0], newest_timestamp=week[1])
    text = " ".join(facts(gaps.result(gaps.topic("orders", old))))
    assert "2013-01-01 .. 2013-01-07 UTC" in text
    assert " old" not in text
