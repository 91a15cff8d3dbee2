"""Everything sent between client and job arrives unchanged."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drctl.gap.comparison import (
    BucketDigest,
    ComparePlan,
    Comparison,
    Identity,
    Reads,
    Side,
    TopicPlan,
    TopicSuspects,
)
from drctl.gap.json import plain, restored
from tests.depth import examples


@st.composite
def plans(draw: st.DrawFn) -> ComparePlan:
    topics = draw(st.lists(st.from_type(TopicPlan), max_size=3))
    identity = draw(st.from_type(Identity))
    timed = identity.timestamp and all(t.timestamps for t in topics)
    if not timed:
        topics = [t for t in topics if not t.bucket_ms]
    return ComparePlan(tuple(topics), identity, *draw(st.tuples(*[st.integers()] * 3)))


def sent(document: Any) -> Any:
    return json.loads(json.dumps(document, allow_nan=False))


@given(plans())
@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])
def test_plans(plan: ComparePlan) -> None:
    assert restored(ComparePlan, sent(plain(plan))) == plan


@pytest.mark.slow
@given(st.from_type(Reads))  # type: ignore[type-abstract]
@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])
def test_reads(reads: Reads) -> None:
    assert restored(Reads, sent(plain(reads))) == reads


@pytest.mark.slow
@given(st.lists(st.from_type(TopicSuspects), max_size=3))
@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])
def test_suspects(suspects: list[TopicSuspects]) -> None:
    found = restored(tuple[TopicSuspects, ...], sent(plain(suspects)))
    assert found == tuple(suspects)
    assert all(type(s.buckets) is frozenset for s in found)


@given(st.lists(st.from_type(BucketDigest)))
@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])
def test_digests(digests: list[BucketDigest]) -> None:
    found = restored(tuple[BucketDigest, ...], sent(digests))
    assert found == tuple(digests)
    assert all(type(each.side) is Side for each in found)


@given(st.from_type(Comparison))
@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])
def test_comparisons(comparison: Comparison) -> None:
    assert restored(Comparison, sent(plain(comparison))) == comparison


@pytest.mark.parametrize(
    "data", [None, {}, [["t", "source"]], [["t", "nowhere", *[0] * 8]], [[0, "source", *[0] * 8]]]
)
def test_a_file_that_is_not_a_table_of_digests(data: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        restored(tuple[BucketDigest, ...], data)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (int, True),
        (int, "1"),
        (str, 1),
        (tuple[int, ...], "12"),
        (tuple[int, int], [1]),
        (dict[str, int], {"a": 1}),
        (Identity, {**plain(Identity()), "more": 1}),
        (Identity, {}),
    ],
)
def test_a_value_of_another_type(kind: Any, data: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        restored(kind, data)


def test_a_value_without_json() -> None:
    for value in (b"bytes", object()):
        with pytest.raises(TypeError):
            plain(value)
    with pytest.raises(TypeError):
        restored(bytes, "x")
