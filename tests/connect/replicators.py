"""Connectors with Confluent Replicator's name and settings on a worker of their own.

They replicate records; other behavior of the real ones is not shown. REST interface,
configuration, status and offsets are those of Connect.
"""

import random
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from drctl.artifacts.jars import resolve
from drctl.lab.settings import scram_login
from drctl.lab.starting import free_port_base
from drctl.lab.waiting import Patience
from tests.connect.workers import PluginWorker, worker
from tests.jvm import compiled
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

CLASS = "io.confluent.connect.replicator.ReplicatorSourceConnector"
BYTES = "io.confluent.connect.replicator.util.ByteArrayConverter"
INTERCEPTOR = "io.confluent.connect.replicator.offsets.ConsumerTimestampsInterceptor"
DEADLINE_S = 60


@dataclass
class Replicators:
    """A worker on the secondary and its connectors."""

    worker: PluginWorker
    made: list[str] = field(default_factory=list)

    def put(self, name: str, config: Mapping[str, str], state: str = "RUNNING") -> None:
        """Create a connector and wait until it and its tasks are in this state."""
        with closing(self.worker.client()) as client:
            client.create_stopped(name, config)
            self.made.append(name)
            if state != "STOPPED":
                client.resume(name)

            def so() -> bool:
                known = client.statuses()
                tasks = known[name].tasks if name in known else ()
                if state == "STOPPED":
                    return name in known and known[name].state == state
                return bool(tasks) and {task.state for task in tasks} == {state}

            assert Patience.of(DEADLINE_S).wait_until(so), client.statuses()

    def remove_all(self) -> None:
        """Delete all connectors that were created."""
        with closing(self.worker.client()) as client:
            while self.made:
                client.delete(self.made.pop())


@contextmanager
def replicators(keeper: ClusterUnderTest, folder: Path, name: str) -> Iterator[Replicators]:
    """Start a worker that can also run MirrorMaker 2 and file sinks."""
    classes = folder / "plugins" / "replicator"
    classes.mkdir(parents=True)
    sources = Path(__file__).parent / "replicator"
    compiled(sources, resolve("connect", progress=QUIET.info), classes)
    services = classes / "META-INF" / "services"
    services.mkdir(parents=True)
    for kind, provider in (
        ("source.SourceConnector", CLASS),
        ("storage.Converter", BYTES),
        ("storage.HeaderConverter", BYTES),
    ):
        (services / f"org.apache.kafka.connect.{kind}").write_text(provider, encoding="ascii")
    opened = worker(
        name,
        folder,
        free_port_base(random.Random()),
        keeper,
        plugin="connect-file",
        exactly__once__source__support="enabled",
        header__converter=BYTES,
    )
    try:
        yield Replicators(opened)
    finally:
        opened.program.end()
        keeper.delete_topics([f"{name}-{kind}" for kind in ("config", "offset", "status")])


def replicator(
    source: ClusterUnderTest, target: ClusterUnderTest, topic: str, **more: str | None
) -> dict[str, str]:
    """Return a complete configuration.

    Args:
        more: other keys, with two underscores for each dot; None removes a key.
    """
    config = {
        "connector.class": CLASS,
        "tasks.max": "2",
        **under("src.kafka.", source),
        **under("dest.kafka.", target),
        **under("producer.override.", target),
        "topic.whitelist": topic,
        "src.consumer.group.id": f"copies-{topic}",
        "provenance.header.enable": "true",
        **{f"{kind}.converter": BYTES for kind in ("key", "value", "header")},
    }
    changed = {key.replace("__", "."): value for key, value in more.items()}
    return {key: value for key, value in {**config, **changed}.items() if value is not None}


def under(prefix: str, cluster: ClusterUnderTest) -> dict[str, str]:
    """Return the properties that a Java client needs for a cluster, with a prefix."""
    known = cluster.properties()
    login = {
        "bootstrap.servers": known["bootstrap.servers"],
        "security.protocol": known["security.protocol"],
        "sasl.mechanism": known["sasl.mechanism"],
        "sasl.jaas.config": scram_login(known["sasl.username"], known["sasl.password"]),
    }
    return {f"{prefix}{key}": value for key, value in login.items()}
