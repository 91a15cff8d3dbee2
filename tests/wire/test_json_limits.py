"""JSON in records that breaks many readers. `tests/fuzz` decodes changed records of each format."""

import pytest

from tests.wire.formats import FORMATS

JSON_FORMATS = ("connect", "provenance", "tracked-offsets-key", "tracking-passes")


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
        assert refused or not each.name.startswith(JSON_FORMATS)
