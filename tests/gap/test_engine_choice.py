"""Which engine compares, why, and how long it is expected to take."""

from pathlib import Path

import pytest

from drctl.gap.engine_choice import COSTS, HELD_OFFSETS, MAX_DIRECT_OFFSETS, EngineChoice, Volume
from drctl.model.gap import Engine
from drctl.stores.ledger import MeasuredRate

DIRECT, SPARK = Engine.DIRECT, Engine.SPARK
MILLION = 1_000_000
SMALL = Volume(4 * MILLION, 800 * MILLION, partitions=4)
LARGE = Volume(40 * MILLION, 8_000 * MILLION, partitions=40)


def engine(volume: Volume, **more: object) -> Engine:
    return EngineChoice(2, {}, **more).choose(volume).engine  # type: ignore[arg-type]


def test_the_faster_engine_compares() -> None:
    assert (engine(SMALL), engine(LARGE)) == (DIRECT, SPARK)
    many = Volume(20 * MILLION, 4_000 * MILLION, partitions=10_000)
    assert engine(many) is DIRECT, "Spark logs in twice for each partition"
    for volume in (SMALL, LARGE, many):
        choice = EngineChoice(2, {}).choose(volume)
        assert choice.seconds[choice.engine] == min(choice.seconds.values())
        assert (choice.reason, choice.measured) == ("the faster engine", False)


def test_measured_durations_correct_the_model() -> None:
    both = EngineChoice(2, {DIRECT: 10.0}).choose(SMALL)
    assert (both.engine, both.measured) == (DIRECT, True), "what slows one slows the other"
    assert both.seconds[SPARK] == pytest.approx(10 * COSTS[SPARK].seconds(SMALL, 2))
    fast = EngineChoice(2, {SPARK: 0.1, DIRECT: 10.0}).choose(SMALL)
    assert (fast.engine, fast.measured) == (SPARK, True)
    assert fast.seconds[SPARK] == pytest.approx(COSTS[SPARK].seconds(SMALL, 2) / 10)


@pytest.mark.parametrize("offsets", [HELD_OFFSETS - 1, HELD_OFFSETS])
def test_every_record_is_kept_by_drctl_only_if_they_are_few(offsets: int) -> None:
    wanted = DIRECT if offsets < HELD_OFFSETS else SPARK
    assert engine(Volume(offsets, None, 4, every=True)) is wanted
    assert (
        EngineChoice(2, {DIRECT: 99.0, SPARK: 0.01})
        .choose(Volume(HELD_OFFSETS - 1, None, 4))
        .engine
        is DIRECT
    )


def test_the_user_chooses() -> None:
    assert engine(LARGE, fixed=DIRECT) is DIRECT
    assert engine(SMALL, fixed=SPARK) is SPARK
    assert engine(LARGE, spark_from=LARGE.offsets + 1) is DIRECT
    assert engine(SMALL, spark_from=SMALL.offsets) is SPARK
    assert EngineChoice(2, {}, spark_from=0).choose(SMALL).reason == "by spark.from_offsets"


def test_drctl_alone_reads_no_more_than_it_may() -> None:
    fast = EngineChoice(2, {DIRECT: 0.001, SPARK: 1.0})
    assert fast.choose(Volume(MAX_DIRECT_OFFSETS, 0, 4)).engine is DIRECT
    assert fast.choose(Volume(MAX_DIRECT_OFFSETS + 1, 0, 4)).engine is SPARK


def test_unsampled_records_count_as_200_bytes() -> None:
    for cost in COSTS.values():
        assert cost.seconds(SMALL, 2) == cost.seconds(Volume(4 * MILLION, None, 4), 2)


def test_rates_are_kept_by_engine(tmp_path: Path) -> None:
    rate = MeasuredRate(tmp_path / "state" / "rate.json")
    assert (rate.paces(), rate.offsets_a_second()) == ({}, None)
    rate.note(DIRECT, 4 * MILLION, 8, 4)
    rate.note(SPARK, 4 * MILLION, 20, 40)
    rate.note(SPARK, 1_000, 20, 1)  # too few offsets
    assert rate.paces() == {DIRECT: 2.0, SPARK: 0.5}
    assert rate.offsets_a_second() == 200_000
    for damaged in ("", "[]", '{"paces": 1}', '{"paces": {"spark": "x", "direct": -1}}'):
        (tmp_path / "state" / "rate.json").write_text(damaged, encoding="utf-8")
        assert rate.paces() == {}
