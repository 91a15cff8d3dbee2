"""Why a planned failover is refused on real clusters: with the remedy, and without changes."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

import pytest
import yaml

from drctl.formats.journal_records import TOPIC as JOURNAL_TOPIC
from drctl.kafka.connection import Connection
from drctl.kafka.journal_reader import CONFIG
from drctl.kafka.own_topics import JOURNAL, create
from drctl.lab.lab import Lab
from drctl.model.errors import DrctlError
from drctl.model.topology import Record
from tests.cli.documents import check
from tests.cluster.failover_stage import PARTITIONS, Stage, connect
from tests.cluster.groups import commit_offsets
from tests.cluster.isolated_links import READ, OwnLinks
from tests.cluster.lab_link import NewDrctl, site_on
from tests.cluster.link_command import GO, soon
from tests.cluster.link_state import picture
from tests.cluster.refusals import WHY, is_refused, side_by_side
from tests.cluster.restricted_user import (
    as_somebody,
    may_not_write_the_journal,
    may_use_the_transactional_id,
)
from tests.kafka.members import member
from tests.lab.cluster_under_test import ClusterUnderTest, Ending

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

RECORDS, BEHIND = 60, 40
MOST_BEHIND = 10
"""Value of policy.max_lag_records."""
MINUTE_MS = 60_000
KEPT_MS = 35 * MINUTE_MS

Harm = Callable[[Stage], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def stage(
    lab: Lab, new_drctl: NewDrctl, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> Iterator[Stage]:
    """A replicating link with a group that has read some of its topic, and no blocker."""
    with site_on(lab, primary, secondary, new_drctl) as site:
        stage = site.keep(OwnLinks(site)).make()
        write(stage, RECORDS, minutes_ago=40)
        commit_offsets(primary, stage.topic, {stage.group: dict.fromkeys(range(PARTITIONS), READ)})
        # Without a journal topic, another permission would be required: to create it.
        connection = Connection("secondary", secondary.properties(), 30)
        create(connection, JOURNAL_TOPIC, JOURNAL, CONFIG)
        configure(stage)
        yield stage


def write(stage: Stage, count: int, *, minutes_ago: int, ending: Ending = "none") -> None:
    """Write as a user whom no fence names; wait until all is replicated."""
    there = stage.held(stage.target)
    produce(stage, count, minutes_ago=minutes_ago, ending=ending)
    stage.copied(there + count)


def produce(stage: Stage, count: int, *, minutes_ago: int, ending: Ending = "none") -> None:
    """Write without waiting for replication."""
    at_ms = int(time.time() * 1000) - minutes_ago * MINUTE_MS
    records = [Record(n % PARTITIONS, -1, at_ms + n, b"k", b"v") for n in range(count)]
    stage.source.produce(stage.topic, records, ending)


def configure(stage: Stage) -> None:
    """Let the link carry all topics with its topic's prefix, and allow a little lag."""
    document = yaml.safe_load(stage.drctl.config.read_text(encoding="utf-8"))
    document["policy"] = {"max_lag_records": MOST_BEHIND}
    document["links"][stage.link]["topics"] = [f"{stage.topic}.*"]
    stage.drctl.config.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


@contextmanager
def a_reader_on_the_target(stage: Stage) -> Iterator[None]:
    with member(stage.target.properties(), stage.group, stage.topic):
        yield


@contextmanager
def missing_topics(stage: Stage) -> Iterator[None]:
    """Create a topic that the target does not have, and one with fewer partitions there."""
    new, wide = f"{stage.topic}-new", f"{stage.topic}-wide"
    stage.source.create_topic(new)
    stage.source.create_topic(wide, 3)
    stage.target.create_topic(wide, 2)
    try:
        yield
    finally:
        for cluster in (stage.source, stage.target):
            cluster.delete_topics([new, wide])


@contextmanager
def standing_replication(stage: Stage) -> Iterator[None]:
    """Pause the connector with old unreplicated records."""
    there = stage.held(stage.target)
    try:
        stage.pause(stage.copies)
        produce(stage, BEHIND, minutes_ago=30)
        stage.source.configure(stage.topic, retention_ms=str(KEPT_MS))
        yield
    finally:
        stage.source.configure(stage.topic, retention_ms="-1")
        stage.resume(stage.copies)
        stage.copied(there + BEHIND)


@contextmanager
def an_open_transaction(stage: Stage) -> Iterator[None]:
    """Open a transaction whose last record is ten minutes old."""
    write(stage, 1, minutes_ago=10, ending="open")
    before = stage.source.end_offsets(stage.topic)
    try:
        yield
    finally:
        stage.source.close()
        # The abort marker is written a moment later.
        soon(lambda: stage.source.end_offsets(stage.topic) != before)


@contextmanager
def a_dead_worker(stage: Stage) -> Iterator[None]:
    stage.lab.signal("connect", signal.SIGKILL)
    try:
        yield
    finally:
        stage.lab.start("connect")
        await_connectors(stage)


@contextmanager
def a_frozen_worker(stage: Stage) -> Iterator[None]:
    """Freeze the worker: it accepts every request and answers none."""
    stage.lab.signal("connect", signal.SIGSTOP)
    try:
        yield
    finally:
        stage.lab.signal("connect", signal.SIGCONT)
        await_connectors(stage)


def await_connectors(stage: Stage) -> None:
    """Wait until all connectors run again, the lab's too."""

    def at_work() -> bool:
        with suppress(DrctlError), connect(stage.lab) as client:  # it comes back to its group
            known = client.statuses()
            return stage.copies in known and all(e.all_in("RUNNING") for e in known.values())
        return False

    soon(at_work, "connectors do not come back", 90)


@dataclass(frozen=True)
class Case:
    """A fault, and the prechecks that find it.

    Attributes:
        beside: prechecks that cannot read what they need meanwhile.
        answering: whether Connect responds.
    """

    harm: Harm
    prechecks: tuple[str, ...]
    beside: tuple[str, ...] = ()
    answering: bool = True


UNHEARD = Case(
    a_dead_worker,
    ("connect-unreachable",),
    ("connectors-not-configured", "replication-not-running"),
    answering=False,
)
CASES = {
    # The group is active on the target: its offsets cannot be translated either.
    "a-reader-on-the-target": Case(
        a_reader_on_the_target, ("groups-active-on-target", "groups-not-translated")
    ),
    "topics-that-lack": Case(
        missing_topics, ("topics-missing-on-target", "fewer-partitions-on-target")
    ),
    "standing-replication": Case(
        standing_replication,
        ("replication-not-running", "replication-lag", "backlog-near-retention"),
    ),
    "an-open-transaction": Case(an_open_transaction, ("hanging-transactions",)),
    "a-dead-worker": UNHEARD,
    "a-frozen-worker": replace(UNHEARD, harm=a_frozen_worker),
}
SLOW = ("a-frozen-worker",)
"""Every request to a frozen worker waits for its timeout, which takes half a minute in all."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] * (name in SLOW)) for name in CASES]
)
def test_a_failover_with_a_fault_is_refused_with_a_remedy_and_changes_nothing(
    stage: Stage, name: str
) -> None:
    case = CASES[name]
    passing = [f"{precheck}={WHY}" for precheck in (*case.prechecks, *case.beside)]
    words = [word for each in passing for word in ("--override", each)]
    with case.harm(stage):
        before = picture(stage, answering=case.answering)
        refused, passed = side_by_side(
            lambda: stage.run("failover", *GO),
            lambda: stage.run("failover", *words, "--output", "json"),
        )
        assert picture(stage, answering=case.answering) == before
    plan = check(passed.document())
    failing = {each["check"]: each for each in plan["findings"] if each["check"] in case.prechecks}
    assert set(failing) == set(case.prechecks)
    assert {each["status"] for each in failing.values()} == {"fail"}
    is_refused(refused, *failing.values())
    assert (passed.code, plan["refused"]) == (0, []), passed.stdout
    assert {each["precheck"] for each in plan["overrides"]} == {*case.prechecks, *case.beside}
    assert all(each in plan["execute"] for each in case.prechecks)


@pytest.mark.parametrize(
    ("topic", "transactional_id", "evidence"),
    [
        (False, True, f"this user may not write to topic {JOURNAL_TOPIC} of secondary"),
        (True, False, "this user may not use the transactional id drctl."),
    ],
    ids=["topic", "transactional-id"],
)
def test_no_override_replaces_the_journal(
    stage: Stage, topic: bool, transactional_id: bool, evidence: str
) -> None:
    uses = partial(may_use_the_transactional_id, link=stage.link)
    rules = (*([] if topic else [may_not_write_the_journal]), *([uses] * transactional_id))
    with as_somebody(stage, *rules):
        before = picture(stage)
        refused, shown, passed = side_by_side(
            lambda: stage.run("failover", *GO),
            lambda: stage.run("failover", "--output", "json"),
            lambda: stage.run("failover", "--override", f"journal-not-writable={WHY}", *GO),
        )
        assert picture(stage) == before
    plan = check(shown.document())
    assert (shown.code, [each["precheck"] for each in plan["refused"]]) == (
        3,
        ["journal-not-writable"],
    )
    (finding,) = [f for f in plan["findings"] if f["status"] == "fail"]
    assert evidence in finding["evidence"]
    is_refused(refused, finding)
    assert (passed.code, passed.stdout) == (2, "")
    assert "precheck journal-not-writable cannot be overridden" in passed.stderr


def test_the_documented_acls_are_sufficient(stage: Stage) -> None:
    with as_somebody(stage, partial(may_use_the_transactional_id, link=stage.link)):
        assert stage.json("failover", code=0)["refused"] == []
