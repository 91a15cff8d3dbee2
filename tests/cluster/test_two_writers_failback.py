"""Applications of two sites write the same topic; one site is lost, returns, and is failed back."""

import pytest

from tests.cluster.failback_stage import BACK, COPIED, LATER, NEW, TAIL, named
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, steps_of
from tests.cluster.two_writers import TwoWriters

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]

OLDER = 5
"""Records of the tail whose keys the surviving site has something newer of."""


@pytest.fixture
def sites(site: Site) -> TwoWriters:
    return site.keep(TwoWriters(site))


def lose_the_primary(sites: TwoWriters) -> set[str]:
    """A tail that exists only on the primary, and what both sites' applications write meanwhile."""
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
    lost = sites.json("failover", "--mode", "unplanned", *GO, code=1)
    assert lost["status"] == "done"
    assert sites.led_to == sites.secondary.bootstrap
    written |= sites.wrote("newer", OLDER, sites.secondary, keys="flight")
    return written | sites.wrote("new", NEW, sites.secondary)


def test_the_lost_site_returns_and_both_have_every_record_once(sites: TwoWriters) -> None:
    written = lose_the_primary(sites)
    sites.lab.start("primary")

    plan = sites.json(*BACK, code=0)
    (order,) = [each for each in plan["findings"] if each["check"] == "order-between-sites"]
    assert "have no common order" in order["reason"]
    undecided = sites.refused(*BACK, *GO, code=4)
    assert f"{OLDER} conflicting" in undecided
    with sites.live() as live:
        words = (*BACK, "--conflicting", "copy", "--answer", "resolve-outstanding=yes")
        done = sites.json(*words, *GO, code=0)
    details = steps_of(done, "detail")
    assert f"{TAIL + OLDER} copy" in details["reconcile"]
    assert sites.led_to == sites.primary.bootstrap
    written |= set(live)

    assert sites.connectors.states(sites.there, sites.back) == ["RUNNING"] * 2
    written |= sites.wrote("later", LATER, sites.primary)
    written |= sites.wrote("last", LATER, sites.secondary)
    for cluster in sites.site.clusters:
        sites.await_values(cluster, len(written))
    sites.both_sites_hold(written)
    sites.keep_order()
    for link in (sites.link, sites.west):
        assert sites.gap(link, 0)["duplicated_on_target"] == 0
    before = named("east", COPIED) | named("west", COPIED)
    again = sites.read(sites.group, sites.primary, written - before)
    assert set(again) == written - before, "the group resumes where it was, and skips nothing"
