"""Someone lifts the fence while drctl does not run, and an application writes to the source.

drctl was killed; an engineer removes ACLs that look unfamiliar. What the resumed run reports is
compared with the records of both clusters.
"""

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest

from tests.cluster.failback_stage import named
from tests.cluster.failover_stage import APP, Stage
from tests.cluster.isolated_failbacks import POLICIES, OwnFailback
from tests.cluster.isolated_links import at_work
from tests.cluster.killing import killed_at
from tests.cluster.link_command import GO, NOTHING_LOST, steps_of
from tests.cluster.topic_acls import lift, remove_denials

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

THROUGH = 12
LOST = "The number of records that were not replicated is unknown"
ALL_THERE = "Every record was replicated"
FENCE = "fence-producers"
BRIEFLY_S, LOOK_S = 15.0, 12.0
"""Time for which clients wait for the fence, and for a read that is in progress at its end."""


def killed_and_unfenced(stage: Stage, step: str, *words: str) -> None:
    """A failover that died after it announced a step, and whose fence is lifted."""
    killed_at(stage, "after", step, "failover", *words, *GO)
    assert stage.write(1, "refused") == [], "there was no fence"
    lift(stage.source, APP, stage.topic)


def through(stage: Stage) -> list[str]:
    """Return what the application writes then."""
    written = stage.write(THROUGH, "through")
    assert len(written) == THROUGH
    return written


def steps_with(stage: Stage, entry: str) -> list[str]:
    return [str(each["step"]) for each in stage.entries(entry)]


def report_of(stage: Stage) -> str:
    """Return the report of the newest run as text."""
    file = stage.drctl.folder / "report.md"
    ran = stage.run("report", stage.newest_run, "--format", "md", "--output-file", str(file))
    assert ran.code == 0, ran.stderr
    return file.read_text(encoding="utf-8")


@pytest.mark.nightly
def test_before_writes_are_enabled_the_run_continues_from_the_fence(link: Stage) -> None:
    stage = link
    written = at_work(stage)
    killed_and_unfenced(stage, "stop-replication")
    written += through(stage)
    before = len(stage.journaled())

    done = stage.json("resume", *GO, code=0)
    assert done["rpo"] == NOTHING_LOST
    assert ALL_THERE in report_of(stage)
    assert stage.all_of(stage.source) == stage.all_of(stage.target) == Counter(written)
    assert stage.write(1, "refused") == []
    since = stage.journaled()[before:]
    first = next(each for each in since if each["entry"] == "observed")
    assert (first["step"], first["state"]) == (FENCE, "waiting")
    assert {"drain", "quiesce-consumers"} < set(steps_with(stage, "stale"))
    proof = [each for each in since if each["entry"] == "done" and each["step"] == FENCE][-1]
    ends = stage.source.end_offsets(stage.topic)
    assert proof["facts"]["ends"] == {f"{stage.topic}-{n}": end for n, end in ends.items()}
    assert stage.group_denials(stage.source) == 2, "there is not one deny ACL with its marker"
    drained = steps_with(stage, "done").count("drain")
    assert drained == 2, "the run did not drain the new records"


@pytest.mark.nightly
def test_after_replication_ended_it_is_rolled_back_and_nothing_is_lost(link: Stage) -> None:
    """This run can no longer replicate the new records; the next one does."""
    stage = link
    written = at_work(stage)
    killed_and_unfenced(stage, "enable-writes", "--timeout", "8s")
    written += through(stage)

    refused = stage.json("resume", *GO, code=3)
    statuses = steps_of(refused, "status")
    assert (statuses[FENCE], statuses["drain"]) == ("rolled-back", "failed")
    assert stage.directs_to("primary")
    assert stage.denials(stage.source) == 0
    written += stage.write(THROUGH, "again")

    done = stage.json("failover", *GO, code=0)
    assert done["rpo"] == NOTHING_LOST
    assert stage.all_of(stage.target) == Counter(written)


def test_after_writes_are_enabled_the_fence_is_set_again_and_new_records_are_outstanding(
    link: Stage,
) -> None:
    stage = link
    written = at_work(stage)
    killed_and_unfenced(stage, "switch-endpoint-1")
    lost = through(stage)

    done = stage.json("resume", *GO, code=1)
    assert done["status"] == "done"
    assert done["rpo"] == {**dict.fromkeys(NOTHING_LOST), "exact": False}
    assert stage.directs_to("secondary")
    (outstanding,) = done["outstanding"]
    assert outstanding.startswith(
        "after the fence, primary may have accepted writes that secondary does not have: "
    )
    report = report_of(stage)
    assert LOST in report
    assert ALL_THERE not in report
    assert stage.write(1, "refused") == [], "the fence was not set again"
    assert steps_with(stage, "intend").count("enable-writes") == 1
    assert stage.all_of(stage.target) == Counter(written)
    gap = stage.json("gap", "--scope", "full", code=1)
    assert gap["totals"]["unreplicated"] == len(lost)


@pytest.mark.nightly
def test_after_writes_are_enabled_nothing_is_outstanding_without_new_records(link: Stage) -> None:
    stage = link
    at_work(stage)
    killed_and_unfenced(stage, "switch-endpoint-1")
    done = stage.json("resume", *GO, code=0)
    assert (done["outstanding"], done["rpo"]["exact"]) == ([], True)
    assert ALL_THERE in report_of(stage)
    assert stage.write(1, "refused") == []


@contextmanager
def lifted_again_and_again(stage: Stage) -> Iterator[list[str]]:
    """Remove ACLs continuously, as an operator that owns them; the application writes."""
    over, written = threading.Event(), list[str]()

    def work() -> None:
        while not over.is_set():
            remove_denials(stage.source, APP, stage.topic)
            written.extend(stage.write(1, f"live{len(written)}"))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield written
    finally:
        over.set()
        thread.join()


@pytest.mark.nightly
def test_after_writes_are_enabled_clients_do_not_wait_for_a_fence_that_cannot_be_set(
    link: Stage,
) -> None:
    stage = link
    at_work(stage)
    killed_and_unfenced(stage, "switch-endpoint-1")
    before = len(stage.journaled())
    with lifted_again_and_again(stage) as written, stage.running("resume", *GO) as process:
        stage.ends(process, 1)
        assert written
    since = stage.journaled()[before:]
    looked = next(each for each in since if each["entry"] == "observed")
    outstanding = next(each for each in since if each["entry"] == "outstanding")
    assert looked["step"] == outstanding["step"] == FENCE
    assert BRIEFLY_S <= seconds_between(looked, outstanding) <= BRIEFLY_S + LOOK_S
    assert stage.directs_to("secondary")
    report = report_of(stage)
    assert LOST in report
    assert ALL_THERE not in report


def seconds_between(one: Any, other: Any) -> float:
    first, second = (datetime.fromisoformat(each["at"]) for each in (one, other))
    return (second - first).total_seconds()


@pytest.mark.nightly
def test_in_a_failback_a_record_written_after_the_comparison_is_named_at_the_end(
    failback: OwnFailback,
) -> None:
    """Replicated records arrive beside it by then and cannot be told apart; it stays there."""
    failback.lose_primary()
    killed_at(failback, "after", "wait-for-catch-up", "failback", *POLICIES, *GO)
    assert failback.write("refused", 1, failback.primary) == []
    lift(failback.primary, APP, failback.topic)
    failback.wrote("through", THROUGH, failback.primary)

    expected = f"secondary is missing {THROUGH:,} records that should be there"
    with failback.running("resume", *GO) as process:
        failback.says(process, expected)
        process.send_signal(signal.SIGINT)
        failback.ends(process, 130)
    looked = failback.entries("observed")[0]
    assert (looked["step"], looked["state"]) == ("fence-primary", "waiting")
    assert failback.directed_to == failback.primary.bootstrap
    there = failback.all_of(failback.primary)
    assert named("through", THROUGH) < set(there)
    assert there.total() == len(there), "a record was replicated twice"
