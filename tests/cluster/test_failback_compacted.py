"""A way home over compacted topics, while applications write on to the secondary.

There the newest record of a key is the only one that stays: a copy behind it would win for good.
"""

from collections import Counter

import pytest

from tests.cluster.failover_stage import PARTITIONS
from tests.cluster.killing import killed_at
from tests.cluster.link_command import GO, steps_of
from tests.cluster.own_homes import OwnHome
from tests.cluster.site import Site
from tests.cluster.way_home import BACK, EVERYTHING, TAIL, Journey, named

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]

COMPACTED = {"cleanup.policy": "compact"}
AGAIN = 4
"""Keys of the tail that are written once more on the secondary."""


class Compacted(OwnHome):
    """Nothing is in conflict when the primary comes back."""

    def lose_the_primary(self) -> None:
        Journey.lose_the_primary(self)


@pytest.fixture
def home(site: Site) -> Compacted:
    made = site.keep(Compacted(site, site.new_topic(PARTITIONS, config=COMPACTED)))
    made.lose_the_primary()
    return made


def test_what_conflicts_since_the_search_is_not_copied(home: Compacted) -> None:
    killed_at(home, "behind", "judge-records", *BACK, *GO)
    home.wrote("again", AGAIN, home.secondary, keys="tail")
    before = home.in_order(home.secondary)

    turned = home.json("resume", *GO, code=4)
    assert steps_of(turned, "status")["reconcile"] == "failed", turned
    why = steps_of(turned, "detail")["reconcile"]
    assert "something newer" in why, why
    assert "begin again, or choose --policy quarantine" in why, why
    assert home.in_order(home.secondary) == before
    assert home.led_to == home.secondary.bootstrap

    done = home.came_home(*BACK)
    assert steps_of(done, "detail")["reconcile"] == f"all are done: {TAIL - AGAIN} copy"

    superseded = named("tail", AGAIN)
    everything = Counter(EVERYTHING | named("again", AGAIN))
    assert home.all_of(home.primary) == everything
    assert home.all_of(home.secondary) == everything - Counter(superseded)
    for cluster in home.site.clusters:
        assert newest_by_key(home.in_order(cluster)) == named("again", AGAIN), cluster.name


def newest_by_key(records: dict[int, list[str]]) -> set[str]:
    """What compaction leaves of the keys that were written again."""
    last: dict[str, str] = {}
    for value in (value for values in records.values() for value in values):
        name, _, number = value.partition("-")
        if name in ("tail", "again") and int(number) < AGAIN:
            last[number] = value
    return set(last.values())
