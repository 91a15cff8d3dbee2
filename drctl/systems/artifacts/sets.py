"""Which Java artifacts drctl uses, by the name of the set."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

KAFKA = "4.3.1"
SPARK = "4.0.0"  # the newest connector whose whole dependency set is published
LOG4J = "2.25.4"
DEBEZIUM = "3.4.0.Final"


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
        transitive: whether what the modules depend on belongs to the set.
    """

    name: str
    modules: tuple[Module, ...]
    transitive: bool = True


_LOG4J = Module("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J)
_ALL = (
    ArtifactSet(
        "spark-connector",
        (
            Module("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK),
            Module("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", SPARK),
            Module("org.apache.kafka", "kafka-clients", "3.9.0"),
            Module("org.apache.commons", "commons-pool2", "2.12.0"),
        ),
        transitive=False,  # PySpark brings the rest
    ),
    ArtifactSet("kafka", (Module("org.apache.kafka", "kafka_2.13", KAFKA), _LOG4J)),
    ArtifactSet(
        "connect",
        (
            Module("org.apache.kafka", "connect-runtime", KAFKA),
            Module("org.apache.kafka", "connect-mirror", KAFKA),
            _LOG4J,
        ),
    ),
    # Only tests use it, as a plugin of a Connect worker.
    ArtifactSet(
        "debezium-postgres",
        (Module("io.debezium", "debezium-connector-postgres", DEBEZIUM),),
    ),
    # The same, for its sink.
    ArtifactSet(
        "connect-file", (Module("org.apache.kafka", "connect-file", KAFKA),), transitive=False
    ),
    # Only the benchmarks use it, beside "kafka", which has everything that it depends on.
    ArtifactSet(
        "kafka-tools",
        (Module("org.apache.kafka", "kafka-tools", KAFKA),),
        transitive=False,
    ),
)
SETS: Mapping[str, ArtifactSet] = MappingProxyType({each.name: each for each in _ALL})


def sums_file(name: str) -> Path:
    """The committed SHA-256 sums of a set: `SUM  JAR` a line, as sha256sum writes them."""
    return Path(__file__).parent / "sums" / f"{name}.sha256"


def committed_sums(name: str) -> dict[str, str]:
    """Jar name to SHA-256, for every jar of the set."""
    lines = sums_file(name).read_text(encoding="ascii").splitlines()
    return {jar: total for total, jar in (line.split() for line in lines if line.strip())}
