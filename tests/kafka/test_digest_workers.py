"""Several processes digest what one would, and end with the same errors."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from threading import Thread

import psutil
import pytest

from drctl.gap import pairing
from drctl.gap.comparison import ComparePlan, Identity, ScanFailed, Side, TopicPlan
from drctl.gap.pairing import READING, InThisProcess
from drctl.kafka import digest_workers
from drctl.kafka.digest_workers import DigestWorkers
from drctl.kafka.log_reader import KafkaLogReader, LogSource
from drctl.lab.waiting import Patience
from drctl.model.errors import ConfigError
from drctl.model.topology import OffsetRange
from tests.conftest import NewTopic
from tests.gap.comparing import no_progress
from tests.gap.test_pairing import differences, extents
from tests.kafka.test_log_reader import numbered
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = pytest.mark.jvm

RECORDS = 3_000
SECRET = "hidden-from-everybody"


@pytest.fixture(autouse=True)
def shares_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a few records are shared among workers."""
    monkeypatch.setattr(digest_workers, "FEW_OFFSETS", 0)
    monkeypatch.setattr(pairing, "SPLIT_OFFSETS", 500)


@pytest.fixture
def topic(primary: ClusterUnderTest, new_topic: NewTopic) -> str:
    """A hot partition, and a small one."""
    name = new_topic(2, config={"retention.ms": "-1"})
    primary.produce(name, [*numbered(RECORDS), *numbered(100, 1)])
    return name


def sources(properties: Mapping[str, str]) -> dict[Side, LogSource]:
    """Both clusters are the same one."""
    return {side: LogSource("primary", properties) for side in Side}


def worker_processes() -> list[psutil.Process]:
    """Return the workers of this process, not the brokers of its lab."""
    return [each for each in psutil.Process().children() if "java" not in each.name()]


def plan_over(topic: str, less: int = 0) -> ComparePlan:
    """Compare a topic with itself; the target's last records are not read."""
    source = {0: OffsetRange(0, RECORDS), 1: OffsetRange(0, 100)}
    target = {**source, 0: OffsetRange(0, RECORDS - less)}
    plan = TopicPlan(topic, topic, True, True, 64, False, source, target, {0: 0, 1: 0})
    return ComparePlan((plan,), Identity(), buckets=64, salt=7)


def test_they_digest_what_one_process_does(primary: ClusterUnderTest, topic: str) -> None:
    plan = plan_over(topic, less=10)
    both = sources(primary.properties())
    one = InThisProcess(KafkaLogReader(both)).digest(plan, plan.everything(), no_progress)
    reports: list[tuple[str, int, int]] = []
    workers = DigestWorkers(both, 3)
    found = workers.digest(plan, plan.everything(), lambda *report: reports.append(report))
    assert differences(plan, found) == differences(plan, one)
    assert extents(found) == extents(one)
    total = 2 * (RECORDS + 100) - 10
    assert (reports[0], reports[-1]) == ((READING, 0, total), (READING, total, total))
    assert not worker_processes()


def failure(
    workers: DigestWorkers, topic: str, kind: type[Exception] = ScanFailed, less: int = 0
) -> str:
    plan = plan_over(topic, less)
    with pytest.raises(kind) as failed:
        workers.digest(plan, plan.everything(), no_progress)
    assert not worker_processes()
    return str(failed.value)


def test_their_errors_are_those_of_one_process(primary: ClusterUnderTest, topic: str) -> None:
    primary.delete_records(topic, 0, 4)
    both = sources(primary.properties())
    message = failure(DigestWorkers(both, 2), topic)
    plan = plan_over(topic)
    with pytest.raises(ScanFailed) as failed:
        InThisProcess(KafkaLogReader(both)).digest(plan, plan.everything(), no_progress)
    assert message == str(failed.value)
    assert "offset 0 was deleted" in message


def test_properties_that_librdkafka_rejects(primary: ClusterUnderTest, topic: str) -> None:
    workers = DigestWorkers(sources({**primary.properties(), "fetch.min.bytes": "many"}), 2)
    assert failure(workers, topic, ConfigError) == "librdkafka rejects property fetch.min.bytes"


def waiting(properties: Mapping[str, str]) -> dict[Side, LogSource]:
    """Reads that last, because brokers wait for bytes that never arrive."""
    slow = {"fetch.min.bytes": "100000000", "fetch.wait.max.ms": "30000"}
    return sources({**properties, **slow, "client.id": SECRET})


def during(workers: DigestWorkers, topic: str, act: Callable[[list[psutil.Process]], None]) -> str:
    """Run this once both workers have connected; return the failure."""
    acted: list[bool] = []

    def run() -> None:
        ready = Patience.of(60).wait_until(lambda: all_connected(worker_processes()))
        act(worker_processes())
        acted.append(ready)

    thread = Thread(target=run)
    thread.start()
    try:
        return failure(workers, topic)
    finally:
        thread.join()
        assert acted == [True]


def all_connected(workers: list[psutil.Process]) -> bool:
    return len(workers) == 2 and all(map(connected, workers))


def connected(process: psutil.Process) -> bool:
    return bool(process.net_connections("tcp"))


def test_a_worker_that_is_killed(primary: ClusterUnderTest, topic: str) -> None:
    workers = DigestWorkers(waiting(primary.properties()), 2)
    message = during(workers, topic, lambda found: found[0].kill())
    assert "a process that read records was killed by signal 9 (Killed)" in message


def test_nothing_secret_in_command_lines_and_environments(
    primary: ClusterUnderTest, topic: str
) -> None:
    seen: list[str] = []

    def look(found: list[psutil.Process]) -> None:
        seen.extend(f"{each.cmdline()} {each.environ()}" for each in found)
        found[0].kill()

    during(DigestWorkers(waiting(primary.properties()), 2), topic, look)
    assert len(seen) == 2
    assert not any(SECRET in text for text in seen)


@pytest.mark.nightly
def test_a_partition_that_is_deleted_while_it_is_read(
    primary: ClusterUnderTest, topic: str
) -> None:
    workers = DigestWorkers(waiting(primary.properties()), 2)
    message = during(workers, topic, lambda _: primary.delete_topics([topic]))
    assert f"primary: {topic}-" in message


PARENT = """
import pickle, sys
from drctl.gap import pairing
from drctl.kafka import digest_workers
digest_workers.FEW_OFFSETS, pairing.SPLIT_OFFSETS = 0, 500
sources, plan = pickle.load(sys.stdin.buffer)
workers = digest_workers.DigestWorkers(sources, 2)
workers.digest(plan, plan.everything(), lambda *_: None)
"""


def test_workers_end_if_their_parent_is_killed(primary: ClusterUnderTest, topic: str) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE)
    assert parent.stdin is not None
    with parent.stdin:
        pickle.dump((waiting(primary.properties()), plan_over(topic)), parent.stdin)
    try:
        children = psutil.Process(parent.pid).children
        assert Patience.of(60).wait_until(lambda: all_connected(children()))
        workers = children()
        os.kill(parent.pid, signal.SIGKILL)
        _, left = psutil.wait_procs(workers, timeout=20)
        assert not left
    finally:
        parent.kill()
        parent.wait()


def test_a_worker_that_cannot_start(primary: ClusterUnderTest, topic: str) -> None:
    program = ("sh", "-c", "exit 3")
    workers = DigestWorkers(sources(primary.properties()), 2, program)
    assert "a process that read records ended with exit code 3" in failure(workers, topic)
