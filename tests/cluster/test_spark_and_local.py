"""Spark digests many records; the few that remain are compared without it."""

import pytest

from drctl.stores.parquet import FILE
from tests.cluster.lab_link import NewDrctl, NewHalf, link_over
from tests.parquet.reading import rows_of

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]


def test_few_differences_among_many_records(half: NewHalf, new_drctl: NewDrctl) -> None:
    topic = half(1000, 990)
    link = link_over(topic)
    spark = {"master": "local[2]", "from_offsets": 500}
    ended = new_drctl({"main": link}, spark=spark).gap()
    assert ended.code == 1, ended.stderr
    document = ended.document()
    assert document["totals"]["read_from_source"] == 1000
    (partition,) = document["topics"][0]["partitions"]
    assert partition["ranges"] == [[990, 999]]
    assert len(rows_of(ended.out / "records")) == 10
    assert [p.name for p in (ended.out / "records").iterdir()] == [FILE], "Spark wrote the records"
    assert document["engine"] == "spark", "Spark did not digest the records"


@pytest.mark.nightly
def test_the_command_line_selects_the_comparer(half: NewHalf, new_drctl: NewDrctl) -> None:
    topic = half(100, 90)
    link = link_over(topic)
    few, much = ({"master": "local[2]", "from_offsets": n} for n in (1_000_000, 0))
    answers = []
    for spark, engine in ((few, "auto"), (much, "direct"), (few, "spark")):
        ended = new_drctl({"main": link}, spark=spark).gap("--engine", engine)
        assert ended.code == 1, ended.stderr
        answers.append(ended.document())
    assert [each["engine"] for each in answers] == ["direct", "direct", "spark"]
    assert all(each["topics"] == answers[0]["topics"] for each in answers)
