"""The estimate on a terminal: fits, is printable, and states no more than is known."""

from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from drctl.model.estimate import (
    ASSUMED,
    MEANINGS,
    EstimateResult,
    Missing,
    PartitionEstimate,
    TopicEstimate,
    Uncertainty,
)
from drctl.model.gap import NotCompared
from drctl.model.topology import OffsetRange
from drctl.views.estimate_text import NO_PROOF, estimate_table, next_steps, verdict
from tests.report.gaps import FROZEN, FROZEN_MS, HOSTILE_TOPIC


def partition(number: int | None, missing: int = 0, **more: object) -> PartitionEstimate:
    start = FROZEN_MS - 600_000 if missing else None
    stops = {"diverges_from": start, "stopped_at": start, **more}
    bounds = Missing(missing, missing, missing and missing + 4)
    ends = (None, None) if number is None else (OffsetRange(0, 9_000), OffsetRange(0, 8_000))
    return PartitionEstimate(number, *ends, 9_000, 8_000, bounds, **stops)  # type: ignore[arg-type]


def result(*topics: TopicEstimate, **more: object) -> EstimateResult:
    found = EstimateResult("main", "primary", "a", "secondary", "b", FROZEN, 0.4, topics)
    return replace(found, **more)  # type: ignore[arg-type]


def topic(name: str, *partitions: PartitionEstimate) -> TopicEstimate:
    return TopicEstimate(name, name, partitions)


def nothing() -> EstimateResult:
    return result(topic("orders", partition(0), partition(1)))


def stopped() -> EstimateResult:
    return result(topic("orders", partition(0), partition(3, 6_276)), topic("bills", partition(0)))


def ahead_on_target() -> EstimateResult:
    ahead = partition(
        3, 6_276, stopped_at=None, ahead_on_target=40, uncertainty=(Uncertainty.AHEAD_ON_TARGET,)
    )
    return result(topic("orders", ahead))


def everything_wrong() -> EstimateResult:
    odd = partition(None, 70, diverges_from=None, stopped_at=None, uncertainty=tuple(Uncertainty))
    dark = (NotCompared("audit", None, "secondary: not authorized"), NotCompared("x", 3, "gone"))
    return result(topic("orders", odd), not_compared=dark)


def nothing_seen() -> EstimateResult:
    return result(not_compared=tuple(NotCompared(f"t{n}", None, "gone") for n in range(30)))


def hostile() -> EstimateResult:
    found = result(topic(HOSTILE_TOPIC, partition(0, 7, diverges_from=2**62)))
    dark = (NotCompared(HOSTILE_TOPIC, 0, HOSTILE_TOPIC),)
    return replace(found, link=HOSTILE_TOPIC, target=HOSTILE_TOPIC, not_compared=dark)


def vast() -> EstimateResult:
    return result(
        *(topic(f"many-{n:03}", *(partition(p, n * p) for p in range(20))) for n in range(500))
    )


EVERY = (nothing, stopped, ahead_on_target, everything_wrong, nothing_seen, hostile, vast)
every = pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)


def draw(found: EstimateResult, width: int = 2_000) -> str:
    """Return what a terminal without colors shows, through a console that interprets markup."""
    out = StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None).print(
        estimate_table(found)
    )
    return out.getvalue()


@every
@pytest.mark.parametrize("width", [80, 200])
def test_every_line_fits_and_is_printable(make: Callable[[], EstimateResult], width: int) -> None:
    for line in draw(make(), width).splitlines():
        assert len(line) <= width
        assert line.isprintable()


@every
def test_it_starts_with_no_proof_and_ends_with_the_actions(
    make: Callable[[], EstimateResult],
) -> None:
    found = make()
    lines = draw(found).splitlines()
    assert lines[0].startswith("Estimate: ")
    assert lines[0].rstrip().endswith(NO_PROOF)
    assert next_steps(found)[-1].splitlines()[-1] in lines[-1]
    assert any(ASSUMED in line for line in lines)


def test_since_when_and_how_many() -> None:
    text = draw(stopped())
    assert verdict(stopped()) == (
        "Estimate: about 6,276 records of topic orders are not replicated to secondary "
        f"(at least 6,276, at most 6,280). {NO_PROOF}"
    )
    assert (
        "Replication of orders-3 stopped: about 6,276 records since 2026-03-05 14:10:07 UTC."
        in text
    )
    assert "drctl gap --scope full --topic orders" in text


def test_continuing_records_show_no_stop() -> None:
    text = draw(ahead_on_target())
    assert "orders-3 differs since 2026-03-05 14:10:07 UTC: about 6,276" in text
    assert "Do not restart replication" in text
    assert "replication lag" not in text


def test_nothing_missing_is_never_claimed() -> None:
    assert "no gap visible in 2 partitions" in verdict(nothing())
    assert "nothing is missing" not in draw(nothing()).lower()
    assert "no partitions could be checked" in verdict(nothing_seen())


def test_every_uncertainty_is_explained_once() -> None:
    text = draw(everything_wrong())
    for doubt in Uncertainty:
        assert text.count(MEANINGS[doubt]) == 1
    assert "since an unknown time" not in text  # the partition does not exist on the target
    assert "and 20 more" in draw(nothing_seen())


def test_the_ten_worst_partitions() -> None:
    lines = draw(vast()).splitlines()
    table = [line.split() for line in lines if line.startswith("  many-")]
    assert len(table) == 10
    assert table[0][:5] == ["many-499", "19", "9,481", "9,481", "9,485"]
    assert any("more partitions" in line for line in lines)


def test_names_are_escaped() -> None:
    text = draw(hostile())
    assert r"\xe2\x80\xae[red]\x1b[31m" in text
    assert "\x1b[31m" not in text
