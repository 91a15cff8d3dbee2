"""Opens the comparer of `drctl gap --submit`: turns configuration into a Spark application."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.cli import wiring

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.config.schema import ClusterConfig
    from drctl.gap.comparison import RecordComparer


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
    from drctl.systems.spark.submission import DeployMode, SubmitSettings, shared_folder
    from drctl.systems.spark.submit import submitted

    submit = config.spark.submit
    settings = SubmitSettings(
        master=config.spark.master,
        home=_home(config),
        shared=shared_folder(config.spark.shared, config.spark.master, config.path.parent, out),
        deploy_mode=DeployMode(submit.deploy_mode),
        secrets_path=submit.secrets_path,
        conf={n: reveal(s.resolve(os.environ)) for n, s in config.spark.conf.items()},
        jars=_jars(config, progress),
        log=log,
        offsets=offsets,
    )
    ends = {link.source: link.source_config, link.target: link.target_config}
    clients = {name: _client(cluster) for name, cluster in ends.items()}
    progress("starting Spark")
    with submitted(settings, clients, out, os.environ) as comparer:
        yield comparer


def _home(config: "Config") -> Path:
    from drctl.systems.spark.submission import installed_spark

    named = config.spark.submit.home or os.environ.get("SPARK_HOME")
    return config.path.parent.absolute() / Path(named).expanduser() if named else installed_spark()


def _jars(config: "Config", progress: Callable[[str], None]) -> Sequence[str]:
    from drctl.systems.artifacts.resolution import resolve

    return config.jars or tuple(map(str, resolve("spark-connector", progress=progress)))


def _client(cluster: "ClusterConfig") -> Mapping[str, str]:
    from drctl.systems.kafka.java import java_properties

    return java_properties(wiring.revealed(cluster))
