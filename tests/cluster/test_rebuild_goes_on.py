"""A rebuild that was given up half-way, and goes on: what has come is known, and nobody is asked.

The survivor was written to in transactions: their ends are offsets that hold no record, and are
not copied. So offsets do not tell how far the copying came.
"""

import pytest

from drctl.model.topology import Record
from tests.cluster.failover_stage import PARTITIONS
from tests.cluster.link_command import GO, soon, steps_of
from tests.cluster.site import Site
from tests.cluster.test_rebuild import Emptied
from tests.cluster.way_home import HAD, REBUILD, named

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(900)]

IN_TRANSACTIONS = 12
WHEN_MS = 1_700_000_000_000


def test_it_goes_on_behind_what_came_where_transactions_leave_holes(site: Site) -> None:
    story = site.keep(Emptied(site))
    story.lose_the_primary()
    for number in range(IN_TRANSACTIONS):
        value = f"sent-{number}".encode()
        one = Record(number % PARTITIONS, -1, WHEN_MS + number, b"k", value)
        story.secondary.produce(story.topic, [one], "commit")
    everything = HAD | named("sent", IN_TRANSACTIONS)
    assert story.held(story.secondary) > len(everything), "no end of a transaction"
    story.empty()

    story.kill_at("caught-up", *REBUILD, *GO)
    soon(lambda: story.held(story.primary) == len(everything))
    story.stop(story.reverse)
    given_up = story.run("resume", "--abandon", "it took too long", *GO)
    assert given_up.code in (0, 1, 4), given_up.stdout + given_up.stderr

    # More has come than was ever copied from it: nothing shows any more what it had lost.
    known = ("--override", "source-whole=it was being filled")
    # Nobody sits there; a word alone that it is empty would not do.
    said = ("--answer", "empty-primary=yes")
    done = story.came_home(*REBUILD, *known, *said)
    told = steps_of(done, "detail")["empty-primary"]
    assert told == "primary holds what this way home has brought, and no more"
    story.both_hold(everything)
