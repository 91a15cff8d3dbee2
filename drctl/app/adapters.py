"""Opens systems: turns drctl.yaml into ports.

Adapters are built here and in `*_adapters.py`, and nowhere else; an import-linter contract says so.
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
    from drctl.config.schema import AccessConfig, ClusterConfig, ReplicatorConfig, ReverseConfig
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

PATIENCE_S = 10.0
"""The timeout of a request to a cluster."""


def cluster_of(name: str, cluster: "ClusterConfig") -> "KafkaCluster":
    """One cluster of drctl.yaml, opened once for all who use it; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.cluster import KafkaCluster

    return KafkaCluster(name, revealed(cluster))


def reader(name: str, cluster: "ClusterConfig", timeout_s: float = PATIENCE_S) -> "KafkaReader":
    """What looks at one cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    return cluster_of(name, cluster).reader(timeout_s)


def writer(name: str, cluster: "ClusterConfig", timeout_s: float = PATIENCE_S) -> "KafkaWriter":
    """What changes one cluster; likewise.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    return cluster_of(name, cluster).writer(timeout_s)


def range_reader(name: str, cluster: "ClusterConfig") -> "KafkaRangeReader":
    """What reads records of one cluster; connects when asked to.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.log_reader import KafkaRangeReader, LogSource

    return KafkaRangeReader(LogSource(name, revealed(cluster)))


def frugal_range_reader(name: str, cluster: "ClusterConfig") -> "KafkaRangeReader":
    """The same for topics whose records are small and pack well: little is held of each partition.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.kafka.log_reader import KafkaRangeReader, LogSource

    properties = {"queued.min.messages": "2000", **revealed(cluster)}
    return KafkaRangeReader(LogSource(name, properties), fetch_bytes=1 << 16)


def topic_tail(
    reader: "ClusterReader", cluster: "ClusterConfig", topic: "TopicState"
) -> "TopicTail":
    """What follows a topic of one cluster.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.app.notices import notices
    from drctl.kafka.reader import TopicTail

    return TopicTail(reader, revealed(cluster), topic, notices().warn)


def temporary_entries() -> "TemporaryEntries":
    """Room for more consumer timestamps than memory should hold."""
    from drctl.stores.temporary import TemporaryEntries

    return TemporaryEntries()


def meet(link: "Link", *, source_s: float = PATIENCE_S, given_up: bool = False) -> None:
    """See who of a link is there, all at once: nobody waits for one silent party after another.

    Args:
        source_s: how long the source may take to answer.
        given_up: whether a source that does not let drctl in is given up all the same.

    Raises:
        ConfigError: a cluster cannot be asked as drctl.yaml says.
        NotLetIn: a cluster does not let drctl in.
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
                BoundedQuery(client.expect, PATIENCE_S)
        source_there = BoundedQuery(source.cluster_id, PATIENCE_S)
        target_there = BoundedQuery(target.cluster_id, PATIENCE_S)
        for there in (source_there, target_there):
            try:
                there.value()
            except AuthenticationFailed:
                if not (given_up and there is source_there):
                    raise
            except Unreachable:
                continue  # known from now on, and told to whoever asks it


@contextmanager
def both_readers(link: "Link") -> "Iterator[tuple[ClusterReader, ClusterReader]]":
    """Readers of a link's source and target.

    Raises:
        ConfigError: a cluster cannot be asked as drctl.yaml says.
    """
    with (
        reader(link.source, link.source_config).topics as source,
        reader(link.target, link.target_config).topics as target,
    ):
        source.prepare()
        target.prepare()
        yield source, target


def connect_client(*urls: str) -> "ConnectReader":
    """A client of the REST interface of some Connect workers of one cluster."""
    from drctl.connect.client import ConnectReader

    return ConnectReader(*urls)


def open_connect(
    kind: "type[Client]",
    given: "ReplicatorConfig | ReverseConfig | None",
    timeout_s: float = PATIENCE_S,
) -> "Client | None":
    """A client of the workers of a replicator; None where none are configured.

    Raises:
        ConfigError: a secret that the configuration refers to is missing, or cannot be used.
    """
    if given is None or not given.connect:
        return None
    workers = map(worker_at, given.connect)
    return kind(*workers, timeout_s=timeout_s, access=connect_access(given.connect_access))


def worker_at(url: "Setting") -> "WebAddress":
    """Where a worker listens.

    Raises:
        ConfigError: what the URL refers to is missing, or makes no URL of it.
    """
    from drctl.config.fields import web_address
    from drctl.model.errors import ConfigError

    try:
        return web_address(clear_text(url))
    except ValueError as error:
        raise ConfigError(f"{url.place}: {error}") from None


def connect_access(given: "AccessConfig") -> "Access":
    """How Connect workers are shown who asks.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.connect.client import Access

    def text(setting: "Setting | None") -> str:
        return "" if setting is None else clear_text(setting)

    def file(setting: "Setting | None") -> str:
        told = text(setting)
        if setting is None or "-----BEGIN" in told:
            return told
        return str(setting.directory / Path(told).expanduser())

    return Access(
        None if given.user is None else text(given.user),
        text(given.password),
        {name: text(value) for name, value in given.headers.items()},
        file(given.ca),
        file(given.certificate),
        file(given.key),
        text(given.key_password),
    )


def connect_of(link: "Link") -> "ConnectReader | None":
    """A client of the workers that replicate a link; None where none are configured."""
    from drctl.connect.client import ConnectReader

    return open_connect(ConnectReader, link.settings.replicator)


def reverse_connect_of(link: "Link") -> "ConnectReader | None":
    """The same of the workers that copy back; None where they are not configured."""
    from drctl.connect.client import ConnectReader

    return open_connect(ConnectReader, link.settings.replicator.reverse)


@contextmanager
def spark_session(
    config: "Config", link: "Link", log: Path | None, progress: Callable[[str], None], offsets: int
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
    from drctl.kafka.java_properties import java_properties
    from drctl.spark.comparer import SparkComparer
    from drctl.spark.scan import KafkaRows
    from drctl.spark.session import opened

    properties = {
        Side.SOURCE: java_properties(revealed(link.source_config)),
        Side.TARGET: java_properties(revealed(link.target_config)),
    }
    with opened(_spark_settings(config, log, progress, offsets)) as spark:
        rows = KafkaRows(spark, properties, spark.sparkContext.defaultParallelism)
        yield lambda out: SparkComparer(spark, rows, out)


@contextmanager
def spark_events(
    config: "Config",
    cluster: "ClusterConfig",
    log: Path | None,
    progress: Callable[[str], None],
    offsets: int,
) -> "Iterator[EventCounter]":
    """A Spark application of its own, in which change events of one cluster are counted.

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
    """What earlier runs digested: in a topic where the configuration says so, else in a file.

    Args:
        writes: whether a topic may be written; a file always is.

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


def measured_rate(config: "Config") -> "MeasuredRate":
    """How fast earlier runs read."""
    from drctl.stores.ledger import MeasuredRate

    return MeasuredRate(config.state_dir / "rate.json")


def position_finder(
    link: "Link", source: "ClusterReader", target: "ClusterReader"
) -> "PositionFinder | None":
    """Who knows how far the link's replicator got; None where nobody does."""
    from drctl.app.replication_progress import (
        CommittedPositions,
        ConnectorPositions,
        FirstToKnow,
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
    return FirstToKnow(finders) if finders else None


def mirror_aliases(link: "Link", target: "ClusterReader") -> "Aliases | None":
    """What MirrorMaker 2 calls the clusters; None where nobody knows.

    A connector's configuration says it where a worker answers, else the topics that there are.
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
    """A cluster's client properties, secrets in clear: not to be kept or shown.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    return {name: clear_text(v) for name, v in cluster.client_properties(os.environ).items()}


def clear_text(value: object) -> str:
    """A value of drctl.yaml, secrets in clear: not to be kept or shown.

    Raises:
        ConfigError: a secret that it refers to is missing.
    """
    from drctl.config.secret import Secret
    from drctl.config.setting import Setting

    if isinstance(value, Setting):
        value = value.resolve(os.environ)
    return value.reveal() if isinstance(value, Secret) else str(value)


def load_record_files() -> None:
    """Import what reads and writes the records that a comparison finds: that takes a moment."""
    from drctl.stores.parquet import schema

    schema()


@contextmanager
def direct_comparer(link: "Link", out: Path) -> "Iterator[RecordComparer]":
    """Reads and compares in this process.

    Args:
        out: directory for the records it finds.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.gap.comparison import Side
    from drctl.gap.direct import DirectComparer
    from drctl.kafka.log_reader import KafkaLogReader, LogSource
    from drctl.stores.parquet import ParquetRecords

    sources = {
        Side.SOURCE: LogSource(link.source, revealed(link.source_config)),
        Side.TARGET: LogSource(link.target, revealed(link.target_config)),
    }
    yield DirectComparer(KafkaLogReader(sources), ParquetRecords(out))


@contextmanager
def submitted_comparer(
    config: "Config",
    link: "Link",
    out: Path,
    log: Path | None,
    progress: Callable[[str], None],
    offsets: int,
) -> "Iterator[RecordComparer]":
    """The record comparison as a Spark application that `spark-submit` starts.

    Args:
        out: directory for the records it finds.
        log: file for what `spark-submit` prints; None lets it reach stderr.
        offsets: how many there are to read at most.

    Raises:
        ConfigError: the settings do not go together.
        SparkDidNotStart: Java is missing, or the cluster does not answer.
        NotFetched: the Kafka connector is not cached and cannot be fetched.
    """
    from drctl.config.secret import reveal
    from drctl.spark.submission import DeployMode, SubmitSettings, shared_folder
    from drctl.spark.submit import submitted

    submit = config.spark.submit
    settings = SubmitSettings(
        master=config.spark.master,
        home=_home(config),
        shared=shared_folder(config.spark.shared, config.spark.master, config.path.parent, out),
        deploy_mode=DeployMode(submit.deploy_mode),
        secrets_path=submit.secrets_path,
        conf={n: reveal(s.resolve(os.environ)) for n, s in config.spark.conf.items()},
        jars=_jars_to_submit(config, progress),
        log=log,
        offsets=offsets,
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
