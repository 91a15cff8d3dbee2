"""A tracking pass as text and as numbers."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from drctl.cli.offsets import Tracking
from drctl.cli.options import begin
from drctl.model.errors import Unreachable
from drctl.offsets.tracking import PassResult, Problem, TrackingPass
from drctl.views.command_documents import ErrorBody
from drctl.views.tracking import PassDocument, TrackMetrics, pass_line, pass_lines
from tests.cli.documents import check

NOON = 1_700_000_000_000
LABELS = {"link": 'a"b', "source": "primary", "target": "secondary"}
PROBLEMS = (Problem("bil\x1b[31mling", "", -1, "no answer"), Problem("g", "orders", 3, "gone"))


def look(**fields: object) -> TrackingPass:
    standard: dict[str, object] = {
        "cluster_id": "A",
        "began_ms": NOON,
        "groups": 1_000,
        "committed_offsets": 4_000,
        "moved": 2,
        "without_records": 1,
        "unverified": 3,
        "notes": ((b"k", b"v"), (b"l", None), (b"l", b"w")),
        "forgotten": ((b"m", None),),
        "positions": (),
        "own": (b"p", b"q"),
        "problems": (),
    }
    return TrackingPass(**{**standard, **fields})  # type: ignore[arg-type]


def tracked(**fields: object) -> PassResult:
    standard: dict[str, object] = {
        "began_ms": NOON,
        "seconds": 0.51,
        "executed": True,
        "topic_existed": True,
        "look": look(),
        "failed": None,
        "known_ms": NOON,
    }
    return PassResult(**{**standard, **fields})  # type: ignore[arg-type]


FAILED = tracked(look=None, failed=Unreachable("gone"), known_ms=NOON - 90_000)


def test_one_line_per_pass() -> None:
    assert pass_line(tracked()) == (
        "2023-11-14 22:13:20  1,000 groups, 4,000 committed offsets: 2 changed, 2 written,"
        " 1 deleted; 0.51 s"
    )
    assert pass_line(tracked(look=look(problems=PROBLEMS))).endswith("0.51 s; 2 problems")
    assert pass_line(FAILED) == (
        "2023-11-14 22:13:20  failed. Tracked offsets are as of 2023-11-14 22:11:50 UTC,"
        " 1 min 30 s ago"
    )


def test_a_failure_that_persists_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    begin(["offsets", "track"])
    ends = iter((FAILED, FAILED, tracked(), FAILED))
    link = SimpleNamespace(name="main", source="primary", target="secondary")
    tracking = Tracking(cast(Any, link), cast(Any, SimpleNamespace(run=lambda _: next(ends))))
    printed = []
    for _ in range(4):
        tracking._pass()
        out, err = capsys.readouterr()
        printed.append((len(out.splitlines()), err.count("gone; retrying")))
    assert printed == [(1, 1), (0, 0), (1, 0), (1, 1)]


def test_a_dry_run() -> None:
    result = tracked(executed=False, topic_existed=False, known_ms=None)
    found = look(problems=PROBLEMS)
    assert list(pass_lines(result, found, "secondary", "drctl offsets track --execute")) == [
        "1,000 groups, 4,000 committed offsets, read in 0.51 s",
        "Would create topic __drctl_anchors on secondary",
        "2 changed: would write 2 tracked offsets, delete 1",
        "1 committed offset has no consumed record left in the log of the source",
        "3 tracked offsets not verified: kept unchanged",
        "group bil\\x1b[31mling: no answer",
        "group g, orders-3: gone",
        "No tracked offsets yet",
        "To write: drctl offsets track --execute",
    ]


def test_many_problems_are_limited() -> None:
    found = look(problems=tuple(Problem(f"g{n}", "", -1, "gone") for n in range(25)))
    lines = list(pass_lines(tracked(look=found), found, "secondary", ""))
    assert lines[-1] == "and 5 more; --output json lists all"
    assert lines[-2] == "group g19: gone"


def document_of(result: PassResult, failed: ErrorBody | None) -> PassDocument:
    return PassDocument.of(result, link="main", from_="primary", to="secondary", failed=failed)


def test_documents() -> None:
    for result in (tracked(), tracked(look=look(problems=PROBLEMS)), tracked(known_ms=None)):
        check(document_of(result, None))
    failed = ErrorBody(code=5, kind="Unreachable", message="gone", hint="")
    document = check(document_of(FAILED, failed))
    assert document["totals"] is None
    assert document["age_seconds"] == 90.51
    assert not document["complete"]


@pytest.mark.parametrize("known_ms", [-(2**63), 253_402_300_800_000, 2**63 - 1])
def test_a_pass_may_have_any_start_time(known_ms: int) -> None:
    result = tracked(look=None, failed=Unreachable("gone"), known_ms=known_ms)
    failed = ErrorBody(code=5, kind="Unreachable", message="gone", hint="")
    document = check(document_of(result, failed))
    assert document["known_until"] == str(known_ms)
    assert f"as of {known_ms} ms UTC, " in pass_line(result)


def test_numbers_add_up() -> None:
    begun = TrackMetrics(LABELS)
    assert "last_complete" not in begun.text()
    assert 'drctl_offsets_track_passes_total{link="a\\"b",source="primary"' in begun.text()
    later = begun.after(tracked()).after(tracked(look=look(problems=PROBLEMS), began_ms=NOON + 1))
    after = later.after(FAILED)
    found = dict(
        line.rsplit(" ", 1) for line in after.text().splitlines() if not line.startswith("#")
    )
    values = {
        name.split("{")[0].removeprefix("drctl_offsets_track_"): v for name, v in found.items()
    }
    assert values == {
        "last_complete_pass_timestamp_seconds": "1700000000.0",
        "known_timestamp_seconds": "1699999910.0",
        "pass_duration_seconds": "0.51",
        "passes_total": "3",
        "failures_total": "1",
        "moved_total": "4",
        "written_total": "6",
    }
    assert "drctl_offsets_track_groups" not in after.text(), "numbers of an earlier pass are shown"
    assert "drctl_offsets_track_groups{" in later.text()
    kinds = [line.split() for line in after.text().splitlines() if line.startswith("# TYPE")]
    assert {kind[2].endswith("_total") == (kind[3] == "counter") for kind in kinds} == {True}
