"""The same answer from a real Spark cluster, and no password anywhere on it."""

import pytest

from tests.cluster.scenario import Analysed
from tests.cluster.site import NewDrctl
from tests.cluster.standalone import Standalone, applications
from tests.cluster.watching import Seen, passwords, text, watched_run
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]

TRAPS = ("three-equal-records", "in-another-partition", "transactions", "compacted-target")


@pytest.fixture(scope="module")
def seen(
    spark_cluster: Standalone,
    traps: Analysed,
    new_drctl: NewDrctl,
    tmp_path_factory: pytest.TempPathFactory,
) -> Seen:
    """A run on the cluster, looked at from all sides while it works."""
    topics = [word for name in TRAPS for word in ("--topic", traps.scenario.topic(name))]
    events = tmp_path_factory.mktemp("events")
    return watched_run(new_drctl, {"main": traps.scenario.link}, spark_cluster, events, *topics)


def test_the_same_answer_as_on_one_machine(seen: Seen, traps: Analysed) -> None:
    assert seen.ended.code == 1, seen.ended.stderr
    names = {traps.scenario.topic(name) for name in TRAPS}
    wanted = [t for t in traps.document["topics"] if t["topic"] in names]
    assert seen.ended.gap()["topics"] == wanted
    assert len(wanted) == len(TRAPS)


def test_the_workers_did_it(seen: Seen, spark_cluster: Standalone) -> None:
    assert seen.ended.code == 1
    (application,) = (a for a in applications(spark_cluster) if a["name"] == "drctl gap")
    assert application["cores"] == 2 or application["state"] == "FINISHED"
    assert spark_cluster.workers_of(application["id"]) == ["worker1", "worker2"]


def test_passwords_are_in_no_command_line(
    seen: Seen, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    assert "CoarseGrainedExecutorBackend" in seen.command_lines
    for secret in passwords(primary, secondary):
        assert secret not in seen.command_lines


def test_passwords_are_on_no_page(
    seen: Seen, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    assert "spark.redaction.regex" in seen.shown, "the driver's page was seen"
    assert any("/SQL/execution" in address for address in seen.pages)
    assert "Spark Master at" in seen.shown
    assert "Spark Worker at" in seen.shown
    for secret in passwords(primary, secondary):
        assert secret not in seen.shown


def test_passwords_are_in_no_file(
    seen: Seen, primary: ClusterUnderTest, secondary: ClusterUnderTest
) -> None:
    events = [p for p in seen.files if seen.events in p.parents]
    assert any("SparkListenerSQLExecutionStart" in text(p) for p in events)
    for secret in passwords(primary, secondary):
        assert seen.holding(secret) == []
