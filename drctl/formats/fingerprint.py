"""A record's fingerprint: 64 bits of its key and value, the same on every cluster.

It is kept in anchors, so it stays as it is forever: XXH64 of each part, seeded with the result of
the part before, beginning with seed 42. The parts are: whether the key is null (0 or 1 in 4 bytes,
little-endian), the key unless it is null, the same of the value. Headers and timestamps do not
count: replication adds headers, and a target may keep its own time.

In Spark's SQL it is `xxhash64(isnull(key), key, isnull(value), value)`, there with a sign.
"""

from xxhash import xxh64_intdigest

_SEED = 42
_NO, _YES = (0).to_bytes(4, "little"), (1).to_bytes(4, "little")
_WITH_KEY, _WITHOUT_KEY = xxh64_intdigest(_NO, _SEED), xxh64_intdigest(_YES, _SEED)


def fingerprint(key: bytes | None, value: bytes | None) -> int:
    """The fingerprint of a record, without sign."""
    found = _WITHOUT_KEY if key is None else xxh64_intdigest(key, _WITH_KEY)
    if value is None:
        return xxh64_intdigest(_YES, found)
    return xxh64_intdigest(value, xxh64_intdigest(_NO, found))
