"""MirrorMaker 2's connectors: source, checkpoint and heartbeat for each direction."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from drctl.connect.client import ConnectWriter
from drctl.lab.cluster import LabCluster
from drctl.lab.settings import LabSettings, scram_login
from drctl.lab.waiting import Patience
from drctl.lab.worker import Worker
from drctl.model.errors import Stopped

_MIRROR = "org.apache.kafka.connect.mirror"
_KINDS = {
    "source": f"{_MIRROR}.MirrorSourceConnector",
    "checkpoint": f"{_MIRROR}.MirrorCheckpointConnector",
    "heartbeat": f"{_MIRROR}.MirrorHeartbeatConnector",
}


@dataclass(frozen=True, slots=True)
class Direction:
    """Replication from one cluster to the other."""

    settings: LabSettings
    source: LabCluster
    target: LabCluster

    def __str__(self) -> str:
        return f"{self.source.name} -> {self.target.name}"

    @property
    def names(self) -> dict[str, str]:
        """Connector name by kind."""
        end = "" if self.source.name == "primary" else "-reverse"
        return {kind: f"mm2-{kind}{end}" for kind in _KINDS}

    @property
    def rename(self) -> str:
        """The pattern of topic names on the target."""
        return (
            "${topic}" if self.settings.policy == "identity" else f"{self.source.name}.${{topic}}"
        )

    def configurations(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Name and configuration of each connector; passwords are references to files."""
        specific: dict[str, dict[str, object]] = {
            "source": {
                "tasks.max": 2,
                "refresh.topics.interval.seconds": 2,
                "sync.topic.configs.interval.seconds": 10,
            },
            "checkpoint": {
                "tasks.max": 1,
                "groups": ".*",
                "refresh.groups.interval.seconds": 2,
                "emit.checkpoints.interval.seconds": 2,
                "sync.group.offsets.enabled": "false",
            },
            "heartbeat": {"emit.heartbeats.interval.seconds": "1"},
        }
        for kind, name in self.names.items():
            config = {**self._common(), **specific[kind], "connector.class": _KINDS[kind]}
            yield name, {key: str(value) for key, value in config.items()}

    def _common(self) -> dict[str, object]:
        policy = "Identity" if self.settings.policy == "identity" else "Default"
        replication = self.settings.replication
        # The worker uses the secondary; only replication to the primary needs an override.
        elsewhere = login(self.target) if self.target.name == "primary" else dict[str, str]()
        return {
            "source.cluster.alias": self.source.name,
            "target.cluster.alias": self.target.name,
            **_prefixed("source.cluster.", login(self.source)),
            **_prefixed("target.cluster.", login(self.target)),
            **_prefixed("producer.override.", elsewhere),
            "replication.policy.class": f"{_MIRROR}.{policy}ReplicationPolicy",
            "topics": f"{self.settings.mirrored}.*",
            "replication.factor": replication,
            "offset-syncs.topic.replication.factor": replication,
            "checkpoints.topic.replication.factor": replication,
            "heartbeats.topic.replication.factor": replication,
            # Then the source needs read permissions only.
            "offset-syncs.topic.location": "target",
            "sync.topic.acls.enabled": "false",
            "admin.timeout.ms": 15_000,
            # A stopping connector waits this long for calls to a dead cluster.
            "admin.request.timeout.ms": 5_000,
            "admin.default.api.timeout.ms": 5_000,
            # Broker addresses never change; rebootstrap would loop while a cluster is down.
            "admin.metadata.recovery.strategy": "none",
        }


def directions(
    settings: LabSettings, primary: LabCluster, secondary: LabCluster
) -> tuple[Direction, ...]:
    """Primary to secondary, and back if the lab is active-active."""
    there = Direction(settings, primary, secondary)
    back = Direction(settings, secondary, primary)
    return (there, back) if settings.active_active else (there,)


def deploy(worker: Worker, wanted: tuple[Direction, ...], patience: Patience) -> None:
    """Create or update the connectors and wait until they run.

    Raises:
        Stopped: a connector does not run.
    """
    client = worker.client(max(1.0, patience.remaining))
    try:
        present = client.connectors()
        for direction in wanted:
            for name, config in direction.configurations():
                if name not in present or client.config(name) != {**config, "name": name}:
                    client.put_config(name, config)
        await_state(client, wanted, ("RUNNING", "PAUSED", "STOPPED"), patience)
    finally:
        client.close()


def await_state(
    client: ConnectWriter,
    wanted: tuple[Direction, ...],
    states: tuple[str, ...],
    patience: Patience,
) -> None:
    """Wait until every connector and its tasks are in one of the states.

    Raises:
        Stopped: it timed out.
    """
    names = [name for direction in wanted for name in direction.names.values()]

    def settled() -> bool:
        known = client.statuses()
        return all(
            name in known and any(known[name].all_in(state) for state in states) for name in names
        )

    if not patience.wait_until(settled):
        known = client.statuses()
        bad = [f"{name} is {known[name].state if name in known else 'missing'}" for name in names]
        raise Stopped(
            f"MirrorMaker 2 is not {' or '.join(states)}: {', '.join(bad)}",
            "see the log of the Connect worker: drctl lab status shows its path",
        )


def login(cluster: LabCluster) -> dict[str, str]:
    """Client properties of the replicator; Connect's config provider reads the password."""
    file = cluster.password_file("replicator")
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": scram_login("replicator", f"${{directory:{file.parent}:{file.name}}}"),
    }


def _prefixed(prefix: str, properties: Mapping[str, str]) -> dict[str, object]:
    return {f"{prefix}{key}": value for key, value in properties.items()}
