"""The history survives crashes: incomplete entries are left out, all others remain."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from drctl.drill.result import Past, Verdict, read
from drctl.stores.journal_files import DrillHistory

BEGAN = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
FIRST = Past(
    "20260102t030400z-000000", "main", BEGAN, Verdict.PASSED, "planned", "", 4.5, 4.0, 4.5, 100, 0,
    0.0, 3, 0, (), (("drain", 1.25),),
)  # fmt: skip
SECOND = Past("20260103t030400z-000000", "main", BEGAN + timedelta(days=1), Verdict.INTERRUPTED)


def test_written_entries_are_read_back(tmp_path: Path) -> None:
    history = DrillHistory(tmp_path / "drills" / "history.jsonl")
    assert history.lines() == ()
    for past in (SECOND, FIRST):
        history.append(past.line())
    assert read(history.lines()) == ((FIRST, SECOND), 0)
    assert Path(history.where).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("cut", range(1, len(FIRST.line()) + 1, 40))
def test_an_incomplete_line_is_left_out(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "history.jsonl"
    file.write_bytes(SECOND.line() + b"\n" + FIRST.line()[:-cut])
    history = DrillHistory(file)
    assert read(history.lines()) == ((SECOND,), 0)
    history.append(FIRST.line())
    assert read(history.lines()) == ((FIRST, SECOND), 1)


@pytest.mark.parametrize(
    "line",
    [
        b"", b"null", b"[]", b"{}", b"\xff", b'{"drill": "x"}',
        FIRST.line().replace(b'"passed"', b'"splendid"'),
        FIRST.line().replace(b"+00:00", b""),
        FIRST.line().replace(b'"rto_s":4.5', b'"rto_s":"<script>"'),
        FIRST.line().replace(b'"link":"main"', b'"link":7'),
        FIRST.line().replace(b'"missing":0', b'"missing":true'),
        FIRST.line().replace(b'"write_s":4.0', b'"write_s":NaN'),
        FIRST.line().replace(b'"mode"', b'"moood"'),
    ],
)  # fmt: skip
def test_an_invalid_line_is_counted(line: bytes) -> None:
    assert read([line, SECOND.line()]) == ((SECOND,), 1)
