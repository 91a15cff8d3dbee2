"""Bringing parts of a lab up: both clusters side by side, then Connect, then MirrorMaker 2."""

import signal
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException

from drctl.lab.cluster import LabCluster, answering_brokers
from drctl.lab.guards import require_memory, require_ports
from drctl.lab.jvm import Jvm, write_logging
from drctl.lab.mirrors import deploy
from drctl.lab.parts import Parts
from drctl.lab.process import Part
from drctl.lab.secrets import Secrets
from drctl.lab.settings import HOST, LabSettings
from drctl.lab.waiting import Patience, together
from drctl.model.errors import Stopped
from drctl.systems.artifacts.java import find_java
from drctl.systems.artifacts.resolution import resolve

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
