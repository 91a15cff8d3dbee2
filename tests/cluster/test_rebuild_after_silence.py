"""The old replication had run when the primary came back, and nobody knew: the way out of that.

It has appended the tail of the primary behind new records of the secondary. No boundary tells new
from old any more; the primary is filled anew, in the order of the secondary.
"""

from collections import Counter

import pytest

from tests.cluster.link_command import GO
from tests.cluster.own_homes import held
from tests.cluster.site import Site
from tests.cluster.test_rebuild import Emptied
from tests.cluster.way_home import BACK, COPIED, EVERYTHING, LATER, NEW, REBUILD, TAIL, named

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(900)]

FLIGHTS = 7
ALONE = 5
KNOWN = ("--override", "source-whole=the old replication ran behind new records")


@pytest.fixture
def story(site: Site) -> Emptied:
    made = site.keep(Emptied(site))
    made.write("before", FLIGHTS, made.primary, keys="flight")
    made.lose_the_primary()
    return made


def test_it_leads_home_with_both_sides_alike(story: Emptied) -> None:
    story.write("older", FLIGHTS, story.primary, keys="flight")
    story.write("newer", FLIGHTS, story.secondary, keys="flight")
    story.lab.replicate(True)
    story.await_held(story.secondary, COPIED + NEW + TAIL + 3 * FLIGHTS)
    story.replicate(False)
    newest = story.wrote("newest", FLIGHTS, story.secondary, keys="flight")
    alone = story.wrote("alone", ALONE, story.primary)
    copied = story.in_order(story.secondary)

    refused = story.run(*BACK, *GO)
    assert refused.code in (3, 4), refused.stdout
    said = " ".join(f"{refused.stdout} {refused.stderr}".split())
    assert "--rebuild --override source-whole=REASON" in said
    assert story.run(*REBUILD, "--policy", "copy").code == 3, "it has lost nothing"
    assert story.led_to == story.secondary.bootstrap
    assert story.in_order(story.secondary) == copied

    question = ("--answer", "empty-primary=yes")
    earlier = len([*story.drctl.runs.glob("*")])
    with story.running(*REBUILD, *KNOWN, "--policy", "copy", *question, *GO) as process:

        def waits() -> bool:
            begun = len([*story.drctl.runs.glob("*")]) > earlier
            asked = begun and story.has("intend", "empty-primary")
            return asked and "still there: " in story.said

        story.until(process, waits)
        assert not story.has("intend", "begin-at-start"), "a word was believed"
        assert alone <= set(story.all_of(story.secondary)), "they would be destroyed"
        story.empty()
        story.ends(process)
    assert story.led_to == story.primary.bootstrap

    home = story.alike()
    for number, log in copied.items():
        assert home[number][: len(log)] == log, "another order than that of the survivor"
    everything = EVERYTHING | alone
    for each in ("before", "older", "newer", "newest"):
        everything |= named(each, FLIGHTS)
    assert held(home) == Counter(everything)
    for log in home.values():
        newer = [value for value in log if value.startswith(("older", "newer", "newest"))]
        last = {value.partition("-")[2]: value for value in newer}
        assert set(last.values()) <= newest, "an older record of a flight came last"

    everything |= story.wrote("later", LATER, story.primary)
    story.await_held(story.secondary, len(everything))
    assert story.all_of(story.secondary) == Counter(everything)
    assert story.states("mm2-source", story.reverse) == ["RUNNING", "STOPPED"]
