"""The hash chain of a journal: any change to its lines is found and named."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.engine.run_state import (
    Damage,
    DamagedLine,
    first_head,
    head_after,
    head_of,
    parse_line,
    seal,
    verify,
)
from drctl.model.journal import Entry

RUN = "20260305T142011.512000Z"
TEXT = st.text(max_size=3)
NAMES = TEXT.filter(lambda name: name not in {"seq", "prev", "sum", "run"})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT | st.floats(-1, 1),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=3,
)
ANY = st.lists(st.dictionaries(NAMES, JSON, max_size=2), min_size=1, max_size=3)
LISTS = st.lists(st.builds(dict, x=TEXT | st.integers()), min_size=1, max_size=5)


def chain(entries: Sequence[Entry], run: str = RUN) -> list[bytes]:
    return list(seal([*entries, {"entry": "ended", "status": "done"}], first_head(run)))


THREE = chain([{"entry": "began"}, {"entry": "intend"}])


@given(ANY)
def test_a_sealed_journal_is_complete_and_unchanged(entries: list[Entry]) -> None:
    lines = chain(entries)
    verdict = verify(RUN, lines)
    assert verdict.complete
    assert (verdict.lines, verdict.head) == (len(entries) + 1, head_of(lines[-1]))
    assert [parse_line(line).entry for line in lines[:-1]] == entries
    assert not any(b"\n" in line for line in lines)


@given(LISTS, st.data())
def test_sealing_incrementally_or_at_once_is_equal(
    entries: list[Entry], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(entries)))
    first = seal(entries[:cut], first_head(RUN))
    assert (*first, *seal(entries[cut:], head_of(first[-1]))) == seal(entries, first_head(RUN))
    assert head_after(first, first_head(RUN)) == head_of(first[-1])


@given(LISTS, st.data())
def test_a_changed_byte_is_found_in_its_line(entries: list[Entry], data: st.DataObject) -> None:
    lines = chain(entries)
    which = data.draw(st.integers(0, len(lines) - 1))
    where = data.draw(st.integers(0, len(lines[which]) - 1))
    changed = bytearray(lines[which])
    changed[where] ^= data.draw(st.integers(1, 255))
    verdict = verify(RUN, [*lines[:which], bytes(changed), *lines[which + 1 :]])
    assert (verdict.damage, verdict.lines) == (Damage.CHANGED, which)
    assert f"line {which + 1} was changed" in verdict.message


@given(LISTS, st.data())
def test_a_changed_byte_of_the_file_is_found(entries: list[Entry], data: st.DataObject) -> None:
    """Line ends included."""
    text = bytearray(b"".join(line + b"\n" for line in chain(entries)))
    text[data.draw(st.integers(0, len(text) - 1))] ^= data.draw(st.integers(1, 255))
    *whole, _torn = bytes(text).split(b"\n")
    assert not verify(RUN, whole).complete


@given(LISTS, st.data())
def test_a_removed_line_is_found(entries: list[Entry], data: st.DataObject) -> None:
    lines = chain(entries)
    which = data.draw(st.integers(0, len(lines) - 2))
    verdict = verify(RUN, lines[:which] + lines[which + 1 :])
    assert (verdict.damage, verdict.lines) == (Damage.REMOVED, which)


@given(LISTS, st.data())
def test_a_truncated_tail_is_distinguished_from_damage(
    entries: list[Entry], data: st.DataObject
) -> None:
    lines = chain(entries)
    left = data.draw(st.integers(0, len(lines) - 1))
    verdict = verify(RUN, lines[:left])
    assert verdict.damage is None
    assert not verdict.ended
    assert not verdict.complete
    assert verdict.lines == left


@given(LISTS, st.data())
def test_swapped_lines_are_found(entries: list[Entry], data: st.DataObject) -> None:
    lines = chain(entries)
    one, other = sorted(
        data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=2, max_size=2, unique=True))
    )
    lines[one], lines[other] = lines[other], lines[one]
    verdict = verify(RUN, lines)
    assert (verdict.damage, verdict.lines) == (Damage.REORDERED, one)


@given(LISTS, st.data())
def test_an_inserted_line_is_found(entries: list[Entry], data: st.DataObject) -> None:
    lines = chain(entries)
    foreign = (chain([{}], "another")[0], b"", b"{}", b"\xff", *lines)
    new = data.draw(st.sampled_from(foreign))
    where = data.draw(st.integers(0, len(lines) - 1))
    verdict = verify(RUN, [*lines[:where], new, *lines[where:]])
    if new == lines[where]:  # of two equal lines the second counts as inserted
        assert (verdict.damage, verdict.lines) == (Damage.INSERTED, where + 1)
    else:
        damages = {Damage.INSERTED, Damage.REORDERED}
        assert verdict.damage in damages
        assert verdict.lines == where


@given(LISTS, st.sampled_from([b"", b"{}", THREE[0], THREE[-1]]))
def test_a_line_after_the_end_is_found(entries: list[Entry], new: bytes) -> None:
    lines = chain(entries)
    verdict = verify(RUN, [*lines, new])
    assert verdict.damage in (Damage.INSERTED, Damage.CHANGED)
    assert verdict.lines == len(lines)
    assert not verdict.complete


@given(LISTS, st.data())
def test_a_resealed_line_is_found(entries: list[Entry], data: st.DataObject) -> None:
    """Its own checksum is right, but the next line has the checksum of the original line."""
    lines = chain(entries)
    which = data.draw(st.integers(0, len(lines) - 2))
    before = head_of(lines[which - 1]) if which else first_head(RUN)
    (forged,) = seal([{"entry": "forged"}], before)
    verdict = verify(RUN, [*lines[:which], forged, *lines[which + 1 :]])
    assert (verdict.damage, verdict.lines) == (Damage.CHANGED, which + 1)


def test_the_journal_of_another_run_is_rejected() -> None:
    assert verify("another", THREE).damage is Damage.CHANGED
    assert verify(RUN, []).damage is None


def test_lines_are_readable_without_the_key() -> None:
    line = json.loads(THREE[1])
    assert list(line) == ["seq", "prev", "entry", "sum"]
    assert (line["seq"], line["entry"]) == (2, "intend")


@pytest.mark.parametrize("entry", [{"seq": 1}, {"sum": ""}, {"prev": ""}, {"x": float("nan")}])
def test_values_that_cannot_be_sealed(entry: Entry) -> None:
    with pytest.raises(ValueError, match=r"may not have|compliant"):
        seal([entry], first_head(RUN))


def test_invalid_lines() -> None:
    with pytest.raises(DamagedLine, match="not a journal line"):
        parse_line(b"{}")
    with pytest.raises(DamagedLine, match="its checksum"):
        parse_line(THREE[0].replace(b"began", b"begun"))
