"""Resolves named sets of jars: fetched once, and verified each time."""

import fcntl
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from xml.sax.saxutils import quoteattr

from drctl.artifacts.java import find_java
from drctl.host.files import world_readable
from drctl.model.errors import ConfigError, Unknown, Unreachable
from drctl.model.strict_json import read_json

KAFKA = "4.3.1"
OLDER_KAFKAS = ("3.7.2", "3.9.1", "4.0.0", "4.1.1")
"""Other releases of brokers and Connect whose jars have committed sums, oldest first."""
SPARK = "4.0.0"  # the newest connector whose whole dependency set is published
LOG4J = "2.25.4"
DEBEZIUM = "3.4.0.Final"
# 3.4.0 hides the causes of MongoDB's failures behind an error of its own.
DEBEZIUM_MONGODB = "3.5.0.Final"


@dataclass(frozen=True, slots=True)
class Module:
    """A Maven module, by its coordinates."""

    organisation: str
    name: str
    revision: str


@dataclass(frozen=True, slots=True)
class ArtifactSet:
    """Jars that are used together.

    Attributes:
        transitive: whether the set includes dependencies.
    """

    name: str
    modules: tuple[Module, ...]
    transitive: bool = True


_LOG4J = Module("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J)


def kafka_set(kind: str, version: str) -> str:
    """The name of the set for brokers (`kafka`) or workers (`connect`) of a release."""
    return kind if version == KAFKA else f"{kind}-{version}"


def _kafka_sets(version: str) -> Iterator[ArtifactSet]:
    for kind, names in (
        ("kafka", ("kafka_2.13",)),
        ("connect", ("connect-runtime", "connect-mirror")),
    ):
        modules = (Module("org.apache.kafka", name, version) for name in names)
        yield ArtifactSet(kafka_set(kind, version), (*modules, _LOG4J))


_ALL = (
    ArtifactSet(
        "spark-connector",
        (
            Module("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK),
            Module("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", SPARK),
            Module("org.apache.kafka", "kafka-clients", "3.9.0"),
            Module("org.apache.commons", "commons-pool2", "2.12.0"),
        ),
        transitive=False,  # PySpark includes the others
    ),
    *(each for version in (KAFKA, *OLDER_KAFKAS) for each in _kafka_sets(version)),
    # Only tests use it, as a plugin of a Connect worker.
    ArtifactSet(
        "debezium-postgres", (Module("io.debezium", "debezium-connector-postgres", DEBEZIUM),)
    ),
    ArtifactSet(
        "debezium-mongodb", (Module("io.debezium", "debezium-connector-mongodb", DEBEZIUM_MONGODB),)
    ),
    # Only tests use it, as the database of that connector.
    ArtifactSet("mongo-java-server", (Module("de.bwaldvogel", "mongo-java-server", "1.47.0"),)),
    # Likewise, for a sink.
    ArtifactSet(
        "connect-file", (Module("org.apache.kafka", "connect-file", KAFKA),), transitive=False
    ),
    # Only the benchmarks use it, beside "kafka", which has everything that it depends on.
    ArtifactSet(
        "kafka-tools", (Module("org.apache.kafka", "kafka-tools", KAFKA),), transitive=False
    ),
)
SETS: Mapping[str, ArtifactSet] = MappingProxyType({each.name: each for each in _ALL})

_OTHER_RELEASE = re.compile(r"(?:kafka|connect)-(\d+\.\d+\.\d+)")


def artifact_set(name: str) -> ArtifactSet:
    """Return a set of `SETS`, or the jars of another Kafka release (`kafka-3.8.1`).

    Raises:
        KeyError: there is no such set.
    """
    if name not in SETS and (release := _OTHER_RELEASE.fullmatch(name)):
        return next(each for each in _kafka_sets(release[1]) if each.name == name)
    return SETS[name]


def sums_file(name: str) -> Path:
    """The file with committed SHA-256 sums of a set, in the format of sha256sum."""
    return Path(__file__).parent / "sums" / f"{name}.sha256"


def committed_sums(name: str) -> dict[str, str]:
    """Read the committed sums: jar name to SHA-256."""
    return _read_sums(sums_file(name))


def _read_sums(file: Path) -> dict[str, str]:
    lines = file.read_text(encoding="ascii").splitlines()
    return {jar: total for total, jar in (line.split() for line in lines if line.strip())}


def write_sums(folder: Path, file: Path) -> int:
    """Write the sums of all jars in a folder, and return their number."""
    jars = sorted(folder.glob("*.jar"))
    text = "".join(f"{sha256(jar)}  {jar.name}\n" for jar in jars)
    file.write_text(text, encoding="ascii")
    return len(jars)


_RECORDED = "recorded.sha256"
"""The file of checksums recorded when a set was fetched that has no committed checksums."""


class CorruptArtifact(Unknown):
    """A jar differs from the one drctl was built for."""


def cache_dir() -> Path:
    """$DRCTL_CACHE, or the user's cache folder."""
    if own := os.environ.get("DRCTL_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "drctl"


def sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class CachedJars:
    """One set of jars in the cache.

    Attributes:
        sums: jar name to expected SHA-256.
    """

    name: str
    folder: Path
    sums: Mapping[str, str]

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths of the jars, whether they exist or not."""
        return tuple(self.folder / jar for jar in sorted(self.sums))

    def missing(self) -> bool:
        """Whether a jar is missing, or the sums are not known yet."""
        return not self.sums or not all(path.is_file() for path in self.paths)

    def check(self) -> None:
        """Compare sizes and times with the last full check, and contents if they differ.

        Raises:
            CorruptArtifact: a jar is unexpected, or differs from its checksum.
        """
        if self._stamp() != self._read_stamp():
            self.check_bytes()
            self._write_stamp()
        self._check_names()

    def check_bytes(self) -> None:
        """Verify the checksum of every jar.

        Raises:
            CorruptArtifact: a jar is missing, unexpected, or differs from its checksum.
        """
        self._check_names()
        for path in self.paths:
            if not path.is_file():
                raise CorruptArtifact(
                    f"the fetched {self.name} jars do not include {path.name}",
                    "the repository returned other jars; check the Ivy settings",
                )
            if (seen := sha256(path)) != self.sums[path.name]:
                raise CorruptArtifact(
                    f"{path} is corrupt: its SHA-256 is {seen}, not {self.sums[path.name]}",
                    f"delete it and retry: rm '{path}'",
                )

    def _check_names(self) -> None:
        for path in sorted(self.folder.glob("*.jar")):
            if path.name not in self.sums:
                raise CorruptArtifact(
                    f"{path} is not one of the {self.name} jars that drctl needs",
                    f"delete it and retry: rm '{path}'",
                )

    def _stamp(self) -> dict[str, list[int]]:
        found = {path.name: path.stat() for path in self.paths if path.is_file()}
        return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in found.items()}

    def _read_stamp(self) -> object:
        try:
            return read_json((self.folder / "checked.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def _write_stamp(self) -> None:
        partial = self.folder / f"checked.json.{os.getpid()}"
        partial.write_text(json.dumps(self._stamp()), encoding="utf-8")
        partial.replace(self.folder / "checked.json")


# Contains no repository address: that of the resolver or of the user's settings is used.
SETTINGS = """<ivysettings>
  <settings defaultResolver="maven"/>
  <timeout-constraints>
    <timeout-constraint name="patience" connectionTimeout="15000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="maven" m2compatible="true" usepoms="true" timeoutConstraint="patience"/>
  </resolvers>
</ivysettings>
"""
DEADLINE_S = 900
_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"
_FETCHED = re.compile(r"\[SUCCESSFUL \] [^#]+#([^;]+);([^!]+)!\S+\.(?:jar|bundle)")
_FAILED = re.compile(r"(?:not found|unresolved|FAILED|UnknownHost|refused|timed out)", re.I)


class NotFetched(Unreachable):
    """The artifacts could not be fetched."""


def fetch(
    wanted: ArtifactSet,
    into: Path,
    ivy_home: Path,
    ivy_settings: Path | None,
    progress: Callable[[str], None],
) -> None:
    """Fetch the jars of a set into a folder.

    Raises:
        JavaMissing: Ivy needs Java.
        NotFetched: no repository answered, or a file is missing there.
    """
    with tempfile.TemporaryDirectory(prefix="drctl-ivy-") as scratch:
        module, settings = Path(scratch, "ivy.xml"), Path(scratch, "settings.xml")
        module.write_text(_module_xml(wanted), encoding="utf-8")
        settings.write_text(SETTINGS, encoding="utf-8")
        command = [
            *(find_java(), "-Xmx512m", "-jar", _ivy_jar()),
            *("-settings", ivy_settings or settings, "-cache", ivy_home, "-ivy", module),
            *("-confs", "default", "-retrieve", into / _PATTERN),
        ]
        _run([str(word) for word in command], wanted, progress)


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")  # finds without importing
    for folder in spec.submodule_search_locations or () if spec else ():
        for jar in sorted(Path(folder, "jars").glob("ivy-*.jar")):
            return jar
    raise NotFetched(
        "this PySpark installation has no ivy-*.jar",
        "reinstall drctl: pip install --force-reinstall drctl",
    )


def _module_xml(wanted: ArtifactSet) -> str:
    lines = (
        f"<dependency org={quoteattr(m.organisation)} name={quoteattr(m.name)} "
        f'rev={quoteattr(m.revision)} transitive="{str(wanted.transitive).lower()}" '
        'conf="default->default"/>'
        for m in wanted.modules
    )
    return (
        f'<ivy-module version="2.0"><info organisation="drctl" module={quoteattr(wanted.name)}/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )


def _run(command: list[str], wanted: ArtifactSet, progress: Callable[[str], None]) -> None:
    output: list[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as ivy:
        watchdog = threading.Timer(DEADLINE_S, ivy.kill)
        watchdog.start()
        try:
            for line in _reported(ivy.stdout or (), progress):
                output.append(line)
        except BaseException:
            ivy.kill()
            raise
        finally:
            watchdog.cancel()
    if ivy.returncode != 0:
        raise _not_fetched(wanted, ivy.returncode, output)


def _reported(
    lines: Iterator[str] | tuple[str, ...], progress: Callable[[str], None]
) -> Iterator[str]:
    for line in lines:
        if found := _FETCHED.search(line):
            progress(f"fetched {found.group(1)} {found.group(2)}")
        yield line.strip()


_LISTED = "; or list its four jars as spark.jars in drctl.yaml (docs/howto/air-gapped.md)"


def _not_fetched(wanted: ArtifactSet, code: int, output: list[str]) -> NotFetched:
    first = wanted.modules[0]
    reason = next((line for line in output if _FAILED.search(line)), f"Ivy exited with code {code}")
    return NotFetched(
        f"the {wanted.name} jars ({first.organisation}:{first.name}:{first.revision} and others) "
        f"are not cached and could not be fetched: {reason[:300]}",
        "check the network; behind a proxy, pass --ivy-settings FILE (or set DRCTL_IVY_SETTINGS) "
        "with your Maven repository" + ("" if wanted.transitive else _LISTED),
    )


def resolve(
    name: str, *, progress: Callable[[str], None], ivy_settings: Path | None = None
) -> tuple[Path, ...]:
    """Return the jars of a set, from the cache or from Maven repositories.

    Args:
        name: `spark-connector`, `kafka`, `connect-3.9.1`, ... The checksums of the sets in `SETS`
            are committed; those of another release are recorded when it is fetched.
        progress: called with a line for each file that is fetched.
        ivy_settings: an Ivy settings file; default: `$DRCTL_IVY_SETTINGS`, or Ivy's own repository.

    Raises:
        NotFetched: the jars are not cached, and could not be fetched.
        CorruptArtifact: a jar differs from its checksum.
        JavaMissing: there is no Java, which Ivy needs.
        ConfigError: the Ivy settings file does not exist.
    """
    wanted = artifact_set(name)
    cached = _cached(name)
    with _alone(cached, progress):
        if cached.missing():
            _fill(cached, wanted, _settings(ivy_settings), progress)
            cached = _cached(name)
        cached.check()
    return cached.paths


def _cached(name: str) -> CachedJars:
    artifacts = cache_dir() / "artifacts"
    if name in SETS:
        version = hashlib.sha256(sums_file(name).read_bytes()).hexdigest()[:12]
        return CachedJars(name, artifacts / f"{name}-{version}", committed_sums(name))
    recorded = artifacts / name / _RECORDED
    return CachedJars(name, artifacts / name, _read_sums(recorded) if recorded.is_file() else {})


def _settings(given: Path | None) -> Path | None:
    from_environment = os.environ.get("DRCTL_IVY_SETTINGS")
    path = given or (Path(from_environment) if from_environment else None)
    if path is not None and not path.is_file():
        raise ConfigError(
            f"Ivy settings file {path} does not exist",
            "correct --ivy-settings or DRCTL_IVY_SETTINGS",
        )
    return path


@contextmanager
def _alone(cached: CachedJars, progress: Callable[[str], None]) -> Iterator[None]:
    """Prevent two processes from fetching the same set; jars are readable by all users."""
    with world_readable(), ExitStack() as opened:
        cached.folder.parent.mkdir(parents=True, exist_ok=True)
        lock = opened.enter_context(cached.folder.with_suffix(".lock").open("a"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another drctl process that is fetching the {cached.name} jars")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fill(
    cached: CachedJars, wanted: ArtifactSet, settings: Path | None, progress: Callable[[str], None]
) -> None:
    progress(f"fetching the {cached.name} jars (once; kept in {cached.folder})")
    ivy_home = cache_dir() / "ivy"
    with tempfile.TemporaryDirectory(prefix=f"{cached.name}-", dir=cached.folder.parent) as scratch:
        fetched = CachedJars(cached.name, Path(scratch, "jars"), cached.sums)
        fetch(wanted, fetched.folder, ivy_home, settings, progress)
        recorded = fetched.folder / _RECORDED
        if not cached.sums:
            write_sums(fetched.folder, recorded)
            progress(
                f"drctl has no checksums of the {cached.name} jars: it records those of the"
                " fetched jars, and verifies them from the next start on"
            )
            fetched = replace(fetched, sums=_read_sums(recorded))
        try:
            fetched.check_bytes()
        except CorruptArtifact as error:
            _forget(fetched, ivy_home)
            raise CorruptArtifact(
                f"the fetched jars are not those that drctl needs: {error.message}",
                "retry: they were removed from the cache. If it fails again, the repository or a "
                "proxy serves other files: use another one with --ivy-settings FILE",
            ) from error
        cached.folder.mkdir(exist_ok=True)
        for jar in fetched.folder.glob("*.jar"):
            if not cached.sums or not (cached.folder / jar.name).exists():
                shutil.move(jar, cached.folder / jar.name)
        if not cached.sums:
            shutil.move(recorded, cached.folder / _RECORDED)


def _forget(fetched: CachedJars, ivy_home: Path) -> None:
    """Remove wrong jars from Ivy's cache, which would serve them again."""
    for jar in fetched.folder.glob("*.jar"):
        if sha256(jar) != fetched.sums.get(jar.name):
            for kept in ivy_home.rglob(jar.name):
                kept.unlink()
