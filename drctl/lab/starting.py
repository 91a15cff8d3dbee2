"""Start a lab: both clusters in parallel, then Connect, then MirrorMaker 2."""

import signal
import socket
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psutil
from confluent_kafka import KafkaException

from drctl.artifacts.jars import kafka_set, resolve
from drctl.artifacts.java import find_java
from drctl.lab.cluster import LabCluster, answering_brokers
from drctl.lab.mirrors import deploy
from drctl.lab.parts import Parts
from drctl.lab.processes import Jvm, Part, write_logging
from drctl.lab.settings import CLUSTERS, HOST, LabSettings, Secrets
from drctl.lab.waiting import Patience, together
from drctl.model.errors import Refused, Stopped

_OUTSIDE_HEAP_MB = 150


class PortTaken(Refused):
    """Another program uses a port of the lab."""


class TooLittleMemory(Refused):
    """Not enough free memory for the lab."""


def require_ports(ports: Collection[int]) -> None:
    """Require these ports to be free.

    Raises:
        PortTaken: one is in use; names the process if the system shows it.
    """
    for port in sorted(ports):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError as error:
                raise PortTaken(
                    f"port {port} on {HOST} is in use by {_owner(port)} ({error.strerror})",
                    f"stop that program, or use other ports: drctl lab up --port-base "
                    f"{port + 1000 - port % 1000}",
                ) from error


def free_port_base(random: Random, first: int = 20000, last: int = 30000) -> int:
    """Choose a random port base whose hundred ports are free.

    No other process gets the same base while this one lives: a lab opens its ports seconds later.

    Raises:
        PortTaken: there is none in the range.
    """
    for base in random.sample(range(first, last, 100), (last - first) // 100):
        try:
            require_ports(range(base, base + 100))
        except PortTaken:
            continue
        if _claimed(base + 99):
            return base
    raise PortTaken(f"no 100 consecutive free ports between {first} and {last}")


def _claimed(port: int) -> bool:
    """Claim the port base until this process ends; False if another process has it."""
    claim = socket.socket()
    try:
        claim.bind((HOST, port))
        claim.listen()
    except OSError:
        claim.close()
        return False
    claim.detach()
    return True


def require_memory(settings: LabSettings, parts: int) -> None:
    """Require enough free memory for the components to start.

    Raises:
        TooLittleMemory: there is not enough.
    """
    needed = parts * (settings.heap_mb + _OUTSIDE_HEAP_MB)
    available = psutil.virtual_memory().available >> 20
    if available < needed:
        raise TooLittleMemory(
            f"{parts} lab components need about {needed} MB of memory; {available} MB are free",
            "stop other programs, or use smaller heaps: drctl lab up --heap-mb 256",
        )


def _owner(port: int) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr[1] == port and connection.pid:
                return f"pid {connection.pid} ({psutil.Process(connection.pid).name()})"
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        return "another program"
    return "another program"


START_S_PER_PART = 60  # generous for busy machines: a component that dies is noticed at once
_GRANT_S = 8.0


@dataclass(frozen=True, slots=True)
class Startup:
    """One attempt to start the named components.

    Attributes:
        wanted: names of components.
        missing: those that are not running.
        brokers_jvm: by name of the cluster.
    """

    parts: Parts
    wanted: frozenset[str]
    missing: frozenset[str]
    brokers_jvm: Mapping[str, Jvm]
    connect_jvm: Jvm
    progress: Callable[[str], None]
    began: float
    patience: Patience

    def run(self) -> None:
        """Start missing components, resume suspended ones, and wait until all answer.

        Raises:
            Stopped: a component died or does not answer in time.
        """
        self._wake()
        clusters = [c for c in self.parts.clusters if self._touches(c)]
        secondary = self.parts.cluster("secondary")
        others = [c for c in clusters if c.name != "secondary"]

        def secondary_and_worker() -> None:
            if secondary in clusters:
                self._cluster(secondary)
            self._workers()

        together(
            self.patience,
            secondary_and_worker,
            *(lambda cluster=cluster: self._cluster(cluster) for cluster in others),
        )
        if self.wanted >= set(self.parts.names):
            deploy(self.parts.worker, self.parts.directions, self.patience)
            self._say("MirrorMaker 2 replicates", ", ".join(map(str, self.parts.directions)))

    def _touches(self, cluster: LabCluster) -> bool:
        return any(broker.name in self.wanted for broker in cluster.brokers)

    def _wake(self) -> None:
        for name in self.wanted - self.missing:
            part = self.parts.part(name)
            if part.frozen():
                part.signal(signal.SIGCONT)
                self.progress(f"{name} was suspended and is resumed")

    def _cluster(self, cluster: LabCluster) -> None:
        starting = [broker for broker in cluster.brokers if broker.name in self.missing]
        jvm = self.brokers_jvm[cluster.name]
        prepare = (lambda b=b: b.prepare(jvm) for b in starting)
        together(self.patience, *prepare)
        for broker in starting:
            broker.start(jvm)
        mine = [broker for broker in cluster.brokers if broker.name in self.wanted]
        # Ask each broker: the others report a dead broker until its session expires.
        admins = [cluster.admin(f"{HOST}:{broker.ports[0]}") for broker in mine]
        self._await(
            [broker.part for broker in mine],
            lambda: all(answering_brokers(admin, 1.0) >= len(mine) for admin in admins),
        )
        self._grant(cluster, f"{HOST}:{mine[0].ports[0]}")
        self._say(f"{cluster.name} answers", cluster.bootstrap)

    def _grant(self, cluster: LabCluster, address: str) -> None:
        """Create the ACLs, with a new client for each attempt.

        A quorum that has just started may have no leader; until it has one, brokers report a dead
        controller, and a client that got this answer never asks again.
        """
        refused = ""

        def granted() -> bool:
            nonlocal refused
            admin = cluster.admin(address)
            try:
                cluster.grant(admin, min(_GRANT_S, max(1.0, self.patience.remaining)))
            except KafkaException as error:
                refused = error.args[0].str()
                return False
            return True

        if not self.patience.wait_until(granted):
            raise Stopped(
                f"could not create ACLs on {cluster.name}: {refused}", "run drctl lab up again"
            )

    def _workers(self) -> None:
        wanted = [worker for worker in self.parts.workers if worker.name in self.wanted]
        for worker in wanted:
            if worker.name in self.missing:
                worker.prepare()
                worker.start(self.connect_jvm)
        for worker in wanted:
            self._await([worker.part], worker.answering)
            self._say("Connect answers", worker.url)

    def _await(self, parts: list[Part], answering: Callable[[], bool]) -> None:
        def settled() -> bool:
            return any(part.process() is None for part in parts) or answering()

        answered = self.patience.wait_until(settled)
        if dead := next((part for part in parts if part.process() is None), None):
            raise Stopped(
                f"{dead.name} exited while starting; end of its log {dead.log}:\n{dead.log_tail()}",
                "fix the cause, then run drctl lab up again: it continues from here",
            )
        if not answered:
            names = ", ".join(part.name for part in parts)
            raise Stopped(
                f"{names}: no answer within {self._seconds:.0f} s; end of log {parts[0].log}:\n"
                f"{parts[0].log_tail()}",
                "if the machine is busy, run drctl lab up again: it continues from here",
            )

    def _say(self, what: str, where: str) -> None:
        self.progress(f"{what}: {where} ({self._seconds:.1f} s)")

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self.began


def prepare_startup(
    root: Path,
    settings: LabSettings,
    wanted: Collection[str],
    ivy_settings: Path | None,
    progress: Callable[[str], None],
    recording: bool = False,
) -> Startup:
    """Check requirements, fetch the jars and write the files; start nothing.

    Args:
        recording: whether components record the classes that they load.

    Raises:
        Refused: Java, memory or a port is missing.
        Unknown: the jars could not be fetched, or are corrupt.
    """
    parts = Parts(root, settings)
    missing = frozenset(name for name in wanted if parts.part(name).process() is None)
    java = find_java() if missing else Path("java")
    if missing:
        require_memory(settings, len(missing))
        require_ports([port for name in missing for port in parts.ports(name)])
        Secrets(root / "secrets").create()
        write_logging(root)

    def jvm(kind: str, cluster: str) -> Jvm:
        name = kafka_set(kind, settings.release(cluster))
        jars = resolve(name, progress=progress, ivy_settings=ivy_settings) if missing else ()
        return Jvm(java, jars, root, settings, recording)

    return Startup(
        parts,
        frozenset(wanted),
        missing,
        {name: jvm("kafka", name) for name in CLUSTERS},
        jvm("connect", "secondary"),
        progress,
        time.monotonic(),
        Patience.of(START_S_PER_PART * len(wanted)),
    )
