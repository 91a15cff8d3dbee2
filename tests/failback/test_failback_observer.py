"""All observations of `--check-order`, on clusters in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, get_type_hints

import pytest

from drctl.app.failback_search import _search
from drctl.engine import entries
from drctl.engine.failback_state import Search
from drctl.engine.kind import Readback, State
from drctl.failback.answer import Answer, OrderDocument, Verdict, answer
from drctl.failback.blockers import Terms, against
from drctl.failback.facts import Copies, Facts, ReverseStart
from drctl.failback.gap_results import GapEvidence
from drctl.failback.observing import Results
from drctl.failback.situation import rebuild_command
from drctl.model.errors import Refused, Unknown, Unreachable
from drctl.model.plan import Plan, Step
from drctl.model.topology import OffsetRange, Record, Unavailable
from drctl.model.typed_json import to_json
from tests.failback.failback_orders import (
    HERE,
    PLACE,
    SILENT,
    after_failback,
    back_gap,
    gap,
    in_order_to_d,
    in_order_to_e,
    in_order_to_h,
    judged,
    partition,
    states,
)
from tests.failback.observed import (
    Around,
    committed_at,
    link,
    looked_at,
    origin,
    primary,
    read_by,
    secondary,
)
from tests.failback.test_answer import drawn


def log(*keys: str) -> tuple[Record, ...]:
    """Return records at offsets 0, 1, 2 ...; each key has a timestamp of its own."""
    return tuple(at(offset, key) for offset, key in enumerate(keys))


def at(offset: int, key: str, *headers: tuple[str, bytes | None]) -> Record:
    return Record(0, offset, sum(key.encode()), key.encode(), b"v", headers)


BOTH = tuple(f"k{n}" for n in range(100))
LOST = log(*BOTH, "t1", "t2")
"""The last two records were not replicated when the primary was lost."""
NEW = log(*BOTH, "n1", "n2")
LATE = log(*BOTH, "n1", "n2", "t1", "t2")
"""The secondary after forward replication ran again for a while."""


def compared(
    source: Sequence[Record], target: Sequence[Record], missing: int, new: int
) -> GapEvidence:
    """Return a complete result on these logs."""
    ends = OffsetRange(0, len(source)), OffsetRange(0, len(target))
    found = partition(
        source=ends[0],
        target=ends[1],
        unreplicated=missing,
        safe=missing,
        unkeyed=0,
        only_on_target=new,
        ranges=((ends[0].end - missing, ends[0].end - 1),) * bool(missing),
        ranges_total=int(bool(missing)),
    )
    return gap(found, samples=(), where=f"gap/{missing}-{new}-{len(target)}", id=f"r{len(target)}")


BEFORE = compared(LOST, NEW, 2, 2)
AFTER = compared(LOST, LATE, 0, 2)


def seen(
    target: Sequence[Record],
    *results: GapEvidence,
    position: int = 101,
    source: Sequence[Record] = LOST,
) -> Answer:
    around = Around({"mm2-source": 101, "mm2-back": position})
    return answer(looked_at(primary(*source), secondary(*target), Results(results), around))


def test_everything_is_in_order_before_forward_replication_runs() -> None:
    found = seen(NEW, BEFORE, position=99)
    assert (found.verdict, found.next) == (Verdict.OK, "e"), found
    assert found.seen.facts.out_of_order == ()
    assert "start offsets are at the boundary" in found.steps["f"].why


@dataclass
class Journaled(Around):
    """An earlier failback located the boundary; perhaps it fenced the primary and started there."""

    located: str = BEFORE.id
    fences: bool = False

    def runs(self) -> Any:
        return ("r1",)

    def entries(self, run: str) -> Sequence[Mapping[str, Any]]:
        fence = Step("fence", "fence-producers", {"cluster": "primary"})
        start = Step("start", "set-start-offsets")
        steps = Step("order", "failback-order"), fence, Step("find", "find-missing"), start
        search = Search("", 2, 2, 0, 0, dict(BEFORE.ends), {PLACE: 100}, id=self.located)
        done: list[tuple[str, Any]] = [("find", to_json(search))]
        if self.fences:
            done = [("fence", {"cluster": "primary"}), *done, ("start", {})]
        at = BEFORE.started + timedelta(minutes=5)
        plan = Plan("failback", "main", "primary", "secondary", steps)
        written = [entries.began(run, plan, {"user": "ada"}, at)]
        for number, (step, facts) in enumerate(done, 1):
            written.append(entries.intend(step, number, facts, at))
            seen = Readback(State.DONE, "", facts)
            written.append(entries.done(step, number, seen, at))
        return written


KEPT = {"mm2-source": 101, "mm2-back": 101}


def test_a_boundary_that_a_failback_located_is_not_counted_again() -> None:
    """Compaction has removed a new record since: counting back would end at an old one."""
    left = (*log(*BOTH), at(101, "n2"))
    found = {}
    for located in (BEFORE.id, "another result"):
        around = Journaled(KEPT, located=located)
        facts = looked_at(primary(*LOST), secondary(*left), Results((BEFORE,)), around)
        found[located] = facts.boundaries
    assert found == {BEFORE.id: {PLACE: 100}, "another result": {PLACE: 99}}


@pytest.mark.parametrize("fences", [True, False])
def test_a_fence_of_an_earlier_failback_shows_who_wrote_to_the_source(*, fences: bool) -> None:
    """Seen in the soak test: all records that had been replicated back were superseded."""
    superseded = Record(0, 102, 7, b"n2", b"older", ())
    grown = primary(*LOST, superseded)
    newer = secondary(*log(*BOTH), at(101, "n2"), settings={"cleanup.policy": "compact"})
    around = Journaled(KEPT, fences=fences)
    facts = looked_at(grown, newer, Results((BEFORE,)), around)
    expected = ReverseStart.BOUNDARY if fences else ReverseStart.ELSEWHERE
    assert facts.reverse_start == {PLACE: expected}


@pytest.mark.parametrize("results", [(AFTER,), (AFTER, BEFORE)], ids=["alone", "beside-an-older"])
def test_records_appended_by_forward_replication_are_no_boundary(
    results: tuple[GapEvidence, ...],
) -> None:
    """A later comparison finds nothing missing, and nothing separates new from old records."""
    found = seen(LATE, *results)
    assert found.seen.gap.valid is AFTER
    assert (found.verdict, found.next) == (Verdict.VIOLATED, "f"), found
    assert found.steps["f"].observed == "not-done"
    assert "follow new records of secondary in orders-0" in found.steps["f"].why
    assert rebuild_command("main") in found.steps["f"].why
    (finding,) = (each for each in against(found, Terms()) if each.check == "step-order")
    assert (finding.status, finding.remedy) == ("fail", rebuild_command("main"))
    (rebuilt,) = (e for e in against(found, Terms(rebuilding=True)) if e.check == "step-order")
    assert rebuilt.status == "warn", "the order violation blocks the rebuild that repairs it"
    with pytest.raises(Refused, match="follow new records") as refused:
        _search(link(), found.seen)
    assert rebuild_command("main") in refused.value.hint


def test_active_groups_on_the_target_are_seen_without_the_source() -> None:
    mute, around = primary(*LOST, silent=True), Around({})
    read = secondary(*NEW, read_in={"readers": read_by("readers")})
    (group,) = looked_at(mute, read, Results(()), around).groups  # type: ignore[misc]
    assert (group.active_on, group.positions) == (("secondary",), {})
    assert "primary did not answer" in group.unseen
    nobody = looked_at(mute, secondary(*NEW), Results(()), around).groups
    assert isinstance(nobody, Unavailable), (
        "groups that only the source knows are treated as missing"
    )


def test_local_copies_replace_an_unreadable_journal() -> None:
    class Lost(Around):
        def runs(self) -> tuple[()]:
            asked.append("runs")
            if len(asked) == 1:
                raise Unreachable("cluster secondary did not answer")
            return ()

    asked: list[str] = []
    silent = looked_at(primary(*LOST), secondary(*NEW, silent=True), Results(()), Lost({}))
    assert isinstance(silent.journal, Unavailable)
    assert len(asked) == 2
    looked_at(primary(*LOST), secondary(*NEW), Results(()), Lost({}))
    assert len(asked) == 3, "the local copy was read although the journal is readable"


def test_a_transaction_marker_hides_nothing() -> None:
    """The last replicated offset has no record."""
    (part,) = AFTER.partitions
    ended = replace(AFTER, partitions=(replace(part, source=OffsetRange(0, len(LOST) + 1)),))
    source, around = primary(*LOST, hollow=1), Around({"mm2-source": 101, "mm2-back": 101})
    found = answer(looked_at(source, secondary(*LATE), Results((ended,)), around))
    assert (found.seen.facts.out_of_order, found.next) == (("orders-0",), "f"), OrderDocument.of(
        found
    ).to_json()


def test_records_copied_by_drctl_are_no_violation() -> None:
    header = origin(HERE, 101)
    copied = (*NEW, at(102, "t1", header), at(103, "t2", header))
    found = seen(copied, compared(LOST, copied, 0, 2), BEFORE, position=99)
    assert (found.seen.facts.out_of_order, found.verdict) == ((), Verdict.OK), OrderDocument.of(
        found
    ).to_json()


def test_records_before_any_new_one_are_a_boundary() -> None:
    """Replication lagged at the comparison and caught up before the loss."""
    lagging = compared(LOST, LOST[:100], 2, 0)
    target = log(*BOTH, "t1", "t2", "n1")
    found = seen(target, compared(LOST, target, 0, 1), lagging)
    assert (found.seen.facts.out_of_order, found.verdict) == ((), Verdict.OK), OrderDocument.of(
        found
    ).to_json()
    assert "start offsets are at the boundary" in found.steps["f"].why


OWN_TIME = {"message.timestamp.type": "LogAppendTime"}


def later(record: Record) -> Record:
    """Return the record as a topic with append time stores it."""
    return replace(record, timestamp_ms=record.timestamp_ms + 10**6)


@pytest.mark.parametrize(
    ("settings", "link_settings"),
    [
        pytest.param(OWN_TIME, {}, id="the-target-keeps-its-own-time"),
        pytest.param({}, {}, id="nobody-may-see-whether-it-does"),
        pytest.param(None, {"identity": ["key", "value"]}, id="the-link-compares-no-time"),
        pytest.param(None, {"identity": ["headers"]}, id="nothing-is-compared"),
    ],
)
def test_copies_with_another_timestamp_are_recognized(
    settings: dict[str, str] | None, link_settings: dict[str, object]
) -> None:
    """An equal record may be a copy or another with the same content: this is unknown."""
    around = Around({"mm2-source": 101, "mm2-back": 101})

    def looked(target: Sequence[Record], *results: GapEvidence) -> Answer:
        there = secondary(
            *map(later, target), **({} if settings is None else {"settings": settings})
        )
        return answer(looked_at(primary(*LOST), there, Results(results), around, **link_settings))

    after = looked(LATE, AFTER)
    assert after.verdict is Verdict.UNKNOWN, after.to_json()
    assert after.steps["f"].observed == "unknown"
    assert "may be a copy or another" in after.steps["f"].why
    with pytest.raises(Unknown, match="may be a copy or another"):
        _search(link(), after.seen)
    again = looked(LATE, BEFORE)
    assert again.steps["c"].observed == "unknown", again.to_json()
    assert "may be a copy or another" in again.steps["c"].why
    if "headers" not in str(link_settings):
        assert looked(NEW, BEFORE).seen.facts.out_of_order == (), (
            "a different record counts as a copy"
        )
        assert looked(NEW, BEFORE).seen.gap.valid is BEFORE


def test_a_header_of_the_identity_identifies_a_copy() -> None:
    def named(records: Sequence[Record]) -> list[Record]:
        return [replace(each, headers=(("id", each.key),)) for each in records]

    there = secondary(*map(later, named(LATE)), settings=OWN_TIME)
    around = Around({"mm2-source": 101, "mm2-back": 101})
    results = Results((AFTER,))
    source = primary(*named(LOST))
    facts = looked_at(source, there, results, around, identity=["header:id"])
    assert facts.out_of_order == ("orders-0",)


def test_a_new_partition_is_searched() -> None:
    """Forward replication created the partition on the surviving cluster after the comparison."""
    (part,) = BEFORE.partitions
    none = replace(
        part, target=None, only_on_target=0, unreplicated=102, safe=102, ranges=((0, 101),)
    )
    results, around = Results((replace(BEFORE, partitions=(none,)),)), Around({"mm2-source": 101})
    found = answer(looked_at(primary(*LOST), secondary(*LOST), results, around))
    assert found.steps["c"].observed == "not-done", found
    assert "offset 0 of orders-0 was missing and is on secondary now" in found.steps["c"].why


def test_a_result_of_the_tail_is_no_full_comparison() -> None:
    found = seen(NEW, replace(BEFORE, scope="tail"), position=99)
    assert found.seen.gap.valid is None
    assert found.seen.first is None
    assert (found.steps["c"].observed, found.next) == ("not-done", "c"), OrderDocument.of(
        found
    ).to_json()
    assert "has scope tail: run drctl gap --scope full" in found.steps["c"].why
    judgement = judged(in_order_to_h(), reverse_gaps=(back_gap(scope="tail"),))
    assert (judgement.steps["h"].observed, judgement.verdict) == ("unknown", Verdict.UNKNOWN)


@pytest.mark.parametrize(
    "silent",
    [
        {"read_in": {"readers": Unavailable("its coordinator is gone")}},
        {"committed": {"readers": Unavailable("its coordinator is gone")}},
    ],
    ids=["who-reads", "which-offsets"],
)
def test_unreadable_groups_do_not_count_as_inactive(silent: dict[str, Any]) -> None:
    """Offsets committed too early are the trap of step i."""
    around = Around({"mm2-source": 101, "mm2-back": 99})
    source = primary(*LOST, **silent)
    facts = looked_at(source, secondary(*NEW), Results((BEFORE,)), around)
    found = answer(facts)
    assert (found.steps["i"].observed, found.verdict) == ("unknown", Verdict.UNKNOWN)
    assert "readers: its coordinator is gone" in found.steps["i"].why


def test_readable_groups_are_evaluated() -> None:
    around = Around({"mm2-source": 101, "mm2-back": 99})
    there = secondary(*NEW, read_in={"readers": read_by("readers")})
    source = primary(*LOST, committed={"readers": committed_at(102)})
    found = answer(looked_at(source, there, Results((BEFORE,)), around))
    assert (found.steps["i"].observed, found.verdict) == ("not-done", Verdict.OK)
    early = primary(*LOST, committed={"readers": committed_at(103)})
    moved = answer(looked_at(early, there, Results((BEFORE,)), around))
    assert (moved.verdict, moved.next) == (Verdict.VIOLATED, "i"), moved.to_json()


def test_a_filter_may_have_been_added_after_the_first_copies() -> None:
    """Its presence now proves nothing about records replicated before."""
    too_many = Unavailable("1,060,000 offsets were written")
    found = judged(in_order_to_h(), returned_copies=too_many)
    assert (found.steps["g"].observed, found.verdict) == ("unknown", Verdict.UNKNOWN)
    assert too_many.reason in found.steps["g"].why


def test_up_to_a_million_replicated_records_are_searched_for_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("drctl.failback.observers.copies.MOST", 1)
    header = origin(HERE, 100)
    source = (*LOST, at(102, "n1"), at(103, "n2"), at(104, "t1", header))
    facts = looked_at(
        primary(*source), secondary(*NEW), Results((BEFORE,)), Around({"mm2-source": 101})
    )
    assert isinstance(facts.returned_copies, Copies)
    assert facts.returned_copies.total == 1


SILENT_FIELDS: Mapping[str, tuple[Facts, Any]] = {
    "on_source": (in_order_to_d(), SILENT),
    "on_target": (in_order_to_d(), SILENT),
    "health": (in_order_to_d(), SILENT),
    "fence": (in_order_to_d(), SILENT),
    "forward": (in_order_to_d(), SILENT),
    "stopped": (replace(in_order_to_d(), forward=SILENT), SILENT),
    "reverse": (in_order_to_d(), SILENT),
    "source_mismatch": (in_order_to_d(), {"gap/main-1": SILENT}),
    "copied_since": (in_order_to_d(), {"gap/main-1": SILENT}),
    "diverged": (after_failback(), SILENT),
    "boundaries": (in_order_to_d(), SILENT),
    "out_of_order": (in_order_to_d(), SILENT),
    "reverse_start": (in_order_to_h(), SILENT),
    "drctl_copies": (in_order_to_e(), SILENT),
    "returned_copies": (in_order_to_h(), SILENT),
    "decided": (in_order_to_d(), SILENT),
    "endpoints": (in_order_to_d(), (SILENT,)),
    "groups": (in_order_to_d(), SILENT),
}
ALSO_SILENT = {"journal", "pending"}
"""Additional evidence, and a count that offsets can replace."""


def test_every_field_that_may_be_unavailable_is_tested() -> None:
    hints = get_type_hints(Facts)
    may = {each.name for each in fields(Facts) if "Unavailable" in str(hints[each.name])}
    assert may == SILENT_FIELDS.keys() | ALSO_SILENT


@pytest.mark.parametrize("name", SILENT_FIELDS)
def test_unobserved_steps_are_never_ok(name: str) -> None:
    facts, silent = SILENT_FIELDS[name]
    found = judged(facts, **{name: silent})
    assert found.verdict is Verdict.UNKNOWN, (states(found), found.violations)


@pytest.mark.parametrize(
    "name",
    ["boundaries", "out_of_order", "reverse_start", "returned_copies", "groups", "drctl_copies"],
)
def test_unobserved_steps_are_not_ok_after_catching_up(name: str) -> None:
    found = judged(in_order_to_h(), **{name: SILENT})
    assert found.verdict is Verdict.UNKNOWN, (states(found), found.violations)


def test_too_many_records_to_search_is_unknown() -> None:
    around = Around({"mm2-source": 101, "mm2-back": 101})
    facts = looked_at(primary(*LOST), secondary(*LATE), Results((AFTER,)), around, most=1)
    assert isinstance(facts.out_of_order, Unavailable)
    many = judged(in_order_to_d(), out_of_order=Unavailable("5 offsets are too many"))
    assert (many.verdict, many.steps["f"].observed) == (Verdict.UNKNOWN, "unknown")
    assert "5 offsets are too many" in many.steps["f"].why
    with pytest.raises(Unknown, match="5 offsets are too many") as unknown:
        _search(link(), many.seen)
    assert rebuild_command("main") in unknown.value.hint


def test_a_rebuild_is_suggested_then() -> None:
    text = drawn(seen(LATE, AFTER))
    assert f"as one plan:\n  {rebuild_command('main')}" in text
    assert "PATCH" not in text, "a start offset is suggested for a rebuild"
