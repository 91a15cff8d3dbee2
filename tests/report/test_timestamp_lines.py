"""Lines of consumer timestamps: aligned, in UTC, and safe with hostile names."""

from drctl.offsets.consumer_timestamps import TimestampRow
from drctl.views.timestamps import Columns, time, undecodable

NOON = 1_700_000_000_123


def row(
    group: str = "g", timestamp_ms: int | None = NOON, value: bytes | None = b"x"
) -> TimestampRow:
    return TimestampRow(group, "orders", 3, timestamp_ms, None, value, NOON, (0, 7))


def test_columns_are_aligned() -> None:
    columns, rows = Columns(), [row(), row("a-longer-group")]
    columns.fit(rows)
    lines = [columns.heading(), *map(columns.line, rows)]
    assert {
        line.index(word) for line, word in zip(lines, ("TOPIC", *["orders"] * 2), strict=True)
    } == {16}
    assert lines[1].split() == [
        *("g", "orders", "3", "2023-11-14", "22:13:20.123", "-", "2023-11-14", "22:13:20.123")
    ]


def test_names_cannot_act_on_a_terminal() -> None:
    line = Columns().line(row("\x1b[2J\u202e\n\t"))
    assert line.isprintable()
    assert r"\x1b[2J\xe2\x80\xae\x0a\x09" in line


def test_a_tombstone_is_a_deletion() -> None:
    assert "deleted" in Columns().line(row(timestamp_ms=None, value=None))


def test_invalid_times() -> None:
    assert time(None) == "-"
    assert time(-5) == "-5 ms"
    assert time(2**63 - 1) == f"{2**63 - 1} ms"
    assert time(0) == "1970-01-01 00:00:00.000"


def test_undecodable_records_show_their_bytes() -> None:
    wrong = TimestampRow(None, None, None, None, None, bytes(1000), 1, (4, 9), None, "no key")
    line = undecodable(wrong)
    assert line.startswith("undecodable  partition 4 offset 9: no key; key null value 0000")
    assert line.endswith("00...")
    assert len(line) < 120
    assert Columns().line(wrong) == line
