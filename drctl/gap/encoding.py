"""The digest of one record's identity, where Python computes it: the numbers that Spark computes.

Digests are kept on disk, and whoever reads them later may have made some by Spark and some here,
so both must agree for ever (tests/spark/test_same_digests.py). Spark's `xxhash64` of several
values is XXH64 of each, seeded with the one before; numbers are hashed as little-endian bytes,
booleans as 32-bit numbers, nulls not at all. Which values there are, and in which order, is said
in `drctl.systems.spark.columns.with_digests`.
"""

from base64 import b64encode
from collections.abc import Callable, Iterable
from struct import Struct

from xxhash import xxh64_intdigest

from drctl.gap.comparison import SECOND_SALT, Identity
from drctl.model.rows import Headers

_SEED = 42
_NO, _YES = (0).to_bytes(4, "little"), (1).to_bytes(4, "little")
_LONG = Struct("<q").pack
_BEYOND = Struct("<qq").pack
_FIRST, _LAST = -(2**63) // 1000 + 1, (2**63 - 1) // 1000
"""The milliseconds that 64 bits can hold as microseconds."""
_LONG_UNSIGNED = Struct("<Q").pack

_ESCAPES = {
    **{code: f"\\u{code:04X}" for code in range(0x20)},
    **str.maketrans({'"': '\\"', "\\": r"\\", "\b": r"\b", "\f": r"\f"}),
    **str.maketrans({"\n": r"\n", "\r": r"\r", "\t": r"\t"}),
}
"""Those of Spark's JSON writer."""

Digests = tuple[int, int]
"""Two independent ones of a record, 64 bits each, without sign."""

Digest = Callable[[int, bytes | None, bytes | None, Headers], Digests]
"""Of timestamp, key, value and headers."""

_Content = Callable[[int, bytes | None, bytes | None], Digests]


def record_digest(identity: Identity, timestamps: bool, salt: int) -> Digest:
    """The function that digests the records of a topic.

    Args:
        timestamps: whether they count in this topic, if they do in the identity.
    """
    content = _content(identity, identity.timestamp and timestamps, salt)
    if not identity.headers and not identity.header_names:
        return lambda time, key, value, _headers: content(time, key, value)
    seeds = _seeded(salt), _seeded(SECOND_SALT)
    ignored = frozenset(name.encode() for name in identity.ignored_headers)
    named = frozenset(name.encode() for name in identity.header_names)
    nothing = [_text(())] * (identity.headers + bool(named))

    def digest(time: int, key: bytes | None, value: bytes | None, headers: Headers) -> Digests:
        parts = nothing
        if headers:
            parts = []
            if identity.headers:
                parts.append(_text(h for h in headers if h[0] not in ignored))
            if named:
                parts.append(_text(h for h in headers if h[0] in named))
        first, second = seeds
        for number in content(time, key, value):
            part = _LONG_UNSIGNED(number)
            first, second = xxh64_intdigest(part, first), xxh64_intdigest(part, second)
        for part in parts:
            first, second = xxh64_intdigest(part, first), xxh64_intdigest(part, second)
        return first, second

    return digest


def _content(identity: Identity, timed: bool, salt: int) -> _Content:
    """Both digests of key, value and timestamp, as far as they count."""
    keyed, valued, hashed = identity.key, identity.value, xxh64_intdigest
    begin = _seeded(salt), _seeded(salt ^ SECOND_SALT, SECOND_SALT)
    # The flag before a key is the first thing that is hashed: always from one of two seeds.
    with_key, without_key = ([hashed(flag, seed) for seed in begin] for flag in (_NO, _YES))

    def content(time: int, key: bytes | None, value: bytes | None) -> Digests:
        first, second = begin
        if keyed:
            first, second = without_key
            if key is not None:
                first, second = hashed(key, with_key[0]), hashed(key, with_key[1])
        if valued:
            if value is None:
                first, second = hashed(_YES, first), hashed(_YES, second)
            else:
                first = hashed(value, hashed(_NO, first))
                second = hashed(value, hashed(_NO, second))
        if timed:
            # Spark's timestamps are in microseconds; it knows none beyond those.
            when = _LONG(time * 1000) if _FIRST <= time <= _LAST else _BEYOND(time, 0)
            first, second = hashed(when, first), hashed(when, second)
        return first, second

    return content


def _seeded(*numbers: int) -> int:
    seed = _SEED
    for number in numbers:
        seed = xxh64_intdigest(_LONG(number), seed)
    return seed


def _text(headers: Iterable[tuple[bytes, bytes | None]]) -> bytes:
    """As Spark's JSON has them, each followed by a comma."""
    return b"[" + b"".join(_one(name, value) for name, value in headers)


def _one(name: bytes, value: bytes | None) -> bytes:
    key = name.decode("utf-8", "replace").translate(_ESCAPES).encode()
    content = b"" if value is None else b',"value":"' + b64encode(value) + b'"'
    return b'{"key":"' + key + b'"' + content + b"},"
