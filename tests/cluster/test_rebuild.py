"""`drctl failback --rebuild` on real clusters: the primary has recovered without its records."""

from collections import Counter

import pytest

from drctl.engine.failback_state import filter_to_add
from drctl.model.topology import Record
from drctl.views.text import size
from tests.cluster.failback_stage import (
    BACK,
    COPIED,
    EVERYTHING,
    HAD,
    LATER,
    NEW,
    REBUILD,
    TAIL,
    MirrorMakerFailback,
    named,
)
from tests.cluster.failover_stage import PARTITIONS, connect
from tests.cluster.isolated_failbacks import held
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, soon, steps_of

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(900)]

ALONE = 5


class Emptied(MirrorMakerFailback):
    """The primary's topic is gone; Connect has the offsets of its replication."""

    def empty(self) -> None:
        """Delete the topic, as if the disks were new."""
        self.primary.delete_topics([self.topic])
        soon(lambda: not self.is_there(self.primary))

    def has_failed_back_before(self) -> None:
        """Let the reverse connector exclude reconciled records, as after an earlier failback."""
        with connect(self.lab) as client:
            config = client.config(self.reverse)
            client.put_config(self.reverse, {**config, **filter_to_add(config)})

    def impact(self) -> str:
        """Return the cost that the plan states."""
        plan = self.json(*REBUILD, code=0)
        return next(each["impact"] for each in plan["findings"] if each["check"] == "source-lost")


def assert_in_order(story: Emptied) -> None:
    """Kill it when it begins to replicate everything: this is detected without any local file."""
    found = story.run("failback", "--check-order", "--output", "json").document()
    steps = {step["id"]: step for step in found["steps"]}
    assert found["verdict"] != "violated", found
    assert [steps[name]["observed"] for name in "abcdeg"].count("not-done") == 0, found
    assert "no unreplicated records" in steps["c"]["why"], found
    assert found["next"] in ("a", "f", "h"), found


@pytest.fixture
def story(site: Site) -> Emptied:
    made = site.keep(Emptied(site))
    made.lose_primary()
    return made


def test_an_emptied_primary_is_filled_and_verified_before_clients_move(story: Emptied) -> None:
    read = story.read_new()
    story.empty()
    refused = story.refused(*BACK)
    assert "it has lost records" in refused
    assert f"drctl failback --link {story.link} --rebuild" in refused

    empty = story.json("failback", "--check-order", code=5)
    assert (empty["next"], empty["steps"][5]["observed"]) == ("a", "not-done"), empty
    assert "start-reverse-replication is next" in empty["steps"][5]["why"]
    # Keys are as long as values, and a sample of 200 records per partition covers all of them.
    held = sum(2 * len(value) for value in story.all_of(story.secondary).elements())
    amount = f"about {COPIED + NEW} records are copied from secondary, {size(held)} by a sample;"
    assert story.impact() == f"{amount} the copying time is not known"
    # The rate that an earlier comparison on this host would have stored: two offsets per second.
    rate = story.drctl.folder / ".drctl" / "rate.json"
    rate.parent.mkdir(exist_ok=True)
    rate.write_text('{"offsets_a_second": 2}\n', encoding="utf-8")
    took = "comparing them once takes 1 min 40 s; the copying time is not known"
    assert story.impact() == f"{amount} {took}"
    assert not story.is_there(story.primary), "the plan changed something"

    with story.live() as live:
        story.kill_at("start-reverse-replication", *REBUILD, *GO)
        story.move_to_another_machine()
        assert story.directed_to == story.secondary.bootstrap
        assert_in_order(story)
        story.completed_failback("resume")

    everything = HAD | set(live)
    assert sum(map(len, story.alike().values())) == len(everything)
    story.keeps_running(everything, read, again=False)
    assert story.states("mm2-source", story.reverse) == ["RUNNING", "STOPPED"]
    story.check_order_afterwards()

    assert "it has not lost records" in story.refused(*REBUILD)


def test_records_only_on_the_primary_are_decided_before_it_is_emptied(story: Emptied) -> None:
    story.has_failed_back_before()
    story.empty()
    story.primary.create_topic(story.topic, PARTITIONS)
    alone = story.wrote("alone", ALONE, story.primary)
    question = ("--answer", "empty-primary=yes")
    undecided = story.json(*REBUILD, *question, *GO, code=4)
    assert steps_of(undecided, "status")["classify-records"] == "failed"
    assert set(story.all_of(story.primary)) == alone

    with story.running(*REBUILD, "--policy", "copy", *question, *GO) as process:
        story.until(process, lambda: story.has("intend", "empty-primary"))
        assert not story.has("intend", "set-start-offsets"), (
            "the answer was accepted although the cluster is not empty"
        )
        story.empty()
        story.ends(process)
    assert held(story.alike()) == Counter(HAD | alone)
    assert story.directed_to == story.primary.bootstrap


FLIGHTS = 7
KNOWN = ("--override", "source-intact=the old replication ran behind new records")


def test_forward_replication_that_ran_unnoticed(site: Site) -> None:
    """It has appended unreplicated records of the primary after new ones of the secondary.

    No boundary separates new from old records; the primary is rebuilt in that order.
    """
    story = site.keep(Emptied(site))
    story.write("before", FLIGHTS, story.primary, keys="flight")
    story.lose_primary()
    story.write("older", FLIGHTS, story.primary, keys="flight")
    story.write("newer", FLIGHTS, story.secondary, keys="flight")
    story.lab.replicate(True)
    story.await_held(story.secondary, COPIED + NEW + TAIL + 3 * FLIGHTS)
    story.replicate(False)
    newest = story.wrote("newest", FLIGHTS, story.secondary, keys="flight")
    alone = story.wrote("alone", ALONE, story.primary)
    copied = story.in_order(story.secondary)

    stopped = story.run(*BACK, *GO)
    assert stopped.code == 4, stopped.stdout
    output = " ".join(f"{stopped.stdout} {stopped.stderr}".split())
    assert "--rebuild --override source-intact=REASON" in output
    assert story.run(*REBUILD, "--policy", "copy").code == 3, (
        "a rebuild was allowed although no records were lost"
    )
    assert story.directed_to == story.secondary.bootstrap
    assert story.in_order(story.secondary) == copied

    question = ("--answer", "empty-primary=yes")
    earlier = len([*story.drctl.runs.glob("*")])
    with story.running(*REBUILD, *KNOWN, "--policy", "copy", *question, *GO) as process:

        def waits() -> bool:
            begun = len([*story.drctl.runs.glob("*")]) > earlier
            asked = begun and story.has("intend", "empty-primary")
            return asked and "not empty yet: " in story.output

        story.until(process, waits)
        assert not story.has("intend", "set-start-offsets"), (
            "the answer was accepted although the cluster is not empty"
        )
        assert alone <= set(story.all_of(story.secondary)), (
            "records that exist only on the primary would be destroyed"
        )
        story.empty()
        story.ends(process)
    assert story.directed_to == story.primary.bootstrap

    rebuilt = story.alike()
    for number, log in copied.items():
        assert rebuilt[number][: len(log)] == log, (
            "the order differs from that of the surviving cluster"
        )
    everything = EVERYTHING | alone
    for each in ("before", "older", "newer", "newest"):
        everything |= named(each, FLIGHTS)
    assert held(rebuilt) == Counter(everything)
    for log in rebuilt.values():
        newer = [value for value in log if value.startswith(("older", "newer", "newest"))]
        last = {value.partition("-")[2]: value for value in newer}
        assert set(last.values()) <= newest, "the last record of a flight is an older one"

    everything |= story.wrote("later", LATER, story.primary)
    story.await_held(story.secondary, len(everything))
    assert story.all_of(story.secondary) == Counter(everything)
    assert story.states("mm2-source", story.reverse) == ["RUNNING", "STOPPED"]


IN_TRANSACTIONS = 12
WHEN_MS = 1_700_000_000_000


def test_it_resumes_after_the_last_copied_record_with_transaction_gaps(site: Site) -> None:
    """Transaction markers are offsets without records and are not replicated.

    The rebuild was abandoned half-way; its progress is known without asking anyone.
    """
    story = site.keep(Emptied(site))
    story.lose_primary()
    for number in range(IN_TRANSACTIONS):
        value = f"sent-{number}".encode()
        one = Record(number % PARTITIONS, -1, WHEN_MS + number, b"k", value)
        story.secondary.produce(story.topic, [one], "commit")
    everything = HAD | named("sent", IN_TRANSACTIONS)
    assert story.held(story.secondary) > len(everything), "there are no transaction markers"
    story.empty()

    story.kill_at("wait-for-catch-up", *REBUILD, *GO)
    soon(lambda: story.held(story.primary) == len(everything))
    story.stop(story.reverse)
    given_up = story.run("resume", "--abandon", "it took too long", *GO)
    assert given_up.code == 1, given_up.stdout + given_up.stderr

    # More records were replicated back than it ever had: only the journal shows its loss. Nothing
    # has to be emptied, so no question is asked.
    done = story.completed_failback(*REBUILD)
    detail = steps_of(done, "detail")["empty-primary"]
    assert detail == "primary holds only what this failback has replicated"
    story.both_hold(everything)
