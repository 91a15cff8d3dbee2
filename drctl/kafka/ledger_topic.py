"""A ledger of comparison results in a compacted topic, shared by all hosts."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from struct import Struct, error

from drctl.gap.comparison import Side
from drctl.gap.ledger import Book, Cell, KnownLog, LogKey, Row, Rules
from drctl.kafka.brokers import ClusterClient
from drctl.kafka.connection import Connection
from drctl.kafka.deadline import Deadline
from drctl.kafka.followed_topic import CompactedTopic
from drctl.kafka.own_topics import Change, check_writable, create_compacted
from drctl.kafka.transactions import LIFETIME_S, Fenced, TransactionalWriter
from drctl.model.errors import ConfigError, Unknown

Values = Mapping[bytes, bytes]

FORMAT = 1
PIECE_ROWS = 20_000
"""Rows of a cell in one record: 880 kB, less than the default limit of brokers."""

_STAMP = Struct(">Bq")
_BOOK = Struct(">QIB")
_RULES = Struct(">?q")
_LOG = Struct(">iqi")
_CELL = Struct(">qqqI")
_ROW = Struct(">iqQQqq")


class Unreadable(ValueError):
    """A value that this version of drctl did not write."""


def prefix_of(fingerprint: str) -> bytes:
    """The prefix of all keys of a book."""
    return f"{fingerprint}/".encode()


def header_key(fingerprint: str) -> bytes:
    """The key of the book's header."""
    return f"{fingerprint}/book".encode()


def header_of(fingerprint: str, book: Book) -> dict[bytes, bytes]:
    """The header record of a book."""
    packed = _BOOK.pack(book.salt, book.buckets, book.cell_bits)
    return {header_key(fingerprint): _stamped(book.version, packed)}


def rules_of(fingerprint: str, version: int, rules: Mapping[str, Rules]) -> dict[bytes, bytes]:
    """The records of topic rules, one per topic."""
    return {
        f"{fingerprint}/rules/{topic}".encode(): _stamped(
            version, _RULES.pack(r.timestamps, r.bucket_ms) + r.target_topic.encode()
        )
        for topic, r in rules.items()
    }


def log_of(fingerprint: str, version: int, key: LogKey, log: KnownLog) -> dict[bytes, bytes]:
    """The records of a log and its cells."""
    facts = _LOG.pack(log.leader_epoch, log.witness, log.witness_epoch) + log.topic_id.encode()
    found = {f"{fingerprint}/log/{_place(key)}".encode(): _stamped(version, facts)}
    for cell in log.cells.values():
        for number, rows in enumerate(_pieces(cell.rows)):
            name = f"{fingerprint}/cell/{_place(key)}/{cell.number}/{number}"
            head = _CELL.pack(cell.start, cell.end, cell.digested_at, len(cell.rows))
            packed = head + b"".join(_ROW.pack(*row) for row in rows)
            found[name.encode()] = _stamped(version, packed)
    return found


def places(values: Values) -> set[LogKey]:
    """All logs that have a record of their own or of one of their cells."""
    logs = {_key(place) for place, _ in _of_kind("log", values)}
    return logs | {_key(place[:3]) for place, _ in _of_kind("cell", values)}


def keys_of_logs(logs: Collection[LogKey], values: Values) -> set[bytes]:
    """All existing keys of these logs and their cells."""
    wanted = {_place(key) for key in logs}
    return {
        key
        for key in values
        if (parts := key.decode().split("/"))[1] in ("log", "cell")
        and "/".join(parts[2:5]) in wanted
    }


def same(one: bytes | None, other: bytes) -> bool:
    """Whether two values are equal apart from their versions."""
    return one is not None and one[_STAMP.size :] == other[_STAMP.size :]


def book_in(fingerprint: str, values: Values) -> Book | None:
    """The book, if its header exists.

    Raises:
        Unreadable: this version of drctl cannot decode a value.
    """
    header = values.get(header_key(fingerprint))
    if header is None:
        return None
    try:
        version, packed = _opened(header)
        salt, buckets, cell_bits = _BOOK.unpack(packed)
        return Book(salt, buckets, cell_bits, version, dict(_rules(values)))
    except (error, ValueError) as wrong:
        raise Unreadable(str(wrong)) from wrong


def unfinished(book: Book, values: Values) -> bool:
    """Whether only a part of a change has been read.

    Raises:
        Unreadable: this version of drctl cannot decode a value.
    """
    return any(_opened(value)[0] > book.version for value in values.values())


def logs_in(values: Values) -> dict[LogKey, KnownLog]:
    """Every log with its complete cells.

    Raises:
        Unreadable: this version of drctl cannot decode a value.
    """
    try:
        cells = _cells(values)
        return {
            (key := _key(place)): KnownLog(facts[3], *facts[:3], cells.get(key, {}))
            for place, facts in _logs(values)
        }
    except (error, ValueError) as wrong:
        raise Unreadable(str(wrong)) from wrong


def _rules(values: Values) -> Iterator[tuple[str, Rules]]:
    for (topic,), packed in _of_kind("rules", values):
        timestamps, bucket_ms = _RULES.unpack_from(packed)
        yield topic, Rules(packed[_RULES.size :].decode(), timestamps, bucket_ms)


def _logs(values: Values) -> Iterator[tuple[Sequence[str], tuple[int, int, int, str]]]:
    for place, packed in _of_kind("log", values):
        epoch, witness, witness_epoch = _LOG.unpack_from(packed)
        yield place, (epoch, witness, witness_epoch, packed[_LOG.size :].decode())


def _cells(values: Values) -> dict[LogKey, dict[int, Cell]]:
    heads: dict[tuple[LogKey, int], tuple[int, int, int, int]] = {}
    rows: dict[tuple[LogKey, int], list[Row]] = defaultdict(list)
    for (*place, number, _), packed in _of_kind("cell", values):
        name = _key(place), int(number)
        heads[name] = _CELL.unpack_from(packed)
        rows[name] += map(Row._make, _ROW.iter_unpack(packed[_CELL.size :]))
    found: dict[LogKey, dict[int, Cell]] = defaultdict(dict)
    for name, (start, end, digested_at, count) in heads.items():
        if len(rows[name]) == count:
            log, cell = name
            found[log][cell] = Cell(cell, start, end, digested_at, tuple(sorted(rows[name])))
    return found


def _of_kind(kind: str, values: Values) -> Iterator[tuple[Sequence[str], bytes]]:
    """For each key of this kind, its parts after the kind and its packed value."""
    for key, value in values.items():
        _, found, *rest = key.decode().split("/")
        if found == kind:
            yield rest, _opened(value)[1]


def _place(key: LogKey) -> str:
    return f"{key.side.value}/{key.topic}/{key.partition}"


def _key(place: Sequence[str]) -> LogKey:
    side, topic, partition = place
    return LogKey(Side(side), topic, int(partition))


def _pieces(rows: Sequence[Row]) -> Iterable[Sequence[Row]]:
    return (rows[at : at + PIECE_ROWS] for at in range(0, max(1, len(rows)), PIECE_ROWS))


def _stamped(version: int, packed: bytes) -> bytes:
    return _STAMP.pack(FORMAT, version) + packed


def _opened(value: bytes) -> tuple[int, bytes]:
    """The book version that wrote a value, and its packed content."""
    if len(value) < _STAMP.size or value[0] != FORMAT:
        raise Unreadable(f"a value of format {value[0] if value else 'none'}, not {FORMAT}")
    return _STAMP.unpack_from(value)[1], value[_STAMP.size :]


_TRANSACTIONS_S = LIFETIME_S + 20.0
"""Within this time, brokers abort a transaction that a dead writer left open."""

_PAUSE_S = 0.1


class TopicLedgerReader(ClusterClient):
    """Implements `drctl.gap.ledger.LedgerStore` without writing: changes are not stored."""

    def __init__(self, connection: Connection, topic: str) -> None:
        super().__init__(connection)
        self._topic = topic
        self._topics: dict[str, CompactedTopic] = {}

    @property
    def where(self) -> str:
        """The topic and its cluster."""
        return f"topic {self._topic} of {self._connection.name}"

    def book(self, fingerprint: str) -> Book | None:
        """The book with this name, if there is one.

        Raises:
            ConfigError: this user may not read the topic, or it is not a ledger.
            Unreachable: the cluster did not answer.
            Unknown: the topic was recreated since it was first read.
        """
        return self._complete(fingerprint) if self._records(fingerprint).catch_up() else None

    def begin(self, fingerprint: str, book: Book) -> Book:
        """Return the book, which lasts as long as this run."""
        return book

    def logs(self, fingerprint: str, topics: Collection[str]) -> Mapping[LogKey, KnownLog]:
        """The stored digests of these topics, as of the last read of the book.

        Raises:
            ConfigError: the topic is not a ledger.
        """
        values = self._records(fingerprint).values
        if header_key(fingerprint) not in values:
            return {}
        try:
            found = logs_in(values)
        except Unreadable as wrong:
            raise self._no_ledger(wrong) from wrong
        return {key: log for key, log in found.items() if key.topic in topics}

    def keep(
        self,
        fingerprint: str,
        version: int,
        rules: Mapping[str, Rules],
        forgotten: Collection[LogKey],
        changed: Mapping[LogKey, KnownLog],
    ) -> bool:
        """Return False: nothing is stored."""
        return False

    def _records(self, fingerprint: str) -> CompactedTopic:
        if fingerprint not in self._topics:
            prefix = prefix_of(fingerprint)
            self._topics[fingerprint] = CompactedTopic(self._connection, self._topic, prefix)
        return self._topics[fingerprint]

    def _complete(self, fingerprint: str) -> Book | None:
        """The book, once the last change was read completely."""
        records = self._records(fingerprint)
        deadline = Deadline.after(_TRANSACTIONS_S)
        while True:
            book = self._parsed(fingerprint)
            try:
                if book is None or not unfinished(book, records.values):
                    return book
            except Unreadable as wrong:
                raise self._no_ledger(wrong) from wrong
            if deadline.expired:
                raise Unknown(
                    f"cannot read {self.where}: an open transaction blocks it",
                    "check who else writes to this topic; drctl also works without --ledger",
                )
            self._connection.wait(_PAUSE_S)
            records.catch_up()

    def _parsed(self, fingerprint: str) -> Book | None:
        try:
            return book_in(fingerprint, self._records(fingerprint).values)
        except Unreadable as wrong:
            raise self._no_ledger(wrong) from wrong

    def _no_ledger(self, wrong: Unreadable) -> ConfigError:
        return ConfigError(
            f"{self.where} contains a record not written by this version of drctl: {wrong}",
            "use the version that wrote it, or set another topic in `ledger` of drctl.yaml; a"
            " ledger can be deleted at any time: the next run rebuilds it",
        )


class TopicLedger(TopicLedgerReader):
    """Implements `drctl.gap.ledger.LedgerStore`; each change is one transaction."""

    def book(self, fingerprint: str) -> Book | None:
        """The book with this name, if there is one.

        Raises:
            ConfigError: this user may not read or write the topic, or it is not a ledger.
            Unreachable: the cluster did not answer.
            Unknown: the topic was recreated since it was first read.
        """
        found = super().book(fingerprint)
        if found is not None:
            # Fail before hours of reading, not after them.
            check_writable(self._connection, self._topic)
        return found

    def begin(self, fingerprint: str, book: Book) -> Book:
        """Create a book, and the topic if necessary; return the existing book if there is one.

        Raises:
            ConfigError: this user may not create, read or write the topic.
            Unreachable: the cluster did not answer.
            Unknown: another process interfered.
        """
        records = self._records(fingerprint)
        if not records.catch_up():
            create_compacted(self._connection, self._topic)
        try:
            with self._writer(fingerprint) as writer:
                found = self._settled(fingerprint)
                if found is not None:
                    return found
                obsolete: list[Change] = [(key, None) for key in records.values]
                writer.write([*obsolete, *header_of(fingerprint, book).items()])
        except Fenced:
            return self._wait_for_book(fingerprint)
        return self._read_back(fingerprint, book.version)

    def keep(
        self,
        fingerprint: str,
        version: int,
        rules: Mapping[str, Rules],
        forgotten: Collection[LogKey],
        changed: Mapping[LogKey, KnownLog],
    ) -> bool:
        """Delete and replace logs; return False if another run changed the book.

        Raises:
            ConfigError: this user may not write to the topic.
            Unreachable: the cluster did not answer.
            Unknown: the topic was recreated meanwhile, or the outcome is unknown.
        """
        try:
            with self._writer(fingerprint) as writer:
                # From here on, a change by another process fences this one.
                book = self._settled(fingerprint)
                if book is None or book.version != version:
                    return False
                writer.write(self._changes(fingerprint, book, rules, forgotten, changed))
        except Fenced:
            return False
        self._read_back(fingerprint, version + 1)
        return True

    def _changes(
        self,
        fingerprint: str,
        book: Book,
        rules: Mapping[str, Rules],
        forgotten: Collection[LogKey],
        changed: Mapping[LogKey, KnownLog],
    ) -> list[Change]:
        """The changes to write, the header last."""
        values, version = self._records(fingerprint).values, book.version + 1
        wanted = rules_of(fingerprint, version, rules)
        for key, log in changed.items():
            wanted |= log_of(fingerprint, version, key, log)
        other = {topic for topic, rule in rules.items() if book.rules.get(topic) != rule}
        replaced = {*forgotten, *changed, *(k for k in places(values) if k.topic in other)}
        obsolete = keys_of_logs(replaced, values) - wanted.keys()
        new = [(k, v) for k, v in wanted.items() if not same(values.get(k), v)]
        header = header_of(fingerprint, replace(book, version=version))
        return [*((key, None) for key in obsolete), *new, *header.items()]

    def _settled(self, fingerprint: str) -> Book | None:
        """The book, after earlier writers were fenced.

        Raises:
            Fenced: another writer's transaction stays open.
        """
        if not self._records(fingerprint).settle(_TRANSACTIONS_S):
            raise Fenced(f"{self.where}: another writer's transaction is still open")
        return self._parsed(fingerprint)

    def _read_back(self, fingerprint: str, version: int) -> Book:
        """Raises Unknown if the written book cannot be read back."""
        settled = self._records(fingerprint).settle(_TRANSACTIONS_S)
        book = self._parsed(fingerprint) if settled else None
        if book is None or book.version < version:
            raise Unknown(
                f"{self.where}: could not read back what was written",
                "run the command again: results stay correct without the ledger",
            )
        return book

    def _wait_for_book(self, fingerprint: str) -> Book:
        deadline = self._connection.deadline()
        while not deadline.expired:
            book = self.book(fingerprint)
            if book is not None:
                return book
            self._connection.wait(_PAUSE_S)
        raise Unknown(f"{self.where}: another drctl process wrote first", "run the command again")

    def _writer(self, fingerprint: str) -> TransactionalWriter:
        name = f"drctl-ledger-{fingerprint[:16]}"
        return TransactionalWriter(self._connection, name, self._topic)
