"""Stored progress: in its topic, and an export in its folder."""

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.formats import provenance
from drctl.gap.summing import MissingRow
from drctl.model.errors import Refused, Unknown
from drctl.model.gap import OrderVerdict, RecordClass
from drctl.model.topology import Row, TopicPartition
from drctl.reconcile.executing import stamp_of
from drctl.reconcile.export import MANIFEST, digest_of, line_of, record_of, record_set_of
from drctl.reconcile.gap_result import Exported, ExportedSet, Tally, key_digest
from drctl.reconcile.policy import Action
from drctl.reconcile.progress import Key, LeftMissing, Progress, RecordSet, Segment, decode, encode
from drctl.stores.parquet import GapRow, ParquetRecords, read_records
from drctl.stores.temporary import TemporaryWantedRows
from drctl.views.exports import ExportFolder

PLACE = TopicPartition("orders", 3)
COUNT = st.integers(0, 2**63 - 1)
DATA = st.one_of(st.none(), st.binary(max_size=20))

segments = st.builds(
    Segment,
    st.sampled_from([Action.COPY, Action.DISCARD]),
    COUNT,
    COUNT,
    COUNT,
    COUNT,
    st.sampled_from(["", "orders"]),
    st.integers(-1, 9),
)
exported = st.builds(
    Exported,
    st.builds(TopicPartition, st.text(max_size=5), st.integers(0, 9)),
    st.text(max_size=5),
    st.tuples(
        COUNT,
        st.integers(-1, 2**53),
        DATA,
        DATA,
        st.lists(st.tuples(st.binary(max_size=5), DATA), max_size=3).map(tuple),
    ),
    st.sampled_from(list(OrderVerdict)),
)


@given(st.text(), st.lists(segments, max_size=3).map(tuple))
def test_progress_survives_a_round_trip(topic: str, done: tuple[Segment, ...]) -> None:
    key = Key("g", "c", RecordSet(TopicPartition(topic, 1), OrderVerdict.SAFE))
    progress = Progress("s", "t", done)
    assert decode([encode(key, progress)]) == {key: progress}


@pytest.mark.parametrize("key", [b"", b"{}", b'{"drctl":2}', b"[]"])
def test_progress_of_others_is_ignored(key: bytes) -> None:
    with pytest.raises(Unknown):
        decode([(key, b"{}")])


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        (0, b'"g"', b"[]"),
        (0, b'"partition":1', b'"partition":1.5'),
        (0, b'"partition":1', b'"partition":"1"'),
        (1, b"[5,6]", b"[5.5,6]"),
        (1, b"[[5,6]]", b"[[5,true]]"),
        (1, b"[[5,6]]", b'["56"]'),
        (1, b'"segments"', b'"x":[],"segments"'),
    ],
)
def test_progress_is_read_exactly_or_not_at_all(part: int, old: bytes, new: bytes) -> None:
    key = Key("g", "c", RecordSet(TopicPartition("t", 1), OrderVerdict.SAFE))
    left = Segment(Action.DISCARD, 6, 2, 20, left=LeftMissing(((5, 6),), 7))
    record = list(encode(key, Progress("s", "t", (left,))))
    assert decode([(record[0], record[1])]) == {key: Progress("s", "t", (left,))}
    record[part] = record[part].replace(old, new)
    with pytest.raises(Unknown, match="unknown format"):
        decode([(record[0], record[1])])


def test_segments_of_one_action_become_one() -> None:
    copied = Segment(Action.COPY, 5, 3, 30, 1, "t", 7)
    known = Progress("s", "t").after(copied).after(Segment(Action.COPY, 9, 2, 20, 0, "t", 11))
    assert known.segments == (Segment(Action.COPY, 9, 5, 50, 1, "t", 11),)
    assert (known.through, known.records) == (9, 6)
    assert len(known.after(Segment(Action.DISCARD, 10, 1, 1)).segments) == 2
    with pytest.raises(ValueError, match="9 is not after 9"):
        known.after(Segment(Action.COPY, 9, 1, 1, 0, "t", 12))


@given(exported)
def test_an_exported_record_survives_a_round_trip(record: Exported) -> None:
    line = line_of(record)
    assert b"\n" not in line
    assert record_of(line) == record


@pytest.mark.parametrize("line", [b"", b"{}", b"[]", b'{"headers": 1}'])
def test_a_foreign_line_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        record_of(line)


def record(partition: int, offset: int) -> Exported:
    row: Row = (offset, 5, None, b"", ((b"h", None),))
    return Exported(TopicPartition("orders", partition), "orders", row, OrderVerdict.UNKEYED)


def part(records: int, place: TopicPartition) -> ExportedSet:
    return ExportedSet(
        RecordSet(place, OrderVerdict.UNKEYED), -1, digest_of(range(records)), records
    )


def test_an_export_is_private_and_atomic(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "export"
    writer = ExportFolder(folder, {"link": "main"})
    all_of_them = [record(partition, offset) for offset in range(3) for partition in range(40)]
    parts = [part(3, TopicPartition("orders", number)) for number in range(40)]
    writer.begin(parts)
    for each in all_of_them:
        writer.add(each)
    assert not (folder / MANIFEST).exists()
    assert writer.finish(parts) == str(folder)
    for path in (folder, *folder.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    manifest = json.loads((folder / MANIFEST).read_text())
    assert (manifest["link"], len(manifest["files"])) == ("main", 40)
    assert [record_set_of(row) for row in manifest["record_sets"]] == parts
    lines = (folder / "orders-7.jsonl").read_bytes().splitlines()
    assert [record_of(line) for line in lines] == [r for r in all_of_them if r.place.partition == 7]


def test_a_repeated_record_is_refused() -> None:
    row = ("orders", 0, 1, 2, None, 3, OrderVerdict.SAFE.value)
    with pytest.raises(Refused, match="twice"):
        TemporaryWantedRows([row, row])


@given(st.text(), st.text(), COUNT, COUNT, st.integers(-(2**63), 2**63 - 1))
def test_the_header_of_a_copy_matches_its_format(
    cluster: str, topic: str, partition: int, offset: int, timestamp_ms: int
) -> None:
    stamp = stamp_of(cluster, TopicPartition(topic, partition))
    where = provenance.Provenance(cluster, topic, partition, offset, timestamp_ms)
    assert stamp((offset, timestamp_ms)) == provenance.encode(where)


VERDICTS = st.sampled_from([verdict.value for verdict in OrderVerdict])
kept_rows = st.lists(
    st.tuples(
        st.sampled_from(["orders", "audit"]),
        st.integers(0, 1),
        st.one_of(st.integers(0, 40), st.integers(16_370, 16_400), st.integers(0, 2**62)),
        st.integers(-1, 2),
        st.sampled_from([None, b"digest-1", b"digest-2"]),
        st.integers(0, 2**40),
        VERDICTS,
    ),
    max_size=40,
    unique_by=lambda row: row[:3],
)


@given(
    kept_rows,
    st.dictionaries(st.sampled_from(list(OrderVerdict)), st.integers(-1, 16_400), min_size=1),
)
def test_rows_are_returned_in_order(rows: list[GapRow], through: dict[OrderVerdict, int]) -> None:
    kept = TemporaryWantedRows(rows)
    place = TopicPartition("orders", 1)
    record_sets: dict[RecordSet, list[GapRow]] = {}
    for row in rows:
        record_sets.setdefault(
            RecordSet(TopicPartition(*row[:2]), OrderVerdict(row[6])), []
        ).append(row)
    assert kept.tallies() == {record_set: tally(some) for record_set, some in record_sets.items()}
    wanted = sorted(
        row[2:]
        for record_set, some in record_sets.items()
        for row in some
        if record_set.place == place
        and record_set.order in through
        and row[2] > through[record_set.order]
    )
    assert [tuple(row) for row in kept.after(place, through)] == wanted
    assert list(kept.offsets_after(place, through)) == [row[0] for row in wanted]
    for record_set, some in record_sets.items():
        out_of_order = through.get(record_set.order, 20)
        assert kept.done(record_set, out_of_order) == tally(
            [row for row in some if row[2] <= out_of_order]
        )
    kept.close()


def tally(rows: list[GapRow]) -> Tally:
    sizes, untimed = sum(row[5] for row in rows), sum(row[3] <= 0 for row in rows)
    return Tally(len(rows), sizes, untimed, max((row[2] for row in rows), default=-1))


def missing(offset: int, key: bytes | None = b"k") -> MissingRow:
    classified = RecordClass.UNREPLICATED, OrderVerdict.SAFE, False, False
    return MissingRow("orders", 3, offset, 1_700_000_000_123, key, 9, *classified)


def test_rows_are_read_from_a_gap_result(tmp_path: Path) -> None:
    rows = [missing(offset) for offset in range(25_000)] + [missing(25_000, None)]
    rows += [missing(25_001, b"")._replace(timestamp_ms=-1)]
    rows += [missing(25_002)._replace(timestamp_ms=253_402_300_799_999)]
    ParquetRecords(tmp_path).write([*rows, missing(1)._replace(record_class=RecordClass.EXPIRED)])
    found = list(read_records(tmp_path / "records"))
    assert found == [(*r[:4], key_digest(r.key), r.size, "safe") for r in rows]


def test_files_that_are_missing_or_damaged_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="contains no records"):
        list(read_records(tmp_path))
    (tmp_path / "part.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(Refused, match="is damaged"):
        list(read_records(tmp_path))


@pytest.mark.filterwarnings("error")
def test_an_unfinished_iteration_stays_valid() -> None:
    rows = TemporaryWantedRows([("orders", 0, n, 2, None, 3, "safe") for n in range(9)])
    walk = rows.after(TopicPartition("orders", 0), {OrderVerdict.SAFE: 3})
    assert next(walk)[0] == 4
    rows.close()
    del walk
