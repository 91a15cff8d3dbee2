"""Changes valid inputs as damage, other software and attackers would."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from random import Random
from typing import Any

import yaml

_EDGES = (0, 1, 0x7F, 0x80, 0xFF)
_LENGTHS = tuple(
    (number % (1 << 8 * size)).to_bytes(size, "big")
    for size in (2, 4, 8)
    for number in (-2, -1, 0, 1, (1 << 8 * size - 1) - 1, 1 << 8 * size - 1)
)
_VARINTS = (
    b"\xff" * 4 + b"\x0f",
    b"\xff" * 9 + b"\x01",
    b"\x80" * 40,
    b"\x80\x00",
    b"\xff\xff\x7f",
)
_WORDS = (b"\xc3\x28", b"\xed\xa0\x80", b"\x1b[2J", b"\x00", b"\r\n", b"[" * 70, b"9" * 50, b"NaN")
_TAG_OR_ANCHOR = re.compile("!!|&")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_NUMBERS = (
    *("NaN", "-Infinity", "1e999", "9" * 5_000, "9" * 40, "-1", "0", "-0.0", "1.5", "1e3", "true"),
    *(str(2**31), str(2**63), str(-(2**63) - 1), str(2**64), str(10**15), '"1"', '"\u0661"'),
)
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1 << 70,
    1e300,
    "",
    "\ud800\n\x1b[2J",
    "9999-99-99",
    [],
    [[]],
    {},
    {"": None},
    10**12,
    1.5,
    "1",
    "9" * 5_000,
    [1, {"a": []}],
)


_PUT = ("", "{", "[", '"', "\\", "NaN", "1e999", "-", ",", "\x00", "null", ":", "[" * 200)
PUT_IN_YAML = (
    *_PUT,
    *("!!int ", "!!bool ", "!!float ", "!!null ", "!!set ", "!!binary ", "&a ", "*a", "<<: "),
    *("0x" + "f" * 4_000, "#", "\n", "\n  ", ": ", "- ", "? ", "''", "|\n"),
)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return all places in a document."""
    yield at
    if isinstance(value, dict | list):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, (*at, name))


def changed(random: Random, document: Any) -> Any:
    """Return the document with some values replaced or removed."""
    found = {"": json.loads(json.dumps(document))}
    for _ in range(random.choice((1, 1, 2, 3))):
        *way, last = random.choice([at for at in places(found) if at] or [("",)])
        inside: Any = found
        for name in way:
            inside = inside[name]
        if random.random() < 0.2 and inside:
            del inside[last]
        else:
            inside[last] = deepcopy(random.choice(ODD))
    return found.get("")


def mangled(random: Random, text: str, putting: Sequence[str] = _PUT) -> str:
    """Return the text with characters removed, repeated or exchanged."""
    for _ in range(random.choice((1, 2, 5))):
        at = random.randrange(len(text) + 1)
        put = random.choice(putting)
        text = text[:at] + put + text[at + random.choice((0, 1, 3)) :]
    return text


def mutated(random: Random, valid: Sequence[bytes]) -> bytes:
    """Return random bytes, or valid ones with bytes changed, removed, repeated or added."""
    if random.random() < 0.1:
        return random.randbytes(random.choice((0, 1, 2, 8, 12, 16, random.randrange(64))))
    data = bytearray(random.choice(valid))
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        at = random.randrange(len(data) + 1)
        match random.randrange(9):
            case 0:
                data[at : at + 1] = bytes([random.choice(_EDGES)])
            case 1:
                data[at : at + 1] = bytes(
                    [byte ^ 1 << random.randrange(8) for byte in data[at:][:1]]
                )
            case 2:
                del data[at : at + random.randrange(1, 9)]
            case 3:
                data[at:at] = random.randbytes(random.randrange(1, 9))
            case 4:
                data[at : at + len(length)] = (length := random.choice(_LENGTHS))
            case 5:
                data[at : at + random.randrange(4)] = random.choice(_VARINTS)
            case 6:
                data[at : at + random.randrange(4)] = random.choice(_WORDS)
            case 7:
                del data[at:]
            case _:
                other = random.choice(valid)
                data[at:] = other[random.randrange(len(other) + 1) :]
    return bytes(data)


def mutated_yaml(random: Random, text: str) -> str:
    """Return the text with characters changed, or its document with values changed."""
    if random.random() < 0.5 and not _TAG_OR_ANCHOR.search(text):
        with suppress(yaml.YAMLError, TypeError, ValueError):
            return json.dumps(changed(random, yaml.safe_load(text)), ensure_ascii=False)
    return mangled(random, text, PUT_IN_YAML)


def mutated_json(random: Random, document: Any) -> str:
    """Return the document as text, with values or characters changed, or a key repeated."""
    kind = random.randrange(8)
    text = json.dumps(changed(random, document) if kind < 4 else document)
    if kind in (3, 4, 5):
        return mangled(random, text)
    if kind == 6:
        found = [at for at, each in enumerate(text) if each == "{"]
        if found:
            at = random.choice(found) + 1
            name = text[at:].split(":", 1)[0] if text[at : at + 1] == '"' else '"a"'
            return f"{text[:at]}{name}:{random.choice(('1', 'null', '[]'))},{text[at:]}"
    if kind == 7:
        numbers = list(_NUMBER.finditer(text))
        if numbers:
            found_at = random.choice(numbers)
            return text[: found_at.start()] + random.choice(_NUMBERS) + text[found_at.end() :]
    return text
