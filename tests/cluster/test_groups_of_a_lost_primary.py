"""Untracked groups of a killed primary: where they really resume.

MirrorMaker 2's checkpoints are the only evidence. drctl's statements are compared with what a
consumer of each group reads on the target.
"""

import json
import signal
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import NamedTuple

import pytest

from tests.cluster.failover_stage import PARTITIONS, Stage, connect
from tests.cluster.groups import commit_offsets, positions_on
from tests.cluster.link_command import GO, soon

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]

RECORDS, LATER, ON, BACKLOG = 600, 200, 120, 50
RESET = 20
CHECKPOINT = "mm2-checkpoint"
UNPLANNED = ("failover", "--mode", "unplanned")


class Lost(NamedTuple):
    """What each group had read on the primary before it was killed, and what the target has."""

    read: dict[str, list[str]]
    copied: list[str]
    reset_ms: int


def link_groups(stage: Stage, *names: str) -> None:
    """Let the link carry these groups, too."""
    text = stage.drctl.config.read_text(encoding="utf-8")
    listed = "\n".join(f"    - {name}" for name in (stage.group, *names))
    stage.drctl.config.write_text(text.replace(f"    - {stage.group}", listed), encoding="utf-8")


def lose_primary(stage: Stage, back: str) -> Lost:
    """Checkpoint two groups; one continues, one is reset; a backlog is not replicated."""
    copied = stage.written(RECORDS)
    read = {name: stage.read_as(name, stage.source, RECORDS) for name in (stage.group, back)}
    for name in read:
        stage.await_checkpoint(name)
    with connect(stage.lab) as client:
        client.stop(CHECKPOINT)
        soon(lambda: not client.status(CHECKPOINT).tasks)
    copied += stage.written(LATER, "later")
    read[stage.group] += stage.read(stage.source, ON)
    time.sleep(1)  # the condition states whole seconds
    reset_ms = int(time.time() * 1000)
    commit_offsets(stage.source, stage.topic, {back: dict.fromkeys(range(PARTITIONS), RESET)})
    stage.pause(stage.copies)
    assert len(stage.write(BACKLOG, "backlog")) == BACKLOG
    stage.lab.signal("primary", signal.SIGKILL)
    return Lost(read, copied, reset_ms)


def resumed(stage: Stage, group: str) -> list[str]:
    """Return what a consumer of the group reads on the target to the end."""
    return stage.read_as(group, stage.target, 10_000)


def noted_by(words: str) -> datetime:
    """Return the time in a condition."""
    assert words.startswith("the group was reset backwards after "), words
    return datetime.strptime(words.split(" after ")[1], "%Y-%m-%d %H:%M:%S %Z").replace(tzinfo=UTC)


def test_every_group_resumes_at_its_best_known_offset(stage: Stage) -> None:
    back, nobody = f"{stage.group}-back", f"{stage.group}-of-which-nothing-is-known"
    link_groups(stage, back, nobody)
    lost = lose_primary(stage, back)

    plan = stage.json(*UNPLANNED, code=0)
    assert plan["groups"]["without_offset"] == [nobody]
    shown = " ".join(stage.run(*UNPLANNED).stdout.split())
    assert f"1 group would have no committed offset on secondary: {nobody}" in shown
    rows = stage.json("offsets", "translate", code=5)["rows"]
    assert {row["group"] for row in rows} == {stage.group, back}
    for row in rows:
        assert row["target_offset"] is not None, row
        assert row["skips_only_if"], row
    refused = stage.json("offsets", "apply", code=0)
    assert refused["totals"]["commit"] == 2 * PARTITIONS

    done = stage.json(*UNPLANNED, *GO, code=1)
    assert done["status"] == "done"
    committed = {name: positions_on(stage.target, name) for name in (stage.group, back)}
    reported = stage.json("report", code=0)["committed_offsets"]
    assert reported["offsets"] == 2 * PARTITIONS
    assert reported["without_offset"] == [nobody]
    by_name = {each["group"]: each for each in reported["groups"]}
    for row in rows:
        assert committed[row["group"]][row["partition"]] == row["target_offset"]

    for name in (stage.group, back):
        ends = stage.target.end_offsets(stage.topic)
        firm = sum(ends[number] - at for number, at in committed[name].items())
        assert by_name[name]["rereads_at_most"] == firm
        assert noted_by(by_name[name]["skips_only_if"]).timestamp() * 1000 <= lost.reset_ms
        assert "checkpoint" in by_name[name]["based_on"] or "sync" in by_name[name]["based_on"]
        assert by_name[name]["age_seconds"] > 0

    mine = resumed(stage, stage.group)
    finished = set(lost.read[stage.group])
    again = [value for value in mine if value in finished]
    assert set(lost.copied) <= finished | set(mine), "records were skipped"
    assert len(again) <= by_name[stage.group]["rereads_at_most"]
    assert len(again) > (by_name[stage.group]["rereads_likely"] or 0), (
        "the group had not read on after the checkpoint"
    )

    skipped = set(lost.copied) - set(resumed(stage, back))
    assert len(skipped) > PARTITIONS * RESET, (
        "the group was reset after that time, so it skips records as stated"
    )


def test_an_engineer_may_refuse_unproven_offsets(stage: Stage) -> None:
    back = f"{stage.group}-back"
    link_groups(stage, back)
    text = stage.drctl.config.read_text(encoding="utf-8")
    assert "policy:\n" in text
    lost = lose_primary(stage, back)
    refusing = text.replace("policy:\n", "policy:\n  unproven_offsets: refuse\n")
    stage.drctl.config.write_text(refusing, encoding="utf-8")
    plan = stage.json(*UNPLANNED, code=0)
    assert plan["groups"]["without_offset"] == sorted([stage.group, back])
    found = stage.json("offsets", "apply", code=3)
    assert {line["precheck"] for line in found["lines"]} == {"skips-records"}
    reason = "would skip records if the group was"
    assert all(each["reason"].startswith(reason) for each in found["lines"])
    stage.drctl.config.write_text(text, encoding="utf-8")
    assert lost.copied
    done = stage.json("offsets", "apply", *GO, code=0)
    assert done["totals"]["committed"] == 2 * PARTITIONS
    assert positions_on(stage.target, back)
    undone = stage.drctl.offsets.json("undo", done["run"], *GO)
    assert undone["totals"]["deleted"] == 2 * PARTITIONS
    assert positions_on(stage.target, back) == {}


def test_an_offset_that_mirror_maker_committed_is_never_set_back(stage: Stage) -> None:
    """With `sync.group.offsets.enabled`: its task ends before drctl commits anything."""
    on = {"sync.group.offsets.enabled": "true", "sync.group.offsets.interval.seconds": "1"}
    with ExitStack() as opened:
        client = opened.enter_context(connect(stage.lab))
        opened.callback(client.configure, CHECKPOINT, dict.fromkeys(on))
        opened.callback(stage.lab.start, "primary")
        client.configure(CHECKPOINT, dict(on))
        copied = stage.written(RECORDS)
        read = stage.read(stage.source, RECORDS)
        synced = lambda: len(positions_on(stage.target, stage.group)) == PARTITIONS  # noqa: E731
        soon(synced, "MirrorMaker 2 commits nothing", 120)
        copied += stage.written(LATER, "later")
        stage.lab.signal("primary", signal.SIGKILL)
        # Someone committed a higher offset, which no evidence explains.
        before = positions_on(stage.target, stage.group)
        further = before[0] + 3
        commit_offsets(stage.target, stage.topic, {stage.group: {0: further}})
        done = stage.json(*UNPLANNED, *GO, code=1)
        assert done["status"] == "done"
        committed = positions_on(stage.target, stage.group)
        assert committed[0] == further
        assert all(committed[number] >= at for number, at in before.items()), (before, committed)
        entries = stage.json("journal", done["run"], code=0)["runs"][0]["entries"]
        stopped = [
            e for e in entries if e.get("step") == "stop-replication" and e["entry"] == "done"
        ]
        assert CHECKPOINT in json.loads(stopped[-1]["line"])["facts"]["tasks_of"], (
            "the checkpoint connector was not stopped, which commits offsets"
        )
        mine = resumed(stage, stage.group)
        skipped = set(copied) - {*read, *mine}
        assert len(skipped) <= further - before[0], (
            "more records were skipped than that offset explains"
        )
