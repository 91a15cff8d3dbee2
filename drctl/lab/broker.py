"""One Kafka node: broker and KRaft controller in one process, SASL and ACLs on."""

import base64
import hashlib
import secrets
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from drctl.lab.files import write_properties
from drctl.lab.jvm import Jvm, lab_mark
from drctl.lab.process import Part
from drctl.lab.secrets import BROKER, FIRST, USERS, Secrets, plain_login
from drctl.lab.settings import HOST, LabSettings
from drctl.model.errors import Stopped

_MAIN = "kafka.Kafka"
_CONTROLLER, _CLIENTS = "CONTROLLER", "CLIENTS"


@dataclass(frozen=True, slots=True)
class Broker:
    """A node of a cluster; its data outlives its process."""

    root: Path
    settings: LabSettings
    cluster: str
    node: int

    @property
    def name(self) -> str:
        """`primary-1`."""
        return f"{self.cluster}-{self.node}"

    @property
    def part(self) -> Part:
        """Its process."""
        return Part(self.name, self.root / self.cluster / str(self.node), lab_mark(self.root))

    @property
    def ports(self) -> tuple[int, ...]:
        """Every port it listens on."""
        place = (self.cluster, self.node)
        return self.settings.broker_port(*place), self.settings.controller_port(*place)

    def prepare(self, jvm: Jvm) -> None:
        """Write its properties and format its disk where that has not happened yet.

        Raises:
            Stopped: Kafka's storage tool failed.
        """
        folder = self.part.folder
        write_properties(folder / "server.properties", self._properties())
        if (folder / "data" / "meta.properties").exists():
            return
        command = jvm.command_in_file(
            folder / "format.arguments",
            "kafka.tools.StorageTool",
            *("format", "-t", cluster_id(self.root, self.cluster)),
            *("-c", str(folder / "server.properties")),
            *self._scram_users(),
        )
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        (folder / "format.arguments").unlink()
        if answer.returncode != 0:
            said = (answer.stdout + answer.stderr).strip().splitlines()
            raise Stopped(
                f"the disk of {self.name} could not be formatted: {said[-1] if said else ''}",
                "Remove what is left and try again: drctl lab down, then drctl lab up.",
            )

    def start(self, jvm: Jvm) -> None:
        """Start the process."""
        properties = str(self.part.folder / "server.properties")
        self.part.start(jvm.command(self.name, _MAIN, properties))

    @property
    def _secrets(self) -> Secrets:
        return Secrets(self.root / "secrets")

    def _scram_users(self) -> tuple[str, ...]:
        known = ((user, self._secrets.password(self.cluster, user)) for user in USERS)
        return tuple(
            word
            for user, password in ((FIRST, secrets.token_hex(16)), *known)
            for word in ("-S", f"SCRAM-SHA-512=[name={user},password={password}]")
        )

    def _properties(self) -> dict[str, object]:
        return {
            "process.roles": "broker,controller",
            "node.id": self.node,
            "log.dirs": self.part.folder / "data",
            **self._listeners(),
            **self._authentication(),
            **_sizes(self.settings.replication),
        }

    def _listeners(self) -> Mapping[str, object]:
        settings, here = self.settings, (self.cluster, self.node)
        voters = (f"{n}@{HOST}:{settings.controller_port(self.cluster, n)}" for n in settings.nodes)
        for_clients = f"{_CLIENTS}://{HOST}:{settings.broker_port(*here)}"
        control = f"{_CONTROLLER}://{HOST}:{settings.controller_port(*here)}"
        return {
            "controller.quorum.voters": ",".join(voters),
            "listeners": f"{for_clients},{control}",
            "advertised.listeners": for_clients,
            "controller.listener.names": _CONTROLLER,
            "inter.broker.listener.name": _CLIENTS,
            "listener.security.protocol.map": f"{_CONTROLLER}:SASL_PLAINTEXT,"
            f"{_CLIENTS}:SASL_PLAINTEXT",
        }

    def _authentication(self) -> Mapping[str, object]:
        word = self._secrets.password(self.cluster, BROKER)
        login = plain_login(BROKER, word, {BROKER: word})
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        return {
            "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            f"listener.name.{_CONTROLLER.lower()}.sasl.enabled.mechanisms": "PLAIN",
            f"listener.name.{_CONTROLLER.lower()}.plain.sasl.jaas.config": login,
            f"listener.name.{_CLIENTS.lower()}.plain.sasl.jaas.config": login,
            f"listener.name.{_CLIENTS.lower()}.scram-sha-512.sasl.jaas.config": scram,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:admin;User:{BROKER}",
        }


def runs_broker(process: psutil.Process) -> bool:
    """Whether this process of the lab is a broker; False where it is gone."""
    try:
        return _MAIN in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def cluster_id(root: Path, cluster: str) -> str:
    """The cluster's own id, the same for all its nodes.

    Follows from a secret that each lab makes anew, so that nobody has to write it first.
    """
    seed = Secrets(root / "secrets").password(cluster, BROKER)
    digest = hashlib.sha256(f"cluster id {seed}".encode()).digest()
    # A leading dash would make the tool take it for an option.
    return base64.urlsafe_b64encode(b"\x44" + digest[:15]).decode().rstrip("=")


def _sizes(replication: int) -> Mapping[str, object]:
    in_sync = min(2, replication)
    return {
        # A quorum of one need not tell itself twice a second that it is there: idle labs cost less.
        **({"metadata.max.idle.interval.ms": 5000} if replication == 1 else {}),
        "default.replication.factor": replication,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replication,
        "offsets.topic.num.partitions": 5,
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": 5,
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": 0,
        # Any retention by time would delete the flights of 2013 at once.
        "log.retention.ms": -1,
        # What takes minutes by default is to be seen within a drill or a test.
        "log.initial.task.delay.ms": 500,
        "log.cleaner.backoff.ms": 1000,
        # A killed broker may not come back before its session is over.
        "broker.session.timeout.ms": 5000,
        "broker.heartbeat.interval.ms": 1000,
        "log.retention.check.interval.ms": 2000,
    }
