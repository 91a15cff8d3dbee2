"""Requests and responses, as in Kafka's message definitions."""

from typing import Any

import pytest
from confluent_kafka import KafkaError

from drctl.elections.cluster_state import Kind, Partition
from drctl.formats.primitives import Cursor, Undecodable
from drctl.kafka import (
    acls,
    elections,
    group_offsets,
    group_requests,
    health,
    offsets,
    open_transactions,
    producer_ids,
    protocol,
    quotas,
    survey,
)
from drctl.kafka.protocol import Api
from drctl.model.groups import Committed
from drctl.model.health import OpenTransaction
from drctl.model.producer_ids import Producer
from drctl.model.repairs import Acl
from drctl.model.survey import BrokerFeatures, Limit
from drctl.model.topology import TopicPartition

OLD = Api("Old", 7, 1, False, "0.10")
NEW = Api("New", 61, 0, True, "2.8")


def raw(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


def text(value: str) -> str:
    """A compact string."""
    return f"{len(value) + 1:02x}{value.encode().hex()}"


QUORUM, APP, EVERYWHERE = text("__cluster_metadata"), text("User:app"), text("*")
RULE = Acl("t", "PREFIXED", "User:app", "*", "READ", "DENY")
RULE_SENT = f"02 02 0274 04 {APP} {EVERYWHERE} 03 02 00 00"
AT = "00000001 0000000000000005 00000007"

WRITTEN = [
    (producer_ids.describe_producers({"t": [1, 2]}), "02 0274 03 00000001 00000002 00 00"),
    (producer_ids.init_producer_id(), "00 0000ea60 ffffffffffffffff ffff 00"),
    (producer_ids.init_producer_id("x"), "0278 0000ea60 ffffffffffffffff ffff 00"),
    (
        open_transactions.write_abort_markers(
            [(TopicPartition("t", 1), OpenTransaction(7, 2, 5, 0, coordinator_epoch=3))]
        ),
        "02 0000000000000007 0002 00 02 0274 02 00000001 00 00000003 00 00",
    ),
    (producer_ids.list_transactions([7]), "01 02 0000000000000007 00"),
    (producer_ids.describe_transactions(["x"]), "02 0278 00"),
    (elections.describe_quorum(), f"02 {QUORUM} 02 00000000 00 00 00"),
    (health.CLUSTER_REQUEST, "01 00"),
    (quotas.ALL_QUOTAS, "01 00 00"),
    (
        quotas.alter_quotas(
            [Limit((("user", "a"),), "x", 1000.0), Limit((("user", "a"),), "y", None)],
            validate_only=True,
        ),
        f"02 02 {text('user')} {text('a')} 00 03 {text('x')} 408f400000000000 00 00"
        f" {text('y')} 0000000000000000 01 00 00 01 00",
    ),
    (survey.ALL_LOG_DIRS, "00 00"),
    (survey.describe_consumer_group("g"), "02 0267 00 00"),
    (acls.describe_acls(), "01 00 01 00 00 01 01 00"),
    (acls.describe_acls("DENY"), "01 00 01 00 00 01 02 00"),
    (acls.write_acls([RULE]), RULE_SENT),
    (acls.write_acls([RULE._replace(resource="GROUP")]), f"02 03{RULE_SENT[5:]}"),
    (group_requests.find_coordinators(["g"]), "00 02 0267 00"),
    (group_requests.find_transaction_coordinator("g"), "01 02 0267 00"),
    (
        group_offsets.write_heartbeat("g", "", group_offsets.JOIN, 60_000),
        "0267 01 00000000 00 00 0000ea60 01 00 01 00",
    ),
    (
        group_offsets.write_heartbeat("g", "m", group_offsets.LEAVE, 60_000),
        "0267 026d ffffffff 00 00 ffffffff 00 00 00 00",
    ),
    (group_requests.write_fetch(["g", "h"]), "03 0267 00 00 0268 00 00 00 00"),
    (
        group_requests.write_commit("g", {TopicPartition("t", 1): Committed(5, 7, "\udcffa")}),
        f"0267 ffffffff 01 00 02 0274 02 {AT} 03ff61 00 00 00",
    ),
    (
        group_requests.write_delete("g", [TopicPartition("t", 0), TopicPartition("t", 1)]),
        "000167 00000001 000174 00000002 00000000 00000001",
    ),
    (
        elections.write_log_ends({"t": [1]}),
        "fffffffe 00000001 000174 00000001 00000001 ffffffffffffffff",
    ),
    (
        offsets.write_list_offsets({"t": [(0, 5), (1, -1)], "u": [(2, -3)]}, committed=True),
        "ffffffff 01 03 0274 03 00000000 ffffffff 0000000000000005 00"
        " 00000001 ffffffff ffffffffffffffff 00 00 0275 02 00000002 ffffffff fffffffffffffffd 0000"
        " 00",
    ),
    (
        elections.elect_leaders(Kind.UNCLEAN, {"t": [1, 2]}, 60_000),
        "01 02 0274 03 00000001 00000002 00 0000ea60 00",
    ),
    (elections.describe_partitions(["t"]), "02 0274 00 000007d0 ff 00"),
    (elections.describe_partitions([], ("t", 3)), "01 000007d0 01 0274 00000003 00 00"),
    (
        elections.write_epoch_ends({"t": [(1, 5)]}),
        "ffffffff 02 0274 02 00000001 ffffffff 00000005 00 00 00",
    ),
]


@pytest.mark.parametrize(("written", "wanted"), WRITTEN, ids=range(len(WRITTEN)))
def test_requests(written: bytes, wanted: str) -> None:
    assert written == raw(wanted)


ONGOING, UUID = text("Ongoing"), "00" * 16
PRODUCER = "0000000000000007 00000001 00000013 0000018bcfe56800 00000002 0000000000000005 00"
MATCH = f"02 0274 04 {APP} {EVERYWHERE} 03 02 00"
USER, BYTE_RATE = text("user"), text("producer_byte_rate")
ROW = "0000 00000004 ffffffff 00000007 03 00000001 00000002 02 00000001 02 00000002 00 01 00"
ENTRIES = (
    f"02 {USER} {text('app')} 00 02 {BYTE_RATE} 408f400000000000 00 00"
    f"02 {USER} 00 00 02 {BYTE_RATE} 4059000000000000 00 00"
)
BROKERS = "03 00000001 0268 00002384 00 00 61626364 0269 00002385 0272 00"

READ: list[tuple[Any, str, Any]] = [
    (protocol.read_versions, "0000 00000001 003d 0000 0002", {61: (0, 2)}),
    (
        producer_ids.read_producers,
        f"00000000 02 0274 03 00000001 0000 00 02 {PRODUCER} 00 00000002 0006 0362 79 01 00 00 00",
        (("t", 1, 0, "", (Producer(7, 1, 19, 1_700_000_000_000, 2, 5),)), ("t", 2, 6, "by", ())),
    ),
    (producer_ids.read_init, "00000000 0000 00000000000003e8 0000 00", (0, 1000, 0)),
    (
        open_transactions.read_marked,
        "02 0000000000000007 02 0274 03 00000001 0006 00 00000002 0000 00 00 00 00",
        (("t", 2, 0), ("t", 1, 6)),
    ),
    (
        producer_ids.read_listed,
        f"00000000 0000 01 02 0278 0000000000000007 {ONGOING} 00 00",
        (0, (("x", 7, "Ongoing"),)),
    ),
    (
        producer_ids.read_described,
        f"00000000 02 0000 0278 {ONGOING} 0000ea60 0000018bcfe56800 0000000000000007 0001"
        "02 0274 02 00000003 00 00 00",
        ((0, "x", "Ongoing", 60_000, 1_700_000_000_000, 7, 1, {("t", 3)}),),
    ),
    (
        elections.read_quorum,
        f"0000 02 {QUORUM} 02 00000000 0000 00000001 00000004 0000000000000009"
        " 02 00000001 0000000000000009 00 01 00 00 00",
        (0, 1, 4),
    ),
    (elections.read_quorum, "001f 01 00", (31, -1, -1)),
    (
        health.read_cluster,
        f"00000000 0000 00 0363 64 ffffffff {BROKERS} 00000180 00",
        (0, "", {1: "", 0x61626364: "r"}, {"ALTER", "DESCRIBE"}),
    ),
    *(
        (
            health.read_cluster,
            f"00000000 0000 00 02 63 00000001 01 {not_reported} 00",
            (0, "", {}, None),
        )
        for not_reported in ("00000000", "80000000")
    ),
    (health.read_cluster, "00000000 001f 036e6f 01 ffffffff 01 80000000 00", (31, "no", {}, None)),
    (
        quotas.read_quotas,
        f"00000000 0000 00 03 {ENTRIES} 00",
        (
            0,
            "",
            {
                (("user", "app"),): {"producer_byte_rate": 1000.0},
                (("user", None),): {"producer_byte_rate": 100.0},
            },
        ),
    ),
    (
        quotas.read_altered,
        f"00000000 03 0000 00 02 {text('user')} {text('a')} 00 00"
        f" 002a {text('no')} 02 {text('ip')} 00 00 00 00",
        ((0, "", (("user", "a"),)), (42, "no", (("ip", None),))),
    ),
    (
        survey.read_log_dirs,
        f"00000000 0000 02 0000 {text('/d')} 02 0274 02 00000001 0000000000000064"
        " 0000000000000000 00 00 00 00000000000003e8 00000000000001f4 00 00",
        (0, ((0, ((TopicPartition("t", 1), 100),), 1000, 500),)),
    ),
    (quotas.read_quotas, f"00000000 001f {text('no')} 00 00", (31, "no", {})),
    (
        acls.read_acls,
        f"00000000 0000 00 04 02 0274 03 03 {APP} {EVERYWHERE} 04 02 00"
        f"{APP} {EVERYWHERE} 63 03 00 00 03 0267 03 02 {APP} {EVERYWHERE} 03 02 00 00"
        f"63 0268 03 02 {APP} {EVERYWHERE} 03 02 00 00 00",
        (
            0,
            "",
            {
                Acl("t", "LITERAL", "User:app", "*", "WRITE", "DENY"),
                Acl("t", "LITERAL", "User:app", "*", "UNKNOWN_99", "ALLOW"),
                Acl("g", "LITERAL", "User:app", "*", "READ", "DENY", "GROUP"),
                Acl("h", "LITERAL", "User:app", "*", "READ", "DENY", "UNKNOWN_99"),
            },
        ),
    ),
    (acls.read_acls, "00000000 001f 036e6f 01 00", (31, "no", frozenset())),
    (acls.read_created, "00000000 03 0000 00 00 001f 036e6f 00 00", ((0, ""), (31, "no"))),
    (
        acls.read_deleted,
        f"00000000 05 0000 00 01 00 0000 00 02 0000 00 {MATCH} 00"
        f"001f 036e6f 01 00 0000 00 02 ffff 036e6f {MATCH} 00 00",
        ((0, ""), (0, ""), (31, "no"), (-1, "no")),
    ),
    (
        group_offsets.read_heartbeat,
        "00000000 0000 00 026d 00000001 00001388 ff 01 00",
        (0, "", "m", 1),
    ),
    (
        group_requests.read_coordinators,
        "00000000 02 0267 00000002 0268 00002384 0000 00 00 00",
        (("g", 2, 0, ""),),
    ),
    (
        group_requests.read_fetched,
        f"00000000 03 0267 02 0274 03 {AT} 03ff61 0000 00"
        " 00000002 ffffffffffffffff ffffffff 00 0003 00 00 0000 00 0268 01 001e 00 00",
        (
            # Metadata that is not UTF-8 is returned unchanged.
            ("g", (("t", 1, 5, 7, "\udcffa", 0), ("t", 2, -1, -1, "", 3)), 0),
            ("h", (), 30),
        ),
    ),
    (group_requests.read_committed, "00000000 02 0274 02 00000001 0019 00 00 00", [("t", 1, 25)]),
    (
        group_requests.read_deleted,
        "0000 00000000 00000001 000174 00000002 00000000 0000 00000001 0056",
        (0, [("t", 0, 0), ("t", 1, 0x56)]),
    ),
    (group_requests.read_deleted, "0044 00000000 00000000", (0x44, [])),
    (
        elections.read_log_ends,
        "00000001 000174 00000001 00000001 0000 ffffffffffffffff 0000000000000064",
        (("t", 1, 0, 100),),
    ),
    (
        offsets.read_offset_rows,
        "00000000 03 0274 02 00000001 0000 000000000000000a 0000000000000014 00000003 00 00"
        " 0275 02 00000002 0006 ffffffffffffffff ffffffffffffffff ffffffff 01 0501 ff 00 00",
        (("t", 1, 0, 10, 20, 3), ("u", 2, 6, -1, -1, -1)),
    ),
    (
        elections.read_election,
        "00000000 0000 02 0274 03 00000001 0000 00 00 00000002 0050 0362 79 00 00 00",
        (0, (("t", 1, 0, ""), ("t", 2, 80, "by"))),
    ),
    (
        elections.read_partitions,
        f"00000000 03 0000 0274 {UUID} 00 02 {ROW} 80000000 00"
        f" 0003 0275 {UUID} 00 01 80000000 00 01 0276 00000009 00 00",
        ((Partition(TopicPartition("t", 4), None, 7, (1, 2), (1,), (2,), ()),), ("v", 9)),
    ),
    (elections.read_partitions, "00000000 01 ff 00", ((), None)),
    (
        elections.read_epoch_ends,
        "00000000 02 0274 02 0000 00000001 00000004 0000000000000064 00 00 00",
        (("t", 0, 1, 4, 100),),
    ),
]


@pytest.mark.parametrize(("read", "answer", "wanted"), READ, ids=range(len(READ)))
def test_answers(read: Any, answer: str, wanted: Any) -> None:
    data = raw(answer)
    assert read(Cursor("test", data)) == wanted
    with pytest.raises(Undecodable, match="too few"):
        read(Cursor("test", data[:1]))
    if read not in (protocol.read_versions, group_offsets.read_heartbeat):
        with pytest.raises(Undecodable, match="too many"):
            read(Cursor("test", data + b"\0"))


def test_headers_of_both_kinds() -> None:
    client = "0005 6472 6374 6c"
    assert protocol.write_request(OLD, 3, b"x") == raw(f"00000010 0007 0001 00000003 {client} 78")
    assert protocol.write_request(NEW, 3, b"x") == raw(
        f"00000011 003d 0000 00000003 {client} 00 78"
    )
    number, rest = protocol.read_response(NEW, raw("00000003 00 aa"))
    assert (number, rest.rest()) == (3, b"\xaa")


def test_a_broker_that_does_not_report_its_versions() -> None:
    with pytest.raises(Undecodable, match="error 35"):
        protocol.read_versions(Cursor("test", raw("0023 00000000")))
    _, cursor = protocol.read_response(survey.FEATURES, raw("00000005 0023 01"))
    with pytest.raises(Undecodable, match="error 35"):
        survey.read_features(cursor)


def test_whether_there_are_groups_of_the_new_protocol() -> None:
    cursor = Cursor("test", raw("00000000 02 0023 00 0267"))
    assert survey.read_group_error(cursor) == KafkaError.UNSUPPORTED_VERSION
    with pytest.raises(Undecodable, match="no group"):
        survey.read_group_error(Cursor("test", raw("00000000 01 00")))


def test_features_of_a_broker() -> None:
    sent = protocol.write_request(survey.FEATURES, 5, survey.FEATURES_REQUEST)
    assert sent.endswith(raw(f"00 {text('drctl')} {text('1')} 00"))
    supported = raw(f"02 {text('metadata.version')} 0001 001d 00").hex()
    finalized = raw(f"02 {text('metadata.version')} 001b 001b 00").hex()
    tags = f"03 00 17 {supported} 01 08 0000000000000007 02 17 {finalized}"
    data = raw(f"00000005 0000 02 0012 0000 0004 00 00000000 {tags}")
    number, cursor = protocol.read_response(survey.FEATURES, data)
    assert number == 5
    found = survey.read_features(cursor)
    assert found == BrokerFeatures({"metadata.version": 29}, {"metadata.version": 27})
