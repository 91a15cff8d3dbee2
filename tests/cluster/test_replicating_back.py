"""A planned failover that lets the old primary follow: nothing comes twice, and the way home."""

import pytest

from tests.cluster.link_command import GO, steps_of
from tests.cluster.site import Site
from tests.cluster.way_home import BACK, COPIED, HAD, NEW, Story, named

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]


def test_the_old_primary_follows_and_the_way_home_is_short(site: Site) -> None:
    journey = site.keep(Story(site, after_failover=True))
    journey.lead_to("primary")
    journey.write_copied()
    read = journey.read(journey.group, journey.primary, named("copied", COPIED))
    plan = journey.json("failover", code=0)
    order = [step["id"] for step in plan["steps"]]
    assert order.index("begin-reverse") < order.index("open-target")
    assert order[-1] == "replicate-back"

    done = journey.json("failover", *GO, code=0)
    assert set(steps_of(done, "status").values()) <= {"done", "passed"}
    journey.wrote("new", NEW, journey.secondary)
    journey.await_held(journey.primary, len(HAD))
    journey.both_hold(HAD)
    read += journey.read(journey.group, journey.secondary, named("new", NEW))

    early = journey.refused(*BACK)
    assert "copies to primary now: what that lacks cannot be found while it grows" in early
    journey.stop(journey.reverse)
    journey.came_home(*BACK)
    journey.goes_on(HAD, read)
