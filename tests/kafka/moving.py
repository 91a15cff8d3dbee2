"""Two small clusters behind one address that moves from one to the other; clients follow it.

No authorizer, no passwords. Each broker has a listener of its own, and one that it says is at the
address that moves.
"""

import logging
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from drctl.artifacts.jars import resolve
from drctl.artifacts.java import find_java
from tests.jvm import classes_of
from tests.kafka.tls_broker import free_ports, wait_until

QUIET = logging.getLogger("tests.kafka")
_SMALL = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_SERVER = """
node.id=1
process.roles=broker,controller
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,OWN:PLAINTEXT,MOVING:PLAINTEXT
inter.broker.listener.name=OWN
listeners=OWN://127.0.0.1:{own},MOVING://127.0.0.1:{behind},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=OWN://127.0.0.1:{own},MOVING://127.0.0.1:{moving}
log.dirs={logs}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
transaction.partition.verification.enable=false
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.consumer.heartbeat.interval.ms=1000
group.consumer.min.heartbeat.interval.ms=1000
log.retention.ms=-1
"""


class MovingAddress:
    """Forwards connections to a port; moving it closes them."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._target: int | None = None
        self._open: set[socket.socket] = set()
        self._lock = Lock()
        Thread(target=self._accept, daemon=True).start()

    def point(self, port: int | None) -> None:
        """Forward to this port; None refuses connections."""
        with self._lock:
            self._target = port
            cut, self._open = self._open, set()
        for each in cut:
            _end(each)

    def close(self) -> None:
        """Stop listening."""
        self.point(None)
        _end(self._server)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with self._lock:
                target = self._target
                try:
                    if target is None:
                        raise ConnectionRefusedError
                    broker = socket.create_connection(("127.0.0.1", target))
                except OSError:
                    client.close()
                    continue
                self._open |= {client, broker}
            for pair in ((client, broker), (broker, client)):
                Thread(target=_pump, args=pair, daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    _end(sink)
    source.close()


def _end(opened: socket.socket) -> None:
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)


class SmallCluster:
    """One node; `start`, `wait`, and `close` at the end."""

    def __init__(self, folder: Path, cluster_id: str, moving: MovingAddress) -> None:
        self._folder = folder
        self._id = cluster_id
        self.own, self.behind, controller = free_ports(3)
        folder.mkdir(parents=True)
        self._config = folder / "server.properties"
        self._config.write_text(
            _SERVER.format(
                own=self.own,
                behind=self.behind,
                controller=controller,
                moving=moving.port,
                logs=folder / "data",
            )
        )
        jars = resolve("kafka", progress=QUIET.info)
        self._java = [find_java(), *_SMALL, *classes_of(jars), "-cp", f"{jars[0].parent}/*"]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def properties(self) -> dict[str, str]:
        """Of a client that stays with this cluster."""
        return {"bootstrap.servers": f"127.0.0.1:{self.own}"}

    def admin(self) -> AdminClient:
        """An admin client; keep it until its futures are read."""
        return AdminClient(self.properties, logger=QUIET)

    def start(self) -> None:
        """Format its disk and start it, without waiting."""
        tool = ["kafka.tools.StorageTool", "format", "-t", self._id, "-c", self._config]
        subprocess.run([*self._java, *tool], check=True, capture_output=True)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._java, "kafka.Kafka", self._config], stdout=log, stderr=log
            )

    def wait(self) -> None:
        """Wait until it responds."""
        admin = self.admin()

        def answers() -> bool:
            try:
                return bool(admin.list_topics(timeout=1).brokers)
            except KafkaException:
                return False

        wait_until(answers, f"a broker; its log is in {self._folder}")

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
