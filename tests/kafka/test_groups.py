"""Groups on a real cluster: read as they are, written only if they have no members."""

import time
from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition as KafkaPartition

from drctl.kafka.connection import Connection
from drctl.kafka.group_offsets import KafkaGroupWriter
from drctl.kafka.groups import KafkaGroupReader
from drctl.model.errors import Unreachable
from drctl.model.groups import Committed, Group, GroupActive, GroupProtocol, GroupState
from drctl.model.topology import TopicPartition, Unanswered, Unavailable
from tests.conftest import NewTopic
from tests.kafka.members import commit, member, share_member
from tests.kafka.tls_broker import free_ports
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = pytest.mark.jvm

EMPTY = GroupState.EMPTY
PROTOCOLS = {"classic": GroupProtocol.CLASSIC, "consumer": GroupProtocol.CONSUMER}


@pytest.fixture(scope="module")
def reader(secondary: ClusterUnderTest) -> Iterator[KafkaGroupReader]:
    with KafkaGroupReader(Connection("secondary", secondary.properties())) as opened:
        yield opened


@pytest.fixture(scope="module")
def writer(secondary: ClusterUnderTest) -> Iterator[KafkaGroupWriter]:
    with KafkaGroupWriter(Connection("secondary", secondary.properties())) as opened:
        yield opened


@pytest.fixture
def topic(new_topic: NewTopic) -> str:
    return new_topic(4, on=("secondary",))


@pytest.fixture
def name() -> str:
    return f"group-{uuid4().hex[:8]}"


def test_committed_offsets_are_read_back_unchanged(
    reader: KafkaGroupReader, writer: KafkaGroupWriter, topic: str, name: str
) -> None:
    wanted = {
        TopicPartition(topic, 0): Committed(5),
        TopicPartition(topic, 1): Committed(0, 0, "of a client"),
        TopicPartition(topic, 2): Committed(2**40, 7, "mätä" * 100),
        TopicPartition(topic, 3): Committed(9, -1, "a\x00b"),
    }
    assert writer.commit({name: wanted}) == {name: dict.fromkeys(wanted)}
    # The metadata must be exact: confluent-kafka reads past its end.
    for _ in range(20):
        assert reader.committed([name]) == {name: wanted}


def test_the_byte_that_confluent_kafka_adds_is_kept(
    reader: KafkaGroupReader,
    writer: KafkaGroupWriter,
    secondary: ClusterUnderTest,
    topic: str,
    name: str,
) -> None:
    commit(secondary.properties(), name, KafkaPartition(topic, 0, 5, "abc"))
    place = TopicPartition(topic, 0)
    found = reader.committed([name])[name]
    assert found == {place: Committed(5, -1, "abc\x00")}
    assert not isinstance(found, Unavailable)
    writer.commit({name: {place: Committed(6)}})
    writer.commit({name: found})
    assert reader.committed([name])[name] == found


def test_committed_offsets_are_deleted(
    reader: KafkaGroupReader, writer: KafkaGroupWriter, topic: str, name: str
) -> None:
    places = [TopicPartition(topic, number) for number in range(4)]
    writer.commit({name: dict.fromkeys(places, Committed(3))})
    assert writer.delete({name: places[:2]}) == {name: dict.fromkeys(places[:2])}
    assert reader.committed([name]) == {name: dict.fromkeys(places[2:], Committed(3))}
    assert writer.delete({name: places}) == {name: dict.fromkeys(places)}
    assert reader.committed([name]) == {name: {}}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_not_changed(
    reader: KafkaGroupReader,
    writer: KafkaGroupWriter,
    secondary: ClusterUnderTest,
    topic: str,
    name: str,
    protocol: str,
) -> None:
    place = TopicPartition(topic, 0)
    with member(secondary.properties(), name, topic, protocol) as consumer:
        consumer.commit(offsets=[KafkaPartition(topic, 0, 2)], asynchronous=False)
        found = reader.described([name])[name]
        assert isinstance(found, Group)
        assert (found.protocol, found.active) == (PROTOCOLS[protocol], True)
        assert len(found.members) == 1
        assert found.members[0].host == "/127.0.0.1"
        refused = writer.commit({name: {place: Committed(7)}})[name][place]
        assert isinstance(refused, GroupActive)
        assert isinstance(writer.delete({name: [place]})[name][place], GroupActive)
        assert reader.committed([name])[name] == {place: Committed(2)}
    found = reader.described([name])[name]
    assert found == Group(name, PROTOCOLS[protocol], EMPTY)
    assert writer.commit({name: {place: Committed(7)}}) == {name: {place: None}}
    assert reader.committed([name])[name] == {place: Committed(7)}
    assert writer.delete({name: [place]}) == {name: {place: None}}


def test_a_share_group_is_named_and_never_written(
    reader: KafkaGroupReader,
    writer: KafkaGroupWriter,
    secondary: ClusterUnderTest,
    topic: str,
    name: str,
) -> None:
    with share_member(secondary.properties(), name, topic):
        assert name in reader.groups()
        expected = Group(name, GroupProtocol.SHARE, GroupState.UNKNOWN)
        assert reader.described([name]) == {name: expected}
        assert expected.active
        assert reader.committed([name]) == {name: {}}
        place = TopicPartition(topic, 0)
        answer = writer.commit({name: {place: Committed(1)}})[name][place]
        assert isinstance(answer, Unavailable)
        assert "does not exist" in answer.reason


def test_an_unknown_group(reader: KafkaGroupReader, name: str) -> None:
    assert reader.described([name]) == {name: Group(name, GroupProtocol.UNKNOWN, GroupState.DEAD)}
    assert reader.committed([name]) == {name: {}}
    assert name not in reader.groups()
    assert reader.described([]) == reader.committed([]) == {}


def test_one_partition_of_several_that_does_not_exist(
    reader: KafkaGroupReader, writer: KafkaGroupWriter, topic: str, name: str
) -> None:
    there, not_there = TopicPartition(topic, 0), TopicPartition("no-such-topic", 0)
    answers = writer.commit({name: {there: Committed(1), not_there: Committed(1)}})[name]
    assert answers[there] is None
    refused = answers[not_there]
    assert isinstance(refused, Unavailable)
    assert not isinstance(refused, Unanswered)
    assert "Unknown topic or partition" in refused.reason
    assert reader.committed([name])[name] == {there: Committed(1)}


def test_a_user_who_may_not_see_the_group(
    writer: KafkaGroupWriter, secondary: ClusterUnderTest, topic: str, name: str
) -> None:
    place, hidden, own = TopicPartition(topic, 0), f"hidden-{name}", f"orders-app-{name}"
    writer.commit({each: {place: Committed(1)} for each in (hidden, own)})
    theirs = secondary.properties("orders-app")
    with (
        KafkaGroupReader(Connection("secondary", theirs)) as reader,
        KafkaGroupWriter(Connection("secondary", theirs)) as their_writer,
    ):
        described, committed = reader.described([hidden, own]), reader.committed([hidden, own])
        refusal = Unavailable(f"not authorized for group {hidden}")
        assert described == {hidden: refusal, own: Group(own, PROTOCOLS["classic"], EMPTY)}
        assert committed[hidden] == refusal
        assert hidden not in reader.groups()
        assert own in reader.groups()
        assert their_writer.commit({hidden: {place: Committed(2)}}) == {hidden: {place: refusal}}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_very_many_groups(
    reader: KafkaGroupReader,
    writer: KafkaGroupWriter,
    secondary: ClusterUnderTest,
    topic: str,
    name: str,
    protocol: str,
) -> None:
    """More groups than one timeout allows for, one of them with members."""
    names = [f"{name}-{number}" for number in range(600)]
    places = [TopicPartition(topic, number) for number in range(4)]
    wanted = {
        each: {place: Committed(number + place.partition) for place in places}
        for number, each in enumerate(names)
    }
    with member(secondary.properties(), names[300], topic, protocol):
        answers = writer.commit(wanted)
        busy = answers.pop(names[300])
        assert all(isinstance(answer, GroupActive) for answer in busy.values())
        assert {answer for of in answers.values() for answer in of.values()} == {None}
        found = reader.committed(names)
        assert found[names[300]] == {}
        assert {n: p for n, p in found.items() if p} == {n: wanted[n] for n in answers}
        described = reader.described([*names, "nobody"])
        assert [n for n, g in described.items() if isinstance(g, Group) and g.active] == [
            names[300]
        ]
        occupied = described[names[300]]
        assert isinstance(occupied, Group)
        assert (occupied.protocol, len(occupied.members)) == (PROTOCOLS[protocol], 1)
        assert list(described)[-1] == "nobody"
        assert set(names) <= set(reader.groups())


def test_many_groups_are_read_like_single_ones(
    reader: KafkaGroupReader,
    writer: KafkaGroupWriter,
    secondary: ClusterUnderTest,
    topic: str,
    name: str,
) -> None:
    wanted = {
        TopicPartition(topic, 0): Committed(5),
        TopicPartition(topic, 1): Committed(0, 0, "of a client"),
        TopicPartition(topic, 2): Committed(2**40, 7, "mätä" * 100),
        TopicPartition(topic, 3): Committed(9, -1, "a\x00b"),
    }
    names = [f"{name}-{number}" for number in range(30)]
    read_in, nobody, nowhere = names[0], f"{name}-nobody", TopicPartition(f"{topic}-no", 0)
    with member(secondary.properties(), read_in, topic, "consumer"):
        answers = writer.commit(
            {**dict.fromkeys(names, wanted), nobody: {nowhere: Committed(1), **wanted}}
        )
        assert all(isinstance(each, GroupActive) for each in answers.pop(read_in).values())
    assert isinstance(answers.pop(nobody)[nowhere], Unavailable)
    assert answers == dict.fromkeys(names[1:], dict.fromkeys(wanted))
    found = reader.committed([*names, f"{name}-none"])
    assert {each: found[each] for each in names[1:]} == dict.fromkeys(names[1:], wanted)
    assert found[f"{name}-none"] == {}
    assert {each: reader.committed([each])[each] for each in found} == found


def test_more_offsets_than_a_broker_accepts_in_one_commit(
    reader: KafkaGroupReader, writer: KafkaGroupWriter, new_topic: NewTopic, name: str
) -> None:
    topic = new_topic(400, on=("secondary",))
    wanted = {TopicPartition(topic, n): Committed(n, -1, "m" * 4000) for n in range(400)}
    assert writer.commit({name: wanted}) == {name: dict.fromkeys(wanted)}
    assert reader.committed([name]) == {name: wanted}


def test_a_cluster_that_is_down(name: str) -> None:
    began = time.monotonic()
    address = {"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}"}
    place = TopicPartition("t", 0)
    with KafkaGroupReader(Connection("gone", address, timeout_s=2)) as reader:
        for ask in (reader.groups, lambda: reader.described([name] * 2000)):
            with pytest.raises(Unreachable, match=r"cluster gone .*: .*Connection refused"):
                ask()
        with pytest.raises(Unreachable):
            reader.committed([name])
    with KafkaGroupWriter(Connection("gone", address, timeout_s=2)) as writer:
        many = {f"{name}-{number}": {place: Committed(1)} for number in range(1200)}
        answers = writer.commit(many)
        assert all(isinstance(answer[place], Unanswered) for answer in answers.values())
        assert len(answers) == 1200
    # After a silent cluster, further requests are not awaited.
    assert time.monotonic() - began < 20
