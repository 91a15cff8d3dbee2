"""Requests and answers about elections, as Kafka's message definitions lay them out."""

import pytest

from drctl.formats.primitives import Cursor, Undecodable
from drctl.kafka import protocol_partitions


def cursor(text: str) -> Cursor:
    return Cursor("test", bytes.fromhex(text.replace(" ", "")))


def test_elections() -> None:
    asked = protocol_partitions.elect_leaders(protocol_partitions.UNCLEAN, {"t": [1, 2]}, 60_000)
    assert asked.hex() == "01 02 0274 03 00000001 00000002 00 0000ea60 00".replace(" ", "")
    found = protocol_partitions.read_election(
        cursor("00000000 0000 02 0274 03 00000001 0000 00 00 00000002 0050 0362 79 00 00 00")
    )
    assert found.error == 0
    assert found.partitions == (
        protocol_partitions.Elected("t", 1, 0, ""),
        protocol_partitions.Elected("t", 2, 80, "by"),
    )


def test_partitions_and_who_may_still_be_elected() -> None:
    asked = protocol_partitions.describe_partitions(["t"])
    assert asked.hex() == "02 0274 00 000007d0 ff 00".replace(" ", "")
    asked = protocol_partitions.describe_partitions([], protocol_partitions.Next("t", 3))
    assert asked.hex() == "01 000007d0 01 0274 00000003 00 00".replace(" ", "")
    row = "0000 00000004 ffffffff 00000007 03 00000001 00000002 02 00000001 02 00000002 00 01 00"
    topic = f"0000 0274 {'00' * 16} 00 02 {row} 80000000 00"
    absent = f"0003 0275 {'00' * 16} 00 01 80000000 00"
    found = protocol_partitions.read_partitions(
        cursor(f"00000000 03 {topic} {absent} 01 0276 00000009 00 00")
    )
    assert found.partitions == (
        protocol_partitions.Described("t", 4, 0, -1, 7, (1, 2), (1,), (2,), ()),
    )
    assert found.absent == (("u", 3),)
    assert found.following == protocol_partitions.Next("v", 9)
    last = protocol_partitions.read_partitions(cursor("00000000 01 ff 00"))
    assert last == ((), (), None)


def test_ends_of_epochs() -> None:
    asked = protocol_partitions.ask_epoch_ends({"t": [(1, 5)]})
    assert asked.hex() == "ffffffff 02 0274 02 00000001 ffffffff 00000005 00 00 00".replace(" ", "")
    found = protocol_partitions.read_epoch_ends(
        cursor("00000000 02 0274 02 0000 00000001 00000004 0000000000000064 00 00 00")
    )
    assert found == (protocol_partitions.EpochEnd("t", 1, 0, 4, 100),)


@pytest.mark.parametrize(
    "read",
    [
        protocol_partitions.read_election,
        protocol_partitions.read_partitions,
        protocol_partitions.read_epoch_ends,
    ],
)
def test_what_is_cut_short_is_no_answer(read: object) -> None:
    with pytest.raises(Undecodable, match="too few"):
        read(cursor("0000"))  # type: ignore[operator]
