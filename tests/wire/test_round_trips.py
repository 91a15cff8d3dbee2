"""Every encoded value decodes to itself."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.formats.primitives import Undecodable
from tests.depth import examples
from tests.wire.formats import FORMATS, Format


@pytest.mark.slow
@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_every_value_survives_a_round_trip(each: Format) -> None:
    @settings(max_examples=examples(100), deadline=None)
    @given(each.values)
    def check(value: Any) -> None:
        written = each.encode(value)
        assert each.decode(written) == value
        assert each.encode(each.decode(written)) == written

    check()


@pytest.mark.slow
@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_missing_or_extra_bytes_are_undecodable(each: Format) -> None:
    @settings(max_examples=examples(30), deadline=None)
    @given(each.values, st.data())
    def check(value: Any, data: st.DataObject) -> None:
        written = each.encode(value)
        cut = written[: data.draw(st.integers(0, len(written) - 1))]
        for wrong in (cut, written + b"\x00"):
            # Some formats decode other values from fewer or more bytes; none decodes the same one.
            assert each.refusal(wrong) or each.decode(wrong) != value

    check()


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_null_is_a_tombstone_where_it_may_be(each: Format) -> None:
    if each.tombstone:
        assert each.decode(None) is None
    else:
        with pytest.raises(Undecodable, match="null: no bytes") as caught:
            each.decode(None)
        assert caught.value.hex == ""
