"""`--every`: one run after another in one process, whatever happens, until it is stopped."""

import json
import signal
from typing import Any

import pytest

from tests.cluster.command import Running
from tests.cluster.filling import Clock, copies, fill, holding, rows, written
from tests.cluster.lab_link import NewDrctl, link_over, new_prefix
from tests.cluster.link_command import soon
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]


def lines(running: Running) -> list[dict[str, Any]]:
    """Return the documents so far."""
    text = running.stdout.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def await_line(running: Running, **wanted: object) -> dict[str, Any]:
    """Return the next document with these totals or this error."""
    seen = len(lines(running))

    def found() -> list[dict[str, Any]]:
        assert running.process.poll() is None, running.stderr_text()
        return [
            d
            for d in lines(running)[seen:]
            if wanted.items() <= d.get("totals", d.get("error", {})).items()
        ]

    soon(found, wanted, 120)
    return found()[0]


def test_runs_repeat_until_they_are_stopped(
    primary: ClusterUnderTest, secondary: ClusterUnderTest, clock: Clock, new_drctl: NewDrctl
) -> None:
    topic = f"{new_prefix()}again"
    fill(primary, {topic: holding(*rows(50))}, clock)
    fill(secondary, {topic: holding(*copies(rows(50)))}, clock)
    link = link_over(f"{topic}()")  # a pattern
    running = new_drctl({"main": link}).start("--ledger", "--every", "0.5s")
    try:
        assert await_line(running, unreplicated=0)["ledger"]["offsets_known"] in (0, 100)
        primary.produce(topic, written(rows(3, start=50), clock))
        found = await_line(running, unreplicated=3, read_from_source=53)
        assert found["ledger"]["offsets_known"] >= 100
        primary.delete_topics([topic])
        assert await_line(running, code=2)["schema"] == "drctl/error/1"
        fill(primary, {topic: holding(*rows(52))}, clock)
        await_line(running, unreplicated=2, read_from_source=52)
        secondary.produce(topic, written(copies(rows(2, start=50)), clock))
        await_line(running, unreplicated=0, read_from_source=52)
        running.signal(signal.SIGTERM)
        ended = running.wait(60)
    finally:
        running.kill()
    assert ended.code == 130
    assert "Traceback" not in ended.stderr
    folders = sorted(ended.out.iterdir())
    kept = [json.loads((f / "gap.json").read_text()) for f in folders if (f / "gap.json").exists()]
    assert len(kept) >= 3
    dull = sum(document["totals"]["unreplicated"] == 0 for document in kept)
    assert dull <= 2, "more than the last run and one interrupted run found nothing"
