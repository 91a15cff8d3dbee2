"""What is known of an application's Kafka client, and a check of it: pure, as all checks are.

A client's settings stand in a properties file of its application; neither cluster knows them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from drctl.checks.check import NotObserved, Verdict
from drctl.checks.settings import Seen
from drctl.config.endpoints import EndpointKind
from drctl.model.finding import Finding, Status

Version = tuple[int, int]

_LIBRDKAFKA_ONLY = (
    *("metadata.broker.list", "topic.metadata.refresh.interval.ms", "sasl.username", "debug"),
    *("socket.timeout.ms", "message.timeout.ms", "statistics.interval.ms", "broker.address.ttl"),
    *("ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "enable.partition.eof"),
)
_JAVA_ONLY = (
    *("key.serializer", "value.serializer", "key.deserializer", "value.deserializer"),
    *("sasl.jaas.config", "ssl.truststore.location", "request.timeout.ms", "max.block.ms"),
    *("default.api.timeout.ms", "max.poll.records", "buffer.memory", "interceptor.classes"),
)
_OF_PRODUCERS = (
    *("acks", "linger.ms", "batch.size", "compression.type", "enable.idempotence"),
    *("transactional.id", "delivery.timeout.ms", "message.timeout.ms", "key.serializer"),
    *("value.serializer", "max.in.flight.requests.per.connection"),
)


class Library(StrEnum):
    """Whose client it is."""

    LIBRDKAFKA = "librdkafka"
    JAVA = "java"


def library_of(values: Mapping[str, str]) -> Library | None:
    """Whose settings these are, told by names that only one library has; None where none tells."""
    librdkafka = any(key in values for key in _LIBRDKAFKA_ONLY)
    java = any(key in values for key in _JAVA_ONLY)
    if librdkafka == java:
        return None
    return Library.JAVA if java else Library.LIBRDKAFKA


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """One client.

    Attributes:
        subject: whose it is, in words for a person.
        values: its properties.
        endpoint: the kind of endpoint that moves it.
        names: the hosts that the endpoint answers for; empty where nobody said.
        version: of the library; None where nobody said. That of librdkafka is 2.12 in
            confluent-kafka 2.12, too.
        jvm: the options that its Java is started with; None where nobody said.
    """

    subject: str
    library: Library
    values: Mapping[str, str] = field(repr=False)
    endpoint: EndpointKind = "dns"
    names: tuple[str, ...] = ()
    version: Version | None = None
    jvm: str | None = None

    @property
    def consumes(self) -> bool:
        """Whether it reads in a group."""
        return "group.id" in self.values

    @property
    def produces(self) -> bool:
        """Whether it writes; also where nothing tells."""
        return not self.consumes or any(key in self.values for key in _OF_PRODUCERS)

    def text(self, keys: str, default: str) -> Seen[str]:
        """The value, or what the library takes where there is none.

        Args:
            keys: one, or several names of the same with spaces between.

        Raises:
            NotObserved: it stands somewhere else, and only a reference to it here.
        """
        names = keys.split()
        key = next((name for name in names if name in self.values), None)
        if key is None:
            return Seen(default, f"{names[0]} is not set; the default is {default or 'empty'}")
        value = self.values[key].strip()
        if "${" in value:
            reason = f"{key} is a reference, whose value only the application knows"
            raise NotObserved(self.subject, reason, f"look at what {key} refers to")
        return Seen(value, f"{key}={value}")

    def number(self, keys: str, default: int) -> Seen[int]:
        """The same, as a whole number.

        Raises:
            NotObserved: it is none, or a reference.
        """
        seen = self.text(keys, str(default))
        try:
            return Seen(int(seen.value), seen.evidence)
        except ValueError:
            reason = f"{keys.split()[0]} is not a whole number"
            cure = "correct it: the client refuses to start with it"
            raise NotObserved(self.subject, reason, cure, seen.evidence) from None


Judge = Callable[[ClientConfig], Iterable[Verdict]]


@dataclass(frozen=True, slots=True)
class ClientCheck:
    """One thing that is looked at.

    Attributes:
        about: what is true where it is ok, in words for a person.
        worse: what it can say beside ok and not-checked.
        judge: says nothing of a client that it does not concern.
    """

    name: str
    about: str
    worse: tuple[Status, ...]
    judge: Judge

    @property
    def statuses(self) -> frozenset[Status]:
        """Everything that it can say."""
        return frozenset((Status.OK, *self.worse, Status.NOT_CHECKED))

    def findings(self, client: ClientConfig) -> tuple[Finding, ...]:
        """What it says."""
        try:
            verdicts = tuple(self.judge(client))
        except NotObserved as end:
            verdicts = (end.verdict,)
        return tuple(Finding(self.name, *verdict) for verdict in verdicts)


def client_check(name: str, about: str, *worse: Status) -> Callable[[Judge], ClientCheck]:
    """Make a check of a function."""
    return lambda judge: ClientCheck(name, about, worse, judge)
