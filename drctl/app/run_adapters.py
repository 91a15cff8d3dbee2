"""Builds the adapters that plans are built from and executed with."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from drctl.app import adapters
from drctl.engine.ports import CommandResult
from drctl.model.errors import ConfigError, Refused, Unreachable, UsageError
from drctl.model.text import plural
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
    """A writer to the connectors that replicate a link."""
    from drctl.connect.client import ConnectWriter

    return adapters.open_connect(ConnectWriter, link.settings.replicator) or ConnectWriter()


def workers_reader(link: "Link") -> "ConnectReader":
    """A reader of all connectors of the workers that a run is about.

    Raises:
        UsageError: none are configured.
    """
    from drctl.connect.client import ConnectReader

    return _of_workers(ConnectReader, link, adapters.TIMEOUT_S)


def workers_writer(link: "Link") -> "ConnectWriter":
    """A writer to all connectors of the workers that a run is about.

    Raises:
        UsageError: none are configured.
    """
    from drctl.connect.client import ConnectWriter

    return _of_workers(ConnectWriter, link, 30.0)


def _of_workers(kind: "type[adapters.Client]", link: "Link", timeout_s: float) -> "adapters.Client":
    from drctl.app.connect_adapters import WorkersLink

    if isinstance(link, WorkersLink):
        workers = link.workers
        return kind(*workers.addresses, timeout_s=timeout_s, access=workers.access)
    found = adapters.open_connect(kind, link.settings.replicator, timeout_s)
    if found is None:
        raise UsageError("the link's replicator has no Connect workers")
    return found


def source_workers(
    kind: "type[adapters.Client]", link: "Link", cluster: str, timeout_s: float = adapters.TIMEOUT_S
) -> "adapters.Client":
    """A client of the workers whose source connectors write to a cluster of a link.

    Raises:
        UsageError: the link has no `source_connectors`.
    """
    moving = link.settings.source_connectors
    given = None
    if moving is not None:
        given = moving.source if cluster == link.source else moving.target
    found = adapters.open_connect(kind, given, timeout_s)
    if found is None:
        raise UsageError(
            f"link {link.configured} has no source_connectors",
            "add `source_connectors: {names: [NAME], from: {connect: ...}, to: {connect: ...}}`",
        )
    return found


def source_workers_reader(link: "Link", cluster: str) -> "ConnectReader":
    """A reader of the workers whose source connectors write to a cluster of a link.

    Raises:
        UsageError: the link has no `source_connectors`.
    """
    from drctl.connect.client import ConnectReader

    return source_workers(ConnectReader, link, cluster)


def source_workers_writer(link: "Link", cluster: str) -> "ConnectWriter":
    """A writer to the workers whose source connectors write to a cluster of a link.

    Raises:
        UsageError: the link has no `source_connectors`.
    """
    from drctl.connect.client import ConnectWriter

    return source_workers(ConnectWriter, link, cluster, 30.0)


def endpoint_reader(config: "Config", link: "Link", number: int) -> "EndpointReader":
    """A reader of one of a link's endpoints.

    Raises:
        ConfigError: a secret that the configuration refers to is missing, or cannot be used.
    """
    from drctl.endpoints.registry import Surroundings, open_reader

    around = Surroundings(link, config.path.parent.absolute(), os.environ)
    return open_reader(link.settings.endpoints[number], around)


def endpoint_writer(config: "Config", link: "Link", number: int) -> "EndpointWriter":
    """A writer to one of a link's endpoints.

    Raises:
        ConfigError: a secret that the configuration refers to is missing, or cannot be used.
    """
    from drctl.endpoints.registry import Surroundings, open_writer

    around = Surroundings(link, config.path.parent.absolute(), os.environ)
    return open_writer(link.settings.endpoints[number], around)


def cluster_by_evidence(
    endpoint: "DnsEndpoint | HaproxyEndpoint", state: "EndpointState"
) -> str | None:
    """The cluster that an endpoint pointed to, by its observed state; None if unknown."""
    from drctl.config.endpoints import DnsEndpoint

    if isinstance(endpoint, DnsEndpoint):
        from drctl.endpoints.dns import cluster_of, of_evidence

        return cluster_of(endpoint, of_evidence(endpoint.type, state.evidence))
    from drctl.endpoints.haproxy import configured_cluster

    return configured_cluster(endpoint, state)


def through_endpoint(
    link: "Link", number: int, cluster: "ClusterConfig", name: str = ""
) -> "KafkaCluster":
    """The cluster that clients reach through one of a link's endpoints.

    Args:
        name: its name in messages; by default the address of the endpoint.

    Raises:
        UsageError: the address of the endpoint is not configured.
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.config.endpoints import bootstrap_of
    from drctl.kafka.cluster import KafkaCluster

    place = bootstrap_of(link.settings.endpoints[number])
    if place is None:
        raise UsageError(
            f"endpoint {number + 1} of link {link.name} has no `bootstrap`",
            "set its `bootstrap` to the bootstrap.servers of clients",
        )
    properties = {**adapters.revealed(cluster), "bootstrap.servers": place}
    return KafkaCluster(name or f"the cluster at {place}", properties)


def run_files(config: "Config") -> "RunFiles":
    """The copies of journals on this host."""
    from drctl.stores.journal_files import RunFiles

    return RunFiles(config.state_dir / "runs")


def local_runs(config: "Config", link: "Link") -> LocalRuns:
    """The runs inside one cluster whose journals are only on this host."""
    return LocalRuns(config.state_dir / "runs", link.name)


_SHORTEST_KEY = 16


def journal_topic(link: "Link") -> "JournalTopic":
    """The journals of a link's runs on the surviving cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    target = adapters.writer(link.target, link.target_config)
    return target.journal(link.name, _journal_key(link))


def journal_reader(link: "Link") -> "JournalTopicReader":
    """A reader of the journals of a link's runs; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    target = adapters.reader(link.target, link.target_config)
    return target.journal(link.name, _journal_key(link))


def _journal_key(link: "Link") -> bytes:
    """The key that signs journals; empty if none is configured.

    Raises:
        ConfigError: the key is missing or too short.
    """
    setting = link.journal_key
    if setting is None:
        return b""
    key = adapters.clear_text(setting).encode()
    if len(key) < _SHORTEST_KEY:
        raise ConfigError(
            f"{setting.place}: shorter than {plural(_SHORTEST_KEY, 'byte')}",
            "create one: openssl rand -hex 32 > journal.key; chmod 600 journal.key",
        )
    return key


def user_commands(config: "Config", env: Mapping[str, str], timeout_s: float) -> "Commands":
    """Starts user-supplied commands in the folder of drctl.yaml.

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
    """Readers of everything that the prechecks read of one cluster.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.checks.ports import ClusterPorts

    reader = adapters.reader(name, cluster, timeout_s)
    with (
        reader.topics as topics,
        reader.groups as groups,
        reader.acls as acls,
        reader.health as health,
        reader.producer_ids as producers,
    ):
        yield ClusterPorts(topics, groups, acls, health, producers, health)


def journal_places(config: "Config", link: "Link") -> "Sequence[JournalPlace]":
    """The places to which a run would write its journal: for a failback, too, on the link's `to`.

    Args:
        link: may be reversed.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.stores.journal_files import StateFolder

    known = link.configured in config.links
    topic = journal_reader(config.link(link.configured) if known else link)
    return (topic, StateFolder(config.state_dir / "runs"))


def metrics_server(address: str, page: Callable[[], str]) -> "MetricsServer":
    """A server of metrics at `HOST:PORT`, started on entry.

    Raises:
        UsageError: the address is invalid.
    """
    from drctl.stores.metrics_server import MetricsServer
    from drctl.views.metrics import CONTENT_TYPE

    return MetricsServer(address, page, CONTENT_TYPE)


def run_command(
    config: "Config", argv: Sequence[str], env: Mapping[str, str], timeout_s: float
) -> CommandResult:
    """Run a user-supplied command to completion, without a shell.

    Raises:
        Unreachable: it timed out, and was killed.
    """
    from drctl.endpoints.command import TimedOut

    try:
        ended = user_commands(config, env, timeout_s).run(argv)
    except TimedOut:
        raise Unreachable(f"{argv[0]} timed out after {timeout_s:g} s") from None
    except (Refused, ConfigError) as error:
        return CommandResult(None, error.message)
    return CommandResult(ended.code, ended.errors or ended.output)
