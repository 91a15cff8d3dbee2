"""Whatever a topic contains: a codec decodes it, or raises its own error.

`DRCTL_FUZZ` sets how many inputs are tried in all; the nightly tests try a million of each format.
"""

import os
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from tests.wire.formats import FORMATS, Format

INPUTS = int(os.environ.get("DRCTL_FUZZ", "40000"))
_SEEDS = 20
_JSON = ("connect", "provenance", "tracked-offsets-key", "tracking-passes")
_EDGES = (0, 1, 0x7F, 0x80, 0xFF)


def inputs(name: str, valid: list[bytes], count: int) -> Iterator[bytes]:
    """Random bytes, and valid ones with bytes changed, removed, repeated or added."""
    random = Random(name)
    for number in range(count):
        if number % 4 == 0:
            yield random.randbytes(random.choice((0, 1, 2, 8, 12, 16, random.randrange(64))))
        else:
            yield mutated(random, valid)


def mutated(random: Random, valid: list[bytes]) -> bytes:
    data = bytearray(random.choice(valid))
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randrange(len(data) + 1)
        match random.randrange(5):
            case 0:
                data[at : at + 1] = bytes([random.choice(_EDGES)])
            case 1:
                data[at : at + 1] = random.randbytes(1)
            case 2:
                del data[at : at + random.randrange(1, 9)]
            case 3:
                data[at:at] = random.randbytes(random.randrange(1, 9))
            case _:
                other = random.choice(valid)
                data[at:] = other[random.randrange(len(other) + 1) :]
    return bytes(data)


def tried(each: Format, name: str, count: int) -> None:
    seen: Counter[str] = Counter()
    for data in inputs(name, each.made(_SEEDS), count):
        if each.refusal(data) is not None:
            seen["refused"] += 1
            continue
        seen["read"] += 1
        value = each.decode(data)
        again = each.encode(value)
        assert again == data if each.canonical else each.decode(again) == value
    # Both outcomes must occur, or the inputs prove nothing.
    assert min(seen["refused"], seen["read"]) > 0, seen


@pytest.mark.slow
@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_nothing_but_the_codecs_own_error_escapes(each: Format) -> None:
    tried(each, each.name, max(100, INPUTS // len(FORMATS)))


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_a_million_inputs_of_each_format(each: Format) -> None:
    tried(each, f"{each.name} at night", 1_000_000)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'["c",{"a":' + b"[" * 2_000 + b"]" * 2_000 + b"}]",
        b'["c",{"a":1e999}]',
        b'["c",{"a":NaN}]',
        b'["c",{"a":-Infinity}]',
        b'["c",{"a":1,"a":2}]',
        b'["c",{"a":"\\ud800"}]',
        b'["\\udfff",{}]',
        b'["c",{"a":' + b"9" * 5_000 + b"}]",
        b"\xef\xbb\xbf[]",
        b'\xff\xfe["c",{}]',
    ],
)
def test_json_that_breaks_readers(data: bytes) -> None:
    for each in FORMATS:
        refused = each.refusal(data)
        assert refused or not each.name.startswith(_JSON)
