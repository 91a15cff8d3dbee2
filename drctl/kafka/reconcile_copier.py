"""Read records of the source, and append copies and their progress in one transaction.

Opening the copier fences the previous one: init_transactions returns once every earlier transaction
of the transactional id is committed or aborted, so that progress read afterwards is final.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from drctl.formats import provenance
from drctl.gap.comparison import ScanFailed
from drctl.host.processes import reduced_gc
from drctl.kafka import transactions
from drctl.kafka.connection import Connection
from drctl.kafka.deadline import Deadline
from drctl.kafka.log_reader import KafkaRangeReader, LogSource
from drctl.kafka.reconcile_topics import RECONCILE
from drctl.kafka.transactions import LIFETIME_S, TransactionalWriter
from drctl.model import errors
from drctl.model.errors import DrctlError, Stopped, Unknown
from drctl.model.topology import OffsetRange, Row, TopicPartition
from drctl.reconcile.gap_result import Piece
from drctl.reconcile.progress import TOPIC, Change

_POLL_S = 0.1
_SMALL_QUEUE = {"queued.max.messages.kbytes": "8192", "queued.min.messages": "50000"}


class KafkaSourceLog:
    """Implements `drctl.reconcile.gap_result.SourceLog`; buffers little of each partition."""

    def __init__(self, cluster: str, properties: Mapping[str, str]) -> None:
        self._reader = KafkaRangeReader(LogSource(cluster, {**_SMALL_QUEUE, **properties}))

    def read(self, topic: str, ranges: Mapping[int, Sequence[OffsetRange]]) -> Iterator[Piece]:
        """Every committed record of these ranges, in order within each partition.

        Raises:
            Unknown: a range could not be read to its end.
        """
        try:
            with reduced_gc():
                for chunk in self._reader.read({topic: ranges}):
                    yield Piece(TopicPartition(topic, chunk.partition), chunk.rows)
        except ScanFailed as failed:
            raise Unknown(
                f"the source could not be read to the end: {failed.cause}",
                "run the command again: it continues where it stopped",
            ) from failed


def transactional_id(link: str) -> str:
    """The transactional id of a link's copier; its newest user fences all others."""
    return f"drctl-reconcile-{link}"


class TransactionalCopier(TransactionalWriter):
    """Implements `drctl.reconcile.gap_result.Copier`; a context manager.

    Raises:
        Fenced: another copier was started at the same moment.
        ConfigError: this user may not write, or librdkafka rejects the properties.
        Unreachable: the cluster did not answer.
    """

    def __init__(
        self, connection: Connection, link: str, marks: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        super().__init__(connection, transactional_id(link), TOPIC, RECONCILE)
        self._marks = tuple(marks)
        # By partition and error, the last message reported with it; under None, the last stored.
        self._reports: dict[TopicPartition, dict[KafkaError | None, Message]] = defaultdict(dict)

    def begin(self) -> None:
        """Begin a transaction.

        Raises:
            DrctlError: it cannot begin.
        """
        self._reports.clear()
        try:
            self._begin(Deadline.after(LIFETIME_S))
        except KafkaException as failed:
            raise self._ended(failed.args[0]) from failed

    def append(self, to: TopicPartition, rows: Sequence[Row], stamps: Iterable[bytes]) -> None:
        """Append copies of records to a partition, each with its provenance header at the end.

        Only the last one is reported when it is stored, which takes less CPU time: a transaction
        of which any record was not stored cannot be committed.

        Raises:
            Stopped: a record cannot be written, or another run took over.
            DrctlError: the cluster rejects it.
        """
        produce, name, marks = self._producer.produce, provenance.HEADER, self._marks
        (topic, partition), last = to, rows[-1]
        report = None
        for row, stamp in zip(rows, stamps, strict=True):
            _, time, key, value, headers = row
            marked: list[tuple[str, str | bytes | None]] = [(name, stamp)]
            if headers or marks:
                marked = [*_headers(to, row), *marked, *marks]
            when = time if time > 0 else 0  # 0 is "now" to librdkafka
            if row is last:
                report = self._reports[to].__setitem__
            try:
                try:
                    # By position: parsing names would take a third of the call's time.
                    produce(topic, value, key, partition, report, None, when, marked)
                except BufferError:
                    self._retry(topic, value, key, partition, report, None, when, marked)
            except KafkaException as failed:
                raise self._unwritten(failed.args[0], to, row) from failed
        self._call(self._producer.poll, 0)

    def settle(self) -> Mapping[TopicPartition, int]:
        """Wait until all copies are stored; return the last offset in each partition.

        Raises:
            DrctlError: a copy was not stored.
        """
        try:
            self._flush_all(Deadline.after(self._timeout_s))
        except KafkaException as failed:
            raise self._ended(failed.args[0]) from failed
        failures = [e for reports in self._reports.values() for e in reports if e is not None]
        if failures:
            raise self._ended(self._cause(failures[0]))
        return {place: reports[None].offset() or 0 for place, reports in self._reports.items()}

    def keep(self, changes: Sequence[Change]) -> None:
        """Append progress; the commit fails if it is not stored.

        Raises:
            DrctlError: it cannot be appended.
        """
        try:
            for key, value in changes:
                self._produce(key, value)
        except KafkaException as failed:
            raise self._ended(self._cause(failed.args[0])) from failed

    def commit(self) -> None:
        """Commit the transaction.

        Raises:
            Undecided: no answer; whether it was committed is unknown.
            DrctlError: it was not committed.
        """
        deadline = Deadline.after(LIFETIME_S)
        try:
            self._flush_all(deadline)
            self._commit(deadline)
        except KafkaException as failed:
            raise self._ended(failed.args[0]) from failed

    def abort(self) -> None:
        """Abort the transaction; if that fails, brokers abort it after its timeout."""
        if not self._committing:
            self._abort()

    def _retry(self, *what: Any) -> None:
        """Queue a record once the queue has room."""
        deadline = Deadline.after(self._timeout_s)
        while True:
            self._call(self._producer.poll, _POLL_S)
            try:
                self._producer.produce(*what)
            except BufferError:
                if deadline.expired:
                    raise self._ended(KafkaError(KafkaError._TIMED_OUT)) from None
            else:
                return

    def _settings(self) -> dict[str, Any]:
        return {
            **super()._settings(),
            "linger.ms": 20,
            "message.max.bytes": 1_000_000_000,
            # Queued records must be stored within a transaction's timeout, over slow links too.
            "queue.buffering.max.kbytes": 32_768,
        }

    def _unwritten(self, error: KafkaError, to: TopicPartition, row: Row) -> DrctlError:
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return Stopped(
                f"the record at source offset {row[0]} is too large for {to}",
                "raise max.message.bytes of the topic, or use --policy export",
            )
        return self._ended(self._cause(error))

    def _cause(self, error: KafkaError) -> KafkaError:
        """Why the transaction failed; later calls and delivery reports have other errors."""
        try:
            self._call(self._producer.begin_transaction)  # in a transaction it always raises
        except KafkaException as failed:
            cause: KafkaError = failed.args[0]
            return error if cause.code() == KafkaError._STATE else cause
        return error

    def _ended(self, last: KafkaError) -> DrctlError:
        codes = {error.code() for error in (*self._errors, last)}
        if KafkaError.MSG_SIZE_TOO_LARGE in codes:
            return Stopped(
                f"a record is too large for cluster {self._connection.name}",
                "raise max.message.bytes of the topic, or use --policy export",
            )
        if KafkaError.INVALID_TIMESTAMP in codes:
            return Stopped(
                f"cluster {self._connection.name} rejects the timestamp of a record",
                "check message.timestamp.before.max.ms and message.timestamp.after.max.ms of the"
                " topic, or use --policy export",
            )
        ended = super()._ended(last)
        if isinstance(ended, transactions.Fenced):
            return errors.Fenced(
                f"another drctl process took over transactional id {self._name}:"
                " this reconciliation stopped",
                "run only one of them; no record was written twice",
            )
        return ended


def _headers(to: TopicPartition, row: Row) -> list[tuple[str, bytes | None]]:
    """The record's own headers, in their order.

    Raises:
        Stopped: a name is not UTF-8, or contains a NUL, at which it would be truncated.
    """
    offset, *_, headers = row
    try:
        names = [name.decode() for name, _ in headers]
    except UnicodeDecodeError:
        names = ["\0"]
    if any("\0" in name for name in names):
        raise Stopped(
            f"the record at source offset {offset} for {to} has a header whose name is not UTF-8,"
            " or contains a NUL: confluent-kafka cannot write it",
            "discard the record with --policy discard, or copy it with another tool",
        )
    return [(name, content) for name, (_, content) in zip(names, headers, strict=True)]
