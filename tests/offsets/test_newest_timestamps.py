"""The newest row of each key, in any order and with little memory."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.formats.consumer_timestamps import (
    ConsumerTimestamp,
    GroupPartition,
    encode_key,
    encode_value,
)
from drctl.model.topology import Chunk, Row
from drctl.offsets.consumer_timestamps import (
    NewestTimestamps,
    RowDecoder,
    TimestampRow,
    Wanted,
    row_json,
)
from drctl.stores.temporary import TemporaryEntries
from tests.cli.documents import check

ALL = Wanted()
VALUES = st.one_of(
    st.none(),
    st.builds(ConsumerTimestamp, st.integers(0, 9), st.none(), st.just(0)).map(encode_value),
    st.just(b"junk"),
)
KEYS = st.one_of(
    st.builds(GroupPartition, st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 2)).map(
        encode_key
    ),
    st.just(b"junk"),
    st.none(),
)
RECORDS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 5), KEYS, VALUES), max_size=40)


def chunks(records: Sequence[tuple[int, int, bytes | None, bytes | None]]) -> list[Chunk]:
    """Return each record in a chunk of its own; offsets increase in each partition."""
    ends = {0: 0, 1: 0}
    made = []
    for partition, time, key, value in records:
        row: Row = (ends[partition], time, key, value, ())
        ends[partition] += 1
        made.append(Chunk("t", partition, (row,)))
    return made


def newest(given: Iterable[Chunk], held: int) -> tuple[list[TimestampRow], list[TimestampRow]]:
    """Return undecodable records and the newest rows."""
    found = NewestTimestamps(RowDecoder(ALL), TemporaryEntries, held)
    wrong = [row for chunk in given for row in found.take(chunk)]
    return wrong, list(found.rows())


def slowly(given: Iterable[Chunk]) -> list[tuple[object, ...]]:
    """Return the same in an obvious way: the last of each partition, and of these the newest."""
    last: dict[tuple[object, ...], dict[int, tuple[int, int, TimestampRow]]] = {}
    for chunk in given:
        for row in RowDecoder(ALL).rows(chunk):
            if row.group is not None:
                young = chunk.rows[0][1], chunk.partition
                last.setdefault(row[:3], {})[chunk.partition] = (*young, row)
    known = [max(each.values(), key=lambda seen: seen[:2])[2] for each in last.values()]
    alive = [row for row in known if not row.error and row.value is not None]
    return [tuple(row) for row in sorted(alive, key=lambda row: row[:3])]


@pytest.mark.slow
@given(RECORDS, st.sampled_from([0, 1, 2, 1000]))
def test_the_newest_of_each_key(
    records: Sequence[tuple[int, int, bytes | None, bytes | None]], held: int
) -> None:
    made = chunks(records)
    wrong, rows = newest(made, held)
    assert [tuple(row) for row in rows] == slowly(made)
    assert wrong == [row for c in made for row in RowDecoder(ALL).rows(c) if row.error]
    for row in (*wrong, *rows):
        check(row_json(row))


@given(RECORDS)
def test_all_rows_fit_their_schema(
    records: Sequence[tuple[int, int, bytes | None, bytes | None]],
) -> None:
    for chunk in chunks(records):
        for row in RowDecoder(ALL).rows(chunk):
            document = check(row_json(row))
            assert ("error" in document) == bool(row.error)


def test_only_requested_keys_and_all_records_without_a_key() -> None:
    noted = encode_value(ConsumerTimestamp(1))
    places = [GroupPartition(g, t, 0) for g in ("a", "b") for t in ("x", "y")]
    made = chunks([(0, 0, encode_key(p), noted) for p in places] + [(0, 0, b"junk", noted)])

    def found(wanted: Wanted) -> list[tuple[str | None, str | None]]:
        decoder = RowDecoder(wanted)
        return [(row.group, row.topic) for chunk in made for row in decoder.rows(chunk)]

    assert found(Wanted(frozenset("a"))) == [("a", "x"), ("a", "y"), (None, None)]
    assert found(Wanted(topics=frozenset("y"))) == [("a", "y"), ("b", "y"), (None, None)]
    assert found(Wanted(frozenset("b"), frozenset("x"))) == [("b", "x"), (None, None)]
