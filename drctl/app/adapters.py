"""Builds adapters from drctl.yaml.

Only this module and `*_adapters.py` build adapters; an import-linter contract enforces that.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.fields import WebAddress
    from drctl.config.link import Link
    from drctl.config.schema import (
        AccessConfig,
        ClusterConfig,
        ReplicatorConfig,
        ReverseConfig,
        SourceWorkersConfig,
    )
    from drctl.config.setting import Setting
    from drctl.connect.client import Access
    from drctl.connect.client import ConnectReader as ConnectReader
    from drctl.gap.comparison import RecordComparer
    from drctl.gap.event_duplicates import EventCounter
    from drctl.gap.ledger import LedgerStore
    from drctl.gap.tail import PositionFinder
    from drctl.kafka.cluster import KafkaCluster, KafkaReader, KafkaWriter
    from drctl.kafka.log_reader import KafkaRangeReader
    from drctl.kafka.reader import TopicTail
    from drctl.model.ports import ClusterReader
    from drctl.model.topology import TopicState
    from drctl.offsets.mirror_topics import Aliases
    from drctl.spark.session import SparkSettings
    from drctl.stores.ledger import MeasuredRate
    from drctl.stores.temporary import TemporaryEntries

Client = TypeVar("Client", bound="ConnectReader")

TIMEOUT_S = 10.0
"""The timeout of a request to a cluster."""


def cluster_of(name: str, cluster: "ClusterConfig") -> "KafkaCluster":
    """A cluster of drctl.yaml, with one shared connection that opens on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.cluster import KafkaCluster

    return KafkaCluster(name, revealed(cluster))


def reader(name: str, cluster: "ClusterConfig", timeout_s: float = TIMEOUT_S) -> "KafkaReader":
    """A reader of a cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    return cluster_of(name, cluster).reader(timeout_s)


def writer(name: str, cluster: "ClusterConfig", timeout_s: float = TIMEOUT_S) -> "KafkaWriter":
    """A writer to a cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    return cluster_of(name, cluster).writer(timeout_s)


def range_reader(name: str, cluster: "ClusterConfig") -> "KafkaRangeReader":
    """A reader of ranges of records; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.log_reader import KafkaRangeReader, LogSource

    return KafkaRangeReader(LogSource(name, revealed(cluster)))


def frugal_range_reader(name: str, cluster: "ClusterConfig") -> "KafkaRangeReader":
    """A range reader that buffers little per partition, for topics of small records.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.log_reader import KafkaRangeReader, LogSource

    properties = {"queued.min.messages": "2000", **revealed(cluster)}
    return KafkaRangeReader(LogSource(name, properties), fetch_bytes=1 << 16)


def topic_tail(
    reader: "ClusterReader", cluster: "ClusterConfig", topic: "TopicState"
) -> "TopicTail":
    """A reader that follows a topic.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.app.notices import notices
    from drctl.kafka.reader import TopicTail

    return TopicTail(reader, revealed(cluster), topic, notices().warn)


def temporary_entries() -> "TemporaryEntries":
    """Storage on disk for consumer timestamps, which may not fit into memory."""
    from drctl.stores.temporary import TemporaryEntries

    return TemporaryEntries()


def probe_clusters(link: "Link", *, source_s: float = TIMEOUT_S, abandoned: bool = False) -> None:
    """Probe the clusters and Connect workers of a link in parallel, so that timeouts do not add up.

    Args:
        source_s: how long the source may take to answer.
        abandoned: whether to ignore an authentication failure of the source.

    Raises:
        ConfigError: the properties of a cluster are invalid.
        AuthenticationFailed: a cluster rejects drctl's credentials.
    """
    from drctl.checks.bounded_query import BoundedQuery
    from drctl.model.errors import Unreachable
    from drctl.model.health import AuthenticationFailed

    with (
        reader(link.source, link.source_config, source_s).topics as source,
        reader(link.target, link.target_config).topics as target,
    ):
        source.prepare()
        target.prepare()
        for client in (connect_of(link), reverse_connect_of(link)):
            if client is not None:
                BoundedQuery(client.expect, TIMEOUT_S)
        source_probe = BoundedQuery(source.cluster_id, TIMEOUT_S)
        target_probe = BoundedQuery(target.cluster_id, TIMEOUT_S)
        for probe in (source_probe, target_probe):
            try:
                probe.value()
            except AuthenticationFailed:
                if not (abandoned and probe is source_probe):
                    raise
            except Unreachable:
                continue  # the failure is remembered, and fails later requests at once


@contextmanager
def both_readers(link: "Link") -> "Iterator[tuple[ClusterReader, ClusterReader]]":
    """Readers of a link's source and target.

    Raises:
        ConfigError: the properties of a cluster are invalid.
    """
    with (
        reader(link.source, link.source_config).topics as source,
        reader(link.target, link.target_config).topics as target,
    ):
        source.prepare()
        target.prepare()
        yield source, target


def connect_client(*urls: str) -> "ConnectReader":
    """A client of the Connect workers at these addresses."""
    from drctl.connect.client import ConnectReader

    return ConnectReader(*urls)


def open_connect(
    kind: "type[Client]",
    given: "ReplicatorConfig | ReverseConfig | SourceWorkersConfig | None",
    timeout_s: float = TIMEOUT_S,
) -> "Client | None":
    """A client of the Connect workers of a replicator; None if none are configured.

    Raises:
        ConfigError: a secret that the configuration refers to is missing, or cannot be used.
    """
    if given is None or not given.connect:
        return None
    workers = map(worker_at, given.connect)
    return kind(*workers, timeout_s=timeout_s, access=connect_access(given.connect_access))


def worker_at(url: "Setting") -> "WebAddress":
    """The address of a worker.

    Raises:
        ConfigError: a secret in the URL is missing, or the URL is invalid.
    """
    from drctl.config.fields import web_address
    from drctl.model.errors import ConfigError

    try:
        return web_address(clear_text(url))
    except ValueError as error:
        raise ConfigError(f"{url.place}: {error}") from None


def connect_access(given: "AccessConfig") -> "Access":
    """The credentials for Connect workers.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.connect.client import Access

    def text(setting: "Setting | None") -> str:
        return "" if setting is None else clear_text(setting)

    def file(setting: "Setting | None") -> str:
        value = text(setting)
        if setting is None or "-----BEGIN" in value:
            return value
        return str(setting.directory / Path(value).expanduser())

    return Access(
        None if given.user is None else text(given.user),
        text(given.password),
        {name: text(value) for name, value in given.headers.items()},
        file(given.ca),
        file(given.certificate),
        file(given.key),
        text(given.key_password),
        {
            name: setting.place
            for name, setting in (
                ("user", given.user),
                ("ca", given.ca),
                ("certificate", given.certificate),
                *given.headers.items(),
            )
            if setting is not None
        },
    )


def connect_of(link: "Link") -> "ConnectReader | None":
    """A client of the Connect workers that replicate a link; None if none are configured."""
    from drctl.connect.client import ConnectReader

    return open_connect(ConnectReader, link.settings.replicator)


def reverse_connect_of(link: "Link") -> "ConnectReader | None":
    """A client of the Connect workers for the reverse direction; None if none are configured."""
    from drctl.connect.client import ConnectReader

    return open_connect(ConnectReader, link.settings.replicator.reverse)


@contextmanager
def spark_session(
    config: "Config", link: "Link", log: Path | None, progress: Callable[[str], None], offsets: int
) -> "Iterator[Callable[[Path], RecordComparer]]":
    """Start a local Spark application that compares a link's records.

    Yields a function that makes a comparer; its argument is the directory for the records found.

    Args:
        log: the file for the JVM's output; None for stderr.
        offsets: the maximum number of offsets to read.

    Raises:
        SparkDidNotStart: Java is missing, or the master does not answer.
        NotFetched: the Kafka connector is not cached and cannot be fetched.
    """
    from drctl.gap.comparison import Side
    from drctl.kafka.java_properties import java_properties
    from drctl.spark.comparer import SparkComparer
    from drctl.spark.scan import KafkaRows
    from drctl.spark.session import opened
    from drctl.stores.parquet import ParquetRecords

    properties = {
        Side.SOURCE: java_properties(revealed(link.source_config)),
        Side.TARGET: java_properties(revealed(link.target_config)),
    }
    with opened(_spark_settings(config, log, progress, offsets)) as spark:
        rows = KafkaRows(spark, properties, spark.sparkContext.defaultParallelism)
        yield lambda out: SparkComparer(spark, rows, out, ParquetRecords(out))


@contextmanager
def spark_events(
    config: "Config",
    cluster: "ClusterConfig",
    log: Path | None,
    progress: Callable[[str], None],
    offsets: int,
) -> "Iterator[EventCounter]":
    """Start a local Spark application that counts change events of a cluster.

    Raises:
        SparkDidNotStart: Java is missing, or the master does not answer.
        NotFetched: the Kafka connector is not cached and cannot be fetched.
    """
    from drctl.gap.comparison import Side
    from drctl.kafka.java_properties import java_properties
    from drctl.spark.events import SparkEventCounter
    from drctl.spark.scan import KafkaRows
    from drctl.spark.session import opened

    properties = {Side.SOURCE: java_properties(revealed(cluster))}
    with opened(_spark_settings(config, log, progress, offsets)) as spark:
        rows = KafkaRows(spark, properties, spark.sparkContext.defaultParallelism)
        yield SparkEventCounter(spark, rows)


def _spark_settings(
    config: "Config", log: Path | None, progress: Callable[[str], None], offsets: int
) -> "SparkSettings":
    from drctl.artifacts.java import classes_for
    from drctl.spark.session import SparkSettings, jars

    conf = {name: clear_text(value) for name, value in config.spark.conf.items()}
    ready = classes_for(jars())
    settings = SparkSettings(
        config.spark.master, conf, _jars(config, progress), log, offsets, ready
    )
    # py4j reports to the root logger, which without a handler would print tracebacks.
    logging.getLogger().addHandler(logging.NullHandler())
    progress("starting Spark")
    return settings


def ledger(config: "Config", *, writes: bool) -> "LedgerStore":
    """The digests of earlier runs, in the configured topic, otherwise in a file.

    Args:
        writes: whether the topic may be written; a file may always be written.

    Raises:
        UsageError: there is no such cluster.
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.stores.ledger import DatabaseLedger

    place = config.file.ledger
    if place is None:
        return DatabaseLedger(config.state_dir / "ledger.db")
    given = place.cluster, config.cluster(place.cluster)
    return (writer(*given) if writes else reader(*given)).ledger(place.topic)


def usable_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def measured_rate(config: "Config") -> "MeasuredRate":
    """The read throughput of earlier runs."""
    from drctl.stores.ledger import MeasuredRate

    return MeasuredRate(config.state_dir / "rate.json")


def position_finder(
    link: "Link", source: "ClusterReader", target: "ClusterReader"
) -> "PositionFinder | None":
    """Finds how far the link's replicator got; None if its progress is not observable."""
    from drctl.app.replication_progress import (
        CommittedPositions,
        ConnectorPositions,
        FirstAnswer,
        PreservingPositions,
        SyncPositions,
    )

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
        groups = lambda: reader(link.source, link.source_config).groups  # noqa: E731
        finders.append(CommittedPositions(groups, name))
    return FirstAnswer(finders) if finders else None


def mirror_aliases(link: "Link", target: "ClusterReader") -> "Aliases | None":
    """The aliases that MirrorMaker 2 uses for the clusters; None if they are unknown.

    They come from the configuration of a connector, otherwise from the names of topics.
    """
    from drctl.app.notices import notices
    from drctl.model.errors import DrctlError
    from drctl.offsets.mirror_topics import aliases_of, guessed_aliases

    connectors = link.settings.replicator.connectors
    connect, name = connect_of(link), connectors.checkpoint or connectors.source
    if connect is not None and name:
        try:
            return aliases_of(connect.known_config(name))
        except DrctlError as error:
            notices().detail(f"cluster aliases unknown: {error.message}")
    return guessed_aliases(link.source, link.target, target.topic_names())


def _jars(config: "Config", progress: Callable[[str], None]) -> Sequence[Path]:
    if config.jars:
        return tuple(map(Path, config.jars))
    from drctl.artifacts.jars import resolve

    return resolve("spark-connector", progress=progress)


def revealed(cluster: "ClusterConfig") -> dict[str, str]:
    """A cluster's client properties with secrets in clear text: never store or print them.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    return {name: clear_text(v) for name, v in cluster.client_properties(os.environ).items()}


def clear_text(value: object) -> str:
    """A value of drctl.yaml with secrets in clear text: never store or print it.

    Raises:
        ConfigError: a secret that it refers to is missing.
    """
    from drctl.config.secret import Secret
    from drctl.config.setting import Setting

    if isinstance(value, Setting):
        value = value.resolve(os.environ)
    return value.reveal() if isinstance(value, Secret) else str(value)


def load_record_files() -> None:
    """Import the modules for record files in advance, because that takes a moment."""
    from drctl.stores.parquet import schema

    schema()


@contextmanager
def direct_comparer(link: "Link", out: Path) -> "Iterator[RecordComparer]":
    """A comparer that reads and compares without Spark: many records in a process for each core.

    Args:
        out: the directory for the records found.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.gap.comparison import Side
    from drctl.gap.direct import DirectComparer
    from drctl.kafka.digest_workers import DigestWorkers
    from drctl.kafka.log_reader import KafkaLogReader, LogSource
    from drctl.stores.parquet import ParquetRecords

    sources = {
        Side.SOURCE: LogSource(link.source, revealed(link.source_config)),
        Side.TARGET: LogSource(link.target, revealed(link.target_config)),
    }
    workers = DigestWorkers(sources, usable_cores())
    yield DirectComparer(KafkaLogReader(sources), ParquetRecords(out), both=workers)


@contextmanager
def submitted_comparer(
    config: "Config",
    link: "Link",
    out: Path,
    log: Path | None,
    progress: Callable[[str], None],
    offsets: int,
) -> "Iterator[RecordComparer]":
    """A comparer that runs as a Spark application, started by `spark-submit`.

    Args:
        out: the directory for the records found.
        log: the file for the output of `spark-submit`; None for stderr.
        offsets: the maximum number of offsets to read.

    Raises:
        ConfigError: the settings contradict each other.
        SparkDidNotStart: Java is missing, or the cluster does not answer.
        NotFetched: the Kafka connector is not cached and cannot be fetched.
    """
    from drctl.artifacts.java import classes_for
    from drctl.config.secret import reveal
    from drctl.spark.submission import DeployMode, SubmitSettings, shared_folder
    from drctl.spark.submit import submitted

    submit, home = config.spark.submit, _home(config)
    settings = SubmitSettings(
        master=config.spark.master,
        home=home,
        shared=shared_folder(config.spark.shared, config.spark.master, config.path.parent, out),
        deploy_mode=DeployMode(submit.deploy_mode),
        secrets_path=submit.secrets_path,
        conf={n: reveal(s.resolve(os.environ)) for n, s in config.spark.conf.items()},
        jars=_jars_to_submit(config, progress),
        log=log,
        offsets=offsets,
        java=classes_for(home / "jars"),
    )
    ends = {link.source: link.source_config, link.target: link.target_config}
    clients = {name: _client(cluster) for name, cluster in ends.items()}
    progress("starting Spark")
    with submitted(settings, clients, out, os.environ) as comparer:
        yield comparer


def _home(config: "Config") -> Path:
    from drctl.spark.submission import installed_spark

    named = config.spark.submit.home or os.environ.get("SPARK_HOME")
    return config.path.parent.absolute() / Path(named).expanduser() if named else installed_spark()


def _jars_to_submit(config: "Config", progress: Callable[[str], None]) -> Sequence[str]:
    from drctl.artifacts.jars import resolve

    return config.jars or tuple(map(str, resolve("spark-connector", progress=progress)))


def _client(cluster: "ClusterConfig") -> Mapping[str, str]:
    from drctl.kafka.java_properties import java_properties

    return java_properties(revealed(cluster))
