"""A rebuild that was given up half-way, and goes on: what has come is known, and nobody is asked.

The survivor was written to in transactions: their ends are offsets that hold no record, and are
not copied. So offsets do not tell how far the copying came.
"""

from collections.abc import Iterator

import pytest

from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.topology import Record
from tests.cluster.conftest import NewDrctl
from tests.cluster.test_rebuild import REBUILD, Emptied
from tests.cluster.way_home import COPIED, GO, NEW, PARTITIONS, named, steps_of
from tests.conftest import NewTopic

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(900)]

IN_TRANSACTIONS = 12
WHEN_MS = 1_700_000_000_000


@pytest.fixture
def story(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> Iterator[Emptied]:
    made = Emptied(lab, new_drctl, new_topic)
    try:
        made.lose_the_primary()
        yield made
    finally:
        made.close()


def test_it_goes_on_behind_what_came_where_transactions_leave_holes(story: Emptied) -> None:
    for number in range(IN_TRANSACTIONS):
        value = f"sent-{number}".encode()
        one = Record(number % PARTITIONS, -1, WHEN_MS + number, b"k", value)
        story.secondary.produce(story.topic, [one], "commit")
    everything = named("copied", COPIED) | named("new", NEW) | named("sent", IN_TRANSACTIONS)
    assert story.held(story.secondary) > len(everything), "no end of a transaction"
    story.empty()

    story.kill_at("caught-up", *REBUILD, *GO)
    assert Patience.of(60).wait_until(lambda: story.held(story.primary) == len(everything))
    story.stop(story.reverse)
    given_up = story.run("resume", "--abandon", "it took too long", *GO)
    assert given_up.code in (0, 1, 4), given_up.stdout + given_up.stderr

    # More has come than was ever copied from it: nothing shows any more what it had lost.
    known = ("--override", "source-whole=it was being filled")
    # Nobody sits there; a word alone that it is empty would not do.
    said = ("--answer", "empty-primary=yes")
    done = story.json(*REBUILD, *known, *said, *GO, code=0)
    assert done["status"] == "done", done
    told = steps_of(done, "detail")["empty-primary"]
    assert told == "primary holds what this way home has brought, and no more"
    for cluster in (story.primary, story.secondary):
        found = story.all_of(cluster)
        assert (set(found), set(found.values())) == (everything, {1}), cluster.name
    assert story.led_to == story.primary.bootstrap
