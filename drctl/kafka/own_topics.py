"""Create and write the topics that drctl itself keeps on a cluster."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AclOperation, NewTopic  # type: ignore[attr-defined, unused-ignore]

from drctl.host.connections import Closing
from drctl.kafka.connection import (
    GRACE_S,
    LOGGER,
    NO_TOPIC,
    Connection,
    client_properties,
    outcome,
    refused,
)
from drctl.kafka.deadline import Deadline
from drctl.kafka.faults import FORBIDDEN, Fault
from drctl.model.errors import ConfigError, DrctlError, Refused, Unknown, Unreachable


@dataclass(frozen=True, slots=True)
class Purpose:
    """The purpose of a topic, with the hints of its errors.

    Attributes:
        what: its content.
        page: the page that lists the required permissions.
        silent: what to do while it cannot be read.
        recreated: what to do if someone else has deleted and recreated the topic.
        undecided: what to do if the outcome of a write is unknown.
        ids: the transactional ids with which it is written, if there are several.
        rights: the permissions that its creator needs.
        durable: whether a write needs all replicas but one.
    """

    what: str
    page: str
    silent: str
    recreated: str
    undecided: str = "run the command again: it continues from what was written"
    ids: str = ""
    rights: str = "CREATE"
    durable: bool = True

    def unreadable(self, where: str) -> ConfigError:
        """The error if this user may not read the topic."""
        return ConfigError(
            f"this user may not read {where}",
            f"grant it READ and DESCRIBE_CONFIGS on the topic ({self.page})",
        )

    def unwritable(self, where: str) -> ConfigError:
        """The error if this user may not write to the topic."""
        return ConfigError(
            f"this user may not write to {where}",
            f"grant it READ, WRITE and DESCRIBE_CONFIGS on the topic ({self.page})",
        )


LEDGER = Purpose(
    what="the ledger",
    page="docs/howto/permissions.md",
    silent="check that its brokers are running; drctl also works without --ledger",
    recreated="run the command again: it reads what is not in the ledger",
    ids="transactional ids that begin with drctl-ledger-",
)
TRACKED_OFFSETS = Purpose(
    what="tracked offsets",
    page="docs/howto/permissions.md",
    silent="check that its brokers are running",
    recreated="the next pass stores all offsets again",
)
JOURNAL = Purpose(
    what="the journal",
    page="docs/howto/permissions.md",
    silent="check that its brokers are running; the state_dir of the run's host has a copy",
    recreated="its journals are lost: use the copies in the state_dir of each run's host, and check"
    " the clusters",
    undecided="when the cluster answers, check with drctl journal",
)
DRILL = Purpose(
    what="drill records",
    page="docs/howto/permissions.md",
    silent="check that its brokers are running",
    recreated="run the command again",
    rights="CREATE, READ, WRITE and DELETE",
    durable=False,
)
PROBE = Purpose(
    what="the probe record",
    page="docs/howto/permissions.md",
    silent="check that its brokers are running",
    recreated="run the command again",
)


_REPLICAS = 3
TIMEOUT_S = 30.0
"""How long a cluster may take to create a topic, and then to elect its leaders."""

_PAUSE_S = 0.1


def create_compacted(
    connection: Connection,
    topic: str,
    purpose: Purpose = LEDGER,
    config: Mapping[str, str] | None = None,
) -> None:
    """Create a compacted topic with one partition.

    Raises:
        ConfigError, Unreachable, Unknown: as for `create`.
    """
    create(connection, topic, purpose, {"cleanup.policy": "compact", **(config or {})})


def create(
    connection: Connection,
    topic: str,
    purpose: Purpose,
    config: Mapping[str, str],
    partitions: int = 1,
) -> None:
    """Create a topic unless it exists, and wait for its leaders.

    Args:
        config: its topic configuration, besides min.insync.replicas.

    Raises:
        ConfigError: this user may not create it, or the cluster rejects it.
        Unreachable: the cluster did not answer.
        Unknown: the topic got no leaders in time.
    """
    _create(connection, topic, purpose, config, partitions)
    deadline = Deadline.after(TIMEOUT_S)
    while not deadline.expired:
        known = connection.metadata(deadline).topics.get(topic)
        leaders = [each.leader for each in known.partitions.values()] if known else []
        if len(leaders) >= partitions and min(leaders) >= 0:
            return
        connection.wait(_PAUSE_S)
    raise Unknown(
        f"topic {topic} of {connection.name} has no leader after {TIMEOUT_S:g} s",
        "check that its brokers are running",
    )


def check_creatable(
    connection: Connection, topic: str, purpose: Purpose, config: Mapping[str, str]
) -> None:
    """Check whether this user may create such a topic, without creating it.

    Raises:
        ConfigError: this user may not create it, or the cluster rejects it.
        Unreachable: the cluster did not answer.
    """
    _create(connection, topic, purpose, config, validate_only=True)


def check_writable(connection: Connection, topic: str, purpose: Purpose = LEDGER) -> None:
    """Check that this user may write to the topic, if the cluster reports permissions.

    Raises:
        ConfigError: this user may not write to it.
    """
    asked: Mapping[str, Any] = connection.admin().describe_topics(
        TopicCollection([topic]), include_authorized_operations=True
    )
    found = outcome(asked[topic], connection.timeout_s)
    allowed = None if isinstance(found, Fault) else found.authorized_operations
    if allowed is not None and AclOperation.WRITE not in allowed:
        raise purpose.unwritable(f"topic {topic} of {connection.name}")


def _create(
    connection: Connection,
    topic: str,
    purpose: Purpose,
    config: Mapping[str, str],
    partitions: int = 1,
    *,
    validate_only: bool = False,
) -> None:
    replicas = min(_REPLICAS, len(connection.nodes(connection.deadline()).brokers))
    minimum = {"min.insync.replicas": str(max(1, replicas - 1))} if purpose.durable else {}
    settings = {**minimum, **config}
    new = NewTopic(topic, partitions, replication_factor=replicas, config=settings)
    asked = connection.admin().create_topics(
        [new], operation_timeout=TIMEOUT_S, validate_only=validate_only
    )
    done = outcome(asked[topic], TIMEOUT_S + GRACE_S)
    if not isinstance(done, Fault) or done.code == KafkaError.TOPIC_ALREADY_EXISTS:
        return
    reason = connection.redacted(done.text)
    message = f"cannot create topic {topic} of {connection.name}: {reason}"
    if done.retried:
        raise Unreachable(
            message, "check that the cluster's brokers are running, then run the command again"
        )
    policy = config.get("cleanup.policy", "delete")
    raise ConfigError(
        message,
        f"grant {purpose.rights} on the topic ({purpose.page}), or create it: {partitions}"
        f" partition{'s' * (partitions != 1)}, cleanup.policy {policy}",
    )


_POLL_S = 0.1
_PARTITION = 0
_CONNECTING_S = 1.0
_SILENT = frozenset({KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._MSG_TIMED_OUT})
_MISSING = frozenset(
    {KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART}
)
PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})

Change = tuple[bytes, bytes | None]
"""A key and its new value; None deletes it."""


class TopicWriter(Closing):
    """Writes to the one partition of a topic, idempotently; a context manager.

    Args:
        timeout_s: how long the cluster may take to acknowledge.

    Raises:
        ConfigError: librdkafka rejects the properties.
    """

    def __init__(
        self, connection: Connection, topic: str, purpose: Purpose, timeout_s: float
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._purpose = purpose
        self._timeout_s = timeout_s
        self._errors: list[KafkaError] = []
        self._failed: list[KafkaError] = []

    def __enter__(self) -> Self:
        self._producer = self._open()
        return self

    def close(self) -> None:
        """Release the producer; idempotent."""
        self.__dict__.pop("_producer", None)

    def write(self, changes: Iterable[Change]) -> None:
        """Write all changes in order.

        Raises:
            ConfigError: this user may not write.
            Unreachable: the cluster did not answer; some changes may be written.
            Unknown: another error; some changes may be written.
        """
        self._errors.clear()
        self._failed.clear()
        try:
            for key, value in changes:
                self._produce(key, value)
            self._flush()
        except KafkaException as failed:
            raise self._ended(failed.args[0]) from failed
        if self._failed:
            raise self._ended(self._failed[0])

    @property
    def _where(self) -> str:
        return f"topic {self._topic} of {self._connection.name}"

    def _settings(self) -> dict[str, Any]:
        return {"enable.idempotence": True, "acks": "all", "compression.type": "lz4"}

    def _open(self) -> Producer:
        settings: dict[str, Any] = {
            **client_properties(self._connection.properties),
            **self._settings(),
            "delivery.timeout.ms": int(self._timeout_s * 1000),
            "error_cb": self._errors.append,
        }
        try:
            producer = Producer(settings, logger=LOGGER)
        except (KafkaException, ValueError, TypeError) as error:
            raise refused(self._connection.name, self._connection.redacted(str(error))) from None
        # A producer that requests its id before it is connected retries only after 0.5 s.
        with suppress(KafkaException):
            self._call(producer.list_topics, NO_TOPIC, _CONNECTING_S)
        return producer

    def _produce(self, key: bytes, value: bytes | None) -> None:
        deadline = Deadline.after(self._timeout_s)
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    key=key,
                    value=value,
                    partition=_PARTITION,
                    on_delivery=self._delivered,
                )
            except BufferError:
                if deadline.expired:
                    raise self._ended(KafkaError(KafkaError._TIMED_OUT)) from None
                self._call(self._producer.poll, _POLL_S)
            else:
                self._call(self._producer.poll, 0)
                return

    def _flush(self) -> None:
        if self._call(self._producer.flush, self._timeout_s):
            raise self._ended(KafkaError(KafkaError._TIMED_OUT))

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._errors.append(error)
            self._failed.append(error)

    def _call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Call a function that may run callbacks; its errors are always KafkaExceptions.

        On a fatal error confluent-kafka still runs callbacks, with the exception already set.
        Python then drops the exception, or treats it as a bug of the callback.
        """
        try:
            return function(*arguments)
        except SystemError as lost:
            self._errors += _causes(lost)
            if not self._errors:
                raise
            raise KafkaException(self._errors[-1]) from None

    def _ended(self, last: KafkaError) -> DrctlError:
        """The likeliest reason: the last error is often only a consequence."""
        if last.code() in PURGED:
            # librdkafka may report only now why it gave up.
            with suppress(KafkaException):
                self._call(self._producer.poll, _POLL_S)
        errors = [*self._errors, last]
        codes = {error.code() for error in errors}
        if codes & FORBIDDEN:
            return self._purpose.unwritable(self._where)
        if codes & _MISSING:
            return Unknown(
                f"{self._where} was deleted while drctl wrote to it", "run the command again"
            )
        reason = self._connection.redacted(errors[0].str())
        if codes & _SILENT:
            return Unreachable(
                f"timed out while writing to {self._where}: {reason}",
                "check that its brokers are running, then run the command again: it continues"
                " from what was written",
            )
        return Unknown(f"could not write to {self._where}: {reason}", "run the command again")


def _causes(error: BaseException) -> list[KafkaError]:
    """Kafka's errors among the causes of an exception."""
    found, cause = list[KafkaError](), error.__cause__ or error.__context__
    while cause is not None:
        if isinstance(cause, KafkaException) and isinstance(cause.args[0], KafkaError):
            found.append(cause.args[0])
        cause = cause.__cause__ or cause.__context__
    return found


_PROBE_S = 20.0
_KEY = b"probe_record"


class KafkaProbeWriter:
    """Implements `drctl.engine.ports.ProbeWriter`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def write_probe(self, topic: str, text: str) -> None:
        """Write a probe record; create the topic if necessary.

        Raises:
            Refused: the cluster rejects it.
            Unreachable: the cluster did not answer; the record may have been written.
        """
        connection = self._connection
        connection.use(self)
        try:
            create_compacted(connection, topic, PROBE)
            with TopicWriter(connection, topic, PROBE, _PROBE_S) as writer:
                writer.write([(_KEY, text.encode())])
        except Unreachable:
            raise
        except DrctlError as error:
            raise Refused(
                f"{connection.name} accepted no record: {error.message}", error.hint
            ) from error
        finally:
            connection.leave(self)
