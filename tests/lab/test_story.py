"""The story of `make demo`, played on a small scale on the lab of the tests."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from drctl.lab.lab import Lab
from drctl.lab.loads import PARTITIONS
from drctl.lab.scenarios.clients import Habit, Script
from drctl.lab.scenarios.lost_primary import play
from drctl.lab.scenarios.stage import Stage
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]


@pytest.fixture
def topic(lab: Lab, new_topic: NewTopic, primary: ClusterUnderTest) -> Iterator[str]:
    """What the story plays with; afterwards the lab is as it was."""
    name = new_topic(PARTITIONS, mirrored=True)
    try:
        yield name
    finally:
        lab.start("primary")
        lab.replicate(True)
        kind, pattern = ResourceType.TOPIC, ResourcePatternType.LITERAL
        fence = AclBindingFilter(
            kind, name, pattern, "User:orders-app", "*", AclOperation.ANY, AclPermissionType.DENY
        )
        for deleted in primary.admin.delete_acls([fence]).values():
            deleted.result()


def small(topic: str) -> Script:
    name = f"orders-app-{uuid4().hex[:6]}"
    habits = (Habit(f"{name}-a"), Habit(f"{name}-b", rate=800), Habit(f"{name}-c", most=2_000))
    return Script(topic, before=4_000, rate=800, behind=1_200, after=600, home=300, habits=habits)


def test_a_lost_primary_on_a_small_scale(lab: Lab, topic: str, tmp_path: Path) -> None:
    told: list[str] = []
    script = small(topic)
    with (tmp_path / "shown").open("w+", encoding="utf-8") as shown:
        ending = play(Stage(lab, tmp_path, told.append, ("--no-color",), shown), script)
        shown.seek(0)
        printed = shown.read()
    assert ending.true, ending.summary
    assert ending.summary.startswith("True: ")
    assert "3 groups skipped none" in ending.summary
    assert "drctl gap named exactly these" in ending.summary
    assert ending.summary.count("0 lost, 0 twice, 0 out of order by key") == 2
    assert ending.home.is_file()
    assert ending.home != ending.report
    assert ending.page.is_file()
    assert ending.report.is_file()
    assert not any("\n" in line for line in told), "a terminal is shown a mark in its place"
    (head,) = [n for n, line in enumerate(told) if "read before" in line and "skipped" in line]
    rows = [line.split() for line in told[head + 1 : head + 1 + len(script.habits)]]
    assert [row[0] for row in rows] == [habit.group for habit in script.habits]
    read_before = [int(row[1].replace(",", "")) for row in rows]
    assert read_before[0] >= script.before > read_before[2] >= 2_000
    assert printed.count("failover-unplanned") >= 1
    assert "The way back of link main: secondary -> primary" in printed
    assert "primary has taken over from secondary; no record was left behind" in printed
    assert "are missing on secondary" in printed
