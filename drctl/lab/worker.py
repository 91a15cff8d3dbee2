"""Connect workers: distributed, loopback only, with their state on the secondary cluster."""

from dataclasses import dataclass
from pathlib import Path

from drctl.connect.client import ConnectWriter
from drctl.lab.cluster import CONNECT_GROUP, LabCluster
from drctl.lab.processes import Jvm, Part, lab_mark
from drctl.lab.settings import HOST, LabSettings, private_folder, scram_login, write_properties
from drctl.model.errors import Unknown

CONNECT = "connect"
_ANSWER_S = 3.0


@dataclass(frozen=True, slots=True)
class Worker:
    """A Kafka Connect process that runs MirrorMaker 2's connectors.

    Attributes:
        number: from 1 on; all workers form one group.
    """

    root: Path
    settings: LabSettings
    number: int = 1

    @property
    def part(self) -> Part:
        """Its process."""
        folder = self.root / CONNECT
        if self.number > 1:
            folder /= str(self.number)
        return Part(self.name, folder, lab_mark(self.root))

    @property
    def name(self) -> str:
        """`connect` if it is the only one, else `connect-1`, ..."""
        return CONNECT if self.settings.workers == 1 else f"{CONNECT}-{self.number}"

    @property
    def port(self) -> int:
        """The port of its REST interface."""
        return self.settings.connect_port + self.number - 1

    @property
    def url(self) -> str:
        """Its REST interface."""
        return f"http://{HOST}:{self.port}"

    def client(self, timeout_s: float = 20) -> ConnectWriter:
        """A client of its REST interface."""
        return ConnectWriter(self.url, timeout_s=timeout_s)

    def prepare(self) -> None:
        """Write its properties."""
        private_folder(self.root / CONNECT / "plugins")
        write_properties(self.part.folder / "worker.properties", self._properties())

    def start(self, jvm: Jvm) -> None:
        """Start the process."""
        properties = str(self.part.folder / "worker.properties")
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        self.part.start(jvm.command(self.name, main, properties))

    def answering(self, timeout_s: float = _ANSWER_S) -> bool:
        """Whether the worker has joined its group and lists its connectors."""
        client = self.client(timeout_s)
        try:
            client.connectors()
        except Unknown:  # no answer, or 404 while it starts
            return False
        finally:
            client.close()
        return True

    def _properties(self) -> dict[str, object]:
        cluster = LabCluster(self.root, self.settings, "secondary")
        password = cluster.password_file("replicator").read_text(encoding="ascii")
        login = {
            "bootstrap.servers": cluster.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": scram_login("replicator", password),
        }
        prefixed = {
            f"{role}.{key}": value
            for role in ("producer", "consumer", "admin")
            for key, value in login.items()
        }
        return {**login, **prefixed, **self._storage(), **self._surface()}

    def _storage(self) -> dict[str, object]:
        replication = self.settings.replication
        return {
            "group.id": CONNECT_GROUP,
            # A restarted worker gets its connectors at once, not after 5 minutes.
            "scheduled.rebalance.max.delay.ms": 0,
            "config.storage.topic": "connect-configs",
            "offset.storage.topic": "connect-offsets",
            "status.storage.topic": "connect-status",
            "config.storage.replication.factor": replication,
            "offset.storage.replication.factor": replication,
            "status.storage.replication.factor": replication,
            "offset.storage.partitions": 1,
            "status.storage.partitions": 1,
            "offset.flush.interval.ms": 1000,
        }

    def _surface(self) -> dict[str, object]:
        raw_bytes = "org.apache.kafka.connect.converters.ByteArrayConverter"
        provider = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
        return {
            "listeners": self.url,
            "rest.advertised.host.name": HOST,
            "rest.advertised.port": self.port,
            "key.converter": raw_bytes,
            "value.converter": raw_bytes,
            "header.converter": raw_bytes,
            # Scanning 60 jars for plugins takes half a minute; their service files do not.
            "plugin.discovery": "service_load",
            "plugin.path": self.root / CONNECT / "plugins",
            "config.providers": "directory",
            "config.providers.directory.class": provider,
            "config.providers.directory.param.allowed.paths": self.root / "secrets",
        }
