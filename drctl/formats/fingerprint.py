"""A record's fingerprint: 64 bits of its key and value, the same on every cluster.

It is stored in tracked offsets, so it must never change: XXH64 of each part, seeded with the result
for the previous part, starting with seed 42. The parts are: whether the key is null (0 or 1 in 4
bytes, little-endian), the key unless it is null, the same for the value. Headers and timestamps do
not count: replication adds headers, and a target may assign its own timestamps.

Equal to `xxhash64(isnull(key), key, isnull(value), value)` in Spark SQL, which is signed.
"""

from xxhash import xxh64_intdigest

_SEED = 42
_NO, _YES = (0).to_bytes(4, "little"), (1).to_bytes(4, "little")
_WITH_KEY, _WITHOUT_KEY = xxh64_intdigest(_NO, _SEED), xxh64_intdigest(_YES, _SEED)


def fingerprint(key: bytes | None, value: bytes | None) -> int:
    """Compute the fingerprint of a record, as an unsigned number."""
    found = _WITHOUT_KEY if key is None else xxh64_intdigest(key, _WITH_KEY)
    if value is None:
        return xxh64_intdigest(_YES, found)
    return xxh64_intdigest(value, xxh64_intdigest(_NO, found))
