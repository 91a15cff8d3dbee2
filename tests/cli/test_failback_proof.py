"""What is on its way when everything is compared is no loss; what was there before is."""

from dataclasses import replace

from drctl.cli.failback.search import of_before
from tests.report.gaps import gap, result, topic


def test_only_what_was_there_at_the_comparison_before_counts() -> None:
    before = result(topic("orders", gap(0, 100), gap(1, 100)))
    later = result(topic("orders", gap(0, 105, missing=8), gap(1, 110, missing=4)))
    assert of_before(later, before) == 3
    assert of_before(later, result()) == 0, "a topic that is new since is on its way"


def test_where_not_every_range_is_told_all_of_it_counts() -> None:
    many = replace(gap(0, 110, missing=10), ranges_total=2)
    assert of_before(result(topic("orders", many)), result(topic("orders", gap(0, 100)))) == 10
