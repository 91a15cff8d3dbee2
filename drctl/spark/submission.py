"""Builds the command line and files of a `spark-submit`, for each kind of cluster.

Secrets are never on the command line: properties of Spark and of Kafka clients are in files that
only their owner can read.
"""

import ast
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path

import pyspark

import drctl
from drctl.model.errors import ConfigError
from drctl.spark import session
from drctl.spark.session import write_private

JOB = "drctl.spark.submit_job"
_ROOT = Path(drctl.__file__).parent.parent
_THEN = (1980, 1, 1, 0, 0, 0)

# Must also parse in older versions of Python, which run it first.
_MAIN = """\
import sys

if sys.version_info < (3, 11):
    sys.exit("Error: drctl needs Python 3.11 on Spark's driver, not " + sys.version.split()[0])

from {job} import main

main(sys.argv[1:])
"""


def write_job(folder: Path) -> tuple[Path, Path]:
    """Write the main file and the zip; reproducible for the same version of drctl."""
    main, packed = folder / "drctl_gap.py", folder / "drctl.zip"
    main.write_text(_MAIN.format(job=JOB), encoding="utf-8")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for module in sorted(needed_modules(JOB)):
            path = _file(module)
            assert path is not None
            entry = zipfile.ZipInfo(str(path.relative_to(_ROOT)), _THEN)
            file.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return main, packed


@cache
def needed_modules(module: str) -> frozenset[str]:
    """Return the modules of drctl that a module needs, including itself and packages."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in found or _file(name) is None:
            continue
        found.add(name)
        waiting += [name.rpartition(".")[0], *imported(name)]
    return frozenset(found)


def imported(module: str) -> Iterator[str]:
    """Yield all imports of a module; each may be a module or a name in one."""
    path = _file(module)
    assert path is not None
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _file(module: str) -> Path | None:
    """Return the source file of a module of drctl; None for other names."""
    place = _ROOT / module.replace(".", "/")
    if module.partition(".")[0] != "drctl":
        return None
    candidates = (place.with_name(place.name + ".py"), place / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


NAME = "drctl-gap"


class DeployMode(StrEnum):
    """Where the Spark driver runs: on this host or on the cluster."""

    CLIENT = "client"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class SubmitSettings:
    """How to submit the application.

    Attributes:
        home: Spark home with `bin/spark-submit`.
        shared: directory that this host, the driver and all executors access at the same path.
        secrets_path: where the driver finds user-supplied CLUSTER.properties of both clusters;
            None if drctl provides them.
        conf: user-supplied Spark properties; they override drctl's.
        jars: files or URLs of Spark's Kafka connector and its dependencies.
        log: file for the output; None for stderr.
        offsets: maximum number of offsets to read.
        java: more JVM options of a driver on this host.
    """

    master: str
    home: Path
    shared: Path
    deploy_mode: DeployMode = DeployMode.CLIENT
    secrets_path: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: Sequence[str] = ()
    log: Path | None = None
    offsets: int = 0
    java: Sequence[str] = ()

    @property
    def on_cluster(self) -> bool:
        """Whether the driver runs on the cluster."""
        return self.deploy_mode is DeployMode.CLUSTER

    @property
    def from_shared(self) -> bool:
        """Whether the driver reads its files from the shared directory."""
        return self.on_cluster and self.master.startswith("k8s://")

    def check(self) -> None:
        """Check that the settings are consistent.

        Raises:
            ConfigError: they are not.
        """
        if self.on_cluster and self.master.startswith(("spark://", "local")):
            raise ConfigError(
                f"spark.submit.deploy_mode cluster is not supported on spark.master {self.master}:"
                " Spark runs Python applications there in client mode only",
                "remove spark.submit.deploy_mode",
            )
        if self.from_shared and not self.secrets_path:
            raise ConfigError(
                "a driver on Kubernetes needs spark.submit.secrets_path",
                "put the Kafka clients' properties into a Kubernetes secret and mount it:"
                " see docs/howto/spark-cluster.md",
            )
        if not (self.home / "bin" / "spark-submit").is_file():
            raise ConfigError(
                f"bin/spark-submit not found in {self.home}",
                "correct spark.submit.home or SPARK_HOME",
            )
        for jar in self.jars:
            if ":/" not in jar and not Path(jar).is_file():
                raise ConfigError(f"spark.jars: file {jar} not found", "correct spark.jars")
        if not self.shared.is_dir():
            raise ConfigError(
                f"spark.shared: {self.shared} is not a directory on this host",
                "this host, the Spark driver and all executors must access it at the same path",
            )


def write_command(
    settings: SubmitSettings, clients: Mapping[str, Mapping[str, str]], job: Path, scratch: Path
) -> tuple[str, ...]:
    """Write the files of a job; return the command line that submits it.

    Args:
        clients: Kafka client properties by cluster, source first.
        job: the shared directory of the job.
        scratch: a private directory on this host.
    """
    staging = scratch
    if settings.from_shared:
        staging = job / "app"
        staging.mkdir()
    main, packed = write_job(staging)
    spark_properties = scratch / "spark.properties"
    write_private(spark_properties, _spark_conf(settings, scratch))
    secrets, files = settings.secrets_path, list[Path]()
    if secrets is None:
        files = [scratch / f"{name}.properties" for name in clients]
        for file, properties in zip(files, clients.values(), strict=True):
            write_private(file, properties)
        secrets = "." if settings.on_cluster else str(scratch)
    words = [str(settings.home / "bin" / "spark-submit"), "--master", settings.master]
    words += ["--deploy-mode", settings.deploy_mode, "--name", NAME]
    words += ["--properties-file", str(spark_properties)]
    if reads_defaults(settings.home):
        words += ["--load-spark-defaults"]
    words += ["--py-files", _location(settings, packed)]
    if settings.jars:
        words += ["--jars", ",".join(_jar(settings, jar, staging) for jar in settings.jars)]
    if files and settings.on_cluster:
        words += ["--files", ",".join(map(str, files))]
    return (*words, _location(settings, main), str(job), secrets, *clients)


def shared_folder(named: str | None, master: str, base: Path, work: Path) -> Path:
    """Return the shared directory; with a local master, any directory of this host.

    Args:
        named: as configured; relative to `base`.

    Raises:
        ConfigError: it is not configured, or not a directory.
    """
    if named is None and master.startswith("local"):
        return work
    if named is None:
        raise ConfigError(
            f"gap --submit on {master} needs spark.shared",
            "set it to a directory that this host, the Spark driver and all executors access at the"
            " same path",
        )
    if ":/" in named:
        raise ConfigError(
            f"spark.shared must be a directory, not {named.partition(':')[0]}:",
            "mount the storage at the same path on this host, the Spark driver and all executors",
        )
    return base.absolute() / Path(named).expanduser()


def installed_spark() -> Path:
    """Return the Spark home of the installed PySpark."""
    return Path(pyspark.__file__).parent


def reads_defaults(home: Path) -> bool:
    """Return whether `spark-submit` can also read spark-defaults.conf, as it can from 4.0 on."""
    jars = (home / "jars").glob("spark-core_*.jar")
    return any(not jar.name.split("-")[-1].startswith("3.") for jar in jars)


def _spark_conf(settings: SubmitSettings, scratch: Path) -> dict[str, str]:
    java = () if settings.on_cluster else settings.java
    inner = session.SparkSettings(
        settings.master, settings.conf, offsets=settings.offsets, java=java
    )
    conf = session.defaults(inner, scratch)
    for name in _not_for_it(settings):
        conf.pop(name, None)
    conf["spark.app.name"] = NAME
    if not settings.on_cluster:
        conf["spark.pyspark.driver.python"] = sys.executable
    return {**conf, **settings.conf, **_FOLLOWED, **session.FIXED}


def _not_for_it(settings: SubmitSettings) -> Iterator[str]:
    """Yield settings of a local session that do not apply to a submitted application."""
    yield from ("spark.master", "spark.jars", "spark.sql.warehouse.dir")
    if not settings.master.startswith("local"):
        yield "spark.local.dir"
    if settings.on_cluster:
        yield "spark.ui.enabled"


# `spark-submit` must wait for the application, and a restarted driver would find its requests
# already answered.
_FOLLOWED = {
    "spark.yarn.submit.waitAppCompletion": "true",
    "spark.yarn.maxAppAttempts": "1",
    "spark.kubernetes.submission.waitAppCompletion": "true",
}


def _location(settings: SubmitSettings, path: Path) -> str:
    """Return a path with `local:` if the file already exists where the driver runs."""
    return f"local://{path}" if settings.from_shared else str(path)


def _jar(settings: SubmitSettings, jar: str, staging: Path) -> str:
    if not settings.from_shared or ":/" in jar:
        return jar
    return _location(settings, Path(shutil.copy(jar, staging)))
