from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.model.text import plural
from drctl.views.text import Kind, age, duration, escape, plain, sentence, show, size, utc

NOW = datetime(2026, 3, 5, 14, 20, 7, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


@given(st.binary())
def test_whatever_the_bytes_the_text_is_printable(data: bytes) -> None:
    assert escape(data).isprintable()


@given(st.binary(), st.binary())
def test_different_bytes_give_different_text(one: bytes, other: bytes) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@given(st.text())
def test_whatever_the_name_the_text_is_printable(text: str) -> None:
    assert plain(text).isprintable()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"N14228", "N14228"),
        ("Zürich 東京".encode(), "Zürich 東京"),
        (b"\x1b[31m", r"\x1b[31m"),
        ("\u202ex\u2066".encode(), r"\xe2\x80\xaex\xe2\x81\xa6"),
        (b"\xff\xc3", r"\xff\xc3"),
        (b"a\nb\tc", r"a\x0ab\x09c"),
        (rb"\x41", r"\\x41"),
    ],
)
def test_bytes_as_text(data: bytes, text: str) -> None:
    assert escape(data) == text


def test_null_empty_and_text_are_distinguished() -> None:
    kinds = [show(data, 9).kind for data in (None, b"", b"null", b"empty")]
    assert kinds == [Kind.NULL, Kind.EMPTY, Kind.BYTES, Kind.BYTES]


def test_long_values_are_cut_visibly() -> None:
    assert (show(b"abcd", 3).text, show(b"abcd", 3).cut) == ("abc", True)
    assert not show(b"abc", 3).cut


def test_names_without_valid_unicode_are_kept() -> None:
    assert plain("run-\udcff") == r"run-\xff"


def test_prose_on_one_line() -> None:
    assert sentence("no leader,\n  retry\x07") == r"no leader, retry\x07"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 KB"), (123_456, "123 KB"), (10**13, "10.0 TB")],
)
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


def test_plurals() -> None:
    assert [plural(n, "record") for n in (0, 1, 1234)] == ["0 records", "1 record", "1,234 records"]


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [
        (NOW_MS, "2026-03-05 14:20:07"),
        (0, "1970-01-01 00:00:00"),
        (None, "-"),
        (-1, "no timestamp"),
        (-2, "-2 ms"),
        (2**63 - 1, "9223372036854775807 ms"),
    ],
)
def test_any_timestamp_has_a_text(timestamp: int | None, text: str) -> None:
    assert utc(timestamp) == text


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_number_is_a_timestamp(timestamp: int) -> None:
    assert utc(timestamp)
    assert age(timestamp, NOW).isprintable()


@pytest.mark.parametrize(
    ("before_ms", "text"),
    [
        (45_000, "45 s old"),
        (11_535_000, "3 h 12 min old"),
        (86_400_000, "1 d old"),
        (-5_000, "5 s in the future"),
        (-400, "0 s old"),
    ],
)
def test_ages(before_ms: int, text: str) -> None:
    assert age(NOW_MS - before_ms, NOW) == text


def test_durations_have_two_units() -> None:
    assert duration(NOW - datetime(2026, 3, 3, 12, 0, tzinfo=UTC)) == "2 d 2 h"
    assert duration(90.5) == "1 min 30 s"
    assert duration(2.0**63 / 1000) == "106751991167 d 7 h"
