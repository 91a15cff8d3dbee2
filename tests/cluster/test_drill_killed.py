"""A drill that is killed anywhere: `drill clean` deletes what it created, and nothing else."""

from collections.abc import Iterator

import pytest

from drctl.drill.cleaning import drill_of
from tests.cluster.drill_stage import PREFIX, Stage
from tests.cluster.killing import MOMENTS
from tests.cluster.lab_link import Site

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(1800)]

SMALL = ("--topic-prefix", PREFIX, "--records", "60", "--warm-up", "1s", "--timeout", "3m")
GO = (*SMALL, "--execute", "--yes")
CLEAN = ("clean", "--execute", "--yes")
REQUESTS = 4
"""Delete requests: for groups and for topics, on each of both clusters."""


@pytest.fixture
def drills(site: Site) -> Iterator[Stage]:
    made = Stage(site)
    yield made
    assert made.left() == set()


def cleaned_up_after(stage: Stage, moment: str, place: str) -> None:
    """Kill a drill, and clean up by hand; assert that only its own objects are gone."""
    before, known = stage.everything_else(), stage.known()
    stage.killed_by_itself(moment, place, *GO)
    (died,) = stage.known() - known
    mess = stage.left()
    assert {drill_of(name) for name in mess} <= {died}
    if place != f"deleted:{REQUESTS}":
        assert mess, f"{moment} {place}: nothing was left to clean up"
    stage.json(*CLEAN, code=0)
    assert stage.left() == set(), f"{moment} {place}"
    assert stage.everything_else() == before, f"{moment} {place}"
    newest = stage.json("history", code=0)["drills"][-1]
    assert (newest["drill"], newest["verdict"]) == (died, "interrupted")


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_drill_killed_in_any_step_is_cleaned_up(drills: Stage, moment: str) -> None:
    stage = drills
    steps = [each["id"] for each in stage.json(*SMALL, code=0)["steps"]]
    assert steps[-2:] == ["enable-writes", "verify-clients"]
    for step in [*steps, *([""] if moment == "before" else [])]:
        cleaned_up_after(stage, moment, step)


def test_a_drill_killed_between_steps_is_cleaned_up(drills: Stage) -> None:
    stage = drills
    for place in ("made:1", "moved:1", *(f"deleted:{n}" for n in range(1, REQUESTS + 1))):
        cleaned_up_after(stage, "after", place)


def test_a_cleanup_may_be_killed_too(drills: Stage) -> None:
    stage = drills
    before = stage.everything_else()
    stage.killed_by_itself("after", "verify-clients", *GO)
    mess = shown(stage)
    for _ in range(REQUESTS - 1):
        stage.killed_by_itself("after", "deleted:1", *CLEAN)
        less = shown(stage)
        assert less < mess, "the cleanup was killed before it deleted anything"
        mess = less
    stage.json(*CLEAN, code=0)
    assert stage.left() == set()
    assert stage.everything_else() == before


def shown(stage: Stage) -> set[str]:
    """Return what can be cleaned up, by cluster."""
    return set(stage.json("clean", code=1)["left"])
