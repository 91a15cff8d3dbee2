"""The old replication had run when the primary came back, and nobody knew: the way out of that.

It has appended the tail of the primary behind new records of the secondary. No boundary tells new
from old any more; the primary is filled anew, in the order of the secondary.
"""

from collections import Counter
from collections.abc import Iterator

import pytest

from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from tests.cluster.conftest import NewDrctl
from tests.cluster.own_homes import held
from tests.cluster.test_rebuild import REBUILD, Emptied
from tests.cluster.way_home import COPIED, DEADLINE_S, GO, LATER, NEW, TAIL, named
from tests.conftest import NewTopic

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(900)]

FLIGHTS = 7
ALONE = 5
KNOWN = ("--override", "source-whole=the old replication ran behind new records")


@pytest.fixture
def story(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> Iterator[Emptied]:
    made = Emptied(lab, new_drctl, new_topic)
    try:
        made.write("before", FLIGHTS, made.primary, keys="flight")
        made.lose_the_primary()
        yield made
    finally:
        made.close()


def values(story: Emptied, cluster: str) -> dict[int, list[str]]:
    """Every record of each partition, in its order."""
    logs = story.logs(getattr(story, cluster))
    return {number: [value.decode() for value in log] for number, log in logs.items()}


def test_it_leads_home_with_both_sides_alike(story: Emptied) -> None:
    story.write("older", FLIGHTS, story.primary, keys="flight")
    story.write("newer", FLIGHTS, story.secondary, keys="flight")
    story.lab.replicate(True)
    silently = COPIED + NEW + TAIL + 3 * FLIGHTS
    assert Patience.of(60).wait_until(lambda: story.held(story.secondary) >= silently)
    story.replicate(False)
    newest = {f"newest-{number}" for number in range(FLIGHTS)}
    assert newest == set(story.write("newest", FLIGHTS, story.secondary, keys="flight"))
    alone = set(story.write("alone", ALONE, story.primary))
    assert len(alone) == ALONE
    copied = values(story, "secondary")

    refused = story.run("failback", "--policy", "copy", *GO)
    assert refused.code in (3, 4), refused.stdout
    said = " ".join(f"{refused.stdout} {refused.stderr}".split())
    assert "--rebuild --override source-whole=REASON" in said
    assert story.run(*REBUILD, "--policy", "copy").code == 3, "it has lost nothing"
    assert story.led_to == story.secondary.bootstrap
    assert values(story, "secondary") == copied

    question = ("--answer", "empty-primary=yes")
    earlier = len([*story.drctl.folder.glob(".drctl/runs/*")])
    with story.running(*REBUILD, *KNOWN, "--policy", "copy", *question, *GO) as process:

        def asked() -> bool:
            assert process.poll() is None, story.said
            runs = len([*story.drctl.folder.glob(".drctl/runs/*")])
            return runs > earlier and story.reached("empty-primary")

        def waits() -> bool:
            return asked() and "still there: " in story.said

        assert Patience.of(DEADLINE_S).wait_until(waits), story.said
        assert not story.reached("begin-at-start"), "a word was believed"
        assert alone <= set(story.all_of(story.secondary)), "they would be destroyed"
        story.empty()
        assert process.wait(DEADLINE_S) == 0, story.said
    assert story.led_to == story.primary.bootstrap

    home, away = values(story, "primary"), values(story, "secondary")
    assert home == away
    for number, log in copied.items():
        assert home[number][: len(log)] == log, "another order than that of the survivor"
    everything = named("copied", COPIED) | named("tail", TAIL) | named("new", NEW) | alone
    for each in ("before", "older", "newer", "newest"):
        everything |= named(each, FLIGHTS)
    assert held(home) == Counter(everything)
    for log in home.values():
        newer = [value for value in log if value.startswith(("older", "newer", "newest"))]
        last = {value.partition("-")[2]: value for value in newer}
        assert set(last.values()) <= newest, "an older record of a flight came last"

    later = story.write("later", LATER, story.primary)
    everything |= set(later)
    assert Patience.of(60).wait_until(lambda: story.held(story.secondary) >= len(everything))
    assert story.all_of(story.secondary) == Counter(everything)
    assert story.states("mm2-source", story.reverse) == ["RUNNING", "STOPPED"]
