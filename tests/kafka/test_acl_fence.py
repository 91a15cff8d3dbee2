"""ACL fences on real brokers: who is denied, what is unchanged, what each broker reports."""

import logging
from collections.abc import Iterator, Mapping
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AclOperation, ResourceType

from drctl.kafka.acls import KafkaAclReader, KafkaAclWriter, SharedRules
from drctl.kafka.connection import Connection
from drctl.kafka.fence_proof import KafkaFenceProver
from drctl.kafka.groups import KafkaGroupReader
from drctl.lab.waiting import Patience
from drctl.model.fencing import (
    LITERAL,
    PREFIXED,
    Denied,
    Topics,
    denials,
    group_denial,
    sign,
    to_add,
)
from drctl.model.groups import Group
from drctl.model.repairs import Acl, Acls
from drctl.model.topology import TopicPartition, Unanswered, Unavailable
from tests.kafka.conftest import Bench
from tests.kafka.members import member
from tests.kafka.rights import Rights
from tests.kafka.tls_broker import TlsCluster

pytestmark = pytest.mark.jvm

QUIET = logging.getLogger("tests.kafka")
DO = AclOperation
FORBIDDEN = KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
def reader(cluster: TlsCluster) -> Iterator[KafkaAclReader]:
    with KafkaAclReader(Connection("primary", cluster.properties())) as opened:
        yield opened


@pytest.fixture
def writer(cluster: TlsCluster) -> Iterator[KafkaAclWriter]:
    with KafkaAclWriter(Connection("primary", cluster.properties())) as opened:
        yield opened


@pytest.fixture
def prover(cluster: TlsCluster) -> Iterator[KafkaFenceProver]:
    with KafkaFenceProver(Connection("primary", cluster.properties()), stabilize_s=0.3) as opened:
        yield opened


@pytest.fixture
def name(bench: Bench, bob: Rights) -> str:
    """A topic with a partition on each broker; bob may read and write it."""
    made = bench.create(2, replicas=[[1], [2]])
    bob.grant(ResourceType.TOPIC, made, DO.WRITE, DO.READ, DO.DESCRIBE)
    return made


def rules_of(reader: KafkaAclReader) -> tuple[Acl, ...]:
    found = reader.acls()
    assert isinstance(found, Acls)
    assert found.enforced
    return found.rules


def settled(reader: KafkaAclReader, writer: KafkaAclWriter) -> tuple[Acl, ...]:
    """All rules, once every broker has applied what fixtures granted and withdrew.

    Brokers apply changes in order: each that has seen a later rule has seen these.
    """
    later = [Acl(f"later-{uuid4().hex}", LITERAL, "User:nobody", "*", "READ", "DENY")]
    assert writer.deny(later) == dict.fromkeys(later)
    assert reader.enforcement(later, []).proven
    assert writer.restore(later) == dict.fromkeys(later)
    assert reader.lifted(later, []).proven
    return rules_of(reader)


def delivery(properties: Mapping[str, str], bench: Bench, topic: str, partition: int) -> int:
    """The error code of a record's delivery; 0 for success."""
    codes: list[int] = []
    producer = bench.producer(**properties)

    def delivered(error: KafkaError | None, _message: object) -> None:
        codes.append(error.code() if error else 0)

    try:
        producer.produce(topic, b"v", partition=partition, on_delivery=delivered)
    except KafkaException as refused:
        return refused.args[0].code()
    assert producer.flush(20) == 0
    return codes[0]


def allowed(properties: Mapping[str, str], bench: Bench, topic: str) -> bool:
    """Whether a record is accepted once the brokers have applied the ACLs."""
    return Patience.of(20).wait_until(lambda: delivery(properties, bench, topic, 0) == 0)


def test_a_fence_denies_only_named_principals_and_leaves_no_acl_once_lifted(
    cluster: TlsCluster,
    bench: Bench,
    reader: KafkaAclReader,
    writer: KafkaAclWriter,
    prover: KafkaFenceProver,
    name: str,
) -> None:
    bob, others = cluster.properties("bob"), cluster.properties()
    assert allowed(bob, bench, name), "the user may not write before the fence"
    before = settled(reader, writer)
    wanted = denials(["User:bob"], [Topics(name)], [Denied.WRITE])
    added = to_add(wanted, Acls(enforced=True, rules=before))
    assert added == wanted

    assert writer.deny(added) == dict.fromkeys(added)
    proof = prover.prove(wanted, [name])
    assert proof.unproven == ()
    assert proof.proven
    assert proof.enforcement.brokers == {1: None, 2: None}
    assert proof.enforcement.looks >= 2
    assert proof.no_writes.ends == {TopicPartition(name, 0): 1, TopicPartition(name, 1): 0}
    for partition in (0, 1):
        assert delivery(bob, bench, name, partition) == FORBIDDEN
        assert delivery(others, bench, name, partition) == 0
    assert set(rules_of(reader)) == {*before, *added}

    assert writer.deny(added) == dict.fromkeys(added), "the second call is not without effect"
    assert set(rules_of(reader)) == {*before, *added}
    for _ in range(2):
        assert writer.restore(added) == dict.fromkeys(added)
        assert reader.lifted(added, [name]).proven
        assert rules_of(reader) == before
    assert allowed(bob, bench, name)


def test_existing_acls_remain_after_a_fence_is_lifted(
    reader: KafkaAclReader, writer: KafkaAclWriter, name: str
) -> None:
    host = Acl(name, LITERAL, "User:bob", "10.0.0.1", "WRITE", "DENY")
    reading = Acl(name, LITERAL, "User:bob", "*", "READ", "DENY")
    wanted = denials(["User:bob", "User:carol"], [Topics(name)], Denied)
    site = (host, reading)
    assert writer.deny(site) == dict.fromkeys(site)
    try:
        before = settled(reader, writer)
        added = to_add(wanted, Acls(enforced=True, rules=before))
        assert set(added) == set(wanted) - {reading}
        writer.deny(added)
        assert reader.enforcement(wanted, [name]).proven
        writer.restore(added)
        assert reader.lifted(added, [name]).proven
        assert rules_of(reader) == before
    finally:
        writer.restore(site)


def test_a_fence_of_a_topic_prefix_and_of_all_topics(
    cluster: TlsCluster, bench: Bench, reader: KafkaAclReader, writer: KafkaAclWriter, name: str
) -> None:
    bob = cluster.properties("bob")
    for topics in (Topics(name[:9], PREFIXED), Topics("*")):
        rules = denials(["User:bob"], [topics], [Denied.WRITE])
        assert writer.deny(rules) == dict.fromkeys(rules)
        try:
            assert reader.enforcement(rules, [name]).proven
            assert delivery(bob, bench, name, 0) == FORBIDDEN
        finally:
            writer.restore(rules)
        assert reader.lifted(rules, [name]).proven
        assert allowed(bob, bench, name)


def test_many_rules(reader: KafkaAclReader, writer: KafkaAclWriter) -> None:
    prefix = f"many-{uuid4().hex[:8]}"
    topics = [Topics(f"{prefix}-{number}") for number in range(300)]
    rules = denials(["User:bob", "User:carol"], topics, [Denied.WRITE])
    before = settled(reader, writer)
    try:
        assert writer.deny(rules) == dict.fromkeys(rules)
        enforcement = reader.enforcement(rules, [])
        assert enforcement.proven
        assert enforcement.rules == 600
    finally:
        assert writer.restore(rules) == dict.fromkeys(rules)
    assert reader.lifted(rules, []).proven
    assert rules_of(reader) == before


def test_missing_rules_are_reported_by_every_broker(cluster: TlsCluster) -> None:
    rules = denials(["User:bob"], [Topics("nobodys")], [Denied.WRITE])
    with KafkaAclReader(Connection("primary", cluster.properties(), timeout_s=1)) as impatient:
        enforcement = impatient.enforcement(rules, [])
    assert not enforcement.proven
    assert enforcement.looks > 4, "it did not poll until its deadline"
    for broker, doubt in zip((1, 2), enforcement.unproven, strict=True):
        assert doubt.startswith(
            f"not proven on broker {broker}: ACLs not applied yet: 1 of 1, for example"
            " DENY WRITE on nobodys to User:bob"
        )


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_proof_over_tls(cluster: TlsCluster, bench: Bench, mechanism: str) -> None:
    # Only node 1 has this listener, so nothing can be proven for partitions of node 2.
    properties = cluster.tls_properties("admin", mechanism)
    here, elsewhere = bench.create(replicas=[[1]]), bench.create(replicas=[[2]])
    with KafkaFenceProver(
        Connection("primary", properties, timeout_s=4), stabilize_s=0.2
    ) as prover:
        proof = prover.prove([], [here])
        assert (proof.proven, proof.enforcement.brokers) == (True, {1: None})
        assert proof.no_writes.unchecked is None
        assert "not proven on broker 2" in prover.prove([], [elsewhere]).unproven[0]


def test_proof_with_a_certificate(cluster: TlsCluster, bench: Bench) -> None:
    properties = cluster.mtls_properties()
    with KafkaFenceProver(Connection("primary", properties), stabilize_s=0.2) as prover:
        proof = prover.prove([], [bench.create(replicas=[[1]])])
    assert proof.proven
    assert proof.no_writes.unchecked is None


def test_without_permission_the_error_names_the_grant(
    cluster: TlsCluster, bob: Rights, name: str
) -> None:
    rules = denials(["User:carol"], [Topics(name)], [Denied.WRITE])
    with KafkaAclReader(Connection("primary", cluster.properties("bob"))) as blind:
        seen = blind.acls()
        assert isinstance(seen, Unavailable)
        assert "grant it DESCRIBE on the cluster" in seen.reason
        enforcement = blind.enforcement(rules, [name])
        assert enforcement.looks == 2, "a missing permission was polled for"
        assert all("grant it DESCRIBE on the cluster" in doubt for doubt in enforcement.unproven)
        assert not enforcement.proven
    with KafkaAclWriter(Connection("primary", cluster.properties("bob"))) as powerless:
        for change in (powerless.deny, powerless.restore):
            (answer,) = change(rules).values()
            assert isinstance(answer, Unavailable)
            assert not isinstance(answer, Unanswered)
            assert "grant it ALTER on the cluster" in answer.reason


def test_topics_that_grow_are_not_stable(cluster: TlsCluster, bench: Bench, name: str) -> None:
    producer = bench.producer(**cluster.properties())
    place = TopicPartition(name, 1)

    class Busy(KafkaFenceProver):
        """A client writes while it waits."""

        def _wait(self) -> None:
            producer.produce(name, b"v", partition=1)
            assert producer.flush(20) == 0
            super()._wait()

    with Busy(Connection("primary", cluster.properties(), 4), stabilize_s=0.2) as prover:
        no_writes = prover.no_writes([name, "no-such-topic"])
    assert not no_writes.proven
    assert no_writes.looks > 3
    moved = no_writes.moved[place]
    assert moved.after == moved.before + 1
    assert no_writes.ends == {TopicPartition(name, 0): 0}
    assert [each.topic for each in no_writes.unread] == ["no-such-topic"]
    assert f"{place} grew from {moved.before} to {moved.after} within 0.2 s" in no_writes.unproven


def test_an_open_transaction_is_reported_and_does_not_block(
    cluster: TlsCluster, bench: Bench, prover: KafkaFenceProver, name: str
) -> None:
    place = TopicPartition(name, 0)
    producer = bench.producer(**cluster.properties(), **{"transactional.id": f"t-{name}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"v", partition=0)
    assert producer.flush(20) == 0
    no_writes = prover.no_writes([name])
    assert (no_writes.proven, no_writes.undecided) == (True, (place,))
    assert no_writes.ends[place] == 1
    producer.abort_transaction(30)
    assert Patience.of(20).wait_until(lambda: prover.no_writes([name]).undecided == ())
    assert prover.no_writes([name]).ends[place] == 2, "no abort marker was written after the fence"


def test_a_fenced_group_is_refused_joins_heartbeats_and_commits(
    cluster: TlsCluster,
    bench: Bench,
    bob: Rights,
    reader: KafkaAclReader,
    writer: KafkaAclWriter,
    name: str,
) -> None:
    """A member of the classic protocol; it is back by itself once the fence is lifted."""
    properties, group = cluster.properties("bob"), f"group-{name}"
    bob.grant(ResourceType.GROUP, group, DO.READ)
    before = settled(reader, writer)
    rules = (*denials(["User:bob"], [Topics(name)], [Denied.READ]), group_denial("User:bob", group))
    with (
        KafkaGroupReader(Connection("primary", cluster.properties())) as groups,
        member(properties, group, name) as consumer,
    ):

        def active() -> bool:
            consumer.poll(0.2)
            found = groups.described([group])[group]
            return isinstance(found, Group) and found.active

        assert active()
        try:
            assert writer.deny(rules) == dict.fromkeys(rules)
            assert reader.enforcement(rules, [name]).brokers == {1: None, 2: None}
            with pytest.raises(KafkaException) as refused:
                consumer.commit(offsets=[Place(name, 0, 1)], asynchronous=False)
            assert refused.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
            assert Patience.of(20).wait_until(lambda: not active()), "a denied member stays active"
            with (
                pytest.raises(AssertionError, match="nobody joined"),
                member(properties, group, name, join_s=2),
            ):
                pass
            assert groups.committed([group])[group] == {}
        finally:
            assert writer.restore(rules) == dict.fromkeys(rules)
        assert reader.lifted(rules, [name]).proven
        assert rules_of(reader) == before
        assert Patience.of(20).wait_until(lambda: active() and bool(consumer.assignment()))
        consumer.commit(offsets=[Place(name, 0, 1)], asynchronous=False)


def test_kip_848_members_stay_during_a_topic_fence_which_refuses_their_commits(
    cluster: TlsCluster, bob: Rights, reader: KafkaAclReader, writer: KafkaAclWriter, name: str
) -> None:
    """Denied the group they would fail for good: `fence.groups` leaves theirs alone by default."""
    properties, group = cluster.properties("bob"), f"group-{name}"
    bob.grant(ResourceType.GROUP, group, DO.READ)
    rules = denials(["User:bob"], [Topics(name)], [Denied.READ])
    with member(properties, group, name, "consumer") as consumer:
        try:
            writer.deny(rules)
            assert reader.enforcement(rules, [name]).proven
            with pytest.raises(KafkaException) as refused:
                consumer.commit(offsets=[Place(name, 0, 1)], asynchronous=False)
            assert refused.value.args[0].code() == FORBIDDEN
        finally:
            writer.restore(rules)
        assert reader.lifted(rules, [name]).proven
        consumer.commit(offsets=[Place(name, 0, 1)], asynchronous=False)


@pytest.mark.parametrize("names", [("one", "other"), ("other", "other-back"), ("other:a", "other")])
def test_acls_of_two_links_stay_until_both_have_lifted_their_fences(
    cluster: TlsCluster,
    reader: KafkaAclReader,
    writer: KafkaAclWriter,
    name: str,
    names: tuple[str, str],
) -> None:
    before = settled(reader, writer)
    rules = denials(["User:bob"], [Topics(name)], Denied)
    one, other = (SharedRules(writer, reader, link) for link in names)
    for each in (one, other, one):
        assert each.deny(rules) == dict.fromkeys(rules)
    signs = [sign(rule, link) for rule in rules for link in names]
    assert reader.enforcement([*rules, *signs], [name]).proven
    kept = one.restore(rules)
    assert {str(why and why.reason) for why in kept.values()} == {
        f"the fence of link {names[1]} needs it"
    }
    left = {*before, *rules, *(sign(rule, names[1]) for rule in rules)}
    assert reader.lifted([sign(rule, names[0]) for rule in rules], [name]).proven
    assert set(rules_of(reader)) == left
    assert other.restore(rules) == dict.fromkeys(rules)
    assert reader.lifted([*rules, *signs], [name]).proven
    assert rules_of(reader) == before
