"""Applications of two clusters write the same topic: comparison and reconcile per direction."""

import pytest

from tests.cluster.lab_link import Site
from tests.cluster.two_writers import TwoWriters

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

COPIED, TAIL, NEW = 40, 12, 8


@pytest.fixture
def sites(site: Site) -> TwoWriters:
    return site.keep(TwoWriters(site))


@pytest.mark.nightly
def test_each_direction_is_compared_and_reconciled_by_itself(sites: TwoWriters) -> None:
    east = sites.wrote("east", COPIED, sites.primary)
    west = sites.wrote("west", COPIED, sites.secondary)
    for cluster in sites.site.clusters:
        sites.await_held(cluster, 2 * COPIED)
    sites.both_sites_hold(east | west)
    for link in (sites.link, sites.west):
        assert sites.gap(link, 0)["unreplicated"] == 0
    plan = sites.json("failback", "--policy", "copy", code=3)
    judged = {each["check"]: each["status"] for each in plan["findings"]}
    assert judged["clients-on-source"] == "fail"
    assert judged["order-between-sites"] == "warn"
    assert not {"source-lost", "reverse-replication", "replication-loops"} & judged.keys()
    sites.connectors.stop(sites.there, sites.back)
    east |= sites.wrote("tail", TAIL, sites.primary)
    west |= sites.wrote("new", NEW, sites.secondary)

    assert sites.gap(sites.link, 1)["unreplicated"] == TAIL
    assert sites.gap(sites.west, 1)["unreplicated"] == NEW
    for link in (sites.link, sites.west):
        sites.reconcile(link)
    sites.both_sites_hold(east | west)
    sites.keep_order()
    for link in (sites.link, sites.west):
        assert sites.gap(link, 0)["unreplicated"] == 0
