"""The only place that opens systems: turns configuration into ports."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.config.schema import ClusterConfig
    from drctl.gap.comparison import RecordComparer
    from drctl.model.ports import ClusterReader
    from drctl.systems.connect.client import ConnectReader
    from drctl.systems.kafka.reader import KafkaClusterReader


def open_reader(name: str, cluster: "ClusterConfig") -> "KafkaClusterReader":
    """A reader of one cluster; connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.systems.kafka.reader import KafkaClusterReader

    return KafkaClusterReader(name, _revealed(cluster))


@contextmanager
def both_readers(link: "Link") -> "Iterator[tuple[ClusterReader, ClusterReader]]":
    """Readers of a link's source and target."""
    with (
        open_reader(link.source, link.source_config) as source,
        open_reader(link.target, link.target_config) as target,
    ):
        yield source, target


def connect_client(url: str) -> "ConnectReader":
    """A client of one Connect worker's REST interface."""
    from drctl.systems.connect.client import ConnectReader

    return ConnectReader(url)


@contextmanager
def spark_comparer(
    config: "Config",
    link: "Link",
    out: Path,
    log: Path | None,
    progress: Callable[[str], None],
    offsets: int,
) -> "Iterator[RecordComparer]":
    """The record comparison as a Spark application of its own.

    Args:
        out: directory for the records it finds.
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
        Side.SOURCE: java_properties(_revealed(link.source_config)),
        Side.TARGET: java_properties(_revealed(link.target_config)),
    }
    conf = {name: _text(value) for name, value in config.spark.conf.items()}
    settings = SparkSettings(config.spark.master, conf, _jars(config, progress), log, offsets)
    # py4j reports to the root logger, which without a handler would print tracebacks.
    logging.getLogger().addHandler(logging.NullHandler())
    progress("starting Spark")
    with opened(settings) as spark:
        rows = KafkaRows(spark, properties, spark.sparkContext.defaultParallelism)
        yield SparkComparer(spark, rows, out)


def _jars(config: "Config", progress: Callable[[str], None]) -> Sequence[Path]:
    if config.jars:
        return tuple(map(Path, config.jars))
    from drctl.systems.artifacts.resolution import resolve

    return resolve("spark-connector", progress=progress)


def _revealed(cluster: "ClusterConfig") -> dict[str, str]:
    return {name: _text(v) for name, v in cluster.client_properties(os.environ).items()}


def _text(value: object) -> str:
    from drctl.config.secret import Secret
    from drctl.config.setting import Setting

    if isinstance(value, Setting):
        value = value.resolve(os.environ)
    return value.reveal() if isinstance(value, Secret) else str(value)
