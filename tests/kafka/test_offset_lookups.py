"""Offsets of many partitions at once, from their leaders."""

import socket
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AclOperation

from drctl.kafka import offsets
from drctl.kafka.connection import Connection
from drctl.kafka.faults import not_described
from drctl.kafka.reader import KafkaClusterReader
from drctl.model.errors import Unreachable
from drctl.model.topology import Found, Mark, PartitionOffsets, TopicPartition, Unavailable
from tests.kafka.conftest import Bench
from tests.kafka.tls_broker import free_ports
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = pytest.mark.jvm

NOON = 1_700_000_000_000


@pytest.fixture(scope="module")
def bench(primary: ClusterUnderTest) -> Iterator[Bench]:
    opened = Bench(primary.properties())
    yield opened
    opened.clean_up()


@pytest.fixture(params=["own", "librdkafka"])
def reader(
    primary: ClusterUnderTest, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KafkaClusterReader]:
    """A reader over either kind of connection."""
    if request.param == "librdkafka":
        monkeypatch.setattr(offsets, "_security", lambda _connection: None)
    with KafkaClusterReader(Connection("primary", primary.properties())) as opened:
        yield opened


def found_by(
    reader: KafkaClusterReader, asked: Sequence[tuple[TopicPartition, int]]
) -> list[Found | Unavailable]:
    """The answers without leader epochs, which depend on the elections of a test cluster."""
    answers = reader.look_up(asked)()
    return [a._replace(leader_epoch=-1) if isinstance(a, Found) else a for a in answers]


def test_offsets_by_mark_and_timestamp_of_one_partition_at_once(
    reader: KafkaClusterReader, bench: Bench
) -> None:
    name = bench.create(2)
    late = (0, 1, 5, 3, 9)
    bench.produce(name, *({"value": b"v", "timestamp": NOON + at} for at in late))
    place, empty = TopicPartition(name, 0), TopicPartition(name, 1)
    for future in bench.admin.delete_records([KafkaPartition(name, 0, 1)]).values():
        future.result()
    whens = (Mark.START, Mark.END, Mark.STABLE, Mark.NEWEST, 0, NOON + 2, NOON + 6, NOON + 10)
    assert found_by(reader, [(place, when) for when in whens]) == [
        Found(1, -1),
        Found(5, -1),
        Found(5, -1),
        Found(4, NOON + 9),
        Found(1, NOON + 1),
        Found(2, NOON + 5),
        Found(4, NOON + 9),
        Found(-1, -1),
    ]
    found = found_by(reader, [(empty, when) for when in whens])
    assert found == [Found(0, -1)] * 3 + [Found(-1, -1)] * 5


def test_the_end_comes_with_the_leader_epoch(bench: Bench, primary: ClusterUnderTest) -> None:
    name = bench.create(1)
    bench.produce(name, {"value": b"v"})
    place = TopicPartition(name, 0)
    with KafkaClusterReader(Connection("primary", primary.properties())) as reader:
        (found,) = reader.look_up([(place, int(Mark.END))])()
        log = reader.offsets([place])[place]
    assert isinstance(log, PartitionOffsets)
    assert found == Found(1, -1, log.leader_epoch)
    assert log.leader_epoch >= 0


def test_more_partitions_than_one_request_takes_keep_their_order(
    reader: KafkaClusterReader, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "_CHUNK", 7)
    monkeypatch.setattr(offsets, "_OWN_CHUNK", 7)
    names = [bench.create(10) for _ in range(3)]
    places = [TopicPartition(name, n) for n in range(10) for name in names]
    for place in places[::4]:
        bench.produce(place.topic, {"value": b"v"}, partition=place.partition)
    asked = [(place, int(Mark.END)) for place in places]
    sent = reader.look_up(asked), reader.look_up(asked[::-1])
    expected = [Found(int(n % 4 == 0), -1) for n in range(len(places))]
    assert [each[:2] for each in sent[1]()] == [each[:2] for each in expected[::-1]]  # type: ignore[index]
    assert [each[:2] for each in sent[0]()] == [each[:2] for each in expected]  # type: ignore[index]
    assert [o.end for o in reader.offsets(places).values() if isinstance(o, PartitionOffsets)] == [
        end.offset for end in expected
    ]


def test_many_timestamps_are_requested_in_batches(
    reader: KafkaClusterReader, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "_PORTION", 7)
    monkeypatch.setattr(offsets, "_CHUNK", 2)
    monkeypatch.setattr(offsets, "_OWN_CHUNK", 2)
    name = bench.create(3)
    for partition in range(3):
        many = ({"value": b"v", "timestamp": NOON + at} for at in range(partition, 9, 3))
        bench.produce(name, *many, partition=partition)
    asked = [(TopicPartition(name, n), NOON + at) for at in range(9) for n in (0, 0, 1, 2)]
    found = found_by(reader, asked)
    for (place, at), answer in zip(asked, found, strict=True):
        later = next((t for t in range(at, NOON + 9) if (t - NOON) % 3 == place.partition), None)
        offset = -1 if later is None else (later - NOON) // 3
        assert answer == Found(offset, -1 if later is None else later)


def test_an_unreachable_part_does_not_fail_the_rest(
    primary: ClusterUnderTest, bench: Bench
) -> None:
    allowed, hidden = bench.create(), bench.create()
    bench.allow("orders-app", allowed, AclOperation.DESCRIBE)
    bench.produce(allowed, {"value": b"v"})
    with KafkaClusterReader(
        Connection("primary", primary.properties("orders-app"), timeout_s=3)
    ) as reader:
        assert hidden not in reader.overview().partitions
        places = (TopicPartition(allowed, 0), TopicPartition(allowed, 9), TopicPartition(hidden, 0))
        found = found_by(reader, [(place, int(Mark.END)) for place in places])
    assert found[0] == Found(1, -1)
    assert found[1] == Unavailable(f"partition {allowed}-9 does not exist")
    assert isinstance(found[2], Unavailable)


def test_an_overview_has_all_partitions(
    reader: KafkaClusterReader, bench: Bench, primary: ClusterUnderTest
) -> None:
    name = bench.create(3)
    seen = reader.overview()
    assert seen.partitions[name] == (0, 1, 2)
    assert seen.cluster_id == reader.cluster_id()


def test_configurations_of_a_user_who_may_not_read_them_all(
    primary: ClusterUnderTest, bench: Bench
) -> None:
    open_name, dark = bench.create(config={"cleanup.policy": "compact"}), bench.create()
    bench.allow("orders-app", open_name, AclOperation.DESCRIBE_CONFIGS)
    bench.allow("orders-app", dark, AclOperation.READ)
    with KafkaClusterReader(Connection("primary", primary.properties("orders-app"))) as reader:
        reader.overview()
        found = reader.configurations([open_name, dark])
    readable = found[open_name]
    assert not isinstance(readable, Unavailable)
    assert readable["cleanup.policy"] == "compact"
    assert found[dark] == Unavailable(not_described(dark))


def test_a_lost_connection_is_reopened(primary: ClusterUnderTest, bench: Bench) -> None:
    """As after a pause longer than a broker keeps idle connections."""
    asked = [(TopicPartition(bench.create(), 0), int(Mark.END))]
    with KafkaClusterReader(Connection("primary", primary.properties())) as reader:
        assert found_by(reader, asked) == [Found(0, -1)]
        (leader,) = reader._connection.part(offsets.LookUps)._leaders.values()
        assert leader._socket is not None
        assert leader._socket._socket is not None
        leader._socket._socket.shutdown(socket.SHUT_RDWR)
        assert found_by(reader, asked) == [Found(0, -1)]
        assert not leader.unsupported


def test_a_broker_that_is_too_old_is_asked_by_librdkafka(
    primary: ClusterUnderTest, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "LIST_OFFSETS", offsets.LIST_OFFSETS._replace(version=99))
    asked = [(TopicPartition(bench.create(), 0), int(Mark.END))]
    with KafkaClusterReader(Connection("primary", primary.properties())) as reader:
        assert found_by(reader, asked) == [Found(0, -1)]
        (leader,) = reader._connection.part(offsets.LookUps)._leaders.values()
        assert "does not support ListOffsets" in leader.unsupported


def test_no_broker_answers() -> None:
    nowhere = {"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}
    with (
        KafkaClusterReader(Connection("primary", nowhere, timeout_s=1)) as reader,
        pytest.raises(Unreachable, match="cluster primary"),
    ):
        reader.look_up([(TopicPartition("orders", 0), int(Mark.END))])
