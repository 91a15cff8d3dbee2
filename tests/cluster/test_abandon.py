"""`drctl resume --abandon` on real clusters: a run ends with its changes; another one starts."""

from pathlib import Path

import pytest

from drctl.engine import run_state
from drctl.formats.journal_records import TOPIC, encode, split
from drctl.model.topology import Record
from tests.cli.test_resume_check import RUN as FORGED
from tests.cli.test_resume_check import forged
from tests.cluster.failover_stage import Stage
from tests.cluster.killing import killed_at_a_new_step
from tests.cluster.link_command import GO

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

RECORDS = 100
BEFORE_FENCE = ("preflight", "snapshot-state")
WHY = "drctl.yaml named the wrong principals"


@pytest.mark.nightly
def test_an_abandoned_run_releases_its_link_and_names_what_remains_changed(
    stage: Stage, tmp_path: Path
) -> None:
    written = stage.written(RECORDS)
    assert killed_at_a_new_step(stage, ("failover", *GO), BEFORE_FENCE) == "fence-producers"
    run = stage.newest_run
    second = stage.refused("failover", *GO)
    assert f"run {run} stopped before its end" in second
    assert "--abandon REASON" in second
    assert stage.run("resume", run, "--abandon", " ", *GO).code == 2
    denials = stage.denials(stage.source)

    shown = stage.run("resume", run, "--abandon", WHY)
    assert shown.code == 0
    remaining = "these changes remain: may be in effect: fence producers"
    assert remaining in shown.stderr
    assert stage.journaled()[-1]["entry"] != "ended"

    left = stage.json("resume", run, "--abandon", WHY, *GO, code=1)
    assert left["status"] == "stopped"
    assert len(left["outstanding"]) == 1
    assert "fence producers on primary" in left["outstanding"][0]
    assert stage.denials(stage.source) == denials, "abandoning the run changed the fence"
    report = stage.json("report", run, "--verify", code=0)
    assert report["ending"]["message"] == WHY
    assert report["do_now"][-1]["command"].startswith("drctl failover ")
    assert f"run {run} has already ended" in stage.refused("resume", run, *GO)

    done = stage.json("failover", *GO, code=0)
    assert done["status"] == "done"
    written += stage.write(RECORDS, "after", stage.target)
    read = stage.read(stage.target, most=10_000, wait_for=2 * RECORDS)
    assert set(read) == set(written)
    _no_command_of_a_forged_run_is_started(stage, tmp_path / "was-here")


def _no_command_of_a_forged_run_is_started(stage: Stage, mark: Path) -> None:
    """Anyone who can write to the topic can forge a whole valid run, with its commands."""
    entries = [dict(entry) for entry in forged(["/bin/true"], ["touch", str(mark)])]
    entries[0]["plan"] = {**entries[0]["plan"], "link": stage.link}
    parts = (
        p
        for line in run_state.seal(entries, run_state.first_head(FORGED))
        for p in split(FORGED, line)
    )
    records = [Record(0, -1, 0, stage.link.encode(), encode(part)) for part in parts]
    stage.target.produce(TOPIC, records)
    for words in (("resume",), ("resume", *GO)):
        refused = stage.refused(*words)
        assert f"`touch {mark}` is not among `commands`" in refused
        assert f"`drctl resume {FORGED} --abandon REASON`" in refused
    assert not mark.exists()
    stage.json("resume", FORGED, "--abandon", "another producer wrote it", *GO, code=1)
    assert stage.run("resume", *GO).code == 2, "a run was resumed"
    assert not mark.exists()


@pytest.mark.nightly
def test_a_run_with_a_damaged_journal_is_abandoned_with_what_can_be_read(stage: Stage) -> None:
    stage.written(RECORDS)
    assert killed_at_a_new_step(stage, ("failover", *GO), BEFORE_FENCE) == "fence-producers"
    run = stage.newest_run
    _damage(stage, run)
    for words in (("resume", run, *GO), ("resume", *GO)):
        lost = stage.refused(*words, code=5)
        assert f"the journal of run {run} is damaged" in lost
        assert f"`drctl resume {run} --abandon REASON`" in lost

    shown = stage.run("resume", run, "--abandon", WHY)
    assert shown.code == 0
    assert "may be in effect: fence producers" in shown.stderr
    assert stage.run("failover", *GO).code == 3

    left = stage.json("resume", run, "--abandon", WHY, *GO, code=1)
    assert left["status"] == "stopped"
    fenced, *not_known, unknown = left["outstanding"]
    assert "may be in effect: fence producers on primary" in fenced
    assert any("enable writes on secondary" in each for each in not_known)
    assert all(each.startswith("not known whether it was executed (") for each in not_known)
    assert unknown.startswith(f"not known: what run {run} did after line ")
    report = stage.json("report", run, "--verify", code=1)
    assert report["writes"]["to"] == "unknown"
    assert report["ending"]["message"] == WHY
    assert stage.json("failover", *GO, code=0)["status"] == "done"


def _damage(stage: Stage, run: str) -> None:
    """Write to the journal with another tool."""
    head = b'{"v":1,"is":"line","run":"%s","part":0,"parts":1}\n' % run.encode()
    forged = Record(0, -1, 0, stage.link.encode(), head + b"mended by hand")
    stage.target.produce(TOPIC, [forged])
