"""Which change events are equal, and how often each occurs in a topic."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import pytest

from drctl.gap.event_duplicates import DirectEventCounter, EventAnalysis, FoundEvents, event_of
from drctl.model.errors import ExitCode, UsageError
from drctl.model.event_duplicates import EventCounts, EventFormat, Repeat
from drctl.model.topology import Chunk, OffsetRange, Record, TopicPartition, TopicRanges
from tests.cli.documents import check
from tests.fakes import FakeCluster, FakeLog, row_of
from tests.gap.comparing import no_progress
from tests.gap.events import BY_CONNECTOR, MONGODB, MYSQL, POSTGRES, events, log, value

T = "shop.public.orders"
Logs = Mapping[int, Sequence[Record]]


def digest(key: bytes | None, payload: bytes | None) -> int | None:
    event = event_of(key, payload)
    return None if event is None else event.digest


@pytest.mark.parametrize("source", BY_CONNECTOR.values(), ids=BY_CONNECTOR)
def test_an_event_that_is_sent_again_is_the_same(source: Mapping[str, object]) -> None:
    """The connector's clock differs, and a converter may or may not add the schema."""
    first = digest(b"1", value(source))
    assert first is not None
    assert digest(b"1", value(source, sent_ms=1_763_780_099_000)) == first
    assert digest(b"1", value(source, schema=True)) == first


@pytest.mark.parametrize(
    ("source", "field", "other"),
    [
        (POSTGRES, "lsn", 24_023_129),
        (POSTGRES, "txId", 572),
        (POSTGRES, "table", "items"),
        (POSTGRES, "name", "other"),
        (MYSQL, "pos", 485),
        (MYSQL, "file", "mysql-bin.000004"),
        (MYSQL, "row", 1),
        (MONGODB, "ord", 32),
        (MONGODB, "ts_ms", 1_763_780_001_000),
        (MONGODB, "txnNumber", 3),
    ],
)
def test_another_place_in_the_log_is_another_event(
    source: Mapping[str, object], field: str, other: object
) -> None:
    assert digest(b"1", value(source)) != digest(b"1", value({**source, field: other}))


def test_events_at_one_place_differ_by_key_operation_and_content() -> None:
    """A COPY in PostgreSQL writes many rows at one LSN."""
    first = digest(b"1", value(POSTGRES))
    assert digest(b"2", value(POSTGRES)) != first
    assert digest(None, value(POSTGRES)) != first
    assert digest(b"1", value(POSTGRES, after={"id": 2})) != first
    assert digest(b"1", value(POSTGRES, op="u")) != first


def test_fields_looked_up_by_mongodb_do_not_count() -> None:
    first = digest(b"1", value(MONGODB, op="u", updateDescription={"updatedFields": '{"a": 1}'}))
    later = {"op": "u", "updateDescription": {"updatedFields": '{"a": 1}'}, "after": '{"b": 2}'}
    assert digest(b"1", value(MONGODB, **later)) == first
    other = {**later, "updateDescription": {"updatedFields": '{"a": 2}'}}
    assert digest(b"1", value(MONGODB, **other)) != first


@pytest.mark.parametrize(
    "payload",
    [
        None,
        b"",
        b"\x00\x00\x00\x00\x01avro",
        b"[1]",
        b"12",
        b"{}",
        b'{"payload": null}',
        b'{"id": 1, "customer": "flattened"}',
        b'{"source": "x"}',
        b'{"source": {"connector": "sqlserver", "change_lsn": "1"}}',
        b'{"source": {"connector": ["postgresql"], "lsn": 1}}',
        value({**POSTGRES, "lsn": None}),
        b"[" * 5_000,
    ],
)
def test_events_without_an_identity(payload: bytes | None) -> None:
    assert event_of(b"1", payload) is None


def test_an_identity_as_text_names_the_position() -> None:
    event = event_of(b"1", value(POSTGRES))
    assert event.position == (
        "connector=postgresql name=shop lsn=24023128 txId=571 db=shop schema=public table=orders"
        " op=c"
    )


def counted(logs: Logs, order: Sequence[int] | None = None) -> Mapping[int, FoundEvents]:
    def read(ranges: TopicRanges) -> Iterator[Chunk]:
        for partition in order or ranges[T]:
            (whole,) = ranges[T][partition]
            rows = [row_of(r) for r in logs[partition] if whole.start <= r.offset < whole.end]
            yield Chunk(T, partition, rows[:3])
            yield Chunk(T, partition, rows[3:])

    ranges = {(T, p): OffsetRange(0, len(records)) for p, records in logs.items()}
    found = DirectEventCounter(read).count(ranges, no_progress)
    return {partition: each for (_, partition), each in found.items()}


def test_connector_that_resumed_before_its_last_events() -> None:
    sent = [*events("postgresql", range(10)), *events("postgresql", range(7, 14), sent_ms=9_000)]
    found = counted({0: log(sent)})[0]
    assert found == FoundEvents(EventCounts(17, 17, 3), Repeat(10, 0, 7), 12)


def test_tombstones_are_no_events_and_others_are_reported() -> None:
    sent = [*events("mysql", [1]), (b"1", None), (b"1", b"text"), (b"1", b"text"), (b"1", None)]
    assert counted({0: log(sent)})[0] == FoundEvents(EventCounts(5, 1, 0, 2, 2))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_copy_in_the_lower_partition_comes_first(order: tuple[int, int]) -> None:
    logs = {0: log(events("mongodb", [1, 2])), 1: log(events("mongodb", [3, 2, 2]), partition=1)}
    found = counted(logs, order)
    assert found[0] == FoundEvents(EventCounts(2, 2, 0))
    assert found[1].counts == EventCounts(3, 3, 2)
    assert (found[1].first, found[1].last) == (Repeat(1, 0, 1), 2)


def cluster(*logs: Sequence[Record]) -> FakeCluster:
    """A cluster with one topic."""
    there = {TopicPartition(T, n): FakeLog(list(map(row_of, log))) for n, log in enumerate(logs)}
    return FakeCluster(dict(there), "secondary")


def analysis(cluster: FakeCluster) -> EventAnalysis:
    return EventAnalysis(
        EventFormat.DEBEZIUM,
        cluster,  # type: ignore[arg-type]
        lambda offsets: DirectEventCounter(cluster.read),
        no_progress,
        lambda: datetime(2026, 11, 22, tzinfo=UTC),
    )


def test_the_answer_names_position_and_event() -> None:
    reader = cluster(log(events("postgresql", [1, 2, 1])), log(events("postgresql", [3])))
    result = analysis(reader).run([T])
    assert result.exit_code is ExitCode.FOUND
    document = result.to_json()
    check(document)
    assert document["totals"]["repeated"] == 1
    (first, _) = document["partitions"]
    assert first["first_repeated"]["first_offset"] == 0
    assert "lsn=1001" in first["first_repeated"]["identity"]


def test_an_incomplete_result_is_unknown() -> None:
    reader = cluster(log([*events("postgresql", [1, 1]), (b"1", b"x")]))
    assert analysis(reader).run([T]).exit_code is ExitCode.UNKNOWN
    reader = cluster(log(events("postgresql", [1, 2])))
    assert analysis(reader).run([T]).exit_code is ExitCode.DONE
    reader.log(TopicPartition(T, 0)).stable = 1
    result = analysis(reader).run([T])
    assert result.exit_code is ExitCode.UNKNOWN
    assert "open transaction" in result.not_compared[0].reason
    with pytest.raises(UsageError, match="topic 'other' does not exist"):
        analysis(reader).run(["other"])
