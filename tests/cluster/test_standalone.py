"""The same answer from a real Spark cluster, and no password anywhere on it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.command import Ended, Running, command_lines
from tests.cluster.conftest import NewDrctl
from tests.cluster.scenario import Analysed
from tests.cluster.standalone import Standalone, applications, get, standalone
from tests.kafka.tls_broker import free_ports
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

TRAPS = ("three-equal-records", "in-another-partition", "transactions", "compacted-target")
CONFIG_PAGES = ("/environment/", "/jobs/", "/SQL/", "/api/v1/applications")
LINK = re.compile(r'href="(?:https?://[^/"]+)?(/(?:SQL/execution|jobs/job|stages/stage)/?\?[^"]+)"')


@dataclass
class Seen:
    """Everything that other people on the machine and in the network could look at.

    Attributes:
        pages: by address, all that was ever shown there.
    """

    ended: Ended
    command_lines: str
    pages: dict[str, str]
    events: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("standalone")) as started:
        yield started


@pytest.fixture(scope="module")
def seen(
    cluster: Standalone,
    traps: Analysed,
    new_drctl: NewDrctl,
    tmp_path_factory: pytest.TempPathFactory,
) -> Seen:
    """A run on the cluster, looked at from all sides while it works."""
    events, (port,) = tmp_path_factory.mktemp("events"), free_ports(1)
    conf = {
        "spark.executor.memory": "600m",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.executorEnv.PYSPARK_PYTHON": "/no/such/python",
    }
    drctl = new_drctl({"main": traps.scenario.link}, spark={"master": cluster.master, "conf": conf})
    topics = [word for name in TRAPS for word in ("--topic", traps.scenario.topic(name))]
    running = drctl.start(*topics, environ={"PYSPARK_PYTHON": "/no/such/python"})
    try:
        lines, pages = look(running, cluster, f"http://127.0.0.1:{port}")
        return Seen(running.wait(), lines, pages, events)
    finally:
        running.kill()


def look(running: Running, cluster: Standalone, driver: str) -> tuple[str, dict[str, str]]:
    """Command lines and pages, again and again, as long as it runs."""
    lines, pages = "", dict[str, str]()
    while not running.ended_within(3):
        lines += command_lines()
        links = {driver + link for link in LINK.findall("".join(pages.values()))}
        apps = [f"{cluster.pages[0]}/app/?appId={a['id']}" for a in applications(cluster)]
        own = [driver + page for page in CONFIG_PAGES]
        for address in (*own, *sorted(links)[-4:], *cluster.pages, *apps):
            pages[address] = pages.get(address, "") + get(address)
    return lines, pages


def test_the_same_answer_as_on_one_machine(seen: Seen, traps: Analysed) -> None:
    assert seen.ended.code == 1, seen.ended.stderr
    names = {traps.scenario.topic(name) for name in TRAPS}
    wanted = [t for t in traps.document["topics"] if t["topic"] in names]
    assert seen.ended.gap()["topics"] == wanted
    assert len(wanted) == len(TRAPS)


def test_the_workers_did_it(seen: Seen, cluster: Standalone) -> None:
    (application,) = applications(cluster)
    assert application["name"] == "drctl gap"
    assert application["cores"] == 2 or application["state"] == "FINISHED"
    executors = sorted(p.parent.parent.parent.name for p in cluster.folder.rglob("*/*/stderr"))
    assert executors == ["worker1", "worker2"]


def secrets(*clusters: ClusterUnderTest) -> list[str]:
    return [cluster.properties()["sasl.password"] for cluster in clusters]


def test_passwords_are_in_no_command_line(
    seen: Seen, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    assert "CoarseGrainedExecutorBackend" in seen.command_lines
    for secret in secrets(primary, secondary):
        assert secret not in seen.command_lines


def test_passwords_are_on_no_page(
    seen: Seen, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    shown = "".join(seen.pages.values())
    assert "spark.redaction.regex" in shown, "the driver's page was seen"
    assert any("/SQL/execution" in address for address in seen.pages)
    assert "Spark Master at" in shown
    assert "Spark Worker at" in shown
    for secret in secrets(primary, secondary):
        assert secret not in shown


def test_passwords_are_in_no_file(
    seen: Seen, cluster: Standalone, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    files = [p for root in (seen.events, cluster.folder) for p in root.rglob("*") if p.is_file()]
    assert any(
        "SparkListenerSQLExecutionStart" in text(p) for p in files if seen.events in p.parents
    )
    for secret in secrets(primary, secondary):
        assert not [p for p in files if secret in text(p)]
        assert secret not in seen.ended.stdout + seen.ended.stderr
        assert not [p for p in seen.ended.out.rglob("*") if p.is_file() and secret in text(p)]


def text(path: Path) -> str:
    return path.read_bytes().decode("latin-1")
