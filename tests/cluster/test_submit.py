"""`drctl gap` on a real Spark cluster, directly and with `--submit`: it leaves nothing behind."""

import json
import signal
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.spark_standalone import Standalone, applications
from drctl.lab.waiting import Patience
from tests.cluster.command import Running, alive, command_lines
from tests.cluster.lab_link import NewDrctl, NewHalf, cluster_section, link_over, slow
from tests.cluster.link_command import soon
from tests.cluster.scenario import Analysed
from tests.cluster.secret_exposure import Seen, passwords, text, watched_run
from tests.jvm import quick_executors
from tests.lab.cluster_under_test import ClusterUnderTest
from tests.parquet.reading import inversions_of

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]

TRAPS = (
    *("three-equal-records", "in-another-partition", "transactions", "compacted-target"),
    "another-order",
)
SCAN_S = 40


@dataclass(frozen=True)
class Way:
    """How a job gets to the cluster, its application name, and what is seen of it."""

    options: tuple[str, ...]
    application: str
    command_lines: tuple[str, ...]
    pages: tuple[str, ...]


EXECUTOR = "CoarseGrainedExecutorBackend"
REDACTED = "spark.redaction.regex"
"""A setting on the driver's page: it shows that the page was read."""
SPARK_WAYS = {
    "itself": Way((), "drctl gap", (EXECUTOR,), (REDACTED, "Spark Master at", "Spark Worker at")),
    "submit": Way(
        ("--submit", "--order"),
        "drctl-gap",
        (EXECUTOR, "org.apache.spark.deploy.SparkSubmit"),
        (REDACTED, "sun.java.command"),
    ),
}


@pytest.fixture(scope="module", params=SPARK_WAYS.values(), ids=SPARK_WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.fixture(scope="module")
def seen(
    way: Way,
    spark_cluster: Standalone,
    traps: Analysed,
    new_drctl: NewDrctl,
    tmp_path_factory: pytest.TempPathFactory,
) -> Seen:
    """A run on the cluster, observed from all sides."""
    topics = [word for name in TRAPS for word in ("--topic", traps.scenario.topic(name))]
    links, events = {"main": traps.scenario.link}, tmp_path_factory.mktemp("events")
    return watched_run(new_drctl, links, spark_cluster, events, *way.options, *topics)


def test_the_same_result_as_locally(seen: Seen, way: Way, traps: Analysed) -> None:
    assert seen.ended.code == 1, seen.ended.stdout + seen.ended.stderr
    names = {traps.scenario.topic(name) for name in TRAPS}
    wanted = deepcopy([t for t in traps.document["topics"] if t["topic"] in names])
    document = seen.ended.gap()
    inversions = [each.pop("inversions") for t in document["topics"] for each in t["partitions"]]
    for each in (each for t in wanted for each in t["partitions"]):
        assert each.pop("inversions") is None, "the order was checked without a request"
    assert document["topics"] == wanted
    assert len(wanted) == len(TRAPS)
    if "--order" not in way.options:
        assert set(inversions) == {None}
        return
    assert sum(inversions) == document["order"]["inversions"] == 1
    (found,) = inversions_of(seen.ended.out / "inversions")
    assert [asdict(found)] == document["inversions"]
    for name in ("records", "others", "inversions"):
        assert list((seen.ended.out / name).glob("*.parquet"))
    assert not [p for p in seen.files if "-shared" in str(p)], "the job's folder was not deleted"


def test_workers_did_the_work(seen: Seen, way: Way, spark_cluster: Standalone) -> None:
    assert seen.ended.code == 1
    application = submissions(spark_cluster, way.application)[0]
    soon(lambda: state(spark_cluster, application["id"]) == "FINISHED", seconds=20)
    assert spark_cluster.workers_of(application["id"]) == ["worker1", "worker2"]


def test_passwords_are_visible_nowhere(
    seen: Seen, way: Way, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    assert [each for each in way.command_lines if each not in seen.command_lines] == []
    assert [each for each in way.pages if each not in seen.shown] == []
    assert any("/SQL/execution" in address for address in seen.pages)
    events = [p for p in seen.files if seen.events in p.parents]
    assert any("SparkListenerSQLExecutionStart" in text(p) for p in events)
    for secret in passwords(primary, secondary):
        assert seen.holding(secret) == []


def submissions(cluster: Standalone, name: str = "drctl-gap") -> list[dict[str, Any]]:
    """Return this file's submissions in order."""
    found = [a for a in applications(cluster) if a["name"] == name]
    return sorted(found, key=lambda a: str(a["id"]))


def state(cluster: Standalone, application: str) -> str:
    (found,) = (a["state"] for a in applications(cluster) if a["id"] == application)
    return str(found)


@pytest.fixture
def slowly(
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    half: NewHalf,
    spark_cluster: Standalone,
    new_drctl: NewDrctl,
    tmp_path: Path,
) -> Iterator[Callable[..., Running]]:
    """Start a submission that reads for `SCAN_S`; remove everything of it."""
    topic = half(20, 19)
    (tmp_path / "shared").mkdir()
    drctl = new_drctl(
        {"main": link_over(topic)},
        clusters={c.name: slow(cluster_section(c), SCAN_S) for c in (primary, secondary)},
        spark={
            "master": spark_cluster.master,
            "shared": str(tmp_path / "shared"),
            "conf": {"spark.executor.memory": "600m", **quick_executors()},
        },
    )
    started: list[Running] = []

    def start(name: str) -> Running:
        started.append(drctl.start("--submit", name=name, terminal=True))
        return started[-1]

    yield start
    for running in started:
        running.kill()


def test_workers_end_and_leave_nothing(
    slowly: Callable[..., Running],
    spark_cluster: Standalone,
    tmp_path: Path,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
) -> None:
    """One reads, the others wait for its executors."""
    earlier = {a["id"] for a in submissions(spark_cluster)}
    pressed = slowly("ctrl-c")
    pressed.await_stderr("reading both clusters", 180, times=10)
    terminated, bereft = slowly("sigterm"), slowly("driver-killed")
    for running in (terminated, bereft):
        running.await_stderr("waiting for executors", 180, times=60)
    drivers = [next(filter(submits, r.family())) for r in (pressed, terminated, bereft)]
    seen = command_lines()
    assert not [p for p in passwords(primary, secondary) if p in seen]
    pressed.press_ctrl_c()
    terminated.signal(signal.SIGTERM)
    drivers[-1].kill()
    for running in (pressed, terminated, bereft):
        ended = running.wait(60)
        died = running is bereft
        assert ended.code == (5 if died else 130), ended.stderr
        error = ended.document()["error"]
        assert error["kind"] == ("ScanFailed" if died else "Interrupted")
        assert "Traceback" not in ended.stderr
        soon(lambda seen=running.seen: not any(map(alive, seen)))
        assert not list(ended.out.rglob("*")), "there is a complete or partial result"
    assert not list((tmp_path / "shared").rglob("*"))
    mine = {a["id"] for a in submissions(spark_cluster)} - earlier
    assert len(mine) == 3
    assert Patience.of(30).wait_until(
        lambda: not {state(spark_cluster, a) for a in mine} & {"RUNNING", "WAITING"}
    )


def submits(process: psutil.Process) -> bool:
    """Whether it is the JVM of `spark-submit`."""
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return any(w.endswith("drctl_gap.py") for w in words) and Path(words[0]).name == "java"


@pytest.mark.parametrize(
    ("spark", "kind", "message"),
    [
        (
            {"master": "local[1]", "conf": {"spark.driver.memory": "lots"}},
            "SparkDidNotStart",
            "Invalid maximum heap size",
        ),
        ({"master": "local[1]", "jars": ["/no/such.jar"]}, "ConfigError", "/no/such.jar"),
        ({"master": "spark://h:1"}, "ConfigError", "needs spark.shared"),
        (
            {"master": "spark://h:1", "shared": ".", "submit": {"deploy_mode": "cluster"}},
            "ConfigError",
            "client mode only",
        ),
        (
            {
                "master": "k8s://https://127.0.0.1:1",
                "shared": ".",
                "conf": {"spark.kubernetes.container.image": "none"},
                "submit": {"deploy_mode": "cluster", "secrets_path": "/mnt/kafka"},
            },
            "SparkDidNotStart",
            "Connection refused",
        ),
        ({"master": "yarn", "shared": "s3a://bucket/x"}, "ConfigError", "must be a directory"),
    ],
)
def test_submits_that_do_not_start(
    spark: dict[str, Any], kind: str, message: str, traps: Analysed, new_drctl: NewDrctl
) -> None:
    drctl = new_drctl({"main": traps.scenario.link}, spark=spark)
    topic = traps.scenario.topic(TRAPS[0])
    ended = drctl.gap("--submit", "--topic", topic)
    error = ended.document()["error"]
    assert error["kind"] == kind
    assert message in error["message"]
    assert error["hint"]
    assert ended.code == (2 if kind == "ConfigError" else 5)
    assert not list(ended.out.rglob("*"))
    assert json.loads(ended.stdout), ended.stderr
