"""Client and job communicate through a folder: here the job is plain Python."""

import json
import os
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from drctl.gap.comparison import (
    BucketDigest,
    ComparePlan,
    Comparison,
    Extra,
    Identity,
    OrderCheck,
    Progress,
    Reads,
    ScanFailed,
    Side,
    TopicPlan,
    TopicSuspects,
    find_suspects,
)
from drctl.lab.waiting import Patience
from drctl.model.errors import Unknown
from drctl.model.gap import Inversion
from drctl.model.topology import OffsetRange
from drctl.spark import submit, submit_job
from drctl.spark.job_folder import ALIVE, CRASHED, STOP, JobFolder, answer, question
from drctl.spark.session import SparkDidNotStart
from drctl.spark.submission import SubmitSettings
from drctl.spark.submit import Application, SubmittedComparer, fetch, started, submitted
from drctl.spark.submit_job import ClientWatch, serve

TOPIC = TopicPlan(
    "t", "t", True, True, 1, False, {0: OffsetRange(0, 9)}, {0: OffsetRange(0, 8)}, {0: 0}
)
PLAN = ComparePlan((TOPIC,), Identity(), 8, 1)
DIGESTS = (BucketDigest("t", Side.SOURCE, 0, 1, 9, -5, 2**62, 0, 8),)
FOUND = Comparison({}, {("t", 0): Extra(1, 2)})
ORDER_CHECK = OrderCheck({("t", 0): 3}, (Inversion("t", 0, 5, 0, 4, 3, 9),))


class Scripted:
    """Gives scripted responses; records requests."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.asked: list[Any] = []
        self.fails = False

    def digest(self, plan: ComparePlan, reads: Reads, progress: Progress) -> Sequence[BucketDigest]:
        self.asked.append((plan, reads))
        if self.fails:
            raise ScanFailed("a broker died") from RuntimeError("a broker died")
        progress("reading both clusters", 3, 17)
        return DIGESTS

    def compare(
        self, plan: ComparePlan, suspects: Sequence[TopicSuspects], progress: Progress
    ) -> Comparison:
        self.asked.append((plan, suspects))
        for name in ("records", "others"):
            (self.out / name).mkdir(exist_ok=True)
            (self.out / name / "part-0.parquet").write_text(name)
        return FOUND

    def check_order(self, plan: ComparePlan, progress: Progress) -> OrderCheck:
        self.asked.append((plan, "order"))
        (self.out / "inversions").mkdir()
        (self.out / "inversions" / "part-0.parquet").write_text("inversions")
        return ORDER_CHECK


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (submit, submit_job):
        monkeypatch.setattr(module, "POLL_S", 0.02)


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    path = tmp_path / "job"
    path.mkdir(mode=0o700)
    return JobFolder(path)


@pytest.fixture
def application(tmp_path: Path) -> Iterator[Application]:
    """A process that lives as long as the test."""
    with run([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path) as running:
        yield running
        running.end(0)


def run(words: Sequence[str], folder: Path) -> Any:
    return started(words, environ=os.environ, log=folder / "log", folder=folder, umask=0o77)


@pytest.fixture
def job(folder: JobFolder) -> Iterator[Scripted]:
    comparer = Scripted(folder.path)
    watch = ClientWatch(folder, lambda: None, 60)
    thread = threading.Thread(target=serve, args=(folder, comparer, watch))
    thread.start()
    yield comparer
    folder.put(STOP, True)
    thread.join(20)
    assert not thread.is_alive()


def silent(_phase: str, _done: int, _total: int) -> None: ...


def test_questions_are_answered_in_turn(
    folder: JobFolder, application: Application, job: Scripted, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    comparer = SubmittedComparer(folder, application, out)
    reads: Reads = {Side.SOURCE: {"t": {0: (OffsetRange(2, 3),)}}, Side.TARGET: {}}
    assert comparer.digest(PLAN, reads, silent) == DIGESTS
    suspects = find_suspects(PLAN, DIGESTS)
    assert comparer.compare(PLAN, suspects, silent) == FOUND
    assert comparer.check_order(PLAN, silent) == ORDER_CHECK
    assert job.asked == [(PLAN, reads), (PLAN, suspects), (PLAN, "order")]
    assert (out / "records" / "part-0.parquet").read_text() == "records"
    assert (out / "others" / "part-0.parquet").read_text() == "others"
    assert (out / "inversions" / "part-0.parquet").read_text() == "inversions"
    assert comparer.compare(PLAN, suspects, silent) == FOUND, (
        "a second result does not replace the first"
    )


def test_a_failed_scan_fails_in_the_client(
    folder: JobFolder, application: Application, job: Scripted, tmp_path: Path
) -> None:
    job.fails = True
    comparer = SubmittedComparer(folder, application, tmp_path)
    with pytest.raises(ScanFailed, match=r"nothing was compared: .*: a broker died$"):
        comparer.digest(PLAN, PLAN.everything(), silent)
    job.fails = False
    assert comparer.digest(PLAN, PLAN.everything(), silent) == DIGESTS, (
        "the job does not respond after a failed scan"
    )


def test_progress_of_another_question_is_not_shown(
    folder: JobFolder, application: Application, tmp_path: Path
) -> None:
    reports: list[tuple[str, int, int]] = []

    def progress(phase: str, done: int, total: int) -> None:
        reports.append((phase, done, total))
        if phase == "new":
            folder.put(answer(1), {"digests": []})

    comparer = SubmittedComparer(folder, application, tmp_path)
    folder.put("progress.json", {"question": 7, "phase": "old", "done": 1, "total": 1})
    timer = threading.Timer(
        0.2, folder.put, ("progress.json", {"question": 1, "phase": "new", "done": 2, "total": 3})
    )
    timer.start()
    assert comparer.digest(PLAN, PLAN.everything(), progress) == ()
    timer.join()
    assert list(dict.fromkeys(reports)) == [("waiting for executors", 0, 0), ("new", 2, 3)]


def test_a_job_without_a_client_ends(folder: JobFolder) -> None:
    ended: list[str] = []
    watch = ClientWatch(folder, lambda: ended.append("spark"), 0.5)
    folder.put(ALIVE, 0)
    serve(folder, Scripted(folder.path), watch)
    assert ended == ["spark"]


def test_a_job_without_its_folder_ends(folder: JobFolder) -> None:
    ended: list[str] = []
    folder.path.rmdir()
    serve(folder, Scripted(folder.path), ClientWatch(folder, lambda: ended.append("spark"), 600))
    assert ended == ["spark"]


def test_heartbeats_keep_it_running(folder: JobFolder, job: Scripted) -> None:
    watch = ClientWatch(folder, lambda: None, 0.4)
    with watch:
        for number in range(8):
            folder.put(ALIVE, number)
            assert not watch.released.wait(0.1)
        assert watch.released.wait(20), "the job was not released after the last heartbeat"


def test_documents_are_readable_to_users_of_the_folder(folder: JobFolder) -> None:
    folder.put("a", 1)
    folder.path.chmod(0o2770)
    folder.put("b", 2)
    modes = [stat.S_IMODE((folder.path / name).stat().st_mode) for name in "ab"]
    assert modes == [0o600, 0o660]
    assert (folder.get("a"), folder.get("b"), folder.get("c")) == (1, 2, None)
    assert len(list(folder.path.iterdir())) == 2, "a partial file is left"


SUBMIT = """#!{python}
import json, os, pathlib, subprocess, sys, time
folder = pathlib.Path(sys.argv[-4])
(folder.parent / "seen.json").write_text(json.dumps([sys.argv, os.getpgid(0), oct(os.umask(0))]))
{body}
"""


def installed(tmp_path: Path, body: str) -> Path:
    """Create a Spark distribution with this spark-submit."""
    script = tmp_path / "spark" / "bin" / "spark-submit"
    script.parent.mkdir(parents=True)
    script.write_text(SUBMIT.format(python=sys.executable, body=body), encoding="utf-8")
    script.chmod(0o700)
    return script.parents[1]


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o2770)
    return folder


def settings(tmp_path: Path, shared: Path, body: str) -> SubmitSettings:
    return SubmitSettings("spark://h:1", installed(tmp_path, body), shared, log=tmp_path / "log")


CLIENTS = {"primary": {"sasl.password": "hidden"}, "secondary": {}}


def test_a_submission_that_ends_at_once(tmp_path: Path, shared: Path) -> None:
    given = settings(tmp_path, shared, "sys.exit('Error: Unrecognized option: --what')")
    with (
        pytest.raises(SparkDidNotStart, match=r"on spark://h:1: Unrecognized option: --what"),
        submitted(given, CLIENTS, tmp_path, os.environ),
    ):
        pytest.fail("it did not start")
    assert [p.name for p in shared.iterdir()] == ["seen.json"], "the submission's folder is left"
    words, _, umask = json.loads((shared / "seen.json").read_text())
    assert "hidden" not in " ".join(words)
    assert umask == "0o7"


READY = """
(folder / ".ready").write_text(json.dumps({"application": "app-1"}))
(folder / ".ready").replace(folder / "ready.json")
"""


def test_an_application_that_dies_during_a_request(tmp_path: Path, shared: Path) -> None:
    body = READY + "print('Caused by: java.lang.OutOfMemoryError: heap'); time.sleep(0.3)"
    given = settings(tmp_path, shared, body)
    with submitted(given, CLIENTS, tmp_path, os.environ) as comparer:
        words, _, _ = json.loads((shared / "seen.json").read_text())
        scratch = Path(words[words.index("--properties-file") + 1]).parent
        assert {p.name for p in scratch.iterdir()} == {"drctl.zip", "drctl_gap.py"}
        message = r"OutOfMemoryError: heap \(application app-1\)"
        with pytest.raises(ScanFailed, match=message):
            comparer.digest(PLAN, PLAN.everything(), silent)


def test_a_job_that_reports_its_crash(tmp_path: Path, shared: Path) -> None:
    body = (
        READY
        + """
(folder / ".crashed").write_text(json.dumps({"cause": "No space left on device"}))
(folder / ".crashed").replace(folder / "crashed.json")
"""
    )
    given = settings(tmp_path, shared, body)
    with submitted(given, CLIENTS, tmp_path, os.environ) as comparer:
        with pytest.raises(ScanFailed, match="No space left") as caught:
            comparer.digest(PLAN, PLAN.everything(), silent)
        assert "free disk space" in caught.value.hint


def test_nothing_is_left_after_an_interrupt(tmp_path: Path, shared: Path) -> None:
    # A child that ignores SIGTERM.
    body = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    body += "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    body += "signal.signal(signal.SIGTERM, signal.SIG_DFL)\n" + READY + "time.sleep(600)"
    given = settings(tmp_path, shared, body)
    groups: list[int] = []

    def interrupted() -> None:
        with submitted(given, CLIENTS, tmp_path, os.environ):
            _, group, _ = json.loads((shared / "seen.json").read_text())
            assert len(members(group)) == 2
            groups.append(group)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    (group,) = groups
    assert group != os.getpgid(0), "Ctrl-C on a terminal would reach spark-submit"
    assert Patience.of(10).wait_until(lambda: not members(group))
    assert [p.name for p in shared.iterdir()] == ["seen.json"]


def members(group: int) -> list[int]:
    """Return the running processes of a process group."""
    found = []
    for process in psutil.process_iter(["pid", "status"]):
        try:
            alive = process.info["status"] != psutil.STATUS_ZOMBIE
            if alive and os.getpgid(process.info["pid"]) == group:
                found.append(process.info["pid"])
        except ProcessLookupError:
            continue
    return found


def test_a_shared_folder_that_cannot_be_used(tmp_path: Path, shared: Path) -> None:
    given = settings(tmp_path, shared, READY + "time.sleep(600)")

    def ask() -> None:
        with submitted(given, CLIENTS, tmp_path, os.environ) as comparer:
            (job,) = shared.glob("drctl-*")
            job.rename(shared / "elsewhere")
            comparer.digest(PLAN, PLAN.everything(), silent)

    with pytest.raises(Unknown, match=r"cannot use the shared directory: .*question-1") as caught:
        ask()
    assert "spark.shared" in caught.value.hint


def test_records_that_cannot_be_fetched(tmp_path: Path) -> None:
    with pytest.raises(Unknown, match=r"cannot copy the records from .*nothing"):
        fetch(tmp_path / "nothing", tmp_path / "out")


def test_the_names_of_questions_and_answers() -> None:
    assert (question(1), answer(12)) == ("question-1.json", "answer-12.json")


def test_a_bug_of_the_job_is_reported_with_its_kind(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    with pytest.raises(KeyError), submit_job._report_crash(folder):
        raise KeyError("orders")
    assert folder.get(CRASHED) == {"cause": "KeyError: 'orders'"}
