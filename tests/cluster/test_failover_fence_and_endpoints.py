"""A planned failover with a fence command, DNS and a proxy, and an application that moves.

The fence is a user-supplied command. A name in a real BIND and a real HAProxy direct clients. An
application writes all the time through the proxy and knows nothing of drctl: the report is
compared with its own record of each write.
"""

import subprocess
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.cluster.dns_and_proxy import Front, fence_of, front
from tests.cluster.failover_stage import PARTITIONS, Stage
from tests.cluster.isolated_connectors import Connectors, mirror_of, settings
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, NOTHING_LOST, soon, steps_of
from tests.cluster.writer import DENIED, Writer, known_to, writing
from tests.cluster.writer_program import PACE_S
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.endpoints, pytest.mark.timeout(300)]

SETTLE_S = 2.0
"""Time for which end offsets must be stable after the fence is enforced."""
MORE = 20
TO_PRIMARY = {"p1": "no check", "p2": "no check", "s1": "MAINT", "s2": "MAINT"}
TO_SECONDARY = {"p1": "MAINT", "p2": "MAINT", "s1": "no check", "s2": "no check"}


@dataclass(frozen=True)
class Moving:
    """A link with these endpoints, and the application.

    Attributes:
        fence: the user-supplied command without its word and file.
    """

    stage: Stage
    front: Front
    writer: Writer
    fence: tuple[str, str]
    file: Path

    @property
    def fenced(self) -> bool:
        """Whether the user-supplied command reports a fence."""
        shown = [*self.fence, "shown", str(self.file)]
        return subprocess.run(shown, timeout=30, check=False).returncode == 0

    def writes_on(self) -> None:
        """Wait until more records of the application are acknowledged."""
        until = len(self.writer.taken()) + MORE
        soon(lambda: len(self.writer.taken()) >= until)


@pytest.fixture
def moving(site: Site, tmp_path: Path) -> Moving:
    topic, user = site.new_topic(PARTITIONS), f"mover-{uuid4().hex[:6]}"
    connectors = site.keep(Connectors(site.lab))
    name, file, opened = f"copies-{topic}", tmp_path / "fence.json", site.opened
    before = opened.enter_context(front(tmp_path, *site.clusters))
    password = opened.enter_context(known_to(site.clusters, user, topic))
    fence, section = fence_of(site.primary, topic, user, file)
    replicator = mirror_of(site.lab, name)
    stage = Stage(site, topic, replicator, fence=section, endpoints=before.endpoints)
    copying = settings(site.lab, "primary", "secondary", topic, tasks__max="1")
    connectors.create(name, copying, running=True)
    at = before.through_proxy
    writer = opened.enter_context(writing(tmp_path, at, user, password, topic))
    return Moving(stage, before, writer, fence, file)


def test_a_failure_after_the_fence_leaves_the_application_on_the_source(moving: Moving) -> None:
    """Then the same link fails over, and the application moves."""
    site = moving
    site.writes_on()
    serial = site.front.serial
    with site.stage.paused(site.stage.copies):
        # The application continues to write, so that some records are not replicated.
        site.writes_on()
        passed = ("--override", "replication-not-running=a drill", "--timeout", "2s")
        failed = site.stage.json("failover", *passed, *GO, code=3)
    statuses = steps_of(failed, "status")
    assert (statuses["fence-producers"], statuses["drain"]) == ("rolled-back", "failed")
    assert statuses["enable-writes"] == "not-started"
    assert not site.fenced
    assert site.front.by_name == address_of(site.stage.source)
    assert (site.front.serial, site.front.states) == (serial, TO_PRIMARY)
    site.writes_on()
    assert DENIED in answers_once_at_work(site.writer), "the fence never denied the application"

    done = site.stage.json("failover", *GO, code=0)
    assert done["rpo"] == NOTHING_LOST
    assert (site.fenced, site.front.states) == (True, TO_SECONDARY)
    assert site.front.by_name == address_of(site.stage.target)
    site.writes_on()
    acknowledged = set(site.writer.taken())
    source, target = (set(site.stage.all_of(each)) for each in site.stage.site.clusters)
    assert acknowledged - target == set(), "acknowledged records were lost"
    report = site.stage.json("report", done["run"], "--verify", code=0)
    agrees(report, site.writer, source)
    leaving = {each["step"]: each["message"] for each in report["clients"]}
    assert "after losing every broker" in leaving["switch-endpoint-1"]
    assert "the proxy closes its sessions to primary" in leaving["switch-endpoint-2"], (
        "HAProxy closed the sessions"
    )


def answers_once_at_work(writer: Writer) -> set[str]:
    """Return the responses since the first acknowledged record."""
    attempts = writer.attempts()
    first = next(number for number, each in enumerate(attempts) if each.taken)
    return {each.answer for each in attempts[first:]}


def address_of(cluster: ClusterUnderTest) -> str:
    """Return a cluster's address as the name resolves."""
    return f"localhost:{cluster.bootstrap.rpartition(':')[2]}"


def agrees(report: dict[str, Any], writer: Writer, source: set[str]) -> None:
    """Compare the report's RTO with the application's own, on the same clock.

    The report counts from the announcement of the fence, the application from the last record that
    the source acknowledged: the difference is the run time of the fence command, which is the
    step's
    time without the time for which ends were stable. The report ends when the last endpoint was
    seen
    switched; the application needs one more attempt.
    """
    steps = {step["id"]: step for step in report["steps"]}
    fence, switch = steps["fence-producers"], steps["switch-endpoint-2"]
    attempts = writer.attempts()
    first = next(each for each in attempts if each.taken and each.value not in source)
    last = [each for each in attempts if each.taken and each.value in source][-1]
    between = attempts[attempts.index(last) + 1 : attempts.index(first)]
    assert {each.taken for each in between} == {False}
    assert last.answered < ended(fence) - timedelta(seconds=SETTLE_S), (
        "a write was accepted after the fence was verified"
    )
    assert first.answered > moment(switch["started"]), (
        "a write reached the target before the endpoint was switched"
    )
    seen_s = (first.answered - last.answered).total_seconds()
    longest_s = max(each.seconds for each in (*between, first))
    tolerance_s = fence["seconds"] - SETTLE_S + switch["seconds"] + 2 * (longest_s + PACE_S)
    assert abs(report["rto"]["seconds"] - seen_s) <= tolerance_s


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def ended(step: dict[str, Any]) -> datetime:
    return moment(step["started"]) + timedelta(seconds=step["seconds"])
