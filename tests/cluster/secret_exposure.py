"""What others on the host and in the network can see while drctl runs on a Spark cluster."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.spark_standalone import Standalone, applications, get
from tests.cluster.command import Drctl, Ended, Running, command_lines
from tests.jvm import quick_executors
from tests.kafka.tls_broker import free_ports
from tests.lab.cluster_under_test import ClusterUnderTest

CONFIG_PAGES = ("/environment/", "/jobs/", "/SQL/", "/api/v1/applications")
LINK = re.compile(r'href="(?:https?://[^/"]+)?(/(?:SQL/execution|jobs/job|stages/stage)/?\?[^"]+)"')

LOOK_S = 8
"""Seconds between two reads: each makes the driver render a dozen pages."""

NO_PYTHON = "/no/such/python"


@dataclass
class Seen:
    """Everything that was visible during a run.

    Attributes:
        pages: all that was ever shown, by address.
        events: folder of Spark's event log.
        files: files that the run left there and on the workers.
    """

    ended: Ended
    command_lines: str
    pages: dict[str, str]
    events: Path
    files: list[Path]

    @property
    def shown(self) -> str:
        """Return all pages."""
        return "".join(self.pages.values())

    def holding(self, secret: str) -> list[str]:
        """Return where a secret is visible."""
        files = [*self.files, *(p for p in self.ended.out.rglob("*") if p.is_file())]
        texts = {
            "command lines": self.command_lines,
            "output": self.ended.stdout + self.ended.stderr,
            **self.pages,
            **{str(path): text(path) for path in files},
        }
        return [name for name, content in texts.items() if secret in content]


def spark_conf(events: Path, ui_port: int) -> dict[str, str]:
    """Return settings that expose as much as possible, without Python on executors."""
    return {
        "spark.executor.memory": "600m",
        **quick_executors(),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "true",
        "spark.ui.port": str(ui_port),
        "spark.executorEnv.PYSPARK_PYTHON": NO_PYTHON,
    }


def watched_run(
    new_drctl: Any, links: Mapping[str, Any], cluster: Standalone, events: Path, *words: str
) -> Seen:
    """Run `drctl gap` on the cluster and observe it from all sides."""
    (port,) = free_ports(1)
    shared = events.parent / f"{events.name}-shared"
    shared.mkdir()
    spark = {"master": cluster.master, "shared": str(shared), "conf": spark_conf(events, port)}
    drctl: Drctl = new_drctl(links, spark=spark)
    running = drctl.start(*words, environ={"PYSPARK_PYTHON": NO_PYTHON})
    try:
        lines, pages = look(running, cluster, f"http://127.0.0.1:{port}")
        ended = running.wait()
    finally:
        running.kill()
    roots = (events, shared, cluster.folder)
    files = [p for root in roots for p in root.rglob("*") if p.is_file()]
    return Seen(ended, lines, pages, events, files)


def look(running: Running, cluster: Standalone, driver: str) -> tuple[str, dict[str, str]]:
    """Record command lines and pages repeatedly while it runs."""
    lines, pages = "", dict[str, str]()
    while not running.ended_within(LOOK_S):
        lines += command_lines()
        links = {driver + link for link in LINK.findall("".join(pages.values()))}
        apps = [f"{cluster.pages[0]}/app/?appId={a['id']}" for a in applications(cluster)]
        own = [driver + page for page in CONFIG_PAGES]
        for address in (*own, *sorted(links)[-4:], *cluster.pages, *apps):
            pages[address] = pages.get(address, "") + get(address)
    return lines, pages


def passwords(*clusters: ClusterUnderTest) -> list[str]:
    """Return the passwords of the administrators."""
    return [cluster.properties()["sasl.password"] for cluster in clusters]


def text(path: Path) -> str:
    """Return its bytes as characters."""
    return path.read_bytes().decode("latin-1")
