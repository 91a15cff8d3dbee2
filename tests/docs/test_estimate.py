"""The pages describe the estimate as the code computes it."""

from drctl.gap.estimating import CLOCK_SLACK_MS, CROWD, LOOK_UPS
from drctl.model.estimate import ASSUMED, MEANINGS, Uncertainty
from tests.docs.pages import page, rows

GAP = page("docs/explanation/comparison.md").section("## The estimate")


def test_every_uncertainty_is_documented() -> None:
    documented = {row[0].strip("`") for row in rows(GAP) if row[0].startswith("`")}
    assert (
        documented == {doubt.value for doubt in Uncertainty} == {doubt.value for doubt in MEANINGS}
    )


def test_the_numbers() -> None:
    assert f"look-ups ({LOOK_UPS:,} of each cluster)" in GAP
    assert f"less than {CLOCK_SLACK_MS // 1000} s apart" in GAP
    assert f"up to {CLOCK_SLACK_MS // 1000} s after it" in GAP
    assert f"more than {CROWD:,} offsets within a millisecond" in GAP


def test_the_documented_assumptions() -> None:
    assert ASSUMED in " ".join(GAP.split())
