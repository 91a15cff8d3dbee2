"""The topics that drctl itself keeps on a cluster: what each is for, made, and written."""

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
    """What a topic is for.

    Attributes:
        what: it holds.
        page: that says which rights it needs.
        silent: what to do while it cannot be read.
        recreated: what to do where the topic was deleted and made by somebody else.
        undecided: what to do where nobody can say whether something was written.
        ids: the transactional ids with which it is written, if there are several.
        rights: whoever makes it needs them.
        kept: whether a write counts only when all replicas but one have it, where there are three.
    """

    what: str
    page: str
    silent: str
    recreated: str
    undecided: str = "run the command again: it continues from what was written"
    ids: str = ""
    rights: str = "CREATE"
    kept: bool = True

    def unreadable(self, where: str) -> ConfigError:
        """The topic at this place is not for this user to read."""
        return ConfigError(
            f"this user may not read {where}",
            f"grant it READ and DESCRIBE_CONFIGS on the topic ({self.page})",
        )

    def unwritable(self, where: str) -> ConfigError:
        """The topic at this place is not for this user to write."""
        return ConfigError(
            f"this user may not write to {where}",
            f"grant it READ, WRITE and DESCRIBE_CONFIGS on the topic ({self.page})",
        )


LEDGER = Purpose(
    what="the ledger",
    page="docs/howto/permissions.md",
    silent="check that its brokers are running; without --ledger drctl does not need it",
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
    kept=False,
)
PROBE = Purpose(
    what="the probe record",
    page="docs/howto/permissions.md",
    silent="check that its brokers are running",
    recreated="run the command again",
)


_REPLICAS = 3
PATIENCE_S = 30.0
"""How long a cluster may take to make a topic, and then to give it leaders."""

_PAUSE_S = 0.1


def create_compacted(
    connection: Connection,
    topic: str,
    purpose: Purpose = LEDGER,
    config: Mapping[str, str] | None = None,
) -> None:
    """Make a compacted topic of one partition, as `create` does.

    Raises:
        ConfigError, Unreachable, Unknown: likewise.
    """
    create(connection, topic, purpose, {"cleanup.policy": "compact", **(config or {})})


def create(
    connection: Connection,
    topic: str,
    purpose: Purpose,
    config: Mapping[str, str],
    partitions: int = 1,
) -> None:
    """Make a topic, unless somebody else just did, and see that it is led.

    Args:
        config: what else it is to be like.

    Raises:
        ConfigError: this user may not, or the cluster does not take it.
        Unreachable: the cluster did not answer.
        Unknown: it has no leaders in time.
    """
    _ask_for(connection, topic, purpose, config, partitions)
    deadline = Deadline.after(PATIENCE_S)
    while not deadline.expired:
        known = connection.metadata(deadline).topics.get(topic)
        leaders = [each.leader for each in known.partitions.values()] if known else []
        if len(leaders) >= partitions and min(leaders) >= 0:
            return
        connection.wait(_PAUSE_S)
    raise Unknown(
        f"topic {topic} of {connection.name} has no leader after {PATIENCE_S:g} s",
        "check that its brokers are running",
    )


def check_creatable(
    connection: Connection, topic: str, purpose: Purpose, config: Mapping[str, str]
) -> None:
    """Ask whether this user may make such a topic; makes none.

    Raises:
        ConfigError: this user may not, or the cluster does not take it.
        Unreachable: the cluster did not answer.
    """
    _ask_for(connection, topic, purpose, config, validate_only=True)


def check_writable(connection: Connection, topic: str, purpose: Purpose = LEDGER) -> None:
    """Ask what this user may do; where the cluster does not tell, writing will.

    Raises:
        ConfigError: this user may not write it.
    """
    asked: Mapping[str, Any] = connection.admin().describe_topics(
        TopicCollection([topic]), include_authorized_operations=True
    )
    found = outcome(asked[topic], connection.timeout_s)
    allowed = None if isinstance(found, Fault) else found.authorized_operations
    if allowed is not None and AclOperation.WRITE not in allowed:
        raise purpose.unwritable(f"topic {topic} of {connection.name}")


def _ask_for(
    connection: Connection,
    topic: str,
    purpose: Purpose,
    config: Mapping[str, str],
    partitions: int = 1,
    *,
    validate_only: bool = False,
) -> None:
    replicas = min(_REPLICAS, len(connection.nodes(connection.deadline()).brokers))
    least = {"min.insync.replicas": str(max(1, replicas - 1))} if purpose.kept else {}
    settings = {**least, **config}
    new = NewTopic(topic, partitions, replication_factor=replicas, config=settings)
    asked = connection.admin().create_topics(
        [new], operation_timeout=PATIENCE_S, validate_only=validate_only
    )
    done = outcome(asked[topic], PATIENCE_S + GRACE_S)
    if not isinstance(done, Fault) or done.code == KafkaError.TOPIC_ALREADY_EXISTS:
        return
    reason = connection.redacted(done.text)
    message = f"cannot create topic {topic} of {connection.name}: {reason}"
    if done.retried:
        raise Unreachable(message, "check that its brokers are running, and run it again")
    policy = config.get("cleanup.policy", "delete")
    raise ConfigError(
        message,
        f"grant {purpose.rights} on it ({purpose.page}), or create it: {partitions}"
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
        ConfigError: librdkafka does not take the properties.
    """

    def __init__(
        self, connection: Connection, topic: str, purpose: Purpose, timeout_s: float
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._purpose = purpose
        self._patience_s = timeout_s
        self._errors: list[KafkaError] = []
        self._failed: list[KafkaError] = []

    def __enter__(self) -> Self:
        self._producer = self._open()
        return self

    def close(self) -> None:
        """Let go of the producer; may be called again."""
        self.__dict__.pop("_producer", None)

    def write(self, changes: Iterable[Change]) -> None:
        """All of it, in this order.

        Raises:
            ConfigError: this user may not write.
            Unreachable: the cluster did not answer; some of it may be written.
            Unknown: it failed otherwise; likewise.
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
            "delivery.timeout.ms": int(self._patience_s * 1000),
            "error_cb": self._errors.append,
        }
        try:
            producer = Producer(settings, logger=LOGGER)
        except (KafkaException, ValueError, TypeError) as error:
            raise refused(self._connection.name, self._connection.redacted(str(error))) from None
        # One that asks for its producer id before it is connected asks again after half a second.
        with suppress(KafkaException):
            self._call(producer.list_topics, NO_TOPIC, _CONNECTING_S)
        return producer

    def _produce(self, key: bytes, value: bytes | None) -> None:
        deadline = Deadline.after(self._patience_s)
        while True:
            try:
                self._producer.produce(
                    self._topic, key=key, value=value, partition=_PARTITION, on_delivery=self._told
                )
            except BufferError:
                if deadline.expired:
                    raise self._ended(KafkaError(KafkaError._TIMED_OUT)) from None
                self._call(self._producer.poll, _POLL_S)
            else:
                self._call(self._producer.poll, 0)
                return

    def _flush(self) -> None:
        if self._call(self._producer.flush, self._patience_s):
            raise self._ended(KafkaError(KafkaError._TIMED_OUT))

    def _told(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._errors.append(error)
            self._failed.append(error)

    def _call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Call what may call back; raises KafkaException, and nothing else, where that is due.

        On a fatal error confluent-kafka still calls back, with the exception already set. Python
        then loses it, or takes it for a bug of the callback.
        """
        try:
            return function(*arguments)
        except SystemError as mixed:
            self._errors += _lost_in(mixed)
            if not self._errors:
                raise
            raise KafkaException(self._errors[-1]) from None

    def _ended(self, last: KafkaError) -> DrctlError:
        """The likeliest reason: the last error is often but a consequence."""
        if last.code() in PURGED:
            # What librdkafka gave up for may be told only now.
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


def _lost_in(error: BaseException) -> list[KafkaError]:
    """What Kafka said before Python lost it."""
    found, seen = list[KafkaError](), error.__cause__ or error.__context__
    while seen is not None:
        if isinstance(seen, KafkaException) and isinstance(seen.args[0], KafkaError):
            found.append(seen.args[0])
        seen = seen.__cause__ or seen.__context__
    return found


_PROBE_S = 20.0
_KEY = b"probe_record"


class KafkaProbeWriter:
    """Implements `drctl.engine.ports.ProbeWriter`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def write_probe(self, topic: str, text: str) -> None:
        """Write one; makes the topic where there is none.

        Raises:
            Refused: the cluster does not take it.
            Unreachable: no answer came; it may have been written.
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
