"""What drctl reports of a link after a killed run and after a completed failover.

Preparing a failover would harm clients now; nothing suggests it any more.
"""

from typing import Any

import pytest

from drctl.checks.causes import MOVED, UNFINISHED
from tests.cluster.failover_stage import Stage
from tests.cluster.isolated_links import at_work
from tests.cluster.killing import killed_at
from tests.cluster.link_command import GO

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]

STOPS_COPYING = frozenset({"replication-not-running", "replication-lag", "mm2-connectors"})
"""Checks that report stopped replication, which is no fault after a failover."""

Rows = list[dict[str, Any]]


def doctor(stage: Stage) -> Rows:
    """Return the findings that are not ok."""
    found = stage.run("doctor", "--output", "json").document()
    return [row for row in found["checks"] if row["status"] not in ("ok", "not-checked")]


def blockers(stage: Stage, mode: str) -> Rows:
    """Return what blocks a failover of this mode, according to `drctl status`."""
    seen = stage.json("status", code=1)
    assert not seen[mode]["go"]
    return list(seen[mode]["blockers"])


def cause(rows: Rows, name: str) -> dict[str, Any]:
    """Assert that it is there once, or first."""
    return next(row for row in rows if row["check"] == name)


def test_diagnosis_of_a_killed_run_and_after_clients_have_moved(link: Stage) -> None:
    stage = link
    at_work(stage)
    killed_at(stage, "after", "drain", "failover", *GO)
    run = stage.newest_run
    the_killed_run_is_named(stage, run)

    done = stage.json("resume", *GO, code=0)
    assert (done["status"], done["run"]) == ("done", run)
    clients_are_on_the_target(stage, run)

    stage.resume(stage.copies)
    for rows in (doctor(stage), blockers(stage, "planned")):
        _, copying = (row for row in rows if row["check"] == MOVED)
        assert copying["subject"] == f"connector {stage.copies}"
        assert f"clients have been on secondary since run {run}" in copying["reason"]
        assert f"connectors/{stage.copies}/stop" in copying["remedy"]


def the_killed_run_is_named(stage: Stage, run: str) -> None:
    """Assert that the run comes first with its resume command, and nothing else has a remedy."""
    assert stage.denials(stage.source) > 0, "the run was killed before the fence"
    for rows in (doctor(stage), blockers(stage, "planned"), blockers(stage, "unplanned")):
        first, *rest = [row for row in rows if row["check"] == UNFINISHED] + [
            row for row in rows if row["check"] != UNFINISHED
        ]
        assert f"run {run} stopped before its end" in first["reason"]
        assert f"`drctl resume {run} --execute` resumes it" in first["remedy"]
        assert {row["remedy"] for row in rest} <= {"", f"see {UNFINISHED}"}, rest
    refusal = stage.refused("failover", *GO)
    assert f"run {run} stopped before its end" in refusal
    assert f"drctl resume {run} --execute" in refusal


def clients_are_on_the_target(stage: Stage, run: str) -> None:
    """Assert since when and by which run; its consequences have no remedy of their own."""
    rows = doctor(stage)
    for each in (rows, blockers(stage, "planned"), blockers(stage, "unplanned")):
        moved = cause(each, MOVED)
        assert moved["reason"].startswith("they have been on secondary since ")
        assert f"by run {run} (failover-planned)" in moved["reason"]
        assert "its ACLs deny writes to" in moved["evidence"]
        assert "drctl failback --check-order" in moved["remedy"]
        left = [row for row in each if row["check"] in STOPS_COPYING]
        assert {row["remedy"] for row in left} <= {f"see {MOVED}"}, left
        assert not [row for row in each if "restart" in row["remedy"] or "resume" in row["remedy"]]
    assert STOPS_COPYING & {row["check"] for row in rows}, (
        "no consequence of the failover was reported"
    )
    assert f"by run {run} (failover-planned)" in stage.refused("failover", *GO)
    assert f"see {MOVED}" in stage.refused("failover")
