"""The scenario of `make demo`, scaled down, on the lab of the tests."""

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
from drctl.lab.scenarios.clients import ReaderProfile, Workload
from drctl.lab.scenarios.lost_primary import play
from drctl.lab.scenarios.stage import Stage
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]


@pytest.fixture
def topic(lab: Lab, new_topic: NewTopic, primary: ClusterUnderTest) -> Iterator[str]:
    """The scenario's topic; afterwards the lab is restored."""
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


def small(topic: str) -> Workload:
    name = f"orders-app-{uuid4().hex[:6]}"
    profiles = (
        ReaderProfile(f"{name}-a"),
        ReaderProfile(f"{name}-b", rate=800),
        ReaderProfile(f"{name}-c", most=2_000),
    )
    return Workload(
        topic,
        before=4_000,
        rate=800,
        while_stalled=1_200,
        after=600,
        on_primary=300,
        profiles=profiles,
    )


def test_a_lost_primary_on_a_small_scale(lab: Lab, topic: str, tmp_path: Path) -> None:
    lines: list[str] = []
    workload = small(topic)
    with (tmp_path / "shown").open("w+", encoding="utf-8") as shown:
        result = play(Stage(lab, tmp_path, lines.append, ("--no-color",), shown), workload)
        shown.seek(0)
        printed = shown.read()
    assert result.correct, result.summary
    assert result.summary.startswith("PASSED: ")
    assert "3 groups skipped 0" in result.summary
    assert "exactly these records" in result.summary
    assert result.summary.count("0 lost, 0 duplicated, 0 out of order by key") == 2
    assert result.failback.is_file()
    assert result.failback != result.report
    assert result.page.is_file()
    assert result.report.is_file()
    assert not any("\n" in line for line in lines), (
        "a line break would be shown escaped on a terminal"
    )
    (head,) = [n for n, line in enumerate(lines) if "consumed before" in line and "skipped" in line]
    rows = [line.split() for line in lines[head + 1 : head + 1 + len(workload.profiles)]]
    assert [row[0] for row in rows] == [profile.group for profile in workload.profiles]
    read_before = [int(row[1].replace(",", "")) for row in rows]
    assert read_before[0] >= workload.before > read_before[2] >= 2_000
    assert printed.count("failover-unplanned") >= 1
    assert "Failback of link main: secondary -> primary" in printed
    assert "Failback to primary completed. Every record was replicated" in printed
    assert "are not replicated to secondary" in printed
