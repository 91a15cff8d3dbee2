"""`drctl failover` and `resume` on real clusters with a real MirrorMaker 2: nothing is lost."""

import json
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from drctl.formats.journal_records import TOPIC
from drctl.kafka.connection import Connection
from drctl.kafka.journal_topic import JournalWriter
from tests.cluster import command_endpoint
from tests.cluster.failover_stage import PARTITIONS, Stage
from tests.cluster.isolated_links import positions
from tests.cluster.killing import killed_at_a_new_step
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, NOTHING_LOST, steps_of

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

RECORDS = 200
LEFT = 30


def loss_in(stage: Stage) -> dict[str, Any]:
    """Return the data loss in the report of the newest run."""
    loss: dict[str, Any] = stage.json("report", "--verify", code=0)["rpo"]
    return loss


def clients_are_on_the_target(stage: Stage, run: str) -> None:
    """Assert that status names the run that moved clients, and suggests nothing harmful."""
    seen = stage.json("status", code=1)
    for mode in ("planned", "unplanned"):
        first, *rest = seen[mode]["blockers"]
        assert first["check"] == "clients-moved"
        assert f"by run {run} (failover-planned)" in first["reason"]
        assert "its ACLs deny writes to" in first["evidence"]
        assert not [
            each for each in rest if "restart" in each["remedy"] or "stop " in each["remedy"]
        ]
    assert "replication-not-running" in {each["check"] for each in seen["planned"]["blockers"]}
    assert seen["rpo"]["records"] is None


def test_a_planned_failover_loses_and_skips_nothing(stage: Stage) -> None:
    groups = stage.modern()
    written = stage.written(RECORDS)
    read = stage.read(stage.source, most=90)
    in_use = stage.highest_id()
    assert in_use > max(stage.next_ids())
    plan = stage.json("failover", code=0)
    assert [step["id"] for step in plan["steps"]][-7:] == [
        "advance-producer-ids", "stop-replication", "commit-offsets",
        "enable-writes", "switch-endpoint-1", "confirm-stop", "verify-clients",
    ]  # fmt: skip
    assert max(stage.next_ids()) < in_use, "the plan advanced producer ids"
    assert stage.denials(stage.source) == 0, "the plan wrote something"
    assert stage.all_states() == {"RUNNING"}

    done = stage.json("failover", *GO, code=0)
    assert done["status"] == "done"
    assert set(steps_of(done, "status").values()) <= {"done", "skipped"}
    assert done["rpo"] == NOTHING_LOST
    assert 0 < done["rto_seconds"] < 120
    assert stage.all_states() == {"STOPPED"}
    assert stage.directs_to("secondary")
    details = steps_of(done, "detail")
    noun = "group" if groups else "groups"
    assert (
        details["prepare-groups"]
        == f"{groups} KIP-848 {noun} ready on secondary, {groups} of them new"
    )
    assert (
        f"above {in_use:,}, the highest in use on primary; used" in details["advance-producer-ids"]
    )
    assert min(stage.next_ids()) > in_use
    assert stage.write(5, "refused") == [], "a fenced producer could write"
    written += stage.write(RECORDS, "after", stage.target)
    read += stage.read(stage.target, most=10_000, wait_for=2 * RECORDS - len(read))
    assert set(read) == set(written)

    assert f"by run {done['run']} (failover-planned)" in stage.refused("failover", *GO)
    clients_are_on_the_target(stage, done["run"])
    shown = stage.json("journal", done["run"], code=0)
    assert next(entry["entry"] for entry in shown["runs"][0]["entries"]) == "began"
    assert shown["runs"][0]["status"] == "done"
    assert Path(done["report"]).is_file()


def test_a_failover_that_cannot_drain_is_rolled_back(stage: Stage) -> None:
    """Connect reports a running connector that does not replicate: everything is as before."""
    stage.written(RECORDS)
    with stage.paused(stage.copies):
        stage.write(50, "behind")
        overridden = ("--override", "replication-not-running=a drill")
        done = stage.json("failover", *overridden, "--timeout", "8s", *GO, code=3)
    assert done["status"] == "refused"
    by_id = steps_of(done, "status")
    assert by_id["drain"] == "failed"
    assert by_id["fence-producers"] == "rolled-back"
    assert by_id["enable-writes"] == "not-started"
    assert stage.denials(stage.source) == 0
    assert len(stage.write(5, "again")) == 5


@pytest.fixture
def by_command(site: Site) -> Stage:
    """A user-supplied command switches clients; it takes some time."""
    return site.keep(Stage(site, endpoints=[command_endpoint.endpoint()]))


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_failover_killed_at_every_step_is_resumed_each_time(by_command: Stage) -> None:
    """By a signal from outside at any moment; test_failover_killed covers each point."""
    stage, site = by_command, command_endpoint.Switch(by_command.drctl.folder)
    site.direct_to("primary")
    written = stage.written(RECORDS)
    read = stage.read(stage.source, most=50)
    killed, words = list[str](), ("failover", *GO)
    while step := killed_at_a_new_step(stage, words, killed):
        killed.append(step)
        words = ("resume", *GO)
        if step in ("fence-producers", "enable-writes"):
            shown = stage.run("resume")
            assert shown.code == 0, shown.stderr
        if step == "switch-endpoint-1":
            # The switch that the killed drctl started continues without it.
            assert site.directed_to == "primary"
            site.go()
    # Other steps may complete before the signal arrives.
    assert {
        "preflight", "fence-producers", "drain", "fence-consumers", "stop-replication",
        "commit-offsets", "enable-writes", "switch-endpoint-1",
    } <= set(killed)  # fmt: skip
    assert set(site.switched) == {site.directed_to} == {"secondary"}
    journal = stage.json("journal", stage.newest_run, code=0)
    assert journal["runs"][0]["status"] == "done"
    written += stage.write(RECORDS, "after", stage.target)
    read += stage.read(stage.target, most=10_000, wait_for=2 * RECORDS - len(read))
    assert set(read) == set(written)
    for entry in ("intend", "done"):
        assert len(stage.entries(entry, "enable-writes")) == 1


@pytest.mark.nightly
def test_a_second_run_is_refused_while_the_first_is_active(stage: Stage) -> None:
    """tests/kafka/test_journal_takeover covers the refusal itself."""
    stage.written(RECORDS)
    with stage.running("failover", *GO) as process:
        stage.until(process, lambda: len(stage.journaled()) > 1)
        second = stage.run("failover", *GO)
        assert second.code == 3, second.stdout + second.stderr
        stage.ends(process)
    assert f" by run {stage.newest_run}" in second.stderr
    assert f"on {socket.gethostname()} (process {process.pid})" in second.stderr


def test_a_wait_ends_soon_after_another_run_took_the_link(stage: Stage) -> None:
    """The drain would wait ten minutes without a journal entry."""
    stage.written(RECORDS)
    with stage.paused(stage.copies):
        stage.write(LEFT, "behind")
        overridden = ("--override", "replication-not-running=a drill")
        with stage.running("failover", *overridden, *GO) as process:
            stage.until(process, lambda: any(e.get("step") == "drain" for e in stage.journaled()))
            before = len(stage.journaled())
            connection = Connection("secondary", stage.target.properties(), 30)
            with JournalWriter(connection, stage.link, TOPIC):
                assert process.wait(30) == 4, stage.output
            assert f"has lost link {stage.link}" in stage.output
            assert len(stage.journaled()) == before
    assert stage.denials(stage.source) > 0, "a run that lost its link lifted the fence"
    assert stage.json("resume", *GO, code=0)["status"] == "done"


def test_ctrl_c_stops_between_two_effects(stage: Stage) -> None:
    stage.written(RECORDS)
    with stage.running("failover", *GO) as process:
        stage.until(process, lambda: stage.has("intend"))
        process.send_signal(signal.SIGINT)
        stage.ends(process, 130)
    assert stage.journaled()[-1]["entry"] == "interrupted"
    assert "drctl resume" in stage.output
    first = stage.json("failover", code=3)["refused"][0]
    assert first["precheck"] == "runs-unfinished"
    assert first["remedy"].startswith("`drctl resume ")
    assert stage.json("resume", *GO, code=0)["status"] == "done"


def estimated_before(stage: Stage) -> None:
    """Assert that the plan estimates unreplicated records, and keeps its fingerprint."""
    files = [stage.drctl.folder / name for name in ("one.json", "two.json")]
    words = ("failover", "--mode", "unplanned")
    one, two = (stage.json(*words, "--plan-out", str(file), code=0) for file in files)
    assert (one["loss"]["at_least"], two["loss"]["at_least"]) == (LEFT, LEFT)
    assert one["loss"]["records"] == two["loss"]["records"], (
        "the likely number grew with the outage"
    )
    assert LEFT == one["loss"]["records"] <= one["loss"]["at_most"] <= two["loss"]["at_most"]
    assert one["loss"]["seconds"] == two["loss"]["seconds"]
    assert 0 < one["loss"]["seconds_at_most"] < two["loss"]["seconds_at_most"]
    assert "reported by drctl gap" in one["loss"]["based_on"]["at_least"]
    assert any("reported by drctl gap" in each for each in one["loss"]["evidence"])
    assert one["fingerprint"] == two["fingerprint"]
    written = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    assert [each["loss"] for each in written] == [None, None]
    assert written[0]["steps"] == written[1]["steps"]
    assert stage.journaled() == []


def resumes_as_reported(stage: Stage) -> int:
    """Assert that an untracked group resumes at its checkpoint, under the stated condition."""
    reported = stage.json("report", code=0)["committed_offsets"]
    assert (reported["offsets"], reported["without_offset"]) == (PARTITIONS, [])
    (group,) = reported["groups"]
    committed, ends = positions(stage), stage.target.end_offsets(stage.topic)
    assert group["rereads_at_most"] == sum(ends[n] - at for n, at in committed.items())
    assert group["skips_only_if"].startswith("the group was reset backwards after ")
    return int(group["rereads_at_most"])


def test_an_unplanned_failover_needs_no_source_and_reports_outstanding_actions(
    stage: Stage,
) -> None:
    written = stage.written(RECORDS)
    read = stage.read(stage.source, most=RECORDS)
    stage.await_checkpoint(stage.group)
    stage.write_unreplicated(LEFT)
    assert "source-alive" in stage.refused("failover", "--mode", "unplanned", *GO)
    stage.lab.signal("primary", signal.SIGKILL)
    estimated_before(stage)
    done = stage.json("failover", "--mode", "unplanned", *GO, code=1)
    assert done["status"] == "done"
    assert any("fence" in each for each in done["outstanding"])
    assert any("restart idempotent producers" in each for each in done["outstanding"])
    assert any("use the KIP-848 protocol" in each for each in done["outstanding"])
    assert done["rpo"]["exact"] is False
    placed = resumes_as_reported(stage)
    assert stage.directs_to("secondary")
    loss = loss_in(stage)
    assert (loss["at_least"], loss["exact"]) == (LEFT, False)
    assert loss["records"] == LEFT <= loss["at_most"]
    evidence = "\n".join(loss["evidence"])
    for trace in (
        "reported by drctl gap",
        "offset syncs",
        "Connect offsets of connector mm2-source",
    ):
        assert trace in evidence
    more = stage.write(RECORDS, "after", stage.target)
    assert len(more) == RECORDS
    found = stage.read(stage.target, most=10_000, wait_for=len(more))
    assert set(more) <= set(found), "records were skipped"
    assert sum(value in set(read) for value in found) <= placed
    there = sum(stage.target.end_offsets(stage.topic).values())
    assert there == len(written) + len(more)
    stage.lab.start("primary")
    stage.json("gap", "--scope", "full", code=1)
    exact = loss_in(stage)
    assert (exact["records"], exact["exact"]) == (LEFT, True)
    assert 0 <= exact["seconds"] < 30
