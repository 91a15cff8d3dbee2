"""Why connectors failed, by their stack traces, and whether a restart may help."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, NamedTuple

from drctl.connectors.retries import RetrySetting
from drctl.model.document import Count, Document, From, Name
from drctl.model.errors import UsageError
from drctl.model.replication import Connector, Task


class Cause(StrEnum):
    """Why a connector or a task failed."""

    RESUME_TOKEN = "invalid-resume-token"
    HISTORY_LOST = "history-lost"
    LOGS_PURGED = "logs-purged"
    AUTHENTICATION = "authentication"
    AUTHORIZATION = "authorization"
    DESERIALIZATION = "deserialization"
    HEADER = "replication-header"
    TOO_LARGE = "record-too-large"
    DESTINATION = "replicator-destination"
    UNREACHABLE = "unreachable"
    CONFIGURATION = "configuration"
    OTHER = "other"

    @property
    def lost(self) -> bool:
        """Whether the connector's resume point is gone."""
        return self in (Cause.RESUME_TOKEN, Cause.HISTORY_LOST, Cause.LOGS_PURGED)

    @property
    def passes(self) -> bool:
        """Whether the cause may be temporary, so that a restart may help."""
        return self in (Cause.UNREACHABLE, Cause.OTHER)


class Advice(NamedTuple):
    """The failure in words, and its remedy."""

    message: str
    remedy: str


_GONE = "restarts do not help: drctl connect recover --remedy reset, or recreate"
ADVICE = {
    Cause.RESUME_TOKEN: Advice("the database rejects the connector's resume token", _GONE),
    Cause.HISTORY_LOST: Advice(
        "the change stream cannot be resumed at the connector's offset", _GONE
    ),
    Cause.LOGS_PURGED: Advice("the database has deleted the log at the connector's offset", _GONE),
    Cause.AUTHENTICATION: Advice(
        "authentication failed",
        "correct the credentials in the connector's configuration, then restart it",
    ),
    Cause.AUTHORIZATION: Advice(
        "the connector's user is not authorized",
        "grant the permission that the stack trace names, then restart it",
    ),
    Cause.DESERIALIZATION: Advice(
        "a record cannot be deserialized",
        "correct the converters, or skip the record: errors.tolerance=all and a dead letter queue",
    ),
    Cause.HEADER: Advice(
        "a header cannot be deserialized, perhaps __replicator_id or __drctl_provenance",
        "set header.converter=org.apache.kafka.connect.converters.ByteArrayConverter on the"
        " connector; consumers that read all headers must skip these",
    ),
    Cause.DESTINATION: Advice(
        "Replicator needs the address of its target to translate offsets: it is missing, or does"
        " not resolve",
        "set dest.kafka.bootstrap.servers; or disable offset translation:"
        " offset.translator.tasks.max=0 and offset.timestamps.commit=false",
    ),
    Cause.TOO_LARGE: Advice(
        "a record is larger than the producer or the broker allows",
        "raise max.request.size of the producer and max.message.bytes of the topic",
    ),
    Cause.UNREACHABLE: Advice(
        "a broker or a database does not answer",
        "check that it runs and that its address is correct, then: drctl connect recover",
    ),
    Cause.CONFIGURATION: Advice(
        "the connector configuration is invalid",
        "correct it: updating the configuration restarts the connector",
    ),
    Cause.OTHER: Advice(
        "unknown failure",
        "read the stack trace (--output json); a restart may help: drctl connect recover",
    ),
}

_UNREADABLE = (
    r"Tolerance exceeded in error handler|SerializationException|errors\.DataException"
    r"|JsonParseException|unrecognized token|could not decode JSON type"
)

# The first matching rule applies: permanent loss comes before transient failures, and a specific
# cause before the general one that wraps it.
_WORDS = {
    Cause.RESUME_TOKEN: r"InvalidResumeToken|error 260\b|resume token was not found",
    # The last one is Debezium's before it starts, whichever error MongoDB reported.
    Cause.HISTORY_LOST: r"ChangeStreamHistoryLost|error 286\b"
    r"|read change stream starting at .*resume_token",
    Cause.LOGS_PURGED: r"no longer available on the server|purged required binary logs"
    r"|could not find first log file name in binary log"
    r"|requested WAL segment \S+ has already been removed"
    r"|can(?:not| no longer) get changes from replication slot"
    r"|replication slot \S+ does not exist|OffsetOutOfRangeException",
    Cause.AUTHENTICATION: r"SaslAuthenticationException|SslAuthenticationException"
    r"|authentication failed|no password was provided|access denied for user"
    r"|MongoSecurityException|Exception authenticating",
    Cause.AUTHORIZATION: r"\w*AuthorizationException|permission denied|not authorized"
    r"|must be superuser or replication role",
    Cause.DESTINATION: r"No resolvable bootstrap urls",
    Cause.HEADER: _UNREADABLE,
    Cause.DESERIALIZATION: _UNREADABLE,
    Cause.TOO_LARGE: r"RecordTooLargeException|RecordBatchTooLargeException",
    Cause.UNREACHABLE: r"No resolvable bootstrap urls|connection refused"
    r"|connection (?:attempt )?(?:failed|reset|timed out)|Communications link failure"
    r"|MongoTimeoutException|MongoSocket\w*Exception|UnknownHostException"
    r"|errors\.TimeoutException|SocketTimeoutException|NoRouteToHostException"
    r"|terminating connection due to administrator command|This connection has been closed",
    Cause.CONFIGURATION: r"ConfigException|Connector configuration is invalid"
    r"|Invalid connector configuration|Failed to find any class|ClassNotFoundException"
    r"|Unable to connect: .*not valid",
}
_FRAMES = {
    Cause.DESTINATION: "at io.confluent.connect.replicator.",
    Cause.HEADER: ".convertHeadersFor(",  # Connect, for records that a sink reads
}
"""Code that a stack trace must name for these causes to apply."""

_RULES = {cause: re.compile(words, re.IGNORECASE) for cause, words in _WORDS.items()}
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Explained:
    """The diagnosis of a stack trace.

    Attributes:
        evidence: the line of the stack trace that shows it.
    """

    cause: Cause
    evidence: str

    @property
    def advice(self) -> Advice:
        """The failure in words, and its remedy."""
        return ADVICE[self.cause]


def explain(stack_trace: str) -> Explained:
    """The cause that a stack trace shows."""
    # Without the lines of code locations.
    lines = [
        text
        for line in stack_trace.splitlines()
        if (text := line.strip())
        and not re.match(r"at [\w.$/<>]+\(|\.\.\. \d+ (?:more|common)", text)
    ]
    for cause, words in _RULES.items():
        if _FRAMES.get(cause, "") not in stack_trace:
            continue
        for line in reversed(lines):
            if words.search(line):
                return Explained(cause, line[:_LONGEST])
    last = next((line for line in reversed(lines) if line.startswith("Caused by")), "")
    return Explained(Cause.OTHER, (last or (lines[0] if lines else ""))[:_LONGEST])


class Finding(NamedTuple):
    """A part of a connector that failed."""

    connector: Connector
    part: Task
    explained: Explained


@dataclass(frozen=True, slots=True)
class ConnectorHealth:
    """The connectors of one Connect cluster.

    Attributes:
        workers: their URLs, without passwords.
        silent: why they could not be queried; empty if they were.
        retries: by connector, its settings about retries; empty if they were not read.
    """

    workers: str
    connectors: tuple[Connector, ...]
    silent: str = ""
    retries: Mapping[str, tuple[RetrySetting, ...]] = field(default_factory=dict)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The failed connectors and tasks."""
        return tuple(
            Finding(connector, part, explain(part.stack_trace))
            for connector in self.connectors
            for part in connector.failed
        )

    @property
    def unassigned(self) -> tuple[tuple[Connector, Task], ...]:
        """Connectors and tasks that are UNASSIGNED, for example during a rebalance."""
        return tuple((each, part) for each in self.connectors for part in each.unassigned)


def chosen(health: ConnectorHealth, names: Collection[str]) -> tuple[Connector, ...]:
    """The given connectors, or all that failed.

    Raises:
        UsageError: there is no such connector.
    """
    known = {each.name: each for each in health.connectors}
    if missing := sorted(set(names) - known.keys()):
        there = f"there are: {', '.join(known)}" if known else "there are none"
        raise UsageError(f"{health.workers} has no connector {missing[0]!r}", there)
    if names:
        return tuple(known[name] for name in dict.fromkeys(names))
    return tuple(each for each in health.connectors if each.failed)


def worst(connector: Connector) -> Explained | None:
    """The failure for which a restart helps least; None if nothing failed."""
    found = [explain(part.stack_trace) for part in connector.failed]
    return min(found, key=lambda each: (each.cause.passes, not each.cause.lost), default=None)


class ExplainedDocument(Document):
    """Why something failed.

    Attributes:
        summary: what failed.
        remedy: what to do.
        evidence: the line of the stack trace that shows it.
    """

    read = From(Explained)
    cause: Cause
    summary: str = read(lambda found: found.advice.message)
    remedy: str = read(lambda found: found.advice.remedy)
    evidence: str
    restart_may_help: bool = read(lambda found: found.cause.passes)


class PartDocument(Document):
    """A connector, or a task of it.

    Attributes:
        task: null: the connector itself.
        stack_trace: the whole stack trace.
    """

    read = From(Task)
    task: Count | None = read(lambda part: part.number)
    state: str
    worker: str
    explained: ExplainedDocument | None = read(
        lambda part: ExplainedDocument.of(explain(part.stack_trace)) if part.stack_trace else None
    )
    stack_trace: str


class ConnectorDocument(Document):
    """A connector.

    Attributes:
        plugin: the class.
        group: for a sink, the consumer group with its offsets.
        retries: its settings about retries and backoff; defaults are those of the plugin.
    """

    name: Name
    kind: Annotated[str, ("enum", ("source", "sink", "unknown"))]
    plugin: str
    group: str | None
    parts: tuple[PartDocument, ...]
    retries: tuple[RetrySetting, ...]


class WorkersDocument(Document):
    """A Connect cluster.

    Attributes:
        workers: host and port of the first worker.
        error: why the workers could not be queried; empty: they were.
    """

    workers: Name
    read = From(ConnectorHealth)
    error: str = read(lambda health: health.silent)
    connectors: tuple[ConnectorDocument, ...] = read(
        lambda health: tuple(
            ConnectorDocument.of(each, retries=health.retries.get(each.name, ()))
            for each in health.connectors
        )
    )


class ConnectStatusDocument(Document):
    """Connectors, with the cause of each failure.

    Attributes:
        failed: connectors and tasks.
        clusters: each Connect cluster.
    """

    SCHEMA = "drctl/connect-status/1"
    failed: Count
    clusters: tuple[WorkersDocument, ...]


def status_document(clusters: Sequence[ConnectorHealth]) -> ConnectStatusDocument:
    """The document, with full stack traces."""
    failed = sum(len(health.findings) for health in clusters)
    return ConnectStatusDocument(failed=failed, clusters=WorkersDocument.each(clusters))
