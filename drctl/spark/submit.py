"""The comparer of `drctl gap --submit`: puts its questions to a Spark application of its own.

The application is submitted once and answers all questions of a run. Plan, digests and outcome
travel through a shared folder; the records that it finds are fetched from there.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from drctl.gap.comparison import (
    BucketDigest,
    ComparePlan,
    Comparison,
    OrderCheck,
    Progress,
    Reads,
    ScanFailed,
    TopicSuspects,
)
from drctl.gap.json import plain, restored
from drctl.host.files import as_open_as
from drctl.model.errors import Unknown
from drctl.spark import results
from drctl.spark.compare import INVERSIONS
from drctl.spark.failure import shortened
from drctl.spark.job_folder import (
    ALIVE,
    CRASHED,
    PROGRESS,
    READY,
    STOP,
    JobFolder,
    answer,
    question,
)
from drctl.spark.session import SparkDidNotStart
from drctl.spark.submission import SubmitSettings, write_command

SHUTDOWN_S = 20.0
"""How long an application may take to end by itself."""

_FAULT = re.compile(
    r"^(?:.*? ERROR .*?|Exception in thread \"[^\"]*\" |Caused by: |: |Error: )?"
    r"(?P<fault>(?:[a-z_$][\w$]*\.)+[A-Z]\w*(?:Exception|Error|Failure)\b.*)$"
    r"|^Error: (?!Could not create the Java|A fatal exception)(?P<said>.+)$|^(?P<heap>Invalid .+)$"
)
_TAIL = 200_000


class Application:
    """One submission.

    Args:
        process: leads a process group of its own.
        log: where it prints; None for stderr.
        begins: what the log held before.
    """

    def __init__(self, process: subprocess.Popen[bytes], log: Path | None, begins: int) -> None:
        self._process = process
        self._log = log
        self._begins = begins

    def ended_within(self, seconds: float) -> bool:
        """Whether it has ended, or does so by then."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode is not None

    @property
    def fault(self) -> str:
        """Why it ended, as far as what it printed says."""
        said = ""
        if self._log is not None:
            with self._log.open("rb") as file:
                file.seek(max(self._begins, file.seek(0, os.SEEK_END) - _TAIL))
                said = fault_in(file.read().decode("utf-8", "replace"))
        return said or f"spark-submit ended with code {self._process.returncode}"

    def end(self, patience: float) -> None:
        """Wait for its end; then make its whole group end."""
        try:
            if not self.ended_within(patience):
                self._signal(signal.SIGTERM)
                self.ended_within(SHUTDOWN_S)
        finally:  # also when Ctrl-C is pressed again
            self._signal(signal.SIGKILL)
            self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # all of the group have ended
            os.killpg(self._process.pid, number)


@contextmanager
def started(
    words: Sequence[str], *, environ: Mapping[str, str], log: Path | None, folder: Path, umask: int
) -> Iterator[Application]:
    """The application while the block runs; nothing of it is left on this machine afterwards.

    It is asked to end by whoever started it; here it is only waited for, and not at all when the
    block ends in an error.

    Args:
        folder: where it starts and may leave what it likes.
        umask: for the files that it makes.
    """
    with open(log or os.devnull, "ab") as file:  # noqa: PTH123 (one of two kinds of place)
        begins = file.tell()
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=file if log else 2,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environ,
            umask=umask,
            # Ctrl-C on the terminal is for drctl alone, which then ends all of it in order.
            start_new_session=True,
        )
    application = Application(process, log, begins)
    patience = 0.0
    try:
        yield application
        patience = SHUTDOWN_S
    finally:
        application.end(patience)


def fault_in(text: str) -> str:
    """The innermost cause that a log names last; empty where it names none."""
    faults = [m for line in text.splitlines() if (m := _FAULT.match(line.rstrip()))]
    if not faults:
        return ""
    return shortened(faults[-1][faults[-1].lastgroup or 0])


POLL_S = 0.2
HEARTBEAT_S = 5.0


class SubmittedComparer:
    """Compares the two sides of a link in a Spark application that runs elsewhere.

    Args:
        folder: shared with the application.
        out: directory for the records that it finds.
    """

    def __init__(self, folder: JobFolder, application: Application, out: Path) -> None:
        self._folder = folder
        self._application = application
        self._out = out
        self._number = 0

    def digest(self, plan: ComparePlan, reads: Reads, progress: Progress) -> Sequence[BucketDigest]:
        """Digest every record of these ranges.

        Raises:
            ScanFailed: something could not be read to its end.
        """
        asked = {"plan": plain(plan), "reads": plain(reads)}
        table = self._answered(asked, progress)["digests"]
        found: Sequence[BucketDigest] = restored(tuple[BucketDigest, ...], table)
        return found

    def compare(
        self, plan: ComparePlan, suspects: Sequence[TopicSuspects], progress: Progress
    ) -> Comparison:
        """Compare record by record; the missing ones are fetched as Parquet.

        Raises:
            ScanFailed: something could not be read to its end.
        """
        asked = {"plan": plain(plan), "suspects": plain(suspects)}
        answered = self._answered(asked, progress)
        comparison: Comparison = restored(Comparison, answered["comparison"])
        for name in (results.RECORDS, results.OTHERS):
            fetch(self._folder.path / name, self._out / name)
        return comparison

    def check_order(self, plan: ComparePlan, progress: Progress) -> OrderCheck:
        """Look at the order of all replicated records of the plan; the inversions are fetched.

        Raises:
            ScanFailed: something could not be read to its end.
        """
        asked = {"plan": plain(plan), "order": True}
        found: OrderCheck = restored(OrderCheck, self._answered(asked, progress)["check_order"])
        fetch(self._folder.path / INVERSIONS, self._out / INVERSIONS)
        return found

    def _answered(self, asked: Any, progress: Progress) -> Any:
        self._number += 1
        if self._number == 1:  # an application may be there long before it gets any
            progress("waiting for executors", 0, 0)
        self._folder.put(question(self._number), asked)
        name, ended = answer(self._number), False
        while (found := self._folder.get(name)) is None:
            if ended:
                raise ScanFailed(why_ended(self._folder, self._application))
            ended = self._application.ended_within(POLL_S)
            self._report(progress)
        if "failed" in found:
            raise ScanFailed(found["failed"])
        return found

    def _report(self, progress: Progress) -> None:
        state = self._folder.get(PROGRESS)
        if state is not None and state["question"] == self._number:
            progress(state["phase"], state["done"], state["total"])


def fetch(found: Path, to: Path) -> None:
    """Copy a folder of Parquet files; one that is there already is replaced.

    Raises:
        Unknown: it cannot be read, or there is no room for it.
    """
    try:
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir()
        for file in sorted(found.iterdir()):
            shutil.copyfile(file, to / file.name)
    except OSError as error:
        raise Unknown(
            f"the records cannot be fetched from {found}: {error.strerror}",
            "see that what executors write to spark.shared can be read on this machine, and that"
            " there is room for it below --out",
        ) from error


@contextmanager
def submitted(
    settings: SubmitSettings,
    clients: Mapping[str, Mapping[str, str]],
    out: Path,
    environ: Mapping[str, str],
) -> Iterator[SubmittedComparer]:
    """A comparer with its application, which ends with the block.

    Args:
        clients: Kafka client properties by cluster, first the source's, then the target's.
        out: directory for the records that it finds.

    Raises:
        ConfigError: the settings do not go together.
        SparkDidNotStart: the application ended before its session was open.
        Unknown: the shared folder cannot be used.
    """
    settings.check()
    with (
        _faults_of(settings.shared),
        tempfile.TemporaryDirectory(prefix="drctl-submit-") as scratch,
        _job_folder(settings.shared) as folder,
        _alive(folder),
    ):
        mode = folder.path.stat().st_mode & 0o777
        # The application may run as another user: what it is handed is as open as its folder.
        with as_open_as(mode):
            words = write_command(settings, clients, folder.path, Path(scratch))
        surroundings = {**environ, "SPARK_HOME": str(settings.home)}
        umask = 0o777 & ~mode
        with (
            started(
                words, environ=surroundings, log=settings.log, folder=Path(scratch), umask=umask
            ) as application,
            _stopped(folder, application, SHUTDOWN_S if settings.on_cluster else 0),
        ):
            _await_ready(settings, folder, application)
            for read in Path(scratch).glob("*.properties"):
                read.unlink()  # nothing secret stays, even if drctl is killed from now on
            yield SubmittedComparer(folder, application, out)


def _await_ready(settings: SubmitSettings, folder: JobFolder, application: Application) -> None:
    """However long the cluster takes to find room for it."""
    ended = False
    while folder.get(READY) is None:
        if ended:
            raise SparkDidNotStart(
                f"Spark did not start on {settings.master}: {why_ended(folder, application)}",
                "Java 17 or later must be on the path (or JAVA_HOME set), and spark.master"
                " reachable; with --verbose spark-submit says more",
            )
        ended = application.ended_within(POLL_S)


def why_ended(folder: JobFolder, application: Application) -> str:
    """What the job said last, or what was printed here."""
    crashed = folder.get(CRASHED)
    if crashed is not None:
        return str(crashed["cause"])
    ready = folder.get(READY)
    where = f" (application {ready['application']})" if ready else ""
    return application.fault + where


@contextmanager
def _job_folder(shared: Path) -> Iterator[JobFolder]:
    """A new folder, removed at the end; open to the group where the shared one is."""
    path = shared.absolute() / f"drctl-{uuid4().hex}"
    path.mkdir(mode=0o700)
    try:
        path.chmod(0o700 | shared.stat().st_mode & 0o2070)
        yield JobFolder(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _alive(folder: JobFolder) -> Iterator[None]:
    """Count up while the block runs, so that the job knows somebody waits for it."""
    over = threading.Event()

    def beat() -> None:
        number = 0
        while not over.wait(HEARTBEAT_S):
            number += 1
            try:
                folder.put(ALIVE, number)
            except OSError:  # a full disk, say: the job stops when it hears nothing for long
                continue

    folder.put(ALIVE, 0)
    heart = threading.Thread(target=beat, daemon=True)
    heart.start()
    try:
        yield
    finally:
        over.set()
        heart.join()


@contextmanager
def _stopped(folder: JobFolder, application: Application, patience: float) -> Iterator[None]:
    """Tell the job to stop at the end of the block; after an error wait so long that it can."""
    try:
        yield
        patience = 0
    finally:
        with suppress(OSError):  # the folder's removal says the same
            folder.put(STOP, True)
        application.ended_within(patience)


@contextmanager
def _faults_of(shared: Path) -> Iterator[None]:
    """Make those of the shared folder an ending that says what to do."""
    try:
        yield
    except OSError as error:
        if not str(error.filename).startswith(str(shared.absolute())):
            raise
        raise Unknown(
            f"the shared folder cannot be used: {error.filename}: {error.strerror}",
            "this machine, Spark's driver and all executors must be able to write to spark.shared",
        ) from error
