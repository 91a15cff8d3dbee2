"""Headers that replicators add to copies do not make them different records."""

import pytest

from drctl.formats import migrator_headers, provenance
from drctl.gap.freeze import REPLICATION_HEADERS, identity_of
from drctl.gap.held import record_digest
from tests.links import link


def test_the_headers_equal_those_that_replicators_write() -> None:
    written = {provenance.HEADER, migrator_headers.OFFSET_HEADER, migrator_headers.ORIGIN_HEADER}
    assert written <= REPLICATION_HEADERS


@pytest.mark.parametrize("name", sorted(REPLICATION_HEADERS))
def test_a_copy_equals_its_original(name: str) -> None:
    identity = identity_of(link())
    digest = record_digest(identity, True, 7)
    own = ((b"trace", b"1"), (b"trace", None))
    original = digest(5, b"k", b"v", own)
    assert digest(5, b"k", b"v", (*own, (name.encode(), b"x"))) == original
    assert digest(5, b"k", b"v", ((name.encode(), None),)) == digest(5, b"k", b"v", ())
    assert digest(5, b"k", b"v", (*own, (b"other", b"x"))) != original
