"""A real Spark standalone cluster from the installed PySpark: a master and two workers."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyspark
import urllib3

from tests.cluster.link_command import soon
from tests.jvm import spark_classes
from tests.kafka.tls_broker import free_ports

SPARK = Path(pyspark.__file__).parent
START_S = 90
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
def standalone(folder: Path) -> Iterator[Standalone]:
    """Start it and wait for both workers; end all its processes."""
    port, *web = free_ports(4)
    master = f"spark://{HOST}:{port}"
    pages = tuple(f"http://{HOST}:{number}" for number in web)
    processes = []
    try:
        start = ["master.Master", "--port", str(port), "--webui-port", str(web[0])]
        processes.append(_start(folder / "master", start))
        for number in (1, 2):
            work = folder / f"worker{number}"
            start = ["worker.Worker", "--webui-port", str(web[number]), "--work-dir", str(work)]
            start += ["--cores", "1", "--memory", "800m", master]
            processes.append(_start(work, start))
        soon(lambda: _alive(pages[0]) == 2, folder, START_S)
        yield Standalone(master, folder, pages)
    finally:
        for process in processes:
            _end(process)


def _start(folder: Path, words: list[str]) -> subprocess.Popen[bytes]:
    folder.mkdir()
    environment = {
        **os.environ,
        "SPARK_DAEMON_MEMORY": "192m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join(("-XX:TieredStopAtLevel=1", *spark_classes())),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYSPARK_PYTHON": "/no/such/python",
    }
    kind = "org.apache.spark.deploy." + words[0]
    with (folder / "daemon.log").open("wb") as log:
        return subprocess.Popen(
            [SPARK / "bin" / "spark-class", kind, "--host", HOST, *words[1:]],
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
    """Return running and completed applications as the master reports them."""
    pages: list[str] = []

    def there() -> bool:
        pages.append(get(cluster.pages[0] + "/json/"))
        return bool(pages[-1])

    soon(there, "the master does not answer")
    state = json.loads(pages[-1])
    return [*state["activeapps"], *state["completedapps"]]


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
