"""Clients that move from one cluster to the other without a restart, and what must come first."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import NewTopic

from drctl.kafka import open_transactions
from drctl.kafka.acls import KafkaAclReader, KafkaAclWriter
from drctl.kafka.connection import Connection
from drctl.kafka.group_offsets import KafkaGroupWriter
from drctl.kafka.groups import KafkaGroupReader
from drctl.kafka.health import KafkaHealthReader
from drctl.kafka.open_transactions import KafkaTransactionWriter
from drctl.kafka.producer_ids import BLOCK, KafkaProducerIdReader, KafkaProducerIdWriter
from drctl.lab.waiting import Patience
from drctl.model.fencing import Denied, Topics, denials
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState
from drctl.model.health import BlockingTransaction
from drctl.model.producer_ids import Advanced, collisions, highest
from drctl.model.repairs import Acl, Acls
from drctl.model.topology import TopicPartition, Unavailable
from tests.kafka.hanging import hang
from tests.kafka.moving import QUIET, MovingAddress, SmallCluster

pytestmark = pytest.mark.jvm

IDS = ("5L6g3nShT-eMCtK--X86sA", "5L6g3nShT-eMCtK--X86sB")
# Number of batches per producer that a partition remembers.
REMEMBERED = 5
QUICK = {
    "reconnect.backoff.ms": "20",
    "reconnect.backoff.max.ms": "200",
    "topic.metadata.refresh.interval.ms": "1000",
}


class Pair(NamedTuple):
    """Two clusters and the clients' address."""

    source: SmallCluster
    target: SmallCluster
    address: MovingAddress

    def client(self, **settings: str) -> dict[str, str]:
        """The properties of a client that follows the address."""
        given = {name.replace("__", "."): value for name, value in settings.items()}
        return {"bootstrap.servers": f"127.0.0.1:{self.address.port}", **QUICK, **given}

    def topic(self) -> TopicPartition:
        """A new topic with one partition on both clusters; clients are on the source."""
        self.address.point(self.source.behind)
        name = f"test-{uuid4().hex[:8]}"
        for cluster in (self.source, self.target):
            admin = cluster.admin()
            for future in admin.create_topics([NewTopic(name, 1)], operation_timeout=20).values():
                future.result()
        return TopicPartition(name, 0)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    root = tmp_path_factory.mktemp("moving")
    address = MovingAddress()
    clusters = [SmallCluster(root / id_[-1], id_, address) for id_ in IDS]
    try:
        for cluster in clusters:
            cluster.start()
        for cluster in clusters:
            cluster.wait()
        yield Pair(clusters[0], clusters[1], address)
    finally:
        for cluster in clusters:
            cluster.close()
        address.close()


def idempotent(properties: Mapping[str, str]) -> Producer:
    settings = {"enable.idempotence": "true", "linger.ms": "0"}
    return Producer({**properties, **settings}, logger=QUIET)


def write(producer: Producer, place: TopicPartition, count: int) -> list[int]:
    """Write records, one per batch; return the acknowledged offsets."""
    offsets: list[int] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offsets.append(message.offset() or 0)

    for _ in range(count):
        producer.produce(place.topic, b"v", partition=place.partition, on_delivery=delivered)
        assert producer.flush(30) == 0
    return offsets


def end(cluster: SmallCluster, place: TopicPartition) -> int:
    from confluent_kafka.admin import OffsetSpec

    admin = cluster.admin()
    (asked,) = admin.list_offsets({Partition(*place): OffsetSpec.latest()}).values()
    return int(asked.result().offset)


def only_id(cluster: SmallCluster, place: TopicPartition) -> int:
    """The id of the only producer that wrote there."""
    with KafkaProducerIdReader(Connection("any", cluster.properties)) as reader:
        known = reader.in_use([place])[place]
    assert not isinstance(known, Unavailable)
    (producer,) = known
    assert producer.epoch == 0
    return producer.producer_id


def colliding(pair: Pair) -> tuple[TopicPartition, Producer]:
    """A producer on the source; its id belongs to another producer on the target."""
    place = pair.topic()
    with (
        KafkaProducerIdReader(Connection("primary", pair.source.properties)) as source,
        KafkaProducerIdReader(Connection("secondary", pair.target.properties)) as target,
        KafkaProducerIdWriter(Connection("primary", pair.source.properties)) as ours,
        KafkaProducerIdWriter(Connection("secondary", pair.target.properties)) as theirs,
    ):
        # Both clusters allocate the same id next, like two clusters of the same age.
        level = max(*source.next_ids().values(), *target.next_ids().values())  # type: ignore[type-var]
        assert isinstance(level, int)
        for each in (ours, theirs):
            (advanced,) = each.advance(level + 1).values()
            assert isinstance(advanced, Advanced)
            assert advanced.last == level + 2
    moving = idempotent(pair.client())
    write(moving, place, 15)
    return place, moving


def test_colliding_producer_ids_lose_acknowledged_records(pair: Pair) -> None:
    place, moving = colliding(pair)
    write(idempotent(pair.target.properties), place, 15 + REMEMBERED)
    assert only_id(pair.source, place) == only_id(pair.target, place)
    with (
        KafkaProducerIdReader(Connection("primary", pair.source.properties)) as source,
        KafkaProducerIdReader(Connection("secondary", pair.target.properties)) as target,
    ):
        here, there = source.in_use([place]), target.in_use([place])
    (met,) = collisions(here, there, lambda topic: topic)
    assert met.silent
    assert (met.ours.sequence, met.theirs.sequence) == (14, 14 + REMEMBERED)

    pair.address.point(pair.target.behind)
    before = end(pair.target, place)
    acknowledged = write(moving, place, REMEMBERED)
    assert len(acknowledged) == REMEMBERED
    assert end(pair.target, place) == before, "a colliding record was stored"


def test_advanced_producer_ids_lose_no_acknowledged_record(pair: Pair) -> None:
    place, moving = colliding(pair)
    with (
        KafkaProducerIdReader(Connection("primary", pair.source.properties)) as source,
        KafkaProducerIdReader(Connection("secondary", pair.target.properties)) as target,
        KafkaProducerIdWriter(Connection("secondary", pair.target.properties)) as writer,
    ):
        beyond = highest(source.in_use([place]))
        (advanced,) = writer.advance(beyond).values()
        assert isinstance(advanced, Advanced)
        assert advanced.done
        write(idempotent(pair.target.properties), place, 15 + REMEMBERED)
        assert collisions(source.in_use([place]), target.in_use([place]), lambda t: t) == ()
    assert only_id(pair.target, place) > beyond

    pair.address.point(pair.target.behind)
    before = end(pair.target, place)
    acknowledged = write(moving, place, REMEMBERED)
    assert acknowledged == list(range(before, before + REMEMBERED))
    assert end(pair.target, place) == before + REMEMBERED, "not every record was stored"


def test_producer_ids_advance_by_blocks_and_no_further(pair: Pair) -> None:
    with (
        KafkaProducerIdReader(Connection("secondary", pair.target.properties)) as reader,
        KafkaProducerIdWriter(Connection("secondary", pair.target.properties)) as writer,
    ):
        (now,) = reader.next_ids().values()
        assert isinstance(now, int)
        beyond = now + 2 * BLOCK + 17
        (advanced,) = writer.advance(beyond).values()
        assert isinstance(advanced, Advanced)
        assert advanced.done
        assert advanced.first == now + 1
        assert beyond < advanced.last <= beyond + BLOCK
        (again,) = writer.advance(beyond).values()
        assert isinstance(again, Advanced)
        assert (again.done, again.spent) == (True, 1), "the second call did not use exactly one id"
        (after,) = reader.next_ids().values()
        assert after == again.last + 1


def test_distant_producer_ids_are_reached_in_several_calls(pair: Pair) -> None:
    with KafkaProducerIdWriter(
        Connection("secondary", pair.target.properties, timeout_s=1.5)
    ) as writer:
        (first,) = writer.advance(10**9).values()
        (second,) = writer.advance(10**9).values()
    assert isinstance(first, Advanced)
    assert isinstance(second, Advanced)
    assert not first.done
    assert first.spent > 1
    assert second.first > first.last


def test_missing_partitions_have_no_producers(pair: Pair) -> None:
    place, absent = pair.topic(), TopicPartition("no-such-topic", 0)
    with KafkaProducerIdReader(Connection("primary", pair.source.properties)) as reader:
        found = reader.in_use([place, absent])
    assert found[place] == ()
    assert isinstance(found[absent], Unavailable)
    assert "does not exist" in found[absent].reason


_ENDED = (KafkaError._FATAL, KafkaError.GROUP_ID_NOT_FOUND)


class Member:
    """A member of a KIP-848 group at the moving address; it joins when created."""

    def __init__(self, pair: Pair, group: str, place: TopicPartition) -> None:
        self._errors: list[KafkaError] = []
        settings = {
            "group.id": group,
            "group.protocol": "consumer",
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "error_cb": self._errors.append,
        }
        self._consumer = Consumer({**pair.client(), **settings}, logger=QUIET)
        self._consumer.subscribe([place.topic])
        assert Patience.of(30).wait_until(lambda: self._consumer.poll(0.05) is not None)

    def fate(self, wanted: bytes) -> str:
        """Its fate: it reads this record, or fails permanently."""
        outcome: list[str] = []

        def ended() -> bool:
            message = self._consumer.poll(0.1)
            error = message.error() if message is not None else None
            if error is not None and error.code() in _ENDED:
                outcome.append(error.str())
            elif message is not None and message.value() == wanted:
                outcome.append("reads")
            outcome.extend(error.str() for error in self._errors if error.code() in _ENDED)
            return bool(outcome)

        assert Patience.of(60).wait_until(ended), self._errors
        return outcome[0]

    def close(self) -> None:
        self._consumer.close()


def test_a_member_survives_only_if_its_group_was_prepared(pair: Pair) -> None:
    place = pair.topic()
    ready, unready = (f"group-{uuid4().hex[:8]}" for _ in range(2))
    write(idempotent(pair.source.properties), place, 3)
    copies = Producer(pair.target.properties, logger=QUIET)
    for value in (b"0", b"1", b"2", b"3"):
        copies.produce(place.topic, value, partition=0)
    assert copies.flush(30) == 0
    with (
        KafkaGroupWriter(Connection("secondary", pair.target.properties)) as creator,
        KafkaGroupReader(Connection("secondary", pair.target.properties)) as groups,
        KafkaGroupWriter(Connection("secondary", pair.target.properties)) as offsets,
    ):
        for _ in range(2):
            assert creator.create([ready]) == {ready: None}
            assert groups.described([ready]) == {
                ready: Group(ready, GroupProtocol.CONSUMER, GroupState.EMPTY)
            }
        wanted = {place: Committed(2)}
        offsets.commit({ready: wanted, unready: wanted})
        assert groups.committed([ready, unready]) == {ready: wanted, unready: wanted}
        members = {name: Member(pair, name, place) for name in (ready, unready)}
        try:
            pair.address.point(pair.target.behind)
            assert members[ready].fate(b"2") == "reads"
            assert "group id does not exist" in members[unready].fate(b"2")
        finally:
            for member in members.values():
                member.close()


def test_earlier_committed_offsets_stay_when_a_group_is_created(pair: Pair) -> None:
    place, name = pair.topic(), f"group-{uuid4().hex[:8]}"
    wanted = {place: Committed(1, 0, "kept")}
    with (
        KafkaGroupWriter(Connection("secondary", pair.target.properties)) as creator,
        KafkaGroupReader(Connection("secondary", pair.target.properties)) as groups,
        KafkaGroupWriter(Connection("secondary", pair.target.properties)) as offsets,
    ):
        offsets.commit({name: wanted})
        assert creator.create([name]) == {name: None}
        assert groups.described([name])[name] == Group(
            name, GroupProtocol.CONSUMER, GroupState.EMPTY
        )
        assert groups.committed([name]) == {name: wanted}


def test_many_groups(pair: Pair) -> None:
    names = [f"many-{uuid4().hex[:8]}-{number}" for number in range(200)]
    with (
        KafkaGroupWriter(Connection("secondary", pair.target.properties, timeout_s=30)) as creator,
        KafkaGroupReader(Connection("secondary", pair.target.properties)) as groups,
    ):
        assert creator.create(names) == dict.fromkeys(names)
        kinds = {group.protocol for group in groups.described(names).values()}  # type: ignore[union-attr]
    assert kinds == {GroupProtocol.CONSUMER}


def test_an_empty_name_is_refused_and_no_other(pair: Pair) -> None:
    name = f"group-{uuid4().hex[:8]}"
    with KafkaGroupWriter(Connection("secondary", pair.target.properties)) as creator:
        found = creator.create([name, ""])
    assert found[name] is None
    assert isinstance(found[""], Unavailable)


def test_a_cluster_without_authorizer(pair: Pair) -> None:
    rules = denials(["User:app"], [Topics("orders")], [Denied.WRITE])
    properties = pair.source.properties
    with (
        KafkaAclReader(Connection("primary", properties)) as reader,
        KafkaAclWriter(Connection("primary", properties)) as writer,
    ):
        assert reader.acls() == Acls(enforced=False)
        assert not reader.enforcement(rules, []).proven
        answers: Mapping[Acl, Unavailable | None] = writer.deny(rules)
    (answer,) = answers.values()
    assert answer == Unavailable("no authorizer is configured: ACLs are not enforced")


def test_open_transactions_are_listed(pair: Pair) -> None:
    place, name = pair.topic(), f"open-{uuid4().hex[:8]}"
    producer = Producer({**pair.source.properties, "transactional.id": name}, logger=QUIET)
    producer.init_transactions(30)
    with KafkaHealthReader(Connection("primary", pair.source.properties)) as reader:
        assert reader.open_transactions([place]) == {}
        producer.begin_transaction()
        producer.produce(place.topic, b"v", partition=0)
        assert producer.flush(30) == 0
        (found,) = reader.open_transactions([place])[place]  # type: ignore[misc]
        assert (found.since, found.transactional_id, found.state) == (0, name, "Ongoing")
        assert found.hanging is False
        producer.abort_transaction(30)
        assert Patience.of(20).wait_until(lambda: reader.open_transactions([place]) == {})


def test_a_transaction_that_began_after_its_coordinator_was_asked_does_not_hang(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, ask = pair.topic(), open_transactions._known
    name = f"next-{uuid4().hex[:8]}"
    producer = Producer({**pair.source.properties, "transactional.id": name}, logger=QUIET)
    producer.init_transactions(30)
    producer.begin_transaction()
    write(producer, place, 1)

    def asked_between_two(*arguments: Any) -> object:
        producer.commit_transaction(30)
        states = lambda: {each.state for each in ask(*arguments).by_producer.values()}  # noqa: E731
        assert Patience.of(20).wait_until(lambda: states() == {"CompleteCommit"})
        answer = ask(*arguments)
        producer.begin_transaction()
        write(producer, place, 1)
        return answer

    monkeypatch.setattr(open_transactions, "_known", asked_between_two)
    with KafkaHealthReader(Connection("primary", pair.source.properties)) as reader:
        (found,) = blocking(reader, place)
    assert (found.since, found.hanging) == (2, False)
    producer.abort_transaction(30)


def test_a_transaction_of_a_producer_that_moved_hangs(pair: Pair) -> None:
    place, name = pair.topic(), f"moved-{uuid4().hex[:8]}"
    producer = Producer(pair.client(transactional__id=name), logger=QUIET)
    producer.init_transactions(30)
    producer.begin_transaction()
    write(producer, place, 1)
    pair.address.point(pair.target.behind)
    write(producer, place, 1)
    with KafkaHealthReader(Connection("secondary", pair.target.properties)) as reader:
        (found,) = reader.open_transactions([place])[place]  # type: ignore[misc]
    assert (found.since, found.transactional_id, found.state) == (0, "", "")
    assert found.hanging is True


def blocking(reader: KafkaHealthReader, *places: TopicPartition) -> list[BlockingTransaction]:
    """The open transactions of these partitions."""
    found = reader.open_transactions(places)
    return [BlockingTransaction.at(p, each) for p, there in found.items() for each in there]  # type: ignore[union-attr]


def test_hanging_transactions_are_aborted_and_no_other(pair: Pair) -> None:
    place, now_ms = pair.topic(), int(time.time() * 1000)
    for number in (8001, 8002):
        values = [b"%d" % number]
        hang(pair.source.properties, place, now_ms, producer_id=number, values=values)
    other = Producer({**pair.source.properties, "transactional.id": f"x-{uuid4()}"}, logger=QUIET)
    other.init_transactions(30)
    other.begin_transaction()
    write(other, place, 1)
    connection = Connection("primary", pair.source.properties)
    with KafkaHealthReader(connection) as reader, KafkaTransactionWriter(connection) as writer:
        first, second, young = blocking(reader, place)
        assert [each.hanging for each in (first, second, young)] == [True, True, False]
        assert (first.producer_id, first.since, second.since) == (8001, 0, 1)
        another = replace(second, since=77)
        wrote = replace(second, timestamp_ms=5)
        answers = writer.abort([first, another, wrote])
        assert answers[first] is None
        assert answers[another] is None
        assert "wrote again" in str(answers[wrote])
        assert blocking(reader, place) == [second, young]
        assert writer.abort([first, second]) == {first: None, second: None}
        assert blocking(reader, place) == [young]
    other.commit_transaction(30)
    reading = Consumer({**pair.source.properties, "group.id": f"g-{uuid4()}"}, logger=QUIET)
    reading.assign([Partition(*place, 0)])
    assert [each.value() for each in reading.consume(1, 20)] == [b"v"], "an aborted record was read"
    reading.close()


def test_a_transaction_of_a_silent_producer_is_aborted_by_its_coordinator(pair: Pair) -> None:
    places, name = (pair.topic(), pair.topic()), f"silent-{uuid4().hex[:8]}"
    settings = {"transactional.id": name}
    producer = Producer({**pair.source.properties, **settings}, logger=QUIET)
    producer.init_transactions(30)
    producer.begin_transaction()
    for place in places:
        write(producer, place, 2)
    connection = Connection("primary", pair.source.properties)
    with KafkaHealthReader(connection) as reader, KafkaTransactionWriter(connection) as writer:
        found = blocking(reader, *places)
        assert [(each.transactional_id, each.hanging) for each in found] == [(name, False)] * 2
        another = replace(found[0], epoch=found[0].epoch + 1)
        assert writer.abort([another]) == {another: None}
        assert blocking(reader, *places) == found, "a transaction of another epoch was aborted"
        assert writer.abort(found) == dict.fromkeys(found)
        assert Patience.of(20).wait_until(lambda: blocking(reader, *places) == [])
    with pytest.raises(KafkaException, match=r"(?i)fenced"):
        producer.commit_transaction(30)
