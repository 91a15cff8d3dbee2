"""A real Spark standalone cluster from the installed PySpark: a master and two workers."""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import urllib3

from drctl.artifacts.java import classes_for
from drctl.lab.waiting import Patience
from drctl.model.errors import Stopped
from drctl.spark.session import jars
from drctl.spark.submission import installed_spark

START_S = 90
ANSWER_S = 60
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Standalone:
    """A master with two workers.

    Attributes:
        folder: the workers' folder, with the files of each application.
        pages: addresses of the web pages of master and workers.
    """

    master: str
    folder: Path
    pages: tuple[str, ...]

    def workers_of(self, application: str) -> list[str]:
        """Return the workers on which an application had executors."""
        found = self.folder.glob(f"*/{application}/*/stderr")
        return sorted(path.parents[2].name for path in found)


@contextmanager
def standalone(folder: Path, memory: str = "800m") -> Iterator[Standalone]:
    """Start it and wait for both workers; end all its processes.

    Args:
        memory: of a worker, which has one core.

    Raises:
        Stopped: it does not start.
    """
    port, *web = _free_ports(4)
    master = f"spark://{HOST}:{port}"
    pages = tuple(f"http://{HOST}:{number}" for number in web)
    processes = []
    try:
        start = ["master.Master", "--port", str(port), "--webui-port", str(web[0])]
        processes.append(_start(folder / "master", start))
        for number in (1, 2):
            work = folder / f"worker{number}"
            start = ["worker.Worker", "--webui-port", str(web[number]), "--work-dir", str(work)]
            start += ["--cores", "1", "--memory", memory, master]
            processes.append(_start(work, start))
        if not Patience.of(START_S).wait_until(lambda: _alive(pages[0]) == 2):
            raise Stopped(f"Spark's workers did not start; logs are below {folder}")
        yield Standalone(master, folder, pages)
    finally:
        for process in processes:
            _end(process)


def _start(folder: Path, words: list[str]) -> subprocess.Popen[bytes]:
    folder.mkdir()
    environment = {
        **os.environ,
        "SPARK_DAEMON_MEMORY": "192m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(("-XX:TieredStopAtLevel=1", *classes_for(jars()))),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYSPARK_PYTHON": "/no/such/python",
    }
    kind = "org.apache.spark.deploy." + words[0]
    with (folder / "daemon.log").open("wb") as log:
        return subprocess.Popen(
            [installed_spark() / "bin" / "spark-class", kind, "--host", HOST, *words[1:]],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _alive(page: str) -> int:
    state = get(page + "/json/")
    return int(json.loads(state)["aliveworkers"]) if state else 0


def get(url: str) -> str:
    """Return the page; empty if there is none."""
    try:
        answer = urllib3.request("GET", url, timeout=10, retries=False)
    except urllib3.exceptions.HTTPError:
        return ""
    return answer.data.decode(errors="replace") if answer.status == 200 else ""


def applications(cluster: Standalone) -> list[dict[str, Any]]:
    """Return running and completed applications as the master reports them.

    Raises:
        Stopped: the master does not answer.
    """
    pages: list[str] = []

    def there() -> bool:
        pages.append(get(cluster.pages[0] + "/json/"))
        return bool(pages[-1])

    if not Patience.of(ANSWER_S).wait_until(there):
        raise Stopped(f"Spark's master does not answer at {cluster.pages[0]}")
    state = json.loads(pages[-1])
    return [*state["activeapps"], *state["completedapps"]]


def _free_ports(count: int) -> list[int]:
    """Return ports without a listener a moment ago."""
    with ExitStack() as open_sockets:
        found = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind((HOST, 0))
        return [int(one.getsockname()[1]) for one in found]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with its executors."""
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)
    for child in family:
        if child.is_running():
            child.kill()
    psutil.wait_procs(family, timeout=20)
