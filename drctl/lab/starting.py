"""Bringing parts of a lab up: both clusters side by side, then Connect, then MirrorMaker 2."""

import signal
import socket
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from random import Random

import psutil
from confluent_kafka import KafkaException

from drctl.artifacts.jars import resolve
from drctl.artifacts.java import find_java
from drctl.lab.cluster import LabCluster, answering_brokers
from drctl.lab.mirrors import deploy
from drctl.lab.parts import Parts
from drctl.lab.processes import Jvm, Part, write_logging
from drctl.lab.settings import HOST, LabSettings, Secrets
from drctl.lab.waiting import Patience, together
from drctl.model.errors import Refused, Stopped

_OUTSIDE_HEAP_MB = 150


class PortTaken(Refused):
    """Another program listens where a part of the lab should."""


class TooLittleMemory(Refused):
    """The machine has not enough free memory for the lab."""


def require_ports(ports: Collection[int]) -> None:
    """See that nobody listens there.

    Raises:
        PortTaken: somebody does; who it is where the system tells.
    """
    for port in sorted(ports):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError as error:
                raise PortTaken(
                    f"port {port} of {HOST} is taken by {_owner(port)} ({error.strerror})",
                    f"End that program, or choose other ports: drctl lab up --port-base "
                    f"{port + 1000 - port % 1000}",
                ) from error


def free_port_base(random: Random, first: int = 20000, last: int = 30000) -> int:
    """A port base whose hundred ports are all free now, chosen at random.

    No other process is given the same one as long as this one lives: a lab takes its ports seconds
    later.

    Raises:
        PortTaken: there is none between the two.
    """
    for base in random.sample(range(first, last, 100), (last - first) // 100):
        try:
            require_ports(range(base, base + 100))
        except PortTaken:
            continue
        if _claimed(base + 99):
            return base
    raise PortTaken(f"no hundred ports in a row are free between {first} and {last}")


def _claimed(port: int) -> bool:
    """Whether nobody was faster; kept until the process ends."""
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
    """See that the parts that are to start have room.

    Raises:
        TooLittleMemory: they have not.
    """
    needed = parts * (settings.heap_mb + _OUTSIDE_HEAP_MB)
    available = psutil.virtual_memory().available >> 20
    if available < needed:
        raise TooLittleMemory(
            f"{parts} parts of the lab need about {needed} MB of memory; {available} MB are free",
            "End other programs, or choose smaller heaps: drctl lab up --heap-mb 256",
        )


def _owner(port: int) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr[1] == port and connection.pid:
                return f"pid {connection.pid} ({psutil.Process(connection.pid).name()})"
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        return "another program"
    return "another program"


START_S_PER_PART = 60  # a machine may be busy; a part that died is noticed at once
_GRANT_S = 8.0


@dataclass(frozen=True, slots=True)
class Startup:
    """One attempt to have the named parts answer.

    Attributes:
        wanted: names of parts.
        missing: those of them that do not run.
    """

    parts: Parts
    wanted: frozenset[str]
    missing: frozenset[str]
    brokers_jvm: Jvm
    connect_jvm: Jvm
    progress: Callable[[str], None]
    began: float
    patience: Patience

    def run(self) -> None:
        """Start what is missing, wake what is frozen, and see all of it answer.

        Raises:
            Stopped: a part does not answer in time, or died.
        """
        self._wake()
        clusters = [c for c in self.parts.clusters if self._touches(c)]
        secondary = self.parts.cluster("secondary")
        others = [c for c in clusters if c.name != "secondary"]

        def secondary_and_worker() -> None:
            if secondary in clusters:
                self._cluster(secondary)
            if "connect" in self.wanted:
                self._worker()

        together(
            self.patience,
            secondary_and_worker,
            *(lambda cluster=cluster: self._cluster(cluster) for cluster in others),
        )
        if self.wanted >= set(self.parts.names):
            deploy(self.parts.worker, self.parts.directions, self.patience)
            self._say("MirrorMaker 2 copies", ", ".join(map(str, self.parts.directions)))

    def _touches(self, cluster: LabCluster) -> bool:
        return any(broker.name in self.wanted for broker in cluster.brokers)

    def _wake(self) -> None:
        for name in self.wanted - self.missing:
            part = self.parts.part(name)
            if part.frozen():
                part.signal(signal.SIGCONT)
                self.progress(f"{name} was stopped by a signal and goes on")

    def _cluster(self, cluster: LabCluster) -> None:
        starting = [broker for broker in cluster.brokers if broker.name in self.missing]
        prepare = (lambda b=b: b.prepare(self.brokers_jvm) for b in starting)
        together(self.patience, *prepare)
        for broker in starting:
            broker.start(self.brokers_jvm)
        mine = [broker for broker in cluster.brokers if broker.name in self.wanted]
        # Each itself: the others go on naming a dead broker until its session ends.
        admins = [cluster.admin(f"{HOST}:{broker.ports[0]}") for broker in mine]
        self._await(
            [broker.part for broker in mine],
            lambda: all(answering_brokers(admin, 1.0) >= len(mine) for admin in admins),
        )
        self._grant(cluster, f"{HOST}:{mine[0].ports[0]}")
        self._say(f"{cluster.name} answers", cluster.bootstrap)

    def _grant(self, cluster: LabCluster, address: str) -> None:
        """Asked anew until the deadline: a quorum that has just come back may have no leader.

        Until it has one, its brokers name a dead one as the controller, too; a client that was
        told so once asks nobody else.
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
            raise Stopped(f"{cluster.name} took no ACLs: {refused}", "Run drctl lab up again.")

    def _worker(self) -> None:
        worker = self.parts.worker
        if "connect" in self.missing:
            worker.prepare()
            worker.start(self.connect_jvm)
        self._await([worker.part], worker.answering)
        self._say("Connect answers", worker.url)

    def _await(self, parts: list[Part], answering: Callable[[], bool]) -> None:
        def settled() -> bool:
            return any(part.process() is None for part in parts) or answering()

        answered = self.patience.wait_until(settled)
        if dead := next((part for part in parts if part.process() is None), None):
            raise Stopped(
                f"{dead.name} died at its start; its log {dead.log} ends:\n{dead.last_words()}",
                "Remove the cause and run drctl lab up again; it goes on from here.",
            )
        if not answered:
            names = ", ".join(part.name for part in parts)
            raise Stopped(
                f"{names} did not answer in {self._seconds:.0f} s; the log {parts[0].log} ends:\n"
                f"{parts[0].last_words()}",
                "On a busy machine run drctl lab up again; it goes on from here.",
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
    """Check what must be so, fetch the jars and write the files; nothing is started yet.

    Args:
        recording: whether the parts write down which classes they load.

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
    jars = {
        kind: resolve(kind, progress=progress, ivy_settings=ivy_settings) if missing else ()
        for kind in ("kafka", "connect")
    }
    return Startup(
        parts,
        frozenset(wanted),
        missing,
        Jvm(java, jars["kafka"], root, settings, recording),
        Jvm(java, jars["connect"], root, settings, recording),
        progress,
        time.monotonic(),
        Patience.of(START_S_PER_PART * len(wanted)),
    )
