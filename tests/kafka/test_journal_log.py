"""The records of a link, and which of several runs continues; without brokers."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from drctl.engine import run_state
from drctl.formats import journal_records
from drctl.formats.journal_records import (
    AnotherVersion,
    Beat,
    Claim,
    JournalRecord,
    Part,
    Taken,
    Withdrawn,
    encode,
    signature,
    split,
)
from drctl.kafka.journal_log import Contention, LinkLog
from drctl.model.errors import Refused
from drctl.model.journal import Entry, Holder
from tests.report import runs

LINK = "main"


def holder(run: str, who: str = "anna") -> Holder:
    return Holder(run, who, "laptop", 41, datetime(2026, 3, 5, 14, 20, 11, tzinfo=UTC))


def taken(run: str, token: str = "", abandons: str = "") -> Taken:
    return Taken(token or f"token of {run}", holder(run), abandons)


def claim(run: str) -> Claim:
    return Claim(f"token of {run}", holder(run))


def lines(run: str, *entries: Entry) -> Sequence[JournalRecord]:
    sealed = run_state.seal(entries, run_state.first_head(run))
    return [part for line in sealed for part in split(run, line)]


def log(*records: JournalRecord) -> LinkLog:
    made = LinkLog(LINK)
    made.take((LINK.encode(), encode(record)) for record in records)
    return made


BEGAN: Entry = {"entry": "began"}
ENDED: Entry = {"entry": "ended", "status": "done"}
DONE = [taken("A"), *lines("A", BEGAN, ENDED), Beat("token of A", last=True)]
STOPPED = [taken("B"), *lines("B", BEGAN)]


def text_of(refused: Refused | None) -> str:
    return "" if refused is None else refused.message


def test_runs_and_their_lines() -> None:
    found = log(*DONE, *STOPPED)
    assert found.runs == ("B", "A")
    assert list(found.lines("A")) == [part.data for part in lines("A", BEGAN, ENDED)]
    assert found.lines("C") == ()
    assert found.unfinished == "B"
    assert (found.ended("A"), found.ended("B"), found.ended("C")) == (True, False, False)
    assert found.holder_of("B") == holder("B")
    assert found.holder_of("C") is None


def test_other_links_are_skipped() -> None:
    found = log(*DONE)
    found.take([(b"other", b"whatever"), (None, b"x"), (b"mai", None)])
    assert found.runs == ("A",)


def test_records_of_a_newer_drctl_are_not_skipped() -> None:
    with pytest.raises(AnotherVersion):
        log(*DONE).take([(LINK.encode(), b'{"v":2,"is":"beat","token":"t","last":true}')])


@pytest.mark.parametrize(
    "value",
    [None, b"", b"{}", b"[" * 100_000, b"\xff", b'{"v":2}', b'{"v":1,"is":"taken"}', b"null"],
)
def test_foreign_records_do_not_block_the_link(value: bytes | None) -> None:
    found = log(*DONE)
    found.take([(LINK.encode(), value), (LINK.encode(), encode(taken("B")))])
    assert found.runs == ("A",)
    assert found.hold == taken("B")


KEY = b"a key of sixteen"


def signed(run: str, *entries: Entry, key: bytes = KEY, link: str = LINK) -> list[JournalRecord]:
    sealed = run_state.seal(entries, run_state.first_head(run))
    return [part for line in sealed for part in split(run, line, signature(key, link, line))]


def with_key(*records: JournalRecord) -> LinkLog:
    made = LinkLog(LINK, KEY)
    made.take((LINK.encode(), encode(record)) for record in records)
    return made


def test_every_line_has_to_be_signed_where_there_is_a_key() -> None:
    own = signed("A", BEGAN, ENDED)
    assert with_key(*own).unsigned("A") == 0
    plain = list(lines("A", BEGAN, ENDED))
    assert with_key(*plain).unsigned("A") == 1
    assert with_key(own[0], plain[1]).unsigned("A") == 2, "an entry added after those of a real run"
    assert with_key(*signed("A", BEGAN, key=b"b key of sixteen")).unsigned("A") == 1
    assert with_key(*signed("A", BEGAN, link="other")).unsigned("A") == 1, (
        "a line copied from another link counts as signed"
    )
    assert isinstance(own[0], Part)
    assert isinstance(own[1], Part)
    assert with_key(replace(own[1], mac=own[0].mac)).unsigned("A") == 1
    assert with_key(replace(own[0], mac="é")).unsigned("A") == 1
    assert log(*own).unsigned("A") == 0, "without a key no line counts as unsigned"
    assert log(*own).needs_key("A")
    assert not log(*plain).needs_key("A")
    assert not with_key(*own).needs_key("A")


def test_a_signed_line_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_records, "MAX_PART_BYTES", 50)
    parts = signed("A", BEGAN, ENDED)
    assert len(parts) > 4
    assert with_key(*parts).unsigned("A") == 0


def test_a_run_is_abandoned_only_with_the_key() -> None:
    aside = taken("C", abandons="B")
    assert with_key(*STOPPED, aside).unfinished == "B"
    own = replace(aside, mac=signature(KEY, LINK, encode(aside)))
    assert with_key(*STOPPED, own).unfinished == ""
    assert with_key(*STOPPED, own).is_abandoned("B")


def test_a_run_that_was_abandoned_does_not_hide_the_one_before_it() -> None:
    forged = log(*STOPPED, *lines("Z", BEGAN))
    assert forged.unfinished == "Z"
    aside = log(*STOPPED, *lines("Z", BEGAN), taken("Z", "2", abandons="Z"))
    assert aside.unfinished == "B"
    assert aside.blocker("B") is None
    assert text_of(aside.blocker("C")).startswith("unfinished run B")


def test_which_run_may_acquire_the_link() -> None:
    assert log().blocker("A") is None
    assert log(*DONE).blocker("B") is None
    assert text_of(log(*DONE).blocker("A")).startswith("run A has ended")
    stopped = log(*DONE, *STOPPED)
    assert stopped.blocker("B") is None
    assert text_of(stopped.blocker("A")).startswith("run A has ended")
    other = stopped.blocker("C")
    assert other is not None
    assert "unfinished run B (anna on laptop (process 41), since 2026" in other.message
    assert "drctl resume B" in other.hint


def test_a_run_that_took_the_link_and_wrote_nothing_leaves_nothing_to_resume() -> None:
    found = log(*DONE, taken("B"))
    assert found.unfinished == ""
    assert found.blocker("C") is None
    assert found.hold == taken("B")


def test_a_run_that_is_abandoned() -> None:
    assert text_of(log(*STOPPED).blocker("C", abandoning="A")).startswith("unfinished run B")
    assert log(*STOPPED).blocker("C", abandoning="B") is None
    begun = log(*STOPPED, taken("C", abandons="B"))
    assert begun.unfinished == ""
    assert begun.blocker("D") is None
    behind = log(*STOPPED, taken("C", abandons="B"), *lines("C", BEGAN)).blocker("B")
    assert behind is not None
    assert behind.message == "run B was abandoned: run C is newer"
    assert "resume C" in behind.hint


def test_lines_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_records, "MAX_PART_BYTES", 50)
    parts = list(lines("A", BEGAN, ENDED))
    assert len(parts) > 4
    whole = [part.data for part in (split("A", line)[0] for line in log(*parts).lines("A"))]
    assert len(whole) == 2
    assert log(*parts).ended("A")
    assert log(*parts[:-1]).lines("A") == log(*parts).lines("A")[:1], "an incomplete line counts"
    again = log(*parts[:-1], taken("A", "2"), *parts[len(parts) // 2 :])
    assert again.lines("A") == log(*parts).lines("A")
    assert log(*parts[1:]).lines("A") == log(*parts).lines("A")[1:], (
        "lines after deleted records do not count"
    )


def test_only_its_holder_releases_a_link() -> None:
    assert log(taken("A")).hold == taken("A")
    assert log(taken("A"), Beat("token of A", last=False)).hold == taken("A")
    assert log(taken("A"), Beat("another", last=True)).hold == taken("A")
    assert log(taken("A"), Beat("token of A", last=True)).hold is None


def test_claims_last_until_the_link_is_taken_or_they_are_withdrawn() -> None:
    assert log(claim("A"), claim("B")).claims == {
        t: holder(t[-1]) for t in ("token of A", "token of B")
    }
    assert set(log(claim("A"), claim("B"), Withdrawn("token of A")).claims) == {"token of B"}
    assert not log(claim("A"), Withdrawn("token of A"), claim("A")).claims, (
        "a claim that arrived after its withdrawal counts"
    )
    assert not log(claim("A"), claim("B"), taken("A"), claim("A"), claim("B")).claims
    assert set(log(claim("A"), taken("A"), claim("B")).claims) == {"token of B"}


def contest(known: Sequence[JournalRecord], *seen: JournalRecord, run: str = "Z") -> Contention:
    """The contention of a run that claims after known records and reads more."""
    made = Contention(log(*known), f"token of {run}")
    for record in seen:
        made.observe(record)
    return made


def test_without_another_live_run_a_link_is_not_contested() -> None:
    for known in ([], DONE, [taken("A"), *lines("A", BEGAN, ENDED)]):
        alone = contest(known, claim("Z"))
        assert alone.live
        assert not alone.contested
        assert alone.refusal(LINK) is None


@pytest.mark.parametrize(
    "sign",
    [Beat("token of B", last=False), *lines("B", BEGAN), taken("C")],
    ids=lambda sign: type(sign).__name__,
)
def test_a_holder_that_shows_that_it_is_alive(sign: JournalRecord) -> None:
    silent = contest(STOPPED, sign, claim("Z"))
    if not isinstance(sign, Taken):
        assert silent.contested
        assert silent.alive is None, (
            "a record from before the claim proves that the holder is alive"
        )
    alive = contest(STOPPED, claim("Z"), sign)
    run = "C" if isinstance(sign, Taken) else "B"
    assert alive.alive == holder(run)
    assert f"link main is held by run {run}: anna on laptop" in text_of(alive.refusal(LINK))


def test_heartbeats_of_others_do_not_count_for_the_holder() -> None:
    found = contest(STOPPED, claim("Z"), Beat("older", last=False), *lines("A", BEGAN), claim("Y"))
    assert found.contested
    assert found.alive is None


def test_a_holder_that_releases_the_link_during_the_wait() -> None:
    assert not contest(STOPPED, claim("Z"), Beat("token of B", last=True)).contested


def test_the_first_claim_wins() -> None:
    first = contest(DONE, claim("Z"), claim("Y"), claim("Y"))
    assert not first.contested
    second = contest(DONE, claim("Z"), claim("Y"), run="Y")
    assert second.contested
    assert second.alive is None
    second.observe(claim("Z"))
    assert text_of(second.refusal(LINK)).startswith("run Z is acquiring link main: anna")
    taking = contest(DONE, claim("Z"), claim("Y"), taken("Z"), run="Y")
    assert text_of(taking.refusal(LINK)).startswith("link main is held by run Z")
    gone = contest(DONE, claim("Z"), claim("Y"), Withdrawn("token of Z"), claim("Z"), run="Y")
    assert not gone.contested


def test_earlier_claims_contest_the_link() -> None:
    known = [*DONE, claim("Y")]
    assert contest(known, claim("Z")).contested
    assert contest(known, claim("Z"), claim("Y")).alive == holder("Y")
    assert not contest(known, Withdrawn("token of Y"), claim("Z")).contested


def test_a_link_acquired_between_the_read_and_the_claim() -> None:
    between = contest(DONE, claim("Y"), taken("Y"), claim("Z"))
    assert between.contested
    assert between.alive is None
    assert between.hold == taken("Y")
    between.observe(Beat("token of Y", last=False))
    assert between.holds


def test_a_reader_sees_running_holders_after_the_end() -> None:
    look = Contention(log(*STOPPED))
    look.observe(Beat("token of B", last=False))
    assert look.alive is None
    look.live = True
    look.observe(Beat("token of B", last=False))
    assert look.alive == holder("B")


@pytest.mark.parametrize("known", [STOPPED, [*DONE, claim("Y")], [*STOPPED, claim("Y")]])
def test_exited_processes_are_not_awaited(known: list[JournalRecord]) -> None:
    assert Contention(log(*known), "token of Z").contested
    all_gone = Contention(log(*known), "token of Z", ended=lambda _: True)
    assert not all_gone.contested
    all_gone.observe(claim("Z"))
    all_gone.observe(taken("X"))
    assert text_of(all_gone.refusal(LINK)).startswith("link main is held by run X"), (
        "a holder that just wrote does not count as alive"
    )


def test_of_two_runs_the_one_that_may_be_alive_is_awaited() -> None:
    gone = {"B"}
    found = Contention(log(*STOPPED, claim("Y")), "token of Z", ended=lambda each: each.run in gone)
    assert found.contested
    gone.add("Y")
    assert not found.contested


def test_a_holder_names_the_process_namespace() -> None:
    at = replace(holder("A"), machine="boot/4026531836")
    assert journal_records.decode(encode(Claim("t", at))) == Claim("t", at)
    assert "machine" not in holder("A").to_json(), "the JSON differs from that of earlier versions"
    with pytest.raises(ValueError, match="not a holder"):
        Holder.from_json({**holder("A").to_json(), "machine": ""})


def test_a_damaged_run_that_has_ended_can_be_abandoned() -> None:
    """Otherwise no later command could read the runs of the link."""
    entries = runs.done().entries
    run = str(entries[0]["run"])
    whole, cut = lines(run, *entries), lines(run, *entries)[1:]
    ended = f"run {run} has ended: nothing to resume"
    assert (log(*whole).unfinished, log(*cut).unfinished) == ("", "")
    assert text_of(log(*whole).blocker(run, abandoning=run)) == ended
    assert text_of(log(*cut).blocker(run)) == ended
    assert log(*cut).blocker(run, abandoning=run) is None
    assert text_of(log(*cut, taken(run, abandons=run)).blocker(run, abandoning=run)) == ended
    newer = log(*cut, *STOPPED).blocker(run, abandoning=run)
    assert text_of(newer).startswith("unfinished run B")
