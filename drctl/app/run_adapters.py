"""Opens what plans are made from and carried out with."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from drctl.app import adapters
from drctl.engine.ports import CommandResult
from drctl.model.errors import ConfigError, Refused, Unreachable, UsageError
from drctl.stores.journal_files import LocalRuns as LocalRuns

if TYPE_CHECKING:
    from drctl.checks.ports import ClusterPorts
    from drctl.config.configuration import Config
    from drctl.config.endpoints import DnsEndpoint, HaproxyEndpoint
    from drctl.config.link import Link
    from drctl.config.schema import ClusterConfig
    from drctl.connect.client import ConnectReader
    from drctl.connect.client import ConnectWriter as ConnectWriter
    from drctl.endpoints.command import Commands
    from drctl.kafka.cluster import KafkaCluster
    from drctl.kafka.elections import KafkaElectionWriter as KafkaElectionWriter
    from drctl.kafka.journal_reader import JournalTopicReader as JournalTopicReader
    from drctl.kafka.journal_topic import HeldRun as HeldRun
    from drctl.kafka.journal_topic import JournalTopic as JournalTopic
    from drctl.model.endpoints import EndpointReader, EndpointState, EndpointWriter
    from drctl.model.journal import JournalPlace
    from drctl.stores.journal_files import RunFile as RunFile
    from drctl.stores.journal_files import RunFiles
    from drctl.stores.metrics_server import MetricsServer


def connect_writer_of(link: "Link") -> "ConnectWriter":
    """What changes the connectors that replicate a link."""
    from drctl.connect.client import ConnectWriter

    return adapters.open_connect(ConnectWriter, link.settings.replicator) or ConnectWriter()


def workers_reader(link: "Link") -> "ConnectReader":
    """What looks at all connectors of the workers that a run is about.

    Raises:
        UsageError: none are configured.
    """
    from drctl.connect.client import ConnectReader

    return _of_workers(ConnectReader, link, adapters.TIMEOUT_S)


def workers_writer(link: "Link") -> "ConnectWriter":
    """What changes them.

    Raises:
        UsageError: none are configured.
    """
    from drctl.connect.client import ConnectWriter

    return _of_workers(ConnectWriter, link, _CONNECT_S)


_CONNECT_S = 30.0


def _of_workers(kind: "type[adapters.Client]", link: "Link", timeout_s: float) -> "adapters.Client":
    from drctl.app.connect_adapters import WorkersLink

    if isinstance(link, WorkersLink):
        workers = link.workers
        return kind(*workers.addresses, timeout_s=timeout_s, access=workers.access)
    found = adapters.open_connect(kind, link.settings.replicator, timeout_s)
    if found is None:
        raise UsageError("the link's replicator has no Connect workers")
    return found


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


def entrance(link: "Link", number: int, cluster: "ClusterConfig", name: str = "") -> "KafkaCluster":
    """The cluster that clients come to by one of a link's endpoints.

    Args:
        name: what it is called; by default what it is come to by.

    Raises:
        UsageError: nobody says what clients come by.
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.config.endpoints import entrance_of
    from drctl.kafka.cluster import KafkaCluster

    place = entrance_of(link.settings.endpoints[number])
    if place is None:
        raise UsageError(
            f"endpoint {number + 1} of link {link.name} has no `bootstrap`",
            "set its `bootstrap` to the bootstrap.servers of clients",
        )
    properties = {**adapters.revealed(cluster), "bootstrap.servers": place}
    return KafkaCluster(name or f"the cluster behind {place}", properties)


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
    target = adapters.writer(link.target, link.target_config)
    return target.journal(link.name, _journal_key(link))


def journal_reader(link: "Link") -> "JournalTopicReader":
    """The same, and only reads.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    target = adapters.reader(link.target, link.target_config)
    return target.journal(link.name, _journal_key(link))


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
            f"{setting.place}: shorter than {_SHORTEST_KEY} bytes",
            "create one: openssl rand -hex 32 > journal.key; chmod 600 journal.key",
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
    name: str, cluster: "ClusterConfig", timeout_s: float = adapters.TIMEOUT_S
) -> "Iterator[ClusterPorts]":
    """What looks at everything of one cluster that the prechecks judge.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.checks.ports import ClusterPorts

    site = adapters.reader(name, cluster, timeout_s)
    with (
        site.topics as topics,
        site.groups as groups,
        site.acls as acls,
        site.health as health,
        site.producer_ids as producers,
    ):
        yield ClusterPorts(topics, groups, acls, health, producers, health)


def journal_places(config: "Config", link: "Link") -> "Sequence[JournalPlace]":
    """Where a run would write its journal to.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.stores.journal_files import StateFolder

    topic = journal_reader(link)
    return (topic, StateFolder(config.state_dir / "runs"))


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
) -> CommandResult:
    """Run one to its end, without a shell.

    Raises:
        Unreachable: it took too long, and was ended.
    """
    from drctl.endpoints.command import TimedOut

    try:
        commands = site_commands(config, env, timeout_s)
        ended = commands.run(argv)
    except TimedOut:
        raise Unreachable(f"{argv[0]} timed out after {timeout_s:g} s") from None
    except (Refused, ConfigError) as never:
        return CommandResult(None, never.message)
    return CommandResult(ended.code, ended.errors or ended.output)
