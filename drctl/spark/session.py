"""Starting and stopping Spark: quiet, local by default, with nothing secret where others look."""

import os
import re
import shlex
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from threading import current_thread, main_thread

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from drctl.config.secret import SECRET_NAME
from drctl.model.errors import Unknown
from drctl.spark.failure import was_interrupted

_FAULT = re.compile(r"Exception|Error|error:|No such file|not found|JAVA_HOME")
_SPARKS_OWN = "secret|password|token|access[.]?key|credential"
REDACTED = f"(?i){_SPARKS_OWN}|ssl[.]key|keystore|{SECRET_NAME}"
"""Option names whose values Spark hides in plans, event logs and its page: those of its own
default, and all that drctl takes for a secret."""


class SparkDidNotStart(Unknown):
    """The Spark session could not be opened."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to open the session.

    Attributes:
        master: any Spark master URL.
        conf: Spark properties of the site; they win over drctl's.
        jars: files that hold Spark's Kafka connector and what it needs.
        log: file for everything that the JVM prints; None shows it on stderr.
        offsets: how many there are to read at most.
        java: options of the JVM beside drctl's own; not where the site gives its own.
    """

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: Sequence[Path] = ()
    log: Path | None = None
    offsets: int = 0
    java: Sequence[str] = ()


SHUTDOWN_SECONDS = 20

ROWS_A_TASK = 250_000
"""Of those that are shuffled, at most: each has about a hundred bytes."""

SMALL = 2_000_000
"""Below this many offsets, making code fast costs more than running it slowly."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_HEAP = "2g"

# A young generation of a fixed size: where it is let grow, what died young becomes old, and the JVM
# the larger the longer it reads. It fits the heap that is ours, not any that a site sets. Sizes
# that do not adapt never grow either: a heap that did not begin at its full size would begin with
# an old generation of a few megabytes, and collect it without end.
_MEMORY = {
    "spark.driver.memory": _HEAP,
    _JAVA_OPTIONS: "-XX:+UseParallelGC -XX:-UseAdaptiveSizePolicy"
    f" -Xms{_HEAP} -Xmn512m -XX:SurvivorRatio=3",
}

_PRIVATE_FILES = {"spark.hadoop.fs.permissions.umask-mode": "077"}

# The JVM's and Spark's compilers take most of the time of a small comparison.
_FOR_SMALL = {
    _JAVA_OPTIONS: "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
}


def defaults(settings: SparkSettings, scratch: Path) -> dict[str, str]:
    """Spark properties of drctl's own, beneath those of the site.

    Args:
        scratch: folder for what is spilled.
    """
    conf = {
        "spark.app.name": "drctl gap",
        "spark.master": settings.master,
        "spark.jars": ",".join(map(str, settings.jars)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **({} if "spark.driver.memory" in settings.conf else _MEMORY),
        "spark.local.dir": str(scratch / "shuffle"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.redaction.regex": REDACTED,
        "spark.sql.redaction.options.regex": REDACTED,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(max(8, -(-settings.offsets // ROWS_A_TASK))),
        # The Kafka source of the DataSource V2 API converts rows faster than the default one.
        "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        # Missing records are few beside the records they are looked for in: do not sort the latter.
        "spark.sql.autoBroadcastJoinThreshold": "128m",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
        **(_FOR_SMALL if settings.offsets < SMALL else {}),
        # Hadoop sets modes by itself, whatever the umask of the process.
        **(_PRIVATE_FILES if settings.master.startswith("local") else {}),
    }
    given = conf.get(_JAVA_OPTIONS, "")
    return conf | ({_JAVA_OPTIONS: " ".join((given, *settings.java))} if settings.java else {})


# Sums of digests wrap around; in ANSI mode that is an error. The second keeps its size of null.
FIXED = {"spark.sql.ansi.enabled": "false", "spark.sql.legacy.sizeOfNull": "false"}


@contextmanager
def opened(settings: SparkSettings, shutdown_s: float = SHUTDOWN_SECONDS) -> Iterator[SparkSession]:
    """A session of drctl's own, stopped at the end together with its JVM.

    Args:
        shutdown_s: how long the JVM has to end by itself.

    Raises:
        SparkDidNotStart: Java is missing, the master does not answer, or the connector is wrong.
    """
    with tempfile.TemporaryDirectory(prefix="drctl-spark-") as scratch:
        conf = {**defaults(settings, Path(scratch)), **settings.conf, **FIXED}
        properties = Path(scratch) / "spark.properties"
        # Not on the command line: there everybody could read the values.
        write_private(properties, conf)
        with _jvm_output(settings.log), _submitted_with(properties), _own_interrupt():
            session = _start(settings)
        process = session.sparkContext._gateway.proc  # type: ignore[union-attr]
        try:
            yield session
            session.stop()
        finally:
            _end(process, shutdown_s)


@contextmanager
def _submitted_with(properties: Path) -> Iterator[None]:
    """Let the JVM that starts inside take its Spark properties from this file."""
    name = "PYSPARK_SUBMIT_ARGS"
    before = os.environ.get(name)
    os.environ[name] = f"--properties-file {shlex.quote(str(properties))} pyspark-shell"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Keep the meaning that Ctrl-C had.

    PySpark installs a handler that calls into the JVM, on a connection that may be in use.
    """
    if current_thread() is not main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _start(settings: SparkSettings) -> SparkSession:
    try:
        session = SparkSession.builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR" if settings.log else "WARN")
    except (PySparkException, Py4JError, OSError) as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from error
        reason = _last_error(settings.log) or str(error).splitlines()[0]
        raise SparkDidNotStart(
            f"Spark did not start on {settings.master}: {reason}",
            "Java 17 or later must be on the path (or JAVA_HOME set), and spark.master reachable",
        ) from error
    return session


def _last_error(log: Path | None) -> str:
    """What the JVM printed last that names a fault; empty where it printed none."""
    text = log.read_text(encoding="utf-8", errors="replace") if log and log.exists() else ""
    faults = [line.strip() for line in text.splitlines() if _FAULT.search(line)]
    return faults[-1] if faults else ""


def _end(process: Popen[bytes], shutdown_s: float) -> None:
    """End the JVM and what PySpark remembers of it.

    After an interrupt no call into the JVM can be trusted: its connection may still hold the
    answer of the call that was interrupted. So the process is told to end, not asked.
    """
    process.terminate()
    try:
        process.wait(shutdown_s)
    except TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin is not None:
        with suppress(OSError):  # nobody reads it any more
            process.stdin.close()
    SparkSession._instantiatedSession = None
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None


@contextmanager
def _jvm_output(log: Path | None) -> Iterator[None]:
    """Let the JVM that starts inside inherit a file instead of the terminal."""
    if log is None:
        yield
        return
    saved = os.dup(1), os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        for number, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, number)
            os.close(copy)


def jars() -> Path:
    """The folder with PySpark's own jars."""
    return Path(pyspark.__file__).parent / "jars"


_ESCAPES = str.maketrans(
    {**{c: f"\\{c}" for c in "\\=:#! "}, **{"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}}
)


def properties_text(properties: Mapping[str, str]) -> str:
    """What `java.util.Properties` reads as these."""
    lines = (f"{k.translate(_ESCAPES)}={v.translate(_ESCAPES)}\n" for k, v in properties.items())
    return "".join(lines)


def write_private(path: Path, properties: Mapping[str, str]) -> None:
    """A new file of mode 0600 from its first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(properties_text(properties))
