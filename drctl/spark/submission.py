"""Building a `spark-submit`: its command line and its files, for each kind of cluster.

Nothing secret is on the command line: Spark's properties and those of the Kafka clients are files
that only their owner can read.
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

# What older versions of Python can read, too: it is the first thing that they see.
_MAIN = """\
import sys

if sys.version_info < (3, 11):
    sys.exit("Error: drctl needs Python 3.11 on Spark's driver, not " + sys.version.split()[0])

from {job} import main

main(sys.argv[1:])
"""


def write_job(folder: Path) -> tuple[Path, Path]:
    """Make the main file and the zip; the same bytes for the same drctl."""
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
    """Modules of drctl that this one needs: itself, its packages, and theirs."""
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
    """All that the source of a module imports, of drctl or not; what may be a module or a name."""
    path = _file(module)
    assert path is not None
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _file(module: str) -> Path | None:
    """The source of a module of drctl; None for any other name."""
    place = _ROOT / module.replace(".", "/")
    if module.partition(".")[0] != "drctl":
        return None
    candidates = (place.with_name(place.name + ".py"), place / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)


NAME = "drctl-gap"


class DeployMode(StrEnum):
    """Where Spark's driver runs: here, or on the cluster."""

    CLIENT = "client"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class SubmitSettings:
    """What to submit to, and how.

    Attributes:
        home: of the Spark distribution whose `spark-submit` is used.
        shared: a folder that this machine, the driver and all executors see at this path.
        secrets_path: where the driver finds CLUSTER.properties of both clusters, put there by the
            site; None where drctl brings them.
        conf: Spark properties of the site; they win over drctl's.
        jars: files or URLs of Spark's Kafka connector and what it needs.
        log: file for everything that is printed; None shows it on stderr.
        offsets: how many there are to read at most.
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

    @property
    def on_cluster(self) -> bool:
        """Whether the driver runs elsewhere."""
        return self.deploy_mode is DeployMode.CLUSTER

    @property
    def from_shared(self) -> bool:
        """Whether the driver takes its files from the shared folder."""
        return self.on_cluster and self.master.startswith("k8s://")

    def check(self) -> None:
        """See that these go together.

        Raises:
            ConfigError: Spark would refuse them, or nothing could come back.
        """
        if self.on_cluster and self.master.startswith(("spark://", "local")):
            raise ConfigError(
                f"spark.submit.deploy_mode cluster does not go with spark.master {self.master}:"
                " Spark runs Python applications there in client mode only",
                "leave spark.submit.deploy_mode out",
            )
        if self.from_shared and not self.secrets_path:
            raise ConfigError(
                "a driver on Kubernetes needs spark.submit.secrets_path",
                "put the Kafka clients' properties into a Kubernetes secret and mount it:"
                " see docs/howto/spark-cluster.md",
            )
        if not (self.home / "bin" / "spark-submit").is_file():
            raise ConfigError(
                f"there is no bin/spark-submit in {self.home}",
                "correct spark.submit.home or SPARK_HOME",
            )
        for jar in self.jars:
            if ":/" not in jar and not Path(jar).is_file():
                raise ConfigError(f"spark.jars: there is no file {jar}", "correct spark.jars")
        if not self.shared.is_dir():
            raise ConfigError(
                f"spark.shared is no folder on this machine: {self.shared}",
                "this machine, Spark's driver and all executors must see it under the same path",
            )


def write_command(
    settings: SubmitSettings, clients: Mapping[str, Mapping[str, str]], job: Path, scratch: Path
) -> tuple[str, ...]:
    """Make the files of a job; returns the command line that submits it.

    Args:
        clients: Kafka client properties by cluster, first the source's, then the target's.
        job: the folder through which client and job talk.
        scratch: a folder of this machine that nobody else can read.
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
    """The folder that all see; where one machine does all the work, any folder of it is one.

    Args:
        named: as the configuration says; a relative one starts from `base`.

    Raises:
        ConfigError: none is named, or something else than a folder.
    """
    if named is None and master.startswith("local"):
        return work
    if named is None:
        raise ConfigError(
            f"gap --submit on {master} needs spark.shared",
            "name a folder that this machine, Spark's driver and all executors see at one path",
        )
    if ":/" in named:
        raise ConfigError(
            f"spark.shared must be a folder in this version, not {named.partition(':')[0]}:",
            "mount the storage at one path on this machine, on Spark's driver and on all executors",
        )
    return base.absolute() / Path(named).expanduser()


def installed_spark() -> Path:
    """The Spark that PySpark carries."""
    return Path(pyspark.__file__).parent


def reads_defaults(home: Path) -> bool:
    """Whether its `spark-submit` can read spark-defaults.conf beside our file: from 4.0 on."""
    jars = (home / "jars").glob("spark-core_*.jar")
    return any(not jar.name.split("-")[-1].startswith("3.") for jar in jars)


def _spark_conf(settings: SubmitSettings, scratch: Path) -> dict[str, str]:
    inner = session.SparkSettings(settings.master, settings.conf, offsets=settings.offsets)
    conf = session.defaults(inner, scratch)
    for name in _not_for_it(settings):
        conf.pop(name, None)
    conf["spark.app.name"] = NAME
    if not settings.on_cluster:
        conf["spark.pyspark.driver.python"] = sys.executable
    return {**conf, **settings.conf, **_FOLLOWED, **session.FIXED}


def _not_for_it(settings: SubmitSettings) -> Iterator[str]:
    """Settings of a session inside drctl that do not belong to this application."""
    yield from ("spark.master", "spark.jars", "spark.sql.warehouse.dir")
    if not settings.master.startswith("local"):
        yield "spark.local.dir"
    if settings.on_cluster:
        yield "spark.ui.enabled"


# What `spark-submit` waits for is what drctl waits for; and a driver that is started anew would
# find its questions answered.
_FOLLOWED = {
    "spark.yarn.submit.waitAppCompletion": "true",
    "spark.yarn.maxAppAttempts": "1",
    "spark.kubernetes.submission.waitAppCompletion": "true",
}


def _location(settings: SubmitSettings, path: Path) -> str:
    """`local:` is what Spark calls a file that is there already, wherever the driver runs."""
    return f"local://{path}" if settings.from_shared else str(path)


def _jar(settings: SubmitSettings, jar: str, staging: Path) -> str:
    if not settings.from_shared or ":/" in jar:
        return jar
    return _location(settings, Path(shutil.copy(jar, staging)))
