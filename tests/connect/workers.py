"""Connect clusters of one worker each, with a plugin, that store their state on a lab cluster."""

import subprocess
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drctl.artifacts.jars import resolve
from drctl.artifacts.java import find_java
from drctl.connect.client import ConnectWriter
from drctl.lab.processes import logging_file
from drctl.lab.settings import scram_login, write_properties
from drctl.lab.waiting import Patience
from drctl.model.errors import Unknown
from tests.endpoints.programs import Program
from tests.jvm import classes_of
from tests.lab.cluster_under_test import ClusterUnderTest

_START_S = 120
JSON = "org.apache.kafka.connect.json.JsonConverter"


@dataclass(frozen=True)
class PluginWorker:
    """A worker that can run the connectors of one plugin."""

    name: str
    url: str
    program: Program
    properties: Path

    def client(self) -> ConnectWriter:
        """Return a client of its REST interface."""
        return ConnectWriter(self.url, timeout_s=20)

    def await_task(self, connector: str, state: str) -> None:
        """Wait until the connector has one task, in this state."""
        with closing(self.client()) as client:

            def so() -> bool:
                known = client.statuses()
                tasks = known[connector].tasks if connector in known else ()
                return [task.state for task in tasks] == [state]

            assert Patience.of(60).wait_until(so), client.statuses()


def worker(
    name: str,
    folder: Path,
    port: int,
    keeper: ClusterUnderTest,
    *,
    kept_every_ms: int = 500,
    plugin: str,
    **more: object,
) -> PluginWorker:
    """Start a worker and wait until it responds.

    Args:
        keeper: the cluster with its state and its target topics.
        kept_every_ms: interval of offset commits.
        plugin: set of jars of its connectors; plugins already in the folder are added.
        more: other properties, with two underscores for each dot.
    """
    url = f"http://127.0.0.1:{port}"
    plugins = folder / "plugins" / plugin
    plugins.mkdir(parents=True)
    for jar in resolve(plugin, progress=_silent):
        (plugins / jar.name).symlink_to(jar)
    properties = folder / "worker.properties"
    surroundings = _properties(name, url, plugins.parent, keeper)
    given = {key.replace("__", "."): value for key, value in more.items()}
    own = {"offset.flush.interval.ms": kept_every_ms, **given}
    write_properties(properties, {**surroundings, **own})
    jars = resolve("connect", progress=_silent)
    command: Sequence[str] = (
        *(str(find_java()), "-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *classes_of(jars),
        f"-Dlog4j2.configurationFile={logging_file(keeper.lab_cluster.root)}",
        *("-cp", f"{jars[0].parent}/*", "org.apache.kafka.connect.cli.ConnectDistributed"),
        str(properties),
    )

    def answers() -> bool:
        with closing(ConnectWriter(url, timeout_s=2)) as client:
            try:
                client.connectors()
            except Unknown:
                return False
        return True

    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    program = Program(process, log)
    started = Patience.of(_START_S).wait_until(lambda: process.poll() is not None or answers())
    if not started or process.poll() is not None:
        program.end()
        raise AssertionError(log.read_text(errors="replace")[-2000:])
    return PluginWorker(name, url, program, properties)


def _properties(name: str, url: str, plugins: Path, keeper: ClusterUnderTest) -> dict[str, object]:
    known = keeper.properties()
    login: dict[str, Any] = {
        "bootstrap.servers": known["bootstrap.servers"],
        "security.protocol": known["security.protocol"],
        "sasl.mechanism": known["sasl.mechanism"],
        "sasl.jaas.config": scram_login(known["sasl.username"], known["sasl.password"]),
    }
    roles = ("producer", "consumer", "admin")
    kinds = ("config", "offset", "status")
    return {
        **login,
        **{f"{role}.{key}": value for role in roles for key, value in login.items()},
        **{f"{kind}.storage.topic": f"{name}-{kind}" for kind in kinds},
        **{f"{kind}.storage.replication.factor": 1 for kind in kinds},
        "group.id": name,
        # A worker that rejoins its group gets its connectors back at once.
        "scheduled.rebalance.max.delay.ms": 0,
        "offset.storage.partitions": 1,
        "status.storage.partitions": 1,
        "listeners": url,
        "key.converter": JSON,
        "value.converter": JSON,
        "plugin.discovery": "service_load",
        "plugin.path": plugins,
    }


def _silent(_message: str) -> None:
    """Discard the progress message."""
