"""The only place that opens systems: turns configuration into ports."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drctl.checks.ports import ClusterPorts
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.config.schema import ClusterConfig
    from drctl.gap.comparison import RecordComparer
    from drctl.gap.ledger import LedgerStore
    from drctl.gap.tail import PositionFinder
    from drctl.model.endpoints import EndpointReader, EndpointWriter
    from drctl.model.journal_place import JournalPlace
    from drctl.model.ports import ClusterReader
    from drctl.model.topology import TopicState
    from drctl.offsets.journal import Entry
    from drctl.offsets.mirror_topics import Aliases
    from drctl.systems.connect.client import ConnectReader, ConnectWriter
    from drctl.systems.connect.lister import ConnectLister
    from drctl.systems.endpoints.command_process import Commands
    from drctl.systems.journal.files import JournalFile
    from drctl.systems.journal.run_files import RunFiles
    from drctl.systems.kafka.acl_reader import KafkaAclReader
    from drctl.systems.kafka.acl_writer import KafkaAclWriter
    from drctl.systems.kafka.anchors_topic import AnchorsTopic, AnchorsTopicReader
    from drctl.systems.kafka.canary import KafkaCanary
    from drctl.systems.kafka.fence_proof import KafkaFenceProver
    from drctl.systems.kafka.group_writer import KafkaGroupWriter
    from drctl.systems.kafka.groups import KafkaGroupReader
    from drctl.systems.kafka.journal_reading import JournalTopicReader
    from drctl.systems.kafka.journal_topic import JournalTopic
    from drctl.systems.kafka.log_reader import KafkaRangeReader
    from drctl.systems.kafka.reader import KafkaClusterReader
    from drctl.systems.kafka.topic_tail import TopicTail
    from drctl.systems.ledger.rates import MeasuredRate
    from drctl.systems.metrics.server import MetricsServer
    from drctl.systems.spill.entries import TemporaryEntries


PATIENCE_S = 10.0
"""How long a cluster may take to answer a question."""


def open_reader(
    name: str, cluster: "ClusterConfig", timeout_s: float = PATIENCE_S
) -> "KafkaClusterReader":
    """A reader of one cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.reader import KafkaClusterReader

    return KafkaClusterReader(name, revealed(cluster), timeout_s=timeout_s)


def open_group_reader(
    name: str, cluster: "ClusterConfig", timeout_s: float = PATIENCE_S
) -> "KafkaGroupReader":
    """What looks at one cluster's groups; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.groups import KafkaGroupReader

    return KafkaGroupReader(name, revealed(cluster), timeout_s=timeout_s)


def range_reader(name: str, cluster: "ClusterConfig") -> "KafkaRangeReader":
    """What reads records of one cluster; connects when asked to.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.log_reader import KafkaRangeReader, LogSource

    return KafkaRangeReader(LogSource(name, revealed(cluster)))


def frugal_range_reader(name: str, cluster: "ClusterConfig") -> "KafkaRangeReader":
    """The same for topics whose records are small and pack well: little is held of each partition.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.log_reader import KafkaRangeReader, LogSource

    properties = {"queued.min.messages": "2000", **revealed(cluster)}
    return KafkaRangeReader(LogSource(name, properties), fetch_bytes=1 << 16)


def topic_tail(
    reader: "ClusterReader", cluster: "ClusterConfig", topic: "TopicState"
) -> "TopicTail":
    """What follows a topic of one cluster.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.cli.console import console
    from drctl.systems.kafka.topic_tail import TopicTail

    return TopicTail(reader, revealed(cluster), topic, console().warn)


def temporary_entries() -> "TemporaryEntries":
    """Room for more consumer timestamps than memory should hold."""
    from drctl.systems.spill.entries import TemporaryEntries

    return TemporaryEntries()


@contextmanager
def both_readers(link: "Link") -> "Iterator[tuple[ClusterReader, ClusterReader]]":
    """Readers of a link's source and target."""
    with (
        open_reader(link.source, link.source_config) as source,
        open_reader(link.target, link.target_config) as target,
    ):
        yield source, target


def connect_client(*urls: str) -> "ConnectReader":
    """A client of the REST interface of some Connect workers of one cluster."""
    from drctl.systems.connect.client import ConnectReader

    return ConnectReader(*urls)


def connect_of(link: "Link") -> "ConnectReader | None":
    """A client of the workers that replicate a link; None where none are configured."""
    urls = link.settings.replicator.connect
    return connect_client(*map(_text, urls)) if urls else None


@contextmanager
def spark_session(
    config: "Config",
    link: "Link",
    log: Path | None,
    progress: Callable[[str], None],
    offsets: int,
) -> "Iterator[Callable[[Path], RecordComparer]]":
    """A Spark application of its own, in which a link's records are compared.

    Gives what opens a comparison, told the directory for the records it finds.

    Args:
        log: file for what the JVM prints; None lets it reach stderr.
        offsets: how many there are to read at most.

    Raises:
        SparkDidNotStart: Java is missing, or the master does not answer.
        NotFetched: the Kafka connector is not cached and cannot be fetched.
    """
    from drctl.gap.comparison import Side
    from drctl.systems.kafka.java import java_properties
    from drctl.systems.spark.comparer import SparkComparer
    from drctl.systems.spark.scan import KafkaRows
    from drctl.systems.spark.session import SparkSettings, opened

    properties = {
        Side.SOURCE: java_properties(revealed(link.source_config)),
        Side.TARGET: java_properties(revealed(link.target_config)),
    }
    conf = {name: _text(value) for name, value in config.spark.conf.items()}
    settings = SparkSettings(config.spark.master, conf, _jars(config, progress), log, offsets)
    # py4j reports to the root logger, which without a handler would print tracebacks.
    logging.getLogger().addHandler(logging.NullHandler())
    progress("starting Spark")
    with opened(settings) as spark:
        rows = KafkaRows(spark, properties, spark.sparkContext.defaultParallelism)
        yield lambda out: SparkComparer(spark, rows, out)


def ledger(config: "Config", *, writes: bool) -> "LedgerStore":
    """What earlier runs digested: in a topic where the configuration says so, else in a file.

    Args:
        writes: whether a topic may be written; a file always is.

    Raises:
        UsageError: there is no such cluster.
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.ledger.database import DatabaseLedger

    place = config.file.ledger
    if place is None:
        return DatabaseLedger(config.state_dir / "ledger.db")
    from drctl.systems.kafka.ledger_topic import TopicLedger, TopicLedgerReader

    properties = revealed(config.cluster(place.cluster))
    kind = TopicLedger if writes else TopicLedgerReader
    return kind(place.cluster, properties, place.topic)


def measured_rate(config: "Config") -> "MeasuredRate":
    """How fast earlier runs read."""
    from drctl.systems.ledger.rates import MeasuredRate

    return MeasuredRate(config.state_dir / "rate.json")


def position_finder(
    link: "Link", source: "ClusterReader", target: "ClusterReader"
) -> "PositionFinder | None":
    """Who knows how far the link's replicator got; None where nobody does."""
    from drctl.systems.replicators.chain import FirstToKnow
    from drctl.systems.replicators.committed import CommittedPositions
    from drctl.systems.replicators.connectors import ConnectorPositions
    from drctl.systems.replicators.preserving import PreservingPositions
    from drctl.systems.replicators.syncs import SyncPositions

    replicator = link.settings.replicator
    if replicator.kind == "offset-preserving":
        return PreservingPositions(target, link.target_topic)
    finders: list[PositionFinder] = []
    connect, name = connect_of(link), replicator.connectors.source
    if connect is not None and name:
        next_offset = replicator.kind == "confluent-replicator"
        finders.append(ConnectorPositions(connect, name, next_offset=next_offset))
    if replicator.kind == "mirrormaker2":
        places = (
            (source, range_reader(link.source, link.source_config)),
            (target, range_reader(link.target, link.target_config)),
        )
        finders.append(SyncPositions(*places, lambda: mirror_aliases(link, target)))
    elif replicator.kind == "confluent-replicator" and name:
        opened = partial(open_group_reader, link.source, link.source_config)
        finders.append(CommittedPositions(opened, name))
    return FirstToKnow(finders) if finders else None


def mirror_aliases(link: "Link", target: "ClusterReader") -> "Aliases | None":
    """What MirrorMaker 2 calls the clusters; None where nobody knows.

    A connector's configuration says it where a worker answers, else the topics that there are.
    """
    from drctl.cli.console import console
    from drctl.model.errors import DrctlError
    from drctl.offsets.mirror_topics import aliases_of, guessed_aliases

    connectors = link.settings.replicator.connectors
    connect, name = connect_of(link), connectors.checkpoint or connectors.source
    if connect is not None and name:
        try:
            return aliases_of(connect.config(name))
        except DrctlError as error:
            console().detail(f"Connect does not tell the clusters' aliases: {error.message}")
    return guessed_aliases(link.source, link.target, target.topic_names())


def _jars(config: "Config", progress: Callable[[str], None]) -> Sequence[Path]:
    if config.jars:
        return tuple(map(Path, config.jars))
    from drctl.systems.artifacts.resolution import resolve

    return resolve("spark-connector", progress=progress)


def revealed(cluster: "ClusterConfig") -> dict[str, str]:
    """A cluster's client properties, secrets in clear: not to be kept or shown.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    return {name: _text(v) for name, v in cluster.client_properties(os.environ).items()}


def _text(value: object) -> str:
    from drctl.config.secret import Secret
    from drctl.config.setting import Setting

    if isinstance(value, Setting):
        value = value.resolve(os.environ)
    return value.reveal() if isinstance(value, Secret) else str(value)


def group_writer(name: str, cluster: "ClusterConfig") -> "KafkaGroupWriter":
    """What moves the positions of one cluster's groups; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.group_writer import KafkaGroupWriter

    return KafkaGroupWriter(name, revealed(cluster))


def offsets_journal(config: "Config", run: str) -> "JournalFile":
    """The journal of a new run that moves positions."""
    from drctl.systems.journal.files import JournalFile

    return JournalFile(config.state_dir / "offsets", run)


def offsets_runs(config: "Config") -> Iterator[str]:
    """All runs that moved positions, the newest first."""
    from drctl.systems.journal.files import runs

    return runs(config.state_dir / "offsets")


def offsets_entries(config: "Config", run: str) -> "Sequence[Entry]":
    """The journal of a run that moved positions.

    Raises:
        UsageError: there is no such run.
        Unknown: its journal cannot be read, or is damaged.
    """
    from drctl.systems.journal.files import entries

    return entries(config.state_dir / "offsets", run)


def anchors_reader(name: str, cluster: "ClusterConfig") -> "AnchorsTopicReader":
    """What follows the anchors that one cluster keeps; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.anchors_topic import AnchorsTopicReader

    return AnchorsTopicReader(name, revealed(cluster), timeout_s=PATIENCE_S)


def anchors_topic(name: str, cluster: "ClusterConfig") -> "AnchorsTopic":
    """What keeps anchors on one cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.anchors_topic import AnchorsTopic

    return AnchorsTopic(name, revealed(cluster), timeout_s=PATIENCE_S)


def metrics_server(address: str, page: Callable[[], str]) -> "MetricsServer":
    """What serves metrics at `HOST:PORT`, once it is entered.

    Raises:
        UsageError: that is no address.
    """
    from drctl.report.exposition import CONTENT_TYPE
    from drctl.systems.metrics.server import MetricsServer

    return MetricsServer(address, page, CONTENT_TYPE)


def acl_reader(
    name: str, cluster: "ClusterConfig", timeout_s: float = PATIENCE_S
) -> "KafkaAclReader":
    """What looks at one cluster's ACLs; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.acl_reader import KafkaAclReader

    return KafkaAclReader(name, revealed(cluster), timeout_s=timeout_s)


def acl_writer(name: str, cluster: "ClusterConfig") -> "KafkaAclWriter":
    """What adds and removes denying ACLs of one cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.acl_writer import KafkaAclWriter

    return KafkaAclWriter(name, revealed(cluster), timeout_s=PATIENCE_S)


def fence_prover(name: str, cluster: "ClusterConfig", settle_s: float) -> "KafkaFenceProver":
    """What proves that nothing is written to topics of one cluster.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.fence_proof import KafkaFenceProver

    return KafkaFenceProver(name, revealed(cluster), settle_s=settle_s, timeout_s=PATIENCE_S)


def connect_writer_of(link: "Link") -> "ConnectWriter":
    """What changes the connectors that replicate a link."""
    from drctl.systems.connect.client import ConnectWriter

    return ConnectWriter(*map(_text, link.settings.replicator.connect or ()))


def endpoint_reader(config: "Config", link: "Link", number: int) -> "EndpointReader":
    """What looks at one of a link's endpoints.

    Raises:
        ConfigError: a secret that the configuration refers to is missing, or cannot be used.
    """
    from drctl.systems.endpoints.registry import Surroundings, open_reader

    around = Surroundings(link, config.path.parent.absolute(), os.environ)
    return open_reader(link.settings.endpoints[number], around)


def endpoint_writer(config: "Config", link: "Link", number: int) -> "EndpointWriter":
    """What changes one of a link's endpoints.

    Raises:
        ConfigError: a secret that the configuration refers to is missing, or cannot be used.
    """
    from drctl.systems.endpoints.registry import Surroundings, open_writer

    around = Surroundings(link, config.path.parent.absolute(), os.environ)
    return open_writer(link.settings.endpoints[number], around)


def canary(name: str, cluster: "ClusterConfig") -> "KafkaCanary":
    """What proves that a cluster takes writes.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.canary import KafkaCanary

    return KafkaCanary(name, revealed(cluster))


def run_files(config: "Config") -> "RunFiles":
    """What this machine keeps of the journals of runs."""
    from drctl.systems.journal.run_files import RunFiles

    return RunFiles(config.state_dir / "runs")


def journal_topic(name: str, cluster: "ClusterConfig", link: str) -> "JournalTopic":
    """The journals of a link's runs on the cluster that survives; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.journal_topic import JournalTopic

    return JournalTopic(name, revealed(cluster), link, timeout_s=PATIENCE_S)


def journal_reader(name: str, cluster: "ClusterConfig", link: str) -> "JournalTopicReader":
    """The same, and only reads.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.journal_reading import JournalTopicReader

    return JournalTopicReader(name, revealed(cluster), link, timeout_s=PATIENCE_S)


def site_commands(config: "Config", env: Mapping[str, str], timeout_s: float) -> "Commands":
    """What starts commands of the site, from the folder of drctl.yaml.

    Raises:
        ConfigError: a secret that the environment refers to is missing.
    """
    from drctl.config.secret import Secret, reveal
    from drctl.config.setting import Setting
    from drctl.systems.endpoints.command_process import Commands

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
    name: str, cluster: "ClusterConfig", timeout_s: float = PATIENCE_S
) -> "Iterator[ClusterPorts]":
    """What looks at everything of one cluster that the guards judge.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.checks.ports import ClusterPorts
    from drctl.systems.kafka.cluster_health import KafkaHealthReader
    from drctl.systems.kafka.cluster_rights import KafkaRightsReader
    from drctl.systems.kafka.producer_ids import KafkaProducerIdReader

    properties = revealed(cluster)
    with (
        open_reader(name, cluster, timeout_s) as reader,
        open_group_reader(name, cluster, timeout_s) as groups,
        acl_reader(name, cluster, timeout_s) as acls,
        KafkaHealthReader(name, properties, timeout_s=timeout_s) as health,
        KafkaProducerIdReader(name, properties, timeout_s=timeout_s) as producers,
        KafkaRightsReader(name, properties, timeout_s=timeout_s) as rights,
    ):
        yield ClusterPorts(reader, groups, acls, health, producers, rights)


def connector_lister(link: "Link") -> "ConnectLister | None":
    """What looks at the connectors that replicate a link; None where none are configured."""
    from drctl.systems.connect.lister import ConnectLister

    urls = link.settings.replicator.connect
    return ConnectLister(*map(_text, urls)) if urls else None


def reverse_lister(link: "Link") -> "ConnectLister | None":
    """The same of those that would replicate it back."""
    from drctl.systems.connect.lister import ConnectLister

    reverse = link.settings.replicator.reverse
    urls = (reverse.connect or ()) if reverse else ()
    return ConnectLister(*map(_text, urls)) if urls else None


def journal_places(config: "Config", link: "Link") -> "Sequence[JournalPlace]":
    """Where a run would write its journal to.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.journal.state_folder import StateFolder

    topic = journal_reader(link.target, link.target_config, link.name)
    return (topic, StateFolder(config.state_dir / "runs"))
