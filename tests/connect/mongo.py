"""A MongoDB server for one test, and the configuration of a connector that captures it."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from drctl.artifacts.jars import resolve
from drctl.artifacts.java import find_java
from drctl.model.source_connectors import MONGODB
from tests.connect.workers import JSON
from tests.lab.cluster_under_test import QUIET

TOPIC = "mongo.shop.orders"
_PROGRAM = Path(__file__).parent / "MongoDatabase.java"
_JVM = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True)
class Mongo:
    """A replica set with one member and a collection of orders."""

    process: "subprocess.Popen[str]"

    def insert(self, first: int, count: int) -> None:
        """Insert this many orders, numbered from `first`."""
        self._do(f"insert {first} {count}")

    def forget(self, code: int, name: str) -> None:
        """Refuse with this error to resume any earlier change stream."""
        self._do(f"forget {code} {name}")

    def _do(self, command: str) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"


@contextmanager
def mongo(port: int, folder: Path) -> Iterator[Mongo]:
    """Run a server."""
    jars = os.pathsep.join(map(str, resolve("mongo-java-server", progress=QUIET.info)))
    compiler = (str(find_java()), "-m", "jdk.compiler/com.sun.tools.javac.Main")
    subprocess.run(
        [*compiler, "-cp", jars, "-d", str(folder), str(_PROGRAM)],
        check=True,
        capture_output=True,
        timeout=120,
    )
    program = (str(find_java()), *_JVM, "-cp", f"{folder}:{jars}", _PROGRAM.stem, str(port))
    with (
        (folder / "mongo.log").open("wb") as log,
        subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n", (folder / "mongo.log").read_text()
            yield Mongo(process)
        finally:
            process.kill()


def mongo_connector(port: int) -> dict[str, str]:
    """Return a connector that captures the collection of orders."""
    return {
        "connector.class": MONGODB,
        "tasks.max": "1",
        "mongodb.connection.string": f"mongodb://127.0.0.1:{port}/?replicaSet=rs0",
        "topic.prefix": "mongo",
        "capture.scope": "collection",
        "capture.target": "shop.orders",
        "collection.include.list": "shop.orders",
        "key.converter": JSON,
        "value.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        # Fail at once instead of retrying for minutes.
        "errors.max.retries": "0",
    }
