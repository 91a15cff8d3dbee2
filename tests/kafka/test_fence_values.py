"""The rules of a fence and its description, without a cluster."""

import pytest

from drctl.kafka.acls import KafkaAclWriter
from drctl.kafka.connection import Connection
from drctl.model.fencing import (
    PREFIXED,
    Denied,
    Enforcement,
    FenceProof,
    LogEnd,
    Moved,
    NoWrites,
    Topics,
    denials,
    to_add,
)
from drctl.model.producer_ids import Advanced, Producer, collisions, highest
from drctl.model.repairs import Acl, Acls
from drctl.model.topology import TopicPartition, Unavailable

WRITE = Acl("orders", "LITERAL", "User:app", "*", "WRITE", "DENY")
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
SILENT = Unavailable("no answer within 5 s")


def test_a_rule_for_each_principal_topic_and_operation() -> None:
    rules = denials(
        ["User:app", "User:batch", "User:app"],
        [Topics("orders"), Topics("audit-", PREFIXED)],
        [Denied.WRITE, Denied.READ],
    )
    assert len(rules) == len(set(rules)) == 8
    assert rules[0] == WRITE
    assert Acl("audit-", "PREFIXED", "User:batch", "*", "READ", "DENY") in rules


def test_an_existing_rule_is_not_drctls() -> None:
    wanted = denials(["User:app"], [Topics("orders"), Topics("audit")], [Denied.WRITE])
    theirs = (WRITE, WRITE._replace(permission="ALLOW"), wanted[1]._replace(host="10.0.0.1"))
    assert to_add(wanted, Acls(enforced=True, rules=theirs)) == (wanted[1],)


@pytest.mark.parametrize(
    "rule",
    [
        WRITE._replace(permission="ALLOW"),
        WRITE._replace(permission="ANY"),
        WRITE._replace(name=""),
        WRITE._replace(principal=""),
        WRITE._replace(host=""),
        WRITE._replace(pattern="ANY"),
        WRITE._replace(pattern="MATCH"),
        WRITE._replace(operation="ALL"),
        WRITE._replace(operation="ANY"),
    ],
)
def test_only_exact_rules_that_deny_are_added_or_removed(rule: Acl) -> None:
    with KafkaAclWriter(Connection("primary", {"bootstrap.servers": "127.0.0.1:1"})) as writer:
        for change in (writer.deny, writer.restore):
            with pytest.raises(ValueError, match="not a fence rule"):
                change([WRITE, rule])


def test_one_silent_broker_means_no_proof() -> None:
    enforcement = Enforcement({1: None, 2: None, 3: SILENT}, rules=5, looks=9)
    assert not enforcement.proven
    assert enforcement.unproven == ("not proven on broker 3: no answer within 5 s",)
    assert Enforcement({1: None}, 5, 1).proven
    assert not Enforcement({}, 5, 0).proven


def test_growing_partitions_mean_no_proof() -> None:
    assert NoWrites(1.0, {P0: 5}).proven
    assert NoWrites(1.0, {P0: 5}, undecided=(P0,), unchecked=SILENT).proven
    for doubtful, words in (
        (NoWrites(1.0, {}, moved={P0: Moved(5, 9)}), "orders-0 grew from 5 to 9 within 1 s"),
        (NoWrites(1.0, {}, unread={P0: SILENT}), "orders-0: no answer within 5 s"),
        (
            NoWrites(1.0, {}, unreplicated={P0: LogEnd(5, 9)}),
            "orders-0 ends at 5, but its leader's log ends at 9",
        ),
    ):
        assert not doubtful.proven
        assert doubtful.unproven == (words,)
        proof = FenceProof(Enforcement({1: None}, 1, 1), doubtful)
        assert not proven(proof)
        assert proof.unproven == (words,)


def proven(proof: FenceProof) -> bool:
    return proof.proven


def test_the_same_id_in_a_partition_and_its_copy() -> None:
    ours, other_epoch = Producer(7, 0, 14), Producer(8, 3, 2)
    source = {P0: (ours, other_epoch, Producer(9, 0)), P1: (Producer(11, 0),)}
    target = {
        TopicPartition("copy.orders", 0): (Producer(7, 0, 19), Producer(8, 0, 5), Producer(11, 0)),
        TopicPartition("copy.orders", 1): SILENT,
    }
    met = collisions(source, target, lambda topic: f"copy.{topic}")
    assert [(each.source, each.ours, each.silent) for each in met] == [
        (P0, ours, True),
        (P0, other_epoch, False),
    ]
    assert "may be acknowledged and not stored" in met[0].reason
    assert "its records would be refused" in met[1].reason
    assert highest(source, target) == 11
    assert highest({P0: SILENT}, {}) == -1


def test_how_far_ids_are() -> None:
    assert not Advanced(first=3, last=7, beyond=7).done
    assert Advanced(first=3, last=8, beyond=7).done
    assert Advanced(first=3, last=8, beyond=7).spent == 6
