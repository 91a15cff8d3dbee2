"""`drctl failback --rebuild` on real clusters: the primary is back, and has not its records."""

from collections import defaultdict
from collections.abc import Iterator

import pytest

from drctl.engine.failback_state import filter_to_add
from drctl.lab.cluster import read_topic
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.views.text import size
from tests.cluster.conftest import NewDrctl
from tests.cluster.test_failback import Story
from tests.cluster.way_home import (
    COPIED,
    DEADLINE_S,
    GO,
    LATER,
    NEW,
    PARTITIONS,
    named,
    steps_of,
)
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(900)]

REBUILD = ("failback", "--rebuild")
ALONE = 5


class Emptied(Story):
    """The topic of the primary is not there any more; Connect knows how far it was copied."""

    def empty(self) -> None:
        """As its disks would be, as far as the link goes."""
        self.primary.delete_topics([self.topic])
        assert Patience.of(60).wait_until(lambda: not self.is_there())

    def has_come_home_before(self) -> None:
        """What brings records home still leaves out what drctl has copied."""
        client = self.lab.parts.worker.client()
        try:
            config = client.config(self.reverse)
            client.put_config(self.reverse, {**config, **filter_to_add(config)})
        finally:
            client.close()

    def is_there(self) -> bool:
        return self.topic in self.primary.admin.list_topics(timeout=10).topics

    def logs(self, cluster: ClusterUnderTest) -> dict[int, list[bytes]]:
        """Every record, in the order of its partition."""
        found: dict[int, list[bytes]] = defaultdict(list)
        for place, value in sorted(read_topic(cluster.lab_cluster, self.topic).items()):
            found[place[0]].append(value)
        return found

    def cost(self) -> str:
        """What the plan says that it costs."""
        plan = self.json(*REBUILD, code=0)
        return next(each["cost"] for each in plan["findings"] if each["check"] == "source-lost")

    def reached(self, step: str) -> bool:
        return any(e["entry"] == "intend" and e.get("step") == step for e in self.journaled())


def assert_in_order(story: Emptied) -> None:
    """Killed as it began to bring everything: that is seen, also without any result of before."""
    found = story.run("failback", "--check-order", "--output", "json").document()
    steps = {step["id"]: step for step in found["steps"]}
    assert found["verdict"] != "violated", found
    assert [steps[name]["observed"] for name in "abcdeg"].count("not-done") == 0, found
    assert "there is nothing to find" in steps["c"]["why"], found
    assert found["next"] in ("a", "f", "h"), found


@pytest.fixture
def story(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> Iterator[Emptied]:
    made = Emptied(lab, new_drctl, new_topic)
    try:
        made.lose_the_primary()
        yield made
    finally:
        made.close()


def test_an_emptied_primary_is_filled_and_proven_before_clients_are_home(story: Emptied) -> None:
    read = story.read(story.group, story.secondary, named("copied", COPIED) | named("new", NEW))
    story.empty()
    refused = story.run("failback", "--policy", "copy")
    assert refused.code == 3, refused.stdout
    assert "it has lost records that it had" in refused.stdout
    assert f"drctl failback --link {story.link} --rebuild" in refused.stdout

    empty = story.json("failback", "--check-order", code=5)
    assert (empty["next"], empty["steps"][5]["observed"]) == ("a", "not-done"), empty
    assert "bring-home is next" in empty["steps"][5]["why"]
    # Keys are as long as values; whatever the newest 200 of a partition tell is all there is.
    held = sum(2 * len(value) for value in story.all_of(story.secondary).elements())
    told = f"about {COPIED + NEW} records are copied from secondary, {size(held)} by the newest of"
    assert story.cost() == f"{told} them; how long that takes was never measured here"
    # As an earlier comparison on this machine would have kept it: two offsets a second, both sides.
    rate = story.drctl.folder / ".drctl" / "rate.json"
    rate.parent.mkdir(exist_ok=True)
    rate.write_text('{"offsets_a_second": 2}\n', encoding="utf-8")
    took = "comparing them once takes 1 min 40 s, copying was not measured"
    assert story.cost() == f"{told} them; {took}"
    assert not story.is_there(), "a plan has changed something"

    with story.writing() as live:
        story.kill_at("bring-home", *REBUILD, *GO)
        story.move_to_another_machine()
        assert story.led_to == story.secondary.bootstrap
        assert_in_order(story)
        done = story.json("resume", *GO, code=0)
    assert done["status"] == "done", done
    assert done["rpo"] == {"records": 0, "at_least": 0, "at_most": 0, "seconds": 0, "exact": True}
    assert story.led_to == story.primary.bootstrap

    everything = named("copied", COPIED) | named("new", NEW) | set(live)
    home, away = story.logs(story.primary), story.logs(story.secondary)
    assert home == away
    assert len(home) == PARTITIONS
    assert sum(map(len, home.values())) == len(everything)
    later = story.write("later", LATER, story.primary)
    assert len(later) == LATER
    everything |= set(later)
    assert Patience.of(60).wait_until(lambda: story.held(story.secondary) >= len(everything))
    assert set(story.all_of(story.secondary).values()) == {1}
    assert set(story.all_of(story.secondary)) == everything
    assert story.states("mm2-source", story.reverse) == ["RUNNING", "STOPPED"]
    read += story.read(story.group, story.primary, everything - set(read))
    assert len(read) == len(everything), "a group has read something twice"
    story.judged_at_home()

    whole = story.run(*REBUILD)
    assert whole.code == 3
    assert "nothing shows that it has lost records" in whole.stdout


def test_what_only_a_cut_primary_has_is_decided_on_before_it_is_emptied(story: Emptied) -> None:
    story.has_come_home_before()
    story.empty()
    story.primary.create_topic(story.topic, PARTITIONS)
    alone = set(story.write("alone", ALONE, story.primary))
    assert len(alone) == ALONE
    question = ("--answer", "empty-primary=yes")
    undecided = story.json(*REBUILD, *question, *GO, code=4)
    assert steps_of(undecided, "status")["judge-records"] == "failed"
    assert set(story.all_of(story.primary)) == alone

    with story.running(*REBUILD, "--policy", "copy", *question, *GO) as process:

        def asked() -> bool:
            assert process.poll() is None, story.said
            return story.reached("empty-primary")

        assert Patience.of(DEADLINE_S).wait_until(asked), story.said
        assert not story.reached("begin-at-start"), "a word was believed"
        story.empty()
        assert process.wait(DEADLINE_S) == 0, story.said
    home, away = story.logs(story.primary), story.logs(story.secondary)
    assert home == away
    everything = named("copied", COPIED) | named("new", NEW) | alone
    assert sorted(value.decode() for log in home.values() for value in log) == sorted(everything)
    assert story.led_to == story.primary.bootstrap
