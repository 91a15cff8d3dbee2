"""The whole look of `--check-order`, over clusters in memory."""

import io
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from drctl.cli.failback.search import _search
from drctl.cli.failback.table import failback_table
from drctl.failback.answer import Answer, answer
from drctl.failback.doing import Site
from drctl.failback.gap_results import GapEvidence
from drctl.failback.observing import Results
from drctl.failback.standing_against import Terms, against
from drctl.failback.standing_behind import anew
from drctl.failback.starting import Start
from drctl.failback.verdict import Verdict
from drctl.model.errors import Refused, Unknown
from drctl.model.topology import OffsetRange, Record, Unavailable
from drctl.wire import provenance
from drctl.wire.provenance import Provenance
from tests.failback.observed import Around, link, looked_at, primary, secondary
from tests.failback.ways import HERE, gap, in_order_to_d, judged, partition


def log(*keys: str) -> tuple[Record, ...]:
    """Records at the offsets 0, 1, 2 ...; each key has a time of its own."""
    return tuple(at(offset, key) for offset, key in enumerate(keys))


def at(offset: int, key: str, *headers: tuple[str, bytes | None]) -> Record:
    return Record(0, offset, sum(key.encode()), key.encode(), b"v", headers)


BOTH = tuple(f"k{n}" for n in range(100))
LOST = log(*BOTH, "t1", "t2")
"""The last two were not copied when the primary was lost."""
NEW = log(*BOTH, "n1", "n2")
LATE = log(*BOTH, "n1", "n2", "t1", "t2")
"""Then the old replication went on, for a while."""


def compared(
    source: Sequence[Record], target: Sequence[Record], missing: int, new: int
) -> GapEvidence:
    """A full result over these logs."""
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


def test_all_is_in_order_before_the_old_replication_runs() -> None:
    found = seen(NEW, BEFORE, position=99)
    assert (found.verdict, found.next) == (Verdict.OK, "e"), found.to_json()
    assert found.seen.facts.behind == ()
    assert "its position is the boundary" in found.steps["f"].why


@pytest.mark.parametrize("results", [(AFTER,), (AFTER, BEFORE)], ids=["alone", "beside-an-older"])
def test_what_the_old_replication_copied_behind_new_records_is_no_boundary(
    results: tuple[GapEvidence, ...],
) -> None:
    """A comparison of after it finds nothing missing, and nothing tells new from old."""
    found = seen(LATE, *results)
    assert found.seen.gap.valid is AFTER
    assert (found.verdict, found.next) == (Verdict.VIOLATED, "f"), found.to_json()
    assert found.steps["f"].observed == "not-done"
    assert (
        "records of primary stand behind new ones of secondary (orders-0)" in found.steps["f"].why
    )
    assert anew("main") in found.steps["f"].why
    (told,) = (each for each in against(found, Terms()) if each.check == "step-order")
    assert (told.status, told.cure) == ("fail", anew("main"))
    (rebuilt,) = (e for e in against(found, Terms(rebuilding=True)) if e.check == "step-order")
    assert rebuilt.status == "warn", "filling it anew is the way out"
    with pytest.raises(Refused, match="stand behind new ones") as refused:
        _search(link(), found.seen)
    assert anew("main") in refused.value.hint


def test_the_end_of_a_transaction_hides_nothing() -> None:
    """The last offset that was copied holds no record."""
    (part,) = AFTER.partitions
    ended = replace(AFTER, partitions=(replace(part, source=OffsetRange(0, len(LOST) + 1)),))
    source, around = replace(primary(*LOST), hollow=1), Around({"mm2-source": 101, "mm2-back": 101})
    found = answer(looked_at(source, secondary(*LATE), Results((ended,)), around))
    assert (found.seen.facts.behind, found.next) == (("orders-0",), "f"), found.to_json()


def test_what_drctl_copied_stands_there_rightly() -> None:
    header = provenance.HEADER, provenance.encode(Provenance(HERE, "orders", 0, 101, 5))
    copied = (*NEW, at(102, "t1", header), at(103, "t2", header))
    found = seen(copied, compared(LOST, copied, 0, 2), BEFORE, position=99)
    assert (found.seen.facts.behind, found.verdict) == ((), Verdict.OK), found.to_json()


def test_what_came_before_anything_was_new_is_a_boundary() -> None:
    """The replication had a lag when it was compared, and caught up before it was lost."""
    lagging = compared(LOST, LOST[:100], 2, 0)
    target = log(*BOTH, "t1", "t2", "n1")
    found = seen(target, compared(LOST, target, 0, 1), lagging)
    assert (found.seen.facts.behind, found.verdict) == ((), Verdict.OK), found.to_json()
    assert "its position is the boundary" in found.steps["f"].why


def test_too_much_to_look_through_for_it_is_unknown() -> None:
    around = Around({"mm2-source": 101, "mm2-back": 101})
    facts = looked_at(primary(*LOST), secondary(*LATE), Results((AFTER,)), around, most=1)
    assert isinstance(facts.behind, Unavailable)
    many = judged(in_order_to_d(), behind=Unavailable("5 offsets are too many"))
    assert (many.verdict, many.steps["f"].observed) == (Verdict.UNKNOWN, "unknown")
    assert "5 offsets are too many" in many.steps["f"].why
    with pytest.raises(Unknown, match="5 offsets are too many") as unknown:
        _search(link(), many.seen)
    assert anew("main") in unknown.value.hint


def test_the_plan_that_is_offered_then_is_the_one_that_fills_it_anew() -> None:
    found = seen(LATE, AFTER)
    nobody: tuple[str, ...] = ()
    ends = "primary", "secondary"
    names = None, nobody, nobody, "", "", nobody, "", nobody
    site = Site("main", *ends, *names, start=Start())
    out = io.StringIO()
    Console(file=out, width=150).print(failback_table(found, replace(site, anew=anew("main"))))
    text = out.getvalue()
    assert f"All of it, as one plan: {anew('main')}" in text
    assert "PATCH" not in text, "no boundary is set by hand"
