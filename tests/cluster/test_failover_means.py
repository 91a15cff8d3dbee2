"""A planned failover by other means than ACLs and a file, and an application that moves with it.

The fence is a command of the site. A name in a real BIND and a real HAProxy lead clients. An
application writes all the time, through the proxy, and knows nothing of drctl: what it noted of
each record is what the report is held against.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from drctl.lab.cluster import read_topic
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from tests.cluster import fence_program
from tests.cluster.conftest import NewDrctl
from tests.cluster.failover_stage import GO, PARTITIONS, Stage
from tests.cluster.front import Front, front
from tests.cluster.own_connectors import Connectors, settings
from tests.cluster.writer import DENIED, Writer, known_to, writing
from tests.cluster.writer_program import PACE_S
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.endpoints, pytest.mark.timeout(300)]

SETTLE_S = 2.0
"""For so long the ends have to stand still, behind a fence that holds by then."""
MORE = 20
TO_PRIMARY = {"p1": "no check", "p2": "no check", "s1": "MAINT", "s2": "MAINT"}
TO_SECONDARY = {"p1": "MAINT", "p2": "MAINT", "s1": "no check", "s2": "no check"}


@dataclass(frozen=True)
class Site:
    """A link with these means, and the application.

    Attributes:
        fence: the site's command, but for its word and its file.
    """

    stage: Stage
    front: Front
    writer: Writer
    fence: tuple[str, str]
    file: Path

    @property
    def fenced(self) -> bool:
        """What the site's command says."""
        shown = [*self.fence, "shown", str(self.file)]
        return subprocess.run(shown, timeout=30, check=False).returncode == 0

    def writes_on(self) -> None:
        """See some more records of the application acknowledged."""
        until = len(self.writer.taken()) + MORE
        assert Patience.of(60).wait_until(lambda: len(self.writer.taken()) >= until)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Nothing is copied meanwhile, and Connect says of all that it runs."""
        client = self.stage.lab.parts.worker.client()
        name = self.stage.copies
        try:
            client.pause(name)
            assert Patience.of(60).wait_until(lambda: client.status(name).all_in("PAUSED"))
            yield
        finally:
            client.resume(name)
            assert Patience.of(60).wait_until(lambda: client.status(name).all_in("RUNNING"))
            client.close()

    def held(self, cluster: ClusterUnderTest) -> set[str]:
        """Every record of a cluster, by a plain consumer."""
        found = read_topic(cluster.lab_cluster, self.stage.topic)
        return {value.decode() for value in found.values()}


@pytest.fixture
def site(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic, tmp_path: Path) -> Iterator[Site]:
    topic, user = new_topic(PARTITIONS), f"mover-{uuid4().hex[:6]}"
    clusters = ClusterUnderTest(lab.cluster("primary")), ClusterUnderTest(lab.cluster("secondary"))
    connectors = Connectors(lab)
    name, file = f"copies-{topic}", tmp_path / "fence.json"
    fence = sys.executable, str(Path(fence_program.__file__))
    with ExitStack() as opened:
        opened.callback(connectors.close)
        before = opened.enter_context(front(tmp_path, *clusters))
        password = opened.enter_context(known_to(clusters, user, topic))
        file.touch(mode=0o600)
        given = {"properties": clusters[0].properties(), "topic": topic, "user": user}
        file.write_text(json.dumps(given), encoding="utf-8")
        words = {"command": "set", "undo": "lift", "verify": "shown"}
        stage = Stage(
            lab,
            new_drctl,
            topic,
            {"kind": "mirrormaker2", "connect": connectors.url, "connectors": {"source": name}},
            fence={
                "method": "command",
                **{key: [*fence, word, str(file)] for key, word in words.items()},
            },
            endpoints=before.endpoints,
        )
        copying = settings(lab, "primary", "secondary", topic, tasks__max="1")
        connectors.create(name, copying, running=True)
        at = before.through_proxy
        writer = opened.enter_context(writing(tmp_path, at, user, password, topic))
        yield Site(stage, before, writer, fence, file)


def test_what_fails_behind_the_fence_leaves_the_application_where_it_was(site: Site) -> None:
    """Then the same link is failed over, and the application comes along."""
    site.writes_on()
    serial = site.front.serial
    with site.standing_still():
        # What was copied until now is not all: the application goes on.
        site.writes_on()
        passed = ("--override", "replication-not-running=a drill", "--patience", "2s")
        failed = site.stage.json("failover", *passed, *GO, code=3)
    statuses = {step["id"]: step["status"] for step in failed["steps"]}
    assert (statuses["fence-producers"], statuses["drain"]) == ("taken-back", "failed")
    assert statuses["open-target"] == "not-begun"
    assert not site.fenced
    assert site.front.by_name == address_of(site.stage.source)
    assert (site.front.serial, site.front.states) == (serial, TO_PRIMARY)
    site.writes_on()
    assert DENIED in answers_once_at_work(site.writer), "the fence never kept it away"

    done = site.stage.json("failover", *GO, code=0)
    assert done["rpo"] == {"records": 0, "at_least": 0, "at_most": 0, "seconds": 0, "exact": True}
    assert (site.fenced, site.front.states) == (True, TO_SECONDARY)
    assert site.front.by_name == address_of(site.stage.target)
    site.writes_on()
    acknowledged = set(site.writer.taken())
    source, target = site.held(site.stage.source), site.held(site.stage.target)
    assert acknowledged - target == set(), "acknowledged, and lost"
    report = site.stage.json("report", done["run"], "--verify", code=0)
    agrees(report, site.writer, source)
    leaving = {each["step"]: each["words"] for each in report["clients"]}
    assert "when they have lost every broker" in leaving["switch-endpoint-1"]
    assert "its sessions to primary are cut" in leaving["switch-endpoint-2"], "as it came along"


def answers_once_at_work(writer: Writer) -> set[str]:
    """Since the first record that was acknowledged."""
    attempts = writer.attempts()
    first = next(number for number, each in enumerate(attempts) if each.taken)
    return {each.answer for each in attempts[first:]}


def address_of(cluster: ClusterUnderTest) -> str:
    """As the name gives it."""
    return f"localhost:{cluster.bootstrap.rpartition(':')[2]}"


def agrees(report: dict[str, Any], writer: Writer, source: set[str]) -> None:
    """Hold the report's RTO against what the application noted, by the same clock.

    The report counts from the announcement of the fence, the application from the last record that
    the source took: between both lies what the site's command took, which is what the step took
    without the time for which ends stood still. It counts until the last endpoint was seen
    switched; the application comes with the next attempt after one that had begun.
    """
    steps = {step["id"]: step for step in report["steps"]}
    fence, switch = steps["fence-producers"], steps["switch-endpoint-2"]
    attempts = writer.attempts()
    first = next(each for each in attempts if each.taken and each.value not in source)
    last = [each for each in attempts if each.taken and each.value in source][-1]
    between = attempts[attempts.index(last) + 1 : attempts.index(first)]
    assert {each.taken for each in between} == {False}
    assert last.answered < ended(fence) - timedelta(seconds=SETTLE_S), "a proven fence leaks"
    assert first.answered > moment(switch["started"]), "nobody had sent it there"
    seen_s = (first.answered - last.answered).total_seconds()
    longest_s = max(each.seconds for each in (*between, first))
    tolerance_s = fence["seconds"] - SETTLE_S + switch["seconds"] + 2 * (longest_s + PACE_S)
    assert abs(report["rto"]["seconds"] - seen_s) <= tolerance_s


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def ended(step: dict[str, Any]) -> datetime:
    return moment(step["started"]) + timedelta(seconds=step["seconds"])
