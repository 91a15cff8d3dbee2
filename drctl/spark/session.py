"""Starts and stops Spark: quiet, local by default, without exposing secrets."""

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
from drctl.spark.scan import ROWS_A_TASK

_FAULT = re.compile(r"Exception|Error|error:|No such file|not found|JAVA_HOME")
_SPARKS_OWN = "secret|password|token|access[.]?key|credential"
REDACTED = f"(?i){_SPARKS_OWN}|ssl[.]key|keystore|{SECRET_NAME}"
"""Options whose values Spark redacts in plans, event logs and its UI: its defaults, and what drctl
treats as a secret."""


class SparkDidNotStart(Unknown):
    """The Spark session could not be opened."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to open the session.

    Attributes:
        master: Spark master URL.
        conf: user-supplied Spark properties; they override drctl's.
        jars: Spark's Kafka connector and its dependencies.
        log: file for the output of the JVM; None for stderr.
        offsets: maximum number of offsets to read.
        java: extra JVM options; ignored if the user supplies their own.
    """

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: Sequence[Path] = ()
    log: Path | None = None
    offsets: int = 0
    java: Sequence[str] = ()


SHUTDOWN_SECONDS = 20

SMALL = 2_000_000
"""Below this number of offsets, code generation costs more than it saves."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_HEAP = "2g"

# Fixed size of the young generation: if it can grow, short-lived objects are promoted and the heap
# grows while reading. It fits drctl's heap size, not a user-supplied one. Without adaptive sizing
# the heap must start at its full size, else the old generation would stay a few megabytes.
_MEMORY = {
    "spark.driver.memory": _HEAP,
    _JAVA_OPTIONS: "-XX:+UseParallelGC -XX:-UseAdaptiveSizePolicy"
    f" -Xms{_HEAP} -Xmn768m -XX:SurvivorRatio=6",
    # What Spark itself manages has to fit into the old generation.
    "spark.memory.fraction": "0.5",
}

_IDLE_CONSUMERS = {
    "spark.kafka.consumer.cache.capacity": "16",
    "spark.kafka.consumer.cache.timeout": "20s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "5s",
    "spark.kafka.consumer.fetchedData.cache.timeout": "20s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "5s",
}

_PRIVATE_FILES = {"spark.hadoop.fs.permissions.umask-mode": "077"}

# JIT compilation and code generation take most of the time of a small comparison.
_FOR_SMALL = {
    _JAVA_OPTIONS: "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
}


def defaults(settings: SparkSettings, scratch: Path) -> dict[str, str]:
    """Return drctl's Spark properties; user-supplied ones override them.

    Args:
        scratch: directory for temporary files.
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
        # Missing records are few compared to all records: avoid sorting the latter for joins.
        "spark.sql.autoBroadcastJoinThreshold": "128m",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
        # An idle consumer holds the records that it has fetched in advance.
        **_IDLE_CONSUMERS,
        # Digests cannot be compressed.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # Otherwise each call that builds a query also sends its place in the Python code.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Comparisons in the same session compile their generated code only once.
        "spark.sql.codegen.cache.maxEntries": "2000",
        **(_FOR_SMALL if settings.offsets < SMALL else {}),
        # Hadoop sets file modes itself, regardless of the process umask.
        **(_PRIVATE_FILES if settings.master.startswith("local") else {}),
    }
    given = conf.get(_JAVA_OPTIONS, "")
    return conf | ({_JAVA_OPTIONS: " ".join((given, *settings.java))} if settings.java else {})


# Sums of digests wrap around, which is an error in ANSI mode. The second keeps size(null) = null.
FIXED = {"spark.sql.ansi.enabled": "false", "spark.sql.legacy.sizeOfNull": "false"}


@contextmanager
def opened(settings: SparkSettings, shutdown_s: float = SHUTDOWN_SECONDS) -> Iterator[SparkSession]:
    """Open a session, and stop it and its JVM at the end.

    Args:
        shutdown_s: time for the JVM to shut down.

    Raises:
        SparkDidNotStart: Java is missing, the master did not answer, or the connector is wrong.
    """
    with tempfile.TemporaryDirectory(prefix="drctl-spark-") as scratch:
        conf = {**defaults(settings, Path(scratch)), **settings.conf, **FIXED}
        properties = Path(scratch) / "spark.properties"
        # Not on the command line, where all users could read the values.
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
    """Pass Spark properties to the JVM in a file."""
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
    """Restore the handler of Ctrl-C.

    PySpark installs a handler that calls into the JVM over a connection that may be in use.
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
            "install Java 17 or later (PATH or JAVA_HOME), and check spark.master",
        ) from error
    return session


def _last_error(log: Path | None) -> str:
    """Return the last error that the JVM printed; empty if none."""
    text = log.read_text(encoding="utf-8", errors="replace") if log and log.exists() else ""
    faults = [line.strip() for line in text.splitlines() if _FAULT.search(line)]
    return faults[-1] if faults else ""


def _end(process: Popen[bytes], shutdown_s: float) -> None:
    """Terminate the JVM and reset PySpark's state.

    After an interrupt, calls into the JVM are not reliable: the connection may still hold the
    response of the interrupted call. Therefore the process gets a signal.
    """
    process.terminate()
    try:
        process.wait(shutdown_s)
    except TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin is not None:
        with suppress(OSError):  # the reader has ended
            process.stdin.close()
    SparkSession._instantiatedSession = None
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None


@contextmanager
def _jvm_output(log: Path | None) -> Iterator[None]:
    """Redirect the output of the JVM to a file."""
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
    """Return the directory of PySpark's jars."""
    return Path(pyspark.__file__).parent / "jars"


_ESCAPES = str.maketrans(
    {**{c: f"\\{c}" for c in "\\=:#! "}, **{"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}}
)


def properties_text(properties: Mapping[str, str]) -> str:
    """Format properties for `java.util.Properties`."""
    lines = (f"{k.translate(_ESCAPES)}={v.translate(_ESCAPES)}\n" for k, v in properties.items())
    return "".join(lines)


def write_private(path: Path, properties: Mapping[str, str]) -> None:
    """Write a new file with mode 0600."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(properties_text(properties))
