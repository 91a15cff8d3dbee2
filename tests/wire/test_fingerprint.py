"""Fingerprints are stored in tracked offsets: they must never change."""

from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from drctl.formats.fingerprint import fingerprint
from drctl.gap.comparison import Identity
from drctl.gap.held import record_digest

KNOWN = {
    (None, None): 0x7E103C64D8CEBE77,
    (b"", b""): 0xCE0359C5F4F86546,
    (None, b""): 0x488BCA46A09D6944,
    (b"", None): 0x24D1FCC5F73AC219,
    (b"k", b"v"): 0x616D9DF82DBD3F47,
    (b"kv", b""): 0x5EC4ED3F3614CBD5,
    (None, b"kv"): 0x3C1D9E7B81B96AB3,
    ("schlüssel".encode(), bytes(range(256))): 0xEF9D84FDDB135703,
}
CONTENT = st.none() | st.binary(max_size=3)
RECORDS = st.tuples(CONTENT, CONTENT)


def test_they_never_change() -> None:
    assert {record: fingerprint(*record) for record in KNOWN} == KNOWN


def test_they_match_the_documentation() -> None:
    def chained(*parts: bytes) -> int:
        seed = 42
        for part in parts:
            seed = xxh64_intdigest(part, seed)
        return seed

    no, yes = b"\0\0\0\0", b"\1\0\0\0"
    assert fingerprint(b"k", b"v") == chained(no, b"k", no, b"v")
    assert fingerprint(None, b"v") == chained(yes, no, b"v")
    assert fingerprint(b"k", None) == chained(no, b"k", yes)


@given(RECORDS, RECORDS)
def test_the_same_key_and_value_and_no_other(
    one: tuple[bytes | None, bytes | None], other: tuple[bytes | None, bytes | None]
) -> None:
    assert (fingerprint(*one) == fingerprint(*other)) == (one == other)


@given(RECORDS, RECORDS, st.integers(0, 1), st.integers(0, 1))
def test_records_that_gap_calls_equal_have_the_same(
    one: tuple[bytes | None, bytes | None],
    other: tuple[bytes | None, bytes | None],
    time: int,
    other_time: int,
) -> None:
    digest = record_digest(Identity(), timestamps=True, salt=0)
    if digest(time, *one, ()) == digest(other_time, *other, ()):
        assert fingerprint(*one) == fingerprint(*other)
