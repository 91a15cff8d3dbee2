"""Opens what `drctl elect` needs from outside."""

from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.model.errors import UsageError

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.schema import ClusterConfig
    from drctl.systems.journal.files import JournalFile
    from drctl.systems.kafka.election_writer import KafkaElectionWriter
    from drctl.systems.kafka.elections import KafkaElectionReader

_ELECTION_S = 30.0


def reader(
    name: str, cluster: "ClusterConfig", timeout_s: float = wiring.PATIENCE_S
) -> "KafkaElectionReader":
    """What looks at replicas of one cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.elections import KafkaElectionReader

    return KafkaElectionReader(name, wiring.revealed(cluster), timeout_s=timeout_s)


def writer(name: str, cluster: "ClusterConfig") -> "KafkaElectionWriter":
    """What has leaders elected; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.election_writer import KafkaElectionWriter

    return KafkaElectionWriter(name, wiring.revealed(cluster), timeout_s=_ELECTION_S)


def journal(config: "Config", run: str) -> "JournalFile":
    """The journal of a new run.

    On this machine: the cluster's own topics may be among those that have no leader.
    """
    from drctl.systems.journal.files import JournalFile

    hint = "nobody was elected; free space, or set state_dir"
    return JournalFile(config.state_dir / "elections", run, hint)


def chosen(config: "Config", name: str | None) -> str:
    """The cluster that was named, or the only one.

    Raises:
        UsageError: there are several, or it does not exist.
    """
    from drctl.config.problems import one_of

    if name is not None:
        config.cluster(name)
        return name
    names = tuple(config.clusters)
    if len(names) == 1:
        return names[0]
    raise UsageError("which cluster?", f"--cluster: {one_of(names)}")
