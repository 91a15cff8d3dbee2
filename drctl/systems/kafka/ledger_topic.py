"""A ledger in a compacted topic of a cluster, for those who come from another machine."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from drctl.gap.ledger import Book, KnownLog, LogKey, Rules
from drctl.model.errors import ConfigError, Unknown
from drctl.systems.kafka import ledger_records as records
from drctl.systems.kafka.compacted_topic import CompactedTopic
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.topic_creation import check_writable, create_compacted
from drctl.systems.kafka.transactions import LIFETIME_S, Change, Fenced, TransactionalWriter

_PATIENCE_S = LIFETIME_S + 20.0
"""A transaction that a dead writer left open is over by then."""

_PAUSE_S = 0.1


class TopicLedgerReader:
    """Implements `drctl.gap.ledger.LedgerStore` and writes nothing: what is new is not kept."""

    def __init__(
        self, cluster: str, properties: Mapping[str, str], topic: str, *, timeout_s: float = 10
    ) -> None:
        self._connection = Connection(cluster, properties, timeout_s)
        self._topic = topic
        self._read: dict[str, CompactedTopic] = {}

    @property
    def where(self) -> str:
        """The topic and its cluster."""
        return f"topic {self._topic} of {self._connection.name}"

    def book(self, fingerprint: str) -> Book | None:
        """The book of that name, if there is one.

        Raises:
            ConfigError: the topic may not be read, or is no ledger.
            Unreachable: the cluster did not answer.
            Unknown: the topic was made anew since it was first read.
        """
        held = self._held(fingerprint)
        return self._whole(fingerprint) if held.catch_up() else None

    def begin(self, fingerprint: str, book: Book) -> Book:
        """The same book: it lasts as long as this run."""
        return book

    def logs(self, fingerprint: str, topics: Collection[str]) -> Mapping[LogKey, KnownLog]:
        """What is known of these topics, as of the last look at the book.

        Raises:
            ConfigError: the topic is no ledger.
        """
        values = self._held(fingerprint).values
        if records.header_key(fingerprint) not in values:
            return {}
        try:
            found = records.logs_in(values)
        except records.Unreadable as wrong:
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
        """False: it is not kept."""
        return False

    def _held(self, fingerprint: str) -> CompactedTopic:
        if fingerprint not in self._read:
            prefix = records.prefix_of(fingerprint)
            self._read[fingerprint] = CompactedTopic(self._connection, self._topic, prefix)
        return self._read[fingerprint]

    def _whole(self, fingerprint: str) -> Book | None:
        """The book, behind a change that was seen to its end."""
        held = self._held(fingerprint)
        deadline = Deadline.after(_PATIENCE_S)
        while True:
            book = self._parsed(fingerprint)
            if book is None or not records.unfinished(book, held.values):
                return book
            if deadline.expired:
                raise Unknown(
                    f"{self.where}: a transaction stays open, its records cannot be read",
                    "see who else writes to this topic; without --ledger drctl does not need it",
                )
            self._connection.wait(_PAUSE_S)
            held.catch_up()

    def _parsed(self, fingerprint: str) -> Book | None:
        try:
            return records.book_in(fingerprint, self._held(fingerprint).values)
        except records.Unreadable as wrong:
            raise self._no_ledger(wrong) from wrong

    def _no_ledger(self, wrong: records.Unreadable) -> ConfigError:
        return ConfigError(
            f"{self.where} holds what this drctl did not write: {wrong}",
            "use the drctl that wrote it, or name another topic in `ledger` of drctl.yaml; a"
            " ledger may always be deleted: the next run reads everything and begins a new one",
        )


class TopicLedger(TopicLedgerReader):
    """The same, and keeps what is new: one transaction each time."""

    def book(self, fingerprint: str) -> Book | None:
        """The book of that name, if there is one.

        Raises:
            ConfigError: the topic may not be read or written, or is no ledger.
            Unreachable: the cluster did not answer.
            Unknown: the topic was made anew since it was first read.
        """
        found = super().book(fingerprint)
        if found is not None:
            # Before hours of reading, not behind them.
            check_writable(self._connection, self._topic)
        return found

    def begin(self, fingerprint: str, book: Book) -> Book:
        """Begin a book, and the topic where there is none; gives the book that is there.

        Raises:
            ConfigError: the topic may not be made, read or written.
            Unreachable: the cluster did not answer.
            Unknown: somebody else disturbed it.
        """
        held = self._held(fingerprint)
        if not held.catch_up():
            create_compacted(self._connection, self._topic)
        try:
            with self._writer(fingerprint) as writer:
                found = self._settled(fingerprint)
                if found is not None:
                    return found
                gone: list[Change] = [(key, None) for key in held.values]
                writer.write([*gone, *records.header_of(fingerprint, book).items()])
        except Fenced:
            return self._begun_by_another(fingerprint)
        return self._read_back(fingerprint, book.version)

    def keep(
        self,
        fingerprint: str,
        version: int,
        rules: Mapping[str, Rules],
        forgotten: Collection[LogKey],
        changed: Mapping[LogKey, KnownLog],
    ) -> bool:
        """Forget logs, then replace what is known of others. False: the version has moved.

        Raises:
            ConfigError: the topic may not be written.
            Unreachable: the cluster did not answer.
            Unknown: the topic was made anew meanwhile, or nobody can say whether it was kept.
        """
        try:
            with self._writer(fingerprint) as writer:
                # From here on nobody else can change this book without being noticed.
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
        """What has to be written, the header last."""
        values, version = self._held(fingerprint).values, book.version + 1
        wanted = records.rules_of(fingerprint, version, rules)
        for key, log in changed.items():
            wanted |= records.log_of(fingerprint, version, key, log)
        other = {topic for topic, rule in rules.items() if book.rules.get(topic) != rule}
        void = {*forgotten, *changed, *(k for k in records.places(values) if k.topic in other)}
        gone = records.keys_of_logs(void, values) - wanted.keys()
        new = [(k, v) for k, v in wanted.items() if not records.same(values.get(k), v)]
        header = records.header_of(fingerprint, replace(book, version=version))
        return [*((key, None) for key in gone), *new, *header.items()]

    def _settled(self, fingerprint: str) -> Book | None:
        """The book as it is now that nobody else can write it.

        Raises:
            Fenced: somebody's transaction does not end.
        """
        if not self._held(fingerprint).settle(_PATIENCE_S):
            raise Fenced(f"{self.where}: another writer's transaction stays open")
        return self._parsed(fingerprint)

    def _read_back(self, fingerprint: str, version: int) -> Book:
        """Raises Unknown where what was written cannot be seen."""
        seen = self._held(fingerprint).settle(_PATIENCE_S)
        book = self._parsed(fingerprint) if seen else None
        if book is None or book.version < version:
            raise Unknown(
                f"{self.where}: what was written could not be read back",
                "run it again: a ledger that was not kept is read again, no answer is wrong",
            )
        return book

    def _begun_by_another(self, fingerprint: str) -> Book:
        deadline = self._connection.deadline()
        while not deadline.expired:
            book = self.book(fingerprint)
            if book is not None:
                return book
            self._connection.wait(_PAUSE_S)
        raise Unknown(f"{self.where}: another drctl disturbed the first write", "run it again")

    def _writer(self, fingerprint: str) -> TransactionalWriter:
        name = f"drctl-ledger-{fingerprint[:16]}"
        return TransactionalWriter(self._connection, name, self._topic)
