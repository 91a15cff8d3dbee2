"""Applications write the same topic on two clusters; one is lost, recovers, and is failed back."""

from collections import Counter

import pytest

from tests.cluster.failback_stage import BACK, COPIED, LATER, NEW, TAIL, named
from tests.cluster.killing import MOMENTS, killed_at
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, steps_of, yes
from tests.cluster.two_writers import TwoWriters

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(1800)]

COPY_ALL = (*BACK, "--conflicting", "copy")
ANSWER = yes("resolve-outstanding")

OLDER = 5
"""Unreplicated records whose keys have newer records on the surviving cluster."""


@pytest.fixture
def sites(site: Site) -> TwoWriters:
    return site.keep(TwoWriters(site))


def lose_primary(sites: TwoWriters) -> set[str]:
    """Lose the primary with unreplicated records, while both clusters are written to."""
    written = sites.wrote("east", COPIED, sites.primary)
    written |= sites.wrote("west", COPIED, sites.secondary)
    for cluster in sites.site.clusters:
        sites.await_held(cluster, 2 * COPIED)
    read = sites.read(sites.group, sites.primary, written)
    assert len(read) == 2 * COPIED
    sites.replicate(False)
    written |= sites.wrote("tail", TAIL, sites.primary)
    written |= sites.wrote("older", OLDER, sites.primary, keys="flight")
    sites.kill_primary()
    plan = sites.json("failover", "--mode", "unplanned", code=0)
    assert "groups can skip some of those records" in steps_of(plan, "title")["commit-offsets"]
    lost = sites.json("failover", "--mode", "unplanned", *GO, code=1)
    assert lost["status"] == "done"
    assert sites.directed_to == sites.secondary.bootstrap
    written |= sites.wrote("newer", OLDER, sites.secondary, keys="flight")
    return written | sites.wrote("new", NEW, sites.secondary)


def test_the_lost_site_returns_and_both_have_every_record_once(sites: TwoWriters) -> None:
    written = lose_primary(sites)
    sites.lab.start("primary")

    plan = sites.json(*BACK, code=0)
    (order,) = [each for each in plan["findings"] if each["check"] == "order-between-sites"]
    assert "have no common order" in order["reason"]
    assert "is not a copy of" in sites.refused("failback", "--check-order", code=2)
    assert "is not a copy of" in sites.refused("failback", "--rebuild", code=2)
    undecided = sites.refused(*BACK, *GO, code=4)
    assert f"{OLDER} conflicting" in undecided
    with sites.live() as live:
        done = sites.json(*COPY_ALL, *ANSWER, *GO, code=0)
    assert done["rpo"]["records"] == 0
    (reconciled,) = sites.entries("done", "reconcile")
    assert reconciled["facts"] == {"given_up": 0, "done": {"copy": TAIL + OLDER}}
    assert sites.directed_to == sites.primary.bootstrap
    written |= set(live)

    assert "every endpoint already points to primary" in sites.refused(*COPY_ALL, code=3)
    resumes_as_before(sites, written)


def resumes_as_before(sites: TwoWriters, written: set[str]) -> None:
    """Assert that both directions replicate, nothing is missing or duplicated, and none skipped."""
    assert sites.connectors.states(sites.there, sites.back) == ["RUNNING"] * 2
    written = written | sites.wrote("later", LATER, sites.primary)
    written |= sites.wrote("last", LATER, sites.secondary)
    for cluster in sites.site.clusters:
        sites.await_values(cluster, len(written))
    sites.both_sites_hold(written)
    sites.keep_order()
    for link in (sites.link, sites.west):
        assert sites.gap(link, 0)["duplicated_on_target"] == 0
    before = named("east", COPIED) | named("west", COPIED)
    again = sites.read(sites.group, sites.primary, written - before)
    assert set(again) == written - before, "the group did not resume at its last offset"


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_failback_killed_in_every_step_copies_nothing_twice(
    sites: TwoWriters, moment: str
) -> None:
    written = lose_primary(sites)
    sites.lab.start("primary")
    steps = [step["id"] for step in sites.json(*COPY_ALL, code=0)["steps"]]
    words = (*COPY_ALL, *ANSWER, *GO)
    with sites.live() as live:
        for step in steps:
            killed_at(sites, moment, step, *words)
            words = ("resume", *ANSWER, *GO)
        done = sites.json(*words, code=0)
    assert done["status"] == "done"
    announced = Counter(entry["step"] for entry in sites.entries("intend"))
    assert announced == Counter(steps), "a step was repeated"
    resumes_as_before(sites, written | {*live})
