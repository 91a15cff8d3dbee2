"""What a consumer remembers of consumed records: a timestamp is never too new."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.kafka.timestamps_consumer import ConsumedTimes, split

PLACE = ("orders", 0)


def consumed(steps: Sequence[int], limit: int) -> tuple[ConsumedTimes, list[int]]:
    """A consumer that read offsets with these distances; each timestamp is ten times the offset."""
    times, offset, offsets = ConsumedTimes(limit), -1, []
    for step in steps:
        offset += step
        offsets.append(offset)
        times.note(PLACE, offset, offset * 10)
    return times, offsets


@given(st.lists(st.integers(1, 5), min_size=1, max_size=200), st.integers(2, 20))
def test_the_last_consumed_record_is_always_known(steps: Sequence[int], limit: int) -> None:
    times, offsets = consumed(steps, limit)
    assert times.before(PLACE, offsets[-1] + 1) == offsets[-1] * 10


@given(st.lists(st.integers(1, 5), min_size=1, max_size=200), st.integers(2, 20), st.data())
def test_an_earlier_record_represents_forgotten_ones(
    steps: Sequence[int], limit: int, data: st.DataObject
) -> None:
    times, offsets = consumed(steps, limit)
    committed = data.draw(st.integers(0, offsets[-1] + 2))
    found = times.before(PLACE, committed)
    exact = max((o for o in offsets if o < committed), default=None)
    if exact is None:
        assert found is None
    else:
        assert found is not None
        assert found <= exact * 10
        assert limit <= len(offsets) or found == exact * 10


def test_going_back_starts_over() -> None:
    times, _ = consumed([1] * 10, 100)
    times.note(PLACE, 4, 444)
    assert times.before(PLACE, 5) == 444
    assert times.before(PLACE, 10) == 444
    assert times.before(PLACE, 4) is None


def test_a_partition_that_is_assigned_again_starts_over() -> None:
    times, _ = consumed([1] * 10, 100)
    times.forget(PLACE)
    times.forget(("other", 1))
    assert times.before(PLACE, 10) is None


def test_timestamp_settings_are_separated_from_those_of_the_consumer() -> None:
    settings, consumer = split(
        {
            "bootstrap.servers": "b:1",
            "group.id": "g",
            "sasl.password": "geheim",
            "enable.auto.commit": False,
            "timestamps.producer.linger.ms": 5,
            "timestamps.producer.bootstrap.servers": "other:1",
            "timestamps.topic.num.partitions": "7",
            "timestamps.topic.replication.factor": 1,
        }
    )
    assert consumer == {
        "bootstrap.servers": "b:1",
        "group.id": "g",
        "sasl.password": "geheim",
        "enable.auto.commit": False,
    }
    assert settings.producer == {
        "bootstrap.servers": "other:1",
        "sasl.password": "geheim",
        "linger.ms": 5,
    }
    assert (settings.partitions, settings.replicas, settings.value_bytes) == (7, 1, 16)
    assert "geheim" not in repr(settings)


def test_settings_as_replicator_documents_them() -> None:
    settings, _ = split({})
    assert (settings.partitions, settings.replicas) == (50, 3)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("timestamps.topic.num.partition", 5, "timestamps.topic.num.partitions?"),
        ("timestamps.topic.num.partitions", 0, "a number of at least 1"),
        ("timestamps.topic.num.partitions", "many", "a number of at least 1"),
        ("timestamps.topic.max.per.partition", True, "a number of at least 1"),
        ("timestamps.value.bytes", 12, "8 or 16"),
    ],
)
def test_settings_that_are_wrong(name: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        split({name: value})
