"""Lines of a journal that are too long for a record."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.formats import journal_records
from drctl.formats.journal_records import Part, decode, encode, split


@given(st.binary(min_size=1, max_size=40), st.integers(1, 50))
def test_the_parts_of_a_line_make_the_line(line: bytes, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_records, "MAX_PART_BYTES", most)
        parts = split("run", line)
    assert b"".join(part.data for part in parts) == line
    assert [part.number for part in parts] == list(range(len(parts)))
    assert {part.parts for part in parts} == {len(parts)}
    assert max(len(part.data) for part in parts) <= most
    assert tuple(decode(encode(part)) for part in parts) == parts


def test_a_person_can_read_it() -> None:
    value = encode(Part("X", 0, 1, b'{"seq":1}'))
    assert value == b'{"v":1,"is":"line","run":"X","part":0,"parts":1}\n{"seq":1}'
