"""Requests and answers, as Kafka's message definitions lay them out."""

import pytest

from drctl.formats.primitives import Cursor, Undecodable
from drctl.kafka import (
    protocol,
    protocol_cluster,
    protocol_groups,
    protocol_partitions,
    protocol_producers,
)
from drctl.kafka.protocol import Api
from drctl.model.repairs import Acl

OLD = Api("Old", 7, 1, False, "0.10")
NEW = Api("New", 61, 0, True, "2.8")


def cursor(text: str) -> Cursor:
    return Cursor("test", bytes.fromhex(text.replace(" ", "")))


def test_headers_of_both_kinds() -> None:
    client = "0005 6472 6374 6c"
    assert protocol.request(OLD, 3, b"x").hex() == (
        f"00000010 0007 0001 00000003 {client} 78".replace(" ", "")
    )
    assert protocol.request(NEW, 3, b"x").hex() == (
        f"00000011 003d 0000 00000003 {client} 00 78".replace(" ", "")
    )
    number, rest = protocol.answer(NEW, bytes.fromhex("00000003 00 aa".replace(" ", "")))
    assert (number, rest.rest()) == (3, b"\xaa")


def test_versions() -> None:
    found = protocol.read_versions(cursor("0000 00000001 003d 0000 0002"))
    assert found == {61: (0, 2)}
    with pytest.raises(Undecodable, match="error 35"):
        protocol.read_versions(cursor("0023 00000000"))


def test_producers_of_partitions() -> None:
    asked = protocol_producers.describe_producers({"t": [1, 2]})
    assert asked.hex() == "0202740300000001000000020000"
    producer = "0000000000000007 00000001 00000013 0000018bcfe56800 00000002 0000000000000005 00"
    found = protocol_producers.read_producers(
        cursor(
            f"00000000 02 0274 03 00000001 0000 00 02 {producer} 00"
            "00000002 0006 0362 79 01 00 00 00"
        )
    )
    assert found == (
        protocol_producers.PartitionProducers(
            "t", 1, 0, "", (protocol_producers.Producer(7, 1, 19, 1_700_000_000_000, 2, 5),)
        ),
        protocol_producers.PartitionProducers("t", 2, 6, "by", ()),
    )


def test_an_id_of_nobodys_transaction() -> None:
    assert protocol_producers.init_producer_id().hex() == "000000ea60ffffffffffffffffffff00"
    given = protocol_producers.read_init(cursor("00000000 0000 00000000000003e8 0000 00"))
    assert given == (0, 1000, 0)


def test_the_quorum() -> None:
    assert protocol_cluster.describe_quorum().hex() == (
        "0213" + b"__cluster_metadata".hex() + "0200000000000000"
    )
    replica = "00000001 0000000000000009 00"
    name = "13" + b"__cluster_metadata".hex()
    found = protocol_cluster.read_quorum(
        cursor(
            f"0000 02 {name} 02 00000000 0000 00000001 00000004 0000000000000009"
            f"02 {replica} 01 00 00 00"
        )
    )
    assert found == protocol_cluster.Quorum(0, 1, 4, (1,))


def test_a_described_cluster() -> None:
    assert protocol_cluster.describe_cluster().hex() == "0100"
    first = "00000001 0268 00002384 00 00"
    second = "61626364 0269 00002385 0272 00"
    found = protocol_cluster.read_described(
        cursor(f"00000000 0000 00 0363 64 ffffffff 03 {first} {second} 00000180 00")
    )
    assert found == protocol_cluster.DescribedCluster(
        0, "", {1: "", 0x61626364: "r"}, frozenset({"ALTER", "DESCRIBE"})
    )
    for untold in ("00000000", "80000000"):
        answer = cursor(f"00000000 0000 00 02 63 00000001 01 {untold} 00")
        assert protocol_cluster.read_described(answer).operations is None
    refused = protocol_cluster.read_described(
        cursor("00000000 001f 036e6f 01 ffffffff 01 80000000 00")
    )
    assert (refused.error, refused.text) == (31, "no")


def test_members_that_join_and_leave() -> None:
    assert protocol_groups.find_coordinators(["g"]).hex() == "0002026700"
    joins = protocol_groups.heartbeat("g", "", protocol_groups.JOIN, 60_000)
    assert joins.hex() == "0267010000000000000000ea6001000100"
    leaves = protocol_groups.heartbeat("g", "m", protocol_groups.LEAVE, 60_000)
    assert leaves.hex() == "0267026dffffffff0000ffffffff00000000"
    beat = protocol_groups.read_heartbeat(
        cursor("00000000 0000 00 026d 00000001 00001388 ff 01 00")
    )
    assert beat == (0, "", "m", 1)
    found = protocol_groups.read_coordinators(
        cursor("00000000 02 0267 00000002 0268 00002384 0000 00 00 00")
    )
    assert found == (protocol_groups.Coordinator("g", 2, 0, ""),)


def test_positions_of_groups() -> None:
    assert protocol_groups.fetch(["g", "h"]).hex() == "03 0267 00 00 0268 00 00 00 00".replace(
        " ", ""
    )
    position = "00000001 0000000000000005 00000007"
    found = protocol_groups.read_fetched(
        cursor(
            "00000000 03"
            f" 0267 02 0274 03 {position} 03ff61 0000 00"
            " 00000002 ffffffffffffffff ffffffff 00 0003 00 00 0000 00"
            " 0268 01 001e 00 00"
        )
    )
    assert found == [
        protocol_groups.GroupHeld(
            "g",
            0,
            (
                # Metadata that is no text comes back as it was.
                protocol_groups.Held("t", 1, 5, 7, "\udcffa", 0),
                protocol_groups.Held("t", 2, -1, -1, "", 3),
            ),
        ),
        protocol_groups.GroupHeld("h", 30, ()),
    ]
    sent = protocol_groups.commit("g", {"t": [protocol_groups.To(1, 5, 7, "\udcffa")]})
    told = f"0267 ffffffff 01 00 02 0274 02 {position} 03ff61 00 00 00"
    assert sent.hex() == told.replace(" ", "")
    answered = protocol_groups.read_committed(cursor("00000000 02 0274 02 00000001 0019 00 00 00"))
    assert answered == [protocol_groups.Answered("t", 1, 25)]


def test_transactions() -> None:
    assert protocol_producers.list_transactions([7]).hex() == "0102000000000000000700"
    state = "08" + b"Ongoing".hex()
    listed = cursor(f"00000000 0000 01 02 0278 0000000000000007 {state} 00 00")
    assert protocol_producers.read_listed(listed) == (0, (("x", 7, "Ongoing"),))
    assert protocol_producers.describe_transactions(["x"]).hex() == "02027800"
    described = cursor(
        f"00000000 02 0000 0278 {state} 0000ea60 0000018bcfe56800 0000000000000007 0001"
        "02 0274 02 00000003 00 00 00"
    )
    assert protocol_producers.read_described(described) == (
        protocol_producers.Described(
            0, "x", "Ongoing", 60_000, 1_700_000_000_000, 7, 1, frozenset({("t", 3)})
        ),
    )


def test_a_replicas_own_end() -> None:
    asked = protocol_partitions.ask_log_ends({"t": [1]})
    assert asked.hex() == "fffffffe000000010001740000000100000001ffffffffffffffff"
    found = protocol_partitions.read_log_ends(
        cursor("00000001 000174 00000001 00000001 0000 ffffffffffffffff 0000000000000064")
    )
    assert found == (protocol_partitions.End("t", 1, 0, 100),)


def test_offsets_of_many_partitions() -> None:
    asked = protocol_partitions.look_up({"t": [(0, 5), (1, -1)], "u": [(2, -3)]}, committed=True)
    first = "00000000ffffffff000000000000000500"
    second = "00000001ffffffffffffffffffffffff00"
    third = "00000002fffffffffffffffffffffffd00"
    assert asked.hex() == f"ffffffff01030274 03{first}{second}00 0275 02{third}0000".replace(
        " ", ""
    )
    one = "00000001 0000 000000000000000a 0000000000000014 00000003 00"
    other = "00000002 0006 ffffffffffffffff ffffffffffffffff ffffffff 01 0501 ff"
    found = protocol_partitions.read_looked_up(
        cursor(f"00000000 03 0274 02 {one} 00 0275 02 {other} 00 00")
    )
    assert found == [("t", 1, 0, 20, 10, 3), ("u", 2, 6, -1, -1, -1)]


def test_offsets_of_a_group_that_are_removed() -> None:
    asked = protocol_groups.delete("g", {"t": [0, 1]})
    assert asked.hex() == "000167 00000001 000174 00000002 00000000 00000001".replace(" ", "")
    rows = "00000001 000174 00000002 00000000 0000 00000001 0056"
    found = protocol_groups.read_deleted(cursor(f"0000 00000000 {rows}"))
    assert found == (0, [("t", 0, 0), ("t", 1, 0x56)])
    assert protocol_groups.read_deleted(cursor("0044 00000000 00000000")) == (0x44, [])


@pytest.mark.parametrize(
    "read",
    [protocol_producers.read_producers, protocol_producers.read_init, protocol_cluster.read_quorum],
)
def test_what_is_cut_short_is_no_answer(read: object) -> None:
    with pytest.raises(Undecodable, match="too few"):
        read(cursor("0000"))  # type: ignore[operator]


def test_rules_about_topics() -> None:
    assert protocol_cluster.describe_acls().hex() == "0200010000010100"
    assert protocol_cluster.describe_acls("DENY").hex() == "0200010000010200"
    user, everywhere = "09" + b"User:app".hex(), "022a"
    found = protocol_cluster.read_acls(
        cursor(
            f"00000000 0000 00 02 02 0274 03 03 {user} {everywhere} 04 02 00"
            f"{user} {everywhere} 63 03 00 00 00"
        )
    )
    assert found == protocol_cluster.Listed(
        0,
        "",
        frozenset(
            {
                Acl("t", "LITERAL", "User:app", "*", "WRITE", "DENY"),
                Acl("t", "LITERAL", "User:app", "*", "UNKNOWN_99", "ALLOW"),
            }
        ),
    )
    refused = protocol_cluster.read_acls(cursor("00000000 001f 036e6f 01 00"))
    assert refused == protocol_cluster.Listed(31, "no", frozenset())


def test_rules_added_and_removed() -> None:
    rule = Acl("t", "PREFIXED", "User:app", "*", "READ", "DENY")
    user, everywhere = "09" + b"User:app".hex(), "022a"
    written = f"02 02 0274 04 {user} {everywhere} 03 02 00 00".replace(" ", "")
    assert protocol_cluster.create_acls([rule]).hex() == written
    assert protocol_cluster.delete_acls([rule]).hex() == written
    created = protocol_cluster.read_created(cursor("00000000 03 0000 00 00 001f 036e6f 00 00"))
    assert created == ((0, ""), (31, "no"))
    match = f"02 0274 04 {user} {everywhere} 03 02 00"
    deleted = protocol_cluster.read_deleted(
        cursor(
            f"00000000 05 0000 00 01 00 0000 00 02 0000 00 {match} 00"
            f"001f 036e6f 01 00 0000 00 02 ffff 036e6f {match} 00 00"
        )
    )
    assert deleted == ((0, ""), (0, ""), (31, "no"), (-1, "no"))
