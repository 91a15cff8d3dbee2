"""Opens what plans are made from and carried out with."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from drctl.app import adapters
from drctl.engine.ports import CommandEnded
from drctl.model.errors import ConfigError, Refused, Unreachable, UsageError
from drctl.stores.journal_files import LocalRuns as LocalRuns

if TYPE_CHECKING:
    from drctl.checks.ports import ClusterPorts
    from drctl.config.configuration import Config
    from drctl.config.endpoints import DnsEndpoint, HaproxyEndpoint
    from drctl.config.link import Link
    from drctl.config.schema import ClusterConfig
    from drctl.connect.client import ConnectWriter as ConnectWriter
    from drctl.connect.repair import ConnectLister
    from drctl.endpoints.command import Commands
    from drctl.kafka.acls import KafkaAclReader, KafkaAclWriter, KafkaRuleWriter, SharedRules
    from drctl.kafka.anchors_topic import AnchorsTopic, AnchorsTopicReader
    from drctl.kafka.elections import KafkaElectionReader
    from drctl.kafka.elections import KafkaElectionWriter as KafkaElectionWriter
    from drctl.kafka.fence_proof import KafkaFenceProver
    from drctl.kafka.group_writer import KafkaGroupCreator
    from drctl.kafka.journal_reader import JournalTopicReader as JournalTopicReader
    from drctl.kafka.journal_topic import JournalTopic as JournalTopic
    from drctl.kafka.own_topics import KafkaCanary
    from drctl.kafka.producer_ids import KafkaProducerIdReader, KafkaProducerIdWriter
    from drctl.kafka.topic_configs import KafkaShapeReader, KafkaShapeWriter
    from drctl.model.endpoints import EndpointReader, EndpointState, EndpointWriter
    from drctl.model.journal import JournalPlace
    from drctl.stores.journal_files import RunFiles
    from drctl.stores.metrics_server import MetricsServer


_ELECTION_S = 30.0


def acl_reader(
    name: str, cluster: "ClusterConfig", timeout_s: float = adapters.PATIENCE_S
) -> "KafkaAclReader":
    """What looks at one cluster's ACLs; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.acls import KafkaAclReader

    return KafkaAclReader(name, adapters.revealed(cluster), timeout_s=timeout_s)


def acl_writer(name: str, cluster: "ClusterConfig") -> "KafkaAclWriter":
    """What adds and removes denying ACLs of one cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.acls import KafkaAclWriter

    return KafkaAclWriter(name, adapters.revealed(cluster), timeout_s=adapters.PATIENCE_S)


def rule_writer(name: str, cluster: "ClusterConfig") -> "KafkaRuleWriter":
    """What adds rules about topics of one cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.acls import KafkaRuleWriter

    return KafkaRuleWriter(name, adapters.revealed(cluster), timeout_s=adapters.PATIENCE_S)


def shape_reader(
    name: str, cluster: "ClusterConfig", timeout_s: float = adapters.PATIENCE_S
) -> "KafkaShapeReader":
    """What looks at one cluster's topics before they are changed; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.topic_configs import KafkaShapeReader

    return KafkaShapeReader(name, adapters.revealed(cluster), timeout_s=timeout_s)


def shape_writer(name: str, cluster: "ClusterConfig") -> "KafkaShapeWriter":
    """What makes and changes topics of one cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.topic_configs import KafkaShapeWriter

    return KafkaShapeWriter(name, adapters.revealed(cluster), timeout_s=adapters.PATIENCE_S)


def election_reader(
    name: str, cluster: "ClusterConfig", timeout_s: float = adapters.PATIENCE_S
) -> "KafkaElectionReader":
    """What looks at replicas of one cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.elections import KafkaElectionReader

    return KafkaElectionReader(name, adapters.revealed(cluster), timeout_s=timeout_s)


def election_writer(name: str, cluster: "ClusterConfig") -> "KafkaElectionWriter":
    """What has leaders elected; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.elections import KafkaElectionWriter

    return KafkaElectionWriter(name, adapters.revealed(cluster), timeout_s=_ELECTION_S)


def shared_acl_writer(name: str, cluster: "ClusterConfig", link: str) -> "SharedRules":
    """The same, which leaves what fences of other links rest on; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.acls import SharedRules

    return SharedRules(acl_writer(name, cluster), acl_reader(name, cluster), link)


def producer_id_reader(
    name: str, cluster: "ClusterConfig", timeout_s: float = adapters.PATIENCE_S
) -> "KafkaProducerIdReader":
    """What looks at one cluster's producer ids; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.producer_ids import KafkaProducerIdReader

    return KafkaProducerIdReader(name, adapters.revealed(cluster), timeout_s=timeout_s)


def producer_id_writer(name: str, cluster: "ClusterConfig") -> "KafkaProducerIdWriter":
    """What has one cluster skip producer ids; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.producer_ids import KafkaProducerIdWriter

    return KafkaProducerIdWriter(name, adapters.revealed(cluster), timeout_s=adapters.PATIENCE_S)


def group_creator(name: str, cluster: "ClusterConfig") -> "KafkaGroupCreator":
    """What makes groups of KIP-848 known to one cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.group_writer import KafkaGroupCreator

    return KafkaGroupCreator(name, adapters.revealed(cluster), timeout_s=adapters.PATIENCE_S)


def fence_prover(name: str, cluster: "ClusterConfig", settle_s: float) -> "KafkaFenceProver":
    """What proves that nothing is written to topics of one cluster.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.fence_proof import KafkaFenceProver

    return KafkaFenceProver(
        name, adapters.revealed(cluster), settle_s=settle_s, timeout_s=adapters.PATIENCE_S
    )


def connect_writer_of(link: "Link") -> "ConnectWriter":
    """What changes the connectors that replicate a link."""
    from drctl.connect.client import ConnectWriter

    return adapters.open_connect(ConnectWriter, link.settings.replicator) or ConnectWriter()


def endpoint_reader(config: "Config", link: "Link", number: int) -> "EndpointReader":
    """What looks at one of a link's endpoints.

    Raises:
        ConfigError: a secret that the configuration refers to is missing, or cannot be used.
    """
    from drctl.endpoints.registry import Surroundings, open_reader

    around = Surroundings(link, config.path.parent.absolute(), os.environ)
    return open_reader(link.settings.endpoints[number], around)


def endpoint_writer(config: "Config", link: "Link", number: int) -> "EndpointWriter":
    """What changes one of a link's endpoints.

    Raises:
        ConfigError: a secret that the configuration refers to is missing, or cannot be used.
    """
    from drctl.endpoints.registry import Surroundings, open_writer

    around = Surroundings(link, config.path.parent.absolute(), os.environ)
    return open_writer(link.settings.endpoints[number], around)


def cluster_by_evidence(
    endpoint: "DnsEndpoint | HaproxyEndpoint", state: "EndpointState"
) -> str | None:
    """The cluster for which drctl.yaml has what was seen of an endpoint; None: for no cluster."""
    from drctl.config.endpoints import DnsEndpoint

    if isinstance(endpoint, DnsEndpoint):
        from drctl.endpoints.dns import cluster_of, of_evidence

        return cluster_of(endpoint, of_evidence(endpoint.type, state.evidence))
    from drctl.endpoints.haproxy import configured_cluster

    return configured_cluster(endpoint, state)


def ask_whether_there(name: str, cluster: "ClusterConfig", timeout_s: float) -> None:
    """See whether a cluster is there now, whatever this run knows of it.

    Raises:
        NotLetIn: somebody is there, and does not let drctl in.
        Unreachable: it did not answer.
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.connection import Connection

    connection = Connection(name, adapters.revealed(cluster), timeout_s)
    try:
        connection.present()
    finally:
        connection.close()


def coming_by(link: "Link", number: int, cluster: "ClusterConfig") -> Mapping[str, str]:
    """The properties of a client of a cluster that comes by one of a link's endpoints.

    Raises:
        UsageError: nobody says what clients come by.
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.config.endpoints import entrance_of

    entrance = entrance_of(link.settings.endpoints[number])
    if entrance is None:
        raise UsageError(
            f"nobody says what clients come by to endpoint {number + 1} of link {link.name}",
            "give it `bootstrap`: what clients have as bootstrap.servers",
        )
    return {**adapters.revealed(cluster), "bootstrap.servers": entrance}


def canary(name: str, properties: Mapping[str, str]) -> "KafkaCanary":
    """What proves that a cluster takes writes.

    Args:
        properties: of its client, secrets in clear.
    """
    from drctl.kafka.own_topics import KafkaCanary

    return KafkaCanary(name, properties)


def run_files(config: "Config") -> "RunFiles":
    """What this machine keeps of the journals of runs."""
    from drctl.stores.journal_files import RunFiles

    return RunFiles(config.state_dir / "runs")


def local_runs(config: "Config", link: "Link") -> LocalRuns:
    """The runs inside one cluster that only this machine knows."""
    return LocalRuns(config.state_dir / "runs", link.name)


_SHORTEST_KEY = 16


def journal_topic(link: "Link") -> "JournalTopic":
    """The journals of a link's runs on the cluster that survives; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.journal_topic import JournalTopic

    properties, key = adapters.revealed(link.target_config), _journal_key(link)
    given = link.target, properties, link.name
    return JournalTopic(*given, timeout_s=adapters.PATIENCE_S, key=key)


def journal_reader(link: "Link") -> "JournalTopicReader":
    """The same, and only reads.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.journal_reader import JournalTopicReader

    properties, key = adapters.revealed(link.target_config), _journal_key(link)
    given = link.target, properties, link.name
    return JournalTopicReader(*given, timeout_s=adapters.PATIENCE_S, key=key)


def _journal_key(link: "Link") -> bytes:
    """What journals are signed with; empty where nothing is configured.

    Raises:
        ConfigError: the key is missing, or too short to be one.
    """
    setting = link.journal_key
    if setting is None:
        return b""
    key = adapters.clear_text(setting).encode()
    if len(key) < _SHORTEST_KEY:
        raise ConfigError(
            f"{setting.place}: is shorter than {_SHORTEST_KEY} bytes",
            "make one: openssl rand -hex 32 > journal.key; chmod 600 journal.key",
        )
    return key


def site_commands(config: "Config", env: Mapping[str, str], timeout_s: float) -> "Commands":
    """What starts commands of the site, from the folder of drctl.yaml.

    Raises:
        ConfigError: a secret that the environment refers to is missing.
    """
    from drctl.config.secret import Secret, reveal
    from drctl.config.setting import Setting
    from drctl.endpoints.command import Commands

    folder = config.path.parent.absolute()
    values = {
        name: Setting(text, f"env {name} of a command", folder).resolve(os.environ)
        for name, text in env.items()
    }
    secrets = frozenset(reveal(value) for value in values.values() if isinstance(value, Secret))
    clear = {name: reveal(value) for name, value in values.items()}
    return Commands(folder, clear, secrets, timeout_s)


@contextmanager
def cluster_ports(
    name: str, cluster: "ClusterConfig", timeout_s: float = adapters.PATIENCE_S
) -> "Iterator[ClusterPorts]":
    """What looks at everything of one cluster that the guards judge.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.checks.ports import ClusterPorts
    from drctl.kafka.health import KafkaHealthReader, KafkaRightsReader

    properties = adapters.revealed(cluster)
    with (
        adapters.open_reader(name, cluster, timeout_s) as reader,
        adapters.open_group_reader(name, cluster, timeout_s) as groups,
        acl_reader(name, cluster, timeout_s) as acls,
        KafkaHealthReader(name, properties, timeout_s=timeout_s) as health,
        producer_id_reader(name, cluster, timeout_s) as producers,
        KafkaRightsReader(name, properties, timeout_s=timeout_s) as rights,
    ):
        yield ClusterPorts(reader, groups, acls, health, producers, rights)


def connector_lister(link: "Link") -> "ConnectLister | None":
    """What looks at the connectors that replicate a link; None where none are configured."""
    from drctl.connect.repair import ConnectLister

    return adapters.open_connect(ConnectLister, link.settings.replicator)


def reverse_lister(link: "Link") -> "ConnectLister | None":
    """The same of those that would replicate it back."""
    from drctl.connect.repair import ConnectLister

    return adapters.open_connect(ConnectLister, link.settings.replicator.reverse)


def journal_places(config: "Config", link: "Link") -> "Sequence[JournalPlace]":
    """Where a run would write its journal to.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.stores.journal_files import StateFolder

    topic = journal_reader(link)
    return (topic, StateFolder(config.state_dir / "runs"))


def anchors_reader(name: str, cluster: "ClusterConfig") -> "AnchorsTopicReader":
    """What follows the anchors that one cluster keeps; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.anchors_topic import AnchorsTopicReader

    return AnchorsTopicReader(name, adapters.revealed(cluster), timeout_s=adapters.PATIENCE_S)


def anchors_topic(name: str, cluster: "ClusterConfig") -> "AnchorsTopic":
    """What keeps anchors on one cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.anchors_topic import AnchorsTopic

    return AnchorsTopic(name, adapters.revealed(cluster), timeout_s=adapters.PATIENCE_S)


def metrics_server(address: str, page: Callable[[], str]) -> "MetricsServer":
    """What serves metrics at `HOST:PORT`, once it is entered.

    Raises:
        UsageError: that is no address.
    """
    from drctl.stores.metrics_server import MetricsServer
    from drctl.views.metrics import CONTENT_TYPE

    return MetricsServer(address, page, CONTENT_TYPE)


def run_command(
    config: "Config", argv: Sequence[str], env: Mapping[str, str], timeout_s: float
) -> CommandEnded:
    """Run one to its end, without a shell.

    Raises:
        Unreachable: it took too long, and was ended.
    """
    from drctl.endpoints.command import TimedOut

    try:
        commands = site_commands(config, env, timeout_s)
        ended = commands.run(argv)
    except TimedOut:
        raise Unreachable(f"{argv[0]} was ended after {timeout_s:g} s") from None
    except (Refused, ConfigError) as never:
        return CommandEnded(None, never.message)
    return CommandEnded(ended.code, ended.errors or ended.output)
