"""Only equal records have equal digests, which never change between releases.

tests/spark/test_same_digests.py proves that Spark's are the same.
"""

import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.gap.comparison import Identity
from drctl.gap.held import record_digest
from drctl.gap.reference import identify
from drctl.model.topology import Record
from tests.depth import examples
from tests.fakes import row_of
from tests.gap.logs import IGNORED, headers, identities, keys, times, values

RECORD = (
    1_700_000_000_000,
    b"key",
    b"value",
    ((b"a", b"1"), (b"b", None), (b"__replicator_id", b"x")),
)

VECTORS = {
    "everything": (Identity(ignored_headers=IGNORED), True),
    "not the time": (Identity(ignored_headers=IGNORED), False),
    "the key": (Identity(True, False, False, False), True),
    "a header": (Identity(False, False, False, False, ("b",)), True),
}
EXPECTED = {
    "everything": "a722468b35e9b23e93a44f00bc7e9f81",
    "not the time": "9faede80f715c872daa69cabd9bfffb5",
    "the key": "a8819376c3a372d3ea3ff6a11103c5a8",
    "a header": "b6894f826a0b7f7d8ce9aec1c938b19c",
    "nothing": "c2b3deab3f6997bdf7975c2e6bb3f6b7",
}
"""Stored ledgers contain sums of these digests: a change requires a higher `FORMAT`."""


def test_digests_never_change() -> None:
    for name, (identity, timestamps) in VECTORS.items():
        found = in_hex(record_digest(identity, timestamps, salt=42)(*RECORD))
        assert found == EXPECTED[name], name
    nothing = record_digest(Identity(), True, 2**62 - 1)(-1, None, None, ())
    assert in_hex(nothing) == EXPECTED["nothing"]


def in_hex(digests: tuple[int, int]) -> str:
    return "".join(digest.to_bytes(8, "little").hex() for digest in digests)


records = st.builds(Record, st.just(0), st.just(0), times, keys, values, headers)


@given(one=records, other=records, identity=identities, timestamps=st.booleans())
@settings(max_examples=examples(300), derandomize=True)
def test_equal_digests_mean_equal_records(
    one: Record, other: Record, identity: Identity, timestamps: bool
) -> None:
    digest = record_digest(identity, timestamps, salt=42)
    same = identify(one, identity, timestamps) == identify(other, identity, timestamps)
    assert (digest(*row_of(one)[1:]) == digest(*row_of(other)[1:])) == same


texts = st.one_of(st.none(), st.binary(max_size=12))


@given(
    one=st.tuples(texts, texts, st.lists(st.tuples(st.binary(max_size=4), texts), max_size=3)),
    cut=st.integers(0, 40),
)
@settings(max_examples=examples(150), derandomize=True)
def test_bytes_moved_between_key_and_value_are_detected(
    one: tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]], cut: int
) -> None:
    key, value, held = one
    digest = record_digest(Identity(), True, salt=42)
    joined = (key or b"") + (value or b"")
    moved = joined[:cut], joined[cut:]
    same = (key, value) == moved
    assert (digest(1, key, value, tuple(held)) == digest(1, *moved, tuple(held))) == same


def test_another_salt_is_another_digest() -> None:
    digests = {record_digest(Identity(), True, salt)(*RECORD) for salt in (0, 1, 2**62 - 1)}
    assert len(digests) == 3


def test_another_process_computes_the_same() -> None:
    code = (
        "from drctl.gap.comparison import Identity; from drctl.gap.held import record_digest;"
        "print(record_digest(Identity(), True, 42)(7, b'k', None, ((b'h', b''),)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = record_digest(Identity(), True, 42)(7, b"k", None, ((b"h", b""),))
    assert done.stdout.strip() == str(here)
