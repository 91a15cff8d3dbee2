"""Features and quotas, as Kafka's message definitions lay them out."""

import pytest

from drctl.formats.primitives import Cursor, Undecodable
from drctl.kafka import protocol_cluster
from drctl.kafka.protocol import answer, request


def test_features_of_a_broker() -> None:
    sent = request(protocol_cluster.FEATURES, 5, protocol_cluster.ask_features()).hex()
    assert sent.endswith("00" + "06" + b"drctl".hex() + "02" + b"1".hex() + "00")
    name = "11" + b"metadata.version".hex()
    supported = f"02 {name} 0001 001d 00"
    finalized = f"02 {name} 001b 001b 00"
    sizes = [len(bytes.fromhex(each.replace(" ", ""))) for each in (supported, finalized)]
    tags = f"03 00 {sizes[0]:02x} {supported} 01 08 0000000000000007 02 {sizes[1]:02x} {finalized}"
    data = bytes.fromhex(f"00000005 0000 02 0012 0000 0004 00 00000000 {tags}".replace(" ", ""))
    number, cursor = answer(protocol_cluster.FEATURES, data)
    found = protocol_cluster.read_features(cursor)
    assert number == 5
    assert found.supported == {"metadata.version": 29}
    assert found.finalized == {"metadata.version": 27}


def test_a_broker_that_does_not_know_the_version() -> None:
    _, cursor = answer(protocol_cluster.FEATURES, bytes.fromhex("00000005002301"))
    with pytest.raises(Undecodable, match="error 35"):
        protocol_cluster.read_features(cursor)


def test_quotas() -> None:
    assert protocol_cluster.describe_quotas().hex() == "010000"
    user, key = "05" + b"user".hex(), "13" + b"producer_byte_rate".hex()
    entry = (
        f"02 {user} 04 {b'app'.hex()} 00 02 {key} 408f400000000000 00 00"
        f"02 {user} 00 00 02 {key} 4059000000000000 00 00"
    )
    data = f"00000000 0000 00 03 {entry} 00".replace(" ", "")
    found = protocol_cluster.read_quotas(Cursor("test", bytes.fromhex(data)))
    assert found.limits == {
        (("user", "app"),): {"producer_byte_rate": 1000.0},
        (("user", None),): {"producer_byte_rate": 100.0},
    }
    refused = f"00000000 001f 03 {b'no'.hex()} 00 00".replace(" ", "")
    assert protocol_cluster.read_quotas(Cursor("test", bytes.fromhex(refused))) == (31, "no", {})
