"""Behaviour with several brokers: stalled ones, absent ones, a lost quorum."""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest
import yaml
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError
from confluent_kafka import TopicPartition as Offset
from confluent_kafka.admin import NewTopic, OffsetSpec

from drctl.elections.cluster_state import Kind
from drctl.kafka.acls import KafkaAclReader, KafkaAclWriter
from drctl.kafka.connection import Connection
from drctl.kafka.elections import KafkaElectionWriter
from drctl.kafka.fence_proof import KafkaFenceProver
from drctl.kafka.groups import KafkaGroupReader, coordinated_by
from drctl.kafka.health import KafkaHealthReader
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.errors import Unreachable
from drctl.model.fencing import Denied, Topics, denials
from drctl.model.groups import OFFSETS_TOPIC
from drctl.model.health import ClusterHealth, Controller
from drctl.model.topology import TopicPartition, Unavailable
from tests.cluster.command import Drctl
from tests.cluster.lab_link import cluster_section, link_over
from tests.kafka.tls_broker import free_ports
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = pytest.mark.jvm

RECOVERY_S = 60.0
_MADE: list[str] = []
# On a busy host, the stalled broker's session may end before the first request.
_TRIES = 3


@pytest.fixture(scope="module", autouse=True)
def no_topics_left(three: ClusterUnderTest) -> Iterator[None]:
    yield
    three.delete_topics(_MADE)


Rows = dict[str, dict[str, Any]]
Doctor = Callable[..., Rows]
FINE = dict.fromkeys(
    (
        *("partitions-offline", "partitions-under-min-isr", "replicas-out-of-sync"),
        *("eligible-leaders", "replication-factor", "min-isr-and-replicas", "unclean-election"),
        *("broker-loss", "replica-balance", "rack-spread", "leader-skew", "brokers-answer"),
    ),
    "ok",
)
"""Statuses that doctor reports for a cluster that tolerates the loss of any one broker."""


@pytest.fixture
def doctor(three: ClusterUnderTest, tmp_path: Path) -> Doctor:
    """What each check of `FINE` says, of a link with these topics to a cluster that is gone."""

    def judged(*topics: str) -> Rows:
        gone = {"bootstrap": f"127.0.0.1:{free_ports(1)[0]}"}
        clusters = {"primary": cluster_section(three), "secondary": gone}
        links = {"main": link_over(*topics, replicator={"kind": "none"})}
        config = tmp_path / "drctl.yaml"
        document = {"clusters": clusters, "links": links}
        config.write_text(yaml.safe_dump(document), encoding="utf-8")
        ran = Drctl(tmp_path, config)("doctor", "-o", "json")
        assert ran.code in (1, 5), ran.stderr
        return {
            row["check"]: row
            for row in ran.document()["checks"]
            if row["check"] in FINE and row["subject"] == "cluster primary"
        }

    return judged


def statuses(found: Rows) -> dict[str, str]:
    return {check: row["status"] for check, row in found.items()}


@contextmanager
def frozen(lab: Lab, three: ClusterUnderTest, *nodes: int) -> Iterator[None]:
    """Pause brokers and resume them; wait until the cluster is healthy again."""
    for node in nodes:
        lab.signal(f"primary-{node}", signal.SIGSTOP)
    try:
        yield
    finally:
        for node in nodes:
            lab.signal(f"primary-{node}", signal.SIGCONT)
        await_whole(three)


def await_whole(three: ClusterUnderTest) -> None:
    def whole() -> bool:
        found = health(three, _MADE)
        return (
            len(found.brokers) == 3
            and not found.under_replicated
            and isinstance(found.controller, Controller)
        )

    assert Patience.of(RECOVERY_S).wait_until(whole)


def health(three: ClusterUnderTest, topics: list[str]) -> ClusterHealth:
    with KafkaHealthReader(Connection("primary", three.properties(), timeout_s=10)) as reader:
        return reader.health(topics)


def bystanders(three: ClusterUnderTest) -> tuple[int, int]:
    """Two nodes that are not the active controller: the cluster works without them."""
    controller = health(three, []).controller
    assert isinstance(controller, Controller)
    first, second = (node for node in (1, 2, 3) if node != controller.node)
    return first, second


def create(three: ClusterUnderTest, *assigned: list[int], **config: str) -> str:
    """A topic whose partitions have these replicas, the first of which leads."""
    name = f"test-{uuid4().hex[:8]}"
    settings = {key.replace("_", "."): value for key, value in config.items()}
    topic = NewTopic(name, len(assigned), replica_assignment=list(assigned), config=settings)
    for future in three.admin.create_topics([topic], operation_timeout=30).values():
        future.result()

    def led() -> bool:
        known = three.admin.list_topics(timeout=30).topics.get(name)
        return known is not None and all(p.leader >= 0 for p in known.partitions.values())

    assert Patience.of(30).wait_until(led)
    _MADE.append(name)
    return name


def test_a_fence_is_not_verified_on_a_stalled_broker(brokers: Lab, three: ClusterUnderTest) -> None:
    name = create(three, [1, 2, 3], [2, 3, 1], [3, 1, 2])
    stalled, _ = bystanders(three)
    rules = denials(["User:orders-app"], [Topics(name)], [Denied.WRITE])
    properties = three.properties()
    with (
        KafkaAclWriter(Connection("primary", properties)) as writer,
        KafkaAclReader(Connection("primary", properties, timeout_s=4)) as impatient,
        KafkaAclReader(Connection("primary", properties, timeout_s=30)) as waiting,
    ):
        assert waiting.lifted(rules, [name]).proven
        with frozen(brokers, three, stalled):
            began = monotonic()
            # The call itself reports success.
            assert writer.deny(rules) == dict.fromkeys(rules)
            enforcement = impatient.enforcement(rules, [name])
            took = monotonic() - began
            assert not enforcement.proven
            assert {n for n, why in enforcement.brokers.items() if why} == {stalled}
            (doubt,) = enforcement.unproven
            assert doubt.startswith(f"not proven on broker {stalled}: broker {stalled} (")
            assert doubt.endswith("did not answer within 4 s")
            assert took < 15, "a stalled broker delayed the result beyond the deadline"

            def unseen() -> bool:
                return stalled not in health(three, []).brokers

            assert Patience.of(RECOVERY_S).wait_until(unseen)
            (doubt,) = impatient.enforcement(rules, [name]).unproven
            assert doubt.startswith(
                f"not proven on broker {stalled}: it holds replicas but is not in the cluster"
            )
        assert waiting.enforcement(rules, [name]).proven
        writer.restore(rules)
        assert waiting.lifted(rules, [name]).proven


def test_partitions_delayed_by_a_stalled_replica_are_not_stable(
    brokers: Lab, three: ClusterUnderTest
) -> None:
    stalled, other = bystanders(three)
    name = create(three, [other, stalled])
    place = TopicPartition(name, 0)
    producer = three.producer(acks="1")
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: object) -> None:
        failures.extend([error] if error else [])

    def write(count: int) -> None:
        for _ in range(count):
            producer.produce(name, b"v", partition=0, on_delivery=delivered)
        assert producer.flush(20) == 0
        assert not failures

    properties = three.properties()
    write(5)
    with (
        KafkaFenceProver(Connection("primary", properties, timeout_s=2), stabilize_s=0.3) as prover,
        KafkaFenceProver(
            Connection("primary", properties, timeout_s=30), stabilize_s=0.3
        ) as waiting,
    ):
        assert waiting.no_writes([name]).ends == {place: 5}
        end = 5
        for _ in range(_TRIES):
            with frozen(brokers, three, stalled):
                write(7)
                # The end offset does not change, although seven acknowledged records follow it.
                found = prover.no_writes([name])
            if place in found.unreplicated:
                break
            end += 7
        assert not found.proven
        assert (found.moved, found.ends) == ({}, {})
        assert found.unreplicated[place] == (end, end + 7)
        assert found.unproven == (f"{place} ends at {end}, but its leader's log ends at {end + 7}",)
        assert waiting.no_writes([name]).ends == {place: end + 7}


def test_a_healthy_cluster(three: ClusterUnderTest) -> None:
    name = create(three, [1, 2, 3], [2, 3, 1])
    found = health(three, [name, "no-such-topic"])
    assert isinstance(found.controller, Controller)
    assert found.controller.node in (1, 2, 3)
    assert found.brokers == (1, 2, 3)
    assert (found.partitions, found.missing, found.absent) == (2, ("no-such-topic",), ())
    wrong = found.offline, found.under_min_isr, found.under_replicated, found.unknown
    assert wrong == ((), (), (), {})
    assert not found.writable
    assert health(three, [name]).writable


def test_replica_layouts_that_endanger_a_failover_are_reported(
    three: ClusterUnderTest, doctor: Doctor
) -> None:
    """Each is judged by what real brokers report of it."""
    everywhere = [1, 2, 3], [2, 3, 1], [3, 1, 2]
    good = create(three, *everywhere, min_insync_replicas="2")
    with KafkaElectionWriter(Connection("primary", three.properties())) as elections:
        internal = three.admin.list_topics(timeout=30).topics.items()
        own = [TopicPartition(n, p) for n, t in internal for p in t.partitions if n[:2] == "__"]
        elections.elect(Kind.PREFERRED, own)
    assert statuses(doctor(good)) == FINE
    alone, strict = create(three, [3]), create(three, [1, 2], min_insync_replicas="2")
    weak = create(three, *everywhere, min_insync_replicas="1")
    loose = create(three, *everywhere, unclean_leader_election_enable="true")
    heavy = create(three, *([1],) * 60)
    found = doctor(good, alone, strict, weak, loose, heavy)
    names = {
        "replication-factor": [alone, heavy],
        "min-isr-and-replicas": [strict, weak],
        "unclean-election": [loose],
        "broker-loss": [
            "broker 1: 60 partitions offline, acks=all fails on 1 more",
            "broker 3: 1 partition offline",
        ],
        "replica-balance": ["most on broker 1"],
    }
    assert statuses(found) == {**FINE, **dict.fromkeys(names, "warn")}
    says(found, names)


def says(found: Rows, names: Mapping[str, list[str]]) -> None:
    for check, words in names.items():
        text = f"{found[check]['reason']} {found[check]['evidence']}"
        assert not [each for each in words if each not in text], text


def test_an_absent_broker_and_then_a_lost_quorum(
    brokers: Lab, three: ClusterUnderTest, doctor: Doctor
) -> None:
    gone, next_gone = bystanders(three)
    others = [node for node in (1, 2, 3) if node != gone]
    spread = create(three, [*others, gone], min_insync_replicas="2")
    strict = create(three, [*others, gone], min_insync_replicas="3")
    capped = create(three, others, min_insync_replicas="3")
    alone = create(three, [gone])
    # Below min.insync.replicas, KIP-966 keeps replicas that left the ISR eligible to lead.
    last = create(three, [others[0], gone], min_insync_replicas="1")
    led = create(three, *([gone, *others],) * 3, min_insync_replicas="2")
    topics = [spread, strict, capped, alone, last, led]
    with frozen(brokers, three, gone):

        def lost() -> bool:
            found = health(three, topics)
            return bool(found.under_min_isr and found.absent)

        assert Patience.of(RECOVERY_S).wait_until(lost)
        found = health(three, topics)
        assert (found.brokers, found.absent) == (tuple(others), (gone,))
        assert found.offline == (TopicPartition(alone, 0),)
        assert found.under_min_isr == ((TopicPartition(strict, 0), 2, 3),)
        behind = {each.partition.topic: each for each in found.under_replicated}
        assert behind[spread] == (TopicPartition(spread, 0), 2, 3)
        assert capped not in behind
        assert isinstance(found.controller, Controller)
        assert not found.writable
        assert health(three, [spread, capped]).writable
        names = {
            "brokers-answer": [f"not in the cluster: broker {gone}"],
            "partitions-offline": [f"{alone}-0"],
            "partitions-under-min-isr": [f"{strict}-0 has 2 of 3"],
            "replicas-out-of-sync": [f"on broker {gone}"],
            "eligible-leaders": ["1 partition has at most one complete replica", f"{last}-0"],
            "broker-loss": [f"any of brokers {others[0]}, {others[1]}"],
            "leader-skew": ["many partitions are not led by their preferred replica"],
        }
        found_by_doctor = doctor(*topics)
        failing = dict.fromkeys([*names][:3], "fail")
        late = {**dict.fromkeys(names, "warn"), **failing}
        assert {k: statuses(found_by_doctor)[k] for k in late} == late
        says(found_by_doctor, names)
        with frozen_too(brokers, next_gone):

            def headless() -> bool:
                return isinstance(health(three, topics).controller, Unavailable)

            assert Patience.of(RECOVERY_S).wait_until(headless), (
                "one of three controllers still has a quorum"
            )


@contextmanager
def frozen_too(lab: Lab, node: int) -> Iterator[None]:
    lab.signal(f"primary-{node}", signal.SIGSTOP)
    try:
        yield
    finally:
        lab.signal(f"primary-{node}", signal.SIGCONT)


def test_a_broker_that_the_client_takes_for_the_controller_dies(
    brokers: Lab, three: ClusterUnderTest
) -> None:
    """Metadata names any live broker; by default, librdkafka asks a dead one for minutes."""
    connection = Connection("primary", three.properties(), timeout_s=10)
    named = connection.admin().list_topics(timeout=20).controller_id
    brokers.signal(f"primary-{named}", signal.SIGKILL)
    try:
        new = NewTopic(f"test-{uuid4().hex[:8]}", 1)

        def created() -> bool:
            """False if the broker died while the request was in flight."""
            (future,) = connection.admin().create_topics([new], request_timeout=60).values()
            answer = future.exception()
            if answer is None or answer.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return True
            died = (KafkaError._TRANSPORT, KafkaError._DESTROY_BROKER)
            assert answer.args[0].code() in died, answer
            return False

        assert Patience.of(RECOVERY_S).wait_until(created)
    finally:
        brokers.start(f"primary-{named}")
    assert new.topic in three.admin.list_topics(timeout=20).topics


def test_groups_are_not_left_out_while_brokers_start(brokers: Lab, three: ClusterUnderTest) -> None:
    """A broker lists the groups that it coordinates: none of a partition without a leader."""
    topic = create(three, [1, 2, 3])
    groups = [f"starting-{number}" for number in range(40)]
    for group in groups:
        commit(three, group, topic)
    partitions = len(offsets_partitions(three))
    coordinated = {group: coordinated_by(group, partitions) for group in groups}
    assert set(coordinated.values()) == set(range(partitions))
    # A restarted coordinator knows what was replicated according to this file.
    assert Patience.of(RECOVERY_S).wait_until(lambda: checkpointed(brokers, three))
    for node in (1, 2, 3):
        brokers.signal(f"primary-{node}", signal.SIGKILL)
    starting = Thread(target=brokers.start, args=("primary",))
    starting.start()
    until, listings = monotonic() + RECOVERY_S, 0
    try:
        while listings < 40 and monotonic() < until:
            connection = Connection("primary", three.properties(), timeout_s=2)
            with suppress(Unreachable), KafkaGroupReader(connection) as reader:
                # Single groups may be unknown to a coordinator that has just started.
                listed = {coordinated[name] for name in reader.groups() if name in coordinated}
                assert listed == set(coordinated.values())
                listings += 1
    finally:
        starting.join()
        await_whole(three)
    assert listings == 40


def commit(three: ClusterUnderTest, group: str, topic: str) -> None:
    asked = ConsumerGroupTopicPartitions(group, [Offset(topic, 0, 0)])
    three.admin.alter_consumer_group_offsets([asked])[group].result(60)


def offsets_partitions(three: ClusterUnderTest) -> list[int]:
    return list(three.admin.list_topics(timeout=30).topics[OFFSETS_TOPIC].partitions)


def checkpointed(brokers: Lab, three: ClusterUnderTest) -> bool:
    """Whether every broker has stored the high watermarks of __consumer_offsets."""
    known = offsets_partitions(three)
    asked = {Offset(OFFSETS_TOPIC, number): OffsetSpec.latest() for number in known}
    futures = three.admin.list_offsets(asked).items()
    ends = {place.partition: future.result(30).offset for place, future in futures}
    files = list(brokers.root.rglob("replication-offset-checkpoint"))
    stored = [
        {int(row[1]): int(row[2]) for row in rows if row[0] == OFFSETS_TOPIC}
        for rows in ([line.split() for line in file.read_text().splitlines()] for file in files)
    ]
    return stored.count(ends) == 3
