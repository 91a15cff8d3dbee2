"""The ledger of earlier gap runs in a SQLite file, and their measured read rate.

Each change is one transaction, so a crash leaves the previous state.
"""

import json
import sqlite3
import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from drctl.gap.comparison import Side
from drctl.gap.ledger import Book, Cell, KnownLog, LogKey, Row, Rules
from drctl.model.errors import ConfigError
from drctl.model.gap import Engine
from drctl.model.strict_json import read_json

_ROW = struct.Struct("<iqQQqq")
_WAIT_S = 30
_SCHEMA = """
CREATE TABLE IF NOT EXISTS book (
    name TEXT PRIMARY KEY, salt INTEGER, buckets INTEGER, cell_bits INTEGER, version INTEGER);
CREATE TABLE IF NOT EXISTS rules (
    book TEXT, topic TEXT, target_topic TEXT, timestamps INTEGER, bucket_ms INTEGER,
    PRIMARY KEY (book, topic)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (
    book TEXT, topic TEXT, side TEXT, partition INTEGER, topic_id TEXT, leader_epoch INTEGER,
    witness INTEGER, witness_epoch INTEGER,
    PRIMARY KEY (book, topic, side, partition)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cell (
    book TEXT, topic TEXT, side TEXT, partition INTEGER, number INTEGER,
    first INTEGER, past INTEGER, digested_at INTEGER, digests BLOB,
    PRIMARY KEY (book, topic, side, partition, number));
"""
_Place = tuple[str, str, str, int]
_OF_LOG = "book = ? AND topic = ? AND side = ? AND partition = ?"


class DatabaseLedger:
    """Implements `drctl.gap.ledger.LedgerStore`; created on first use, for its owner only."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def where(self) -> str:
        """The file."""
        return str(self._file)

    def book(self, fingerprint: str) -> Book | None:
        """The ledger book with that name; None if there is none.

        Raises:
            ConfigError: the file is not a ledger, or cannot be read.
        """
        if not self._file.exists():
            return None
        with self._open() as db:
            return _book(db, fingerprint)

    def begin(self, fingerprint: str, book: Book) -> Book:
        """Create a book, or return the existing one if another process was faster.

        Raises:
            ConfigError: the file is not a ledger, or cannot be written.
        """
        values = (fingerprint, book.salt, book.buckets, book.cell_bits, book.version)
        with self._open() as db:
            db.execute("INSERT OR IGNORE INTO book VALUES (?, ?, ?, ?, ?)", values)
            return _book(db, fingerprint) or book

    def logs(self, fingerprint: str, topics: Collection[str]) -> Mapping[LogKey, KnownLog]:
        """The entries of these topics.

        Raises:
            ConfigError: the file is not a ledger, or cannot be read.
        """
        if not topics:
            return {}
        with self._open() as db:
            cells = _cells(db, fingerprint)
            found = db.execute(
                "SELECT topic, side, partition, topic_id, leader_epoch, witness, witness_epoch"
                " FROM log WHERE book = ?",
                (fingerprint,),
            )
            return {
                (key := LogKey(Side(side), topic, partition)): KnownLog(
                    topic_id, epoch, witness, witness_epoch, cells[key]
                )
                for topic, side, partition, topic_id, epoch, witness, witness_epoch in _typed(
                    found, str, str, int, str, int, int, int
                )
                if topic in topics
            }

    def keep(
        self,
        fingerprint: str,
        version: int,
        rules: Mapping[str, Rules],
        forgotten: Collection[LogKey],
        changed: Mapping[LogKey, KnownLog],
    ) -> bool:
        """Delete and replace entries of logs; return False if the version changed meanwhile.

        Raises:
            ConfigError: the file cannot be written.
        """
        with self._open() as db:
            moved = db.execute(
                "UPDATE book SET version = version + 1 WHERE name = ? AND version = ?",
                (fingerprint, version),
            )
            if moved.rowcount != 1:
                return False
            _set_rules(db, fingerprint, rules)
            for key in forgotten:
                _forget(db, _place(fingerprint, key))
            for key, log in changed.items():
                _set_log(db, _place(fingerprint, key), log)
        return True

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """One transaction; applied completely or not at all."""
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.touch(mode=0o600, exist_ok=True)
            with closing(sqlite3.connect(self._file, timeout=_WAIT_S)) as db:
                db.execute("PRAGMA synchronous = FULL")
                db.executescript(_SCHEMA)
                with db:
                    db.execute("BEGIN IMMEDIATE")
                    yield db
        except (sqlite3.Error, OSError, ValueError) as error:
            raise ConfigError(
                f"ledger {self._file}: {error}",
                "check that the directory is writable and no other drctl process uses it; a ledger"
                " can be deleted at any time: the next run rebuilds it",
            ) from error


def _book(db: sqlite3.Connection, fingerprint: str) -> Book | None:
    books = db.execute(
        "SELECT salt, buckets, cell_bits, version FROM book WHERE name = ?", (fingerprint,)
    )
    rules = db.execute(
        "SELECT topic, target_topic, timestamps, bucket_ms FROM rules WHERE book = ?",
        (fingerprint,),
    )
    of_topics = {
        t: Rules(target, bool(ts), ms) for t, target, ts, ms in _typed(rules, str, str, int, int)
    }
    for found in _typed(books, int, int, int, int):
        return replace(Book(*found), rules=of_topics)
    return None


def _typed(rows: Iterable[tuple[Any, ...]], *types: type) -> Iterator[tuple[Any, ...]]:
    """The rows, if their values have these types: SQLite stores any value in any column.

    Raises:
        ValueError: a value does not.
    """
    for row in rows:
        if (*map(type, row),) != types:
            raise ValueError("it is damaged: a value has another type")
        yield row


def _cells(db: sqlite3.Connection, fingerprint: str) -> Mapping[LogKey, dict[int, Cell]]:
    found: dict[LogKey, dict[int, Cell]] = defaultdict(dict)
    rows = db.execute(
        "SELECT topic, side, partition, number, first, past, digested_at, digests"
        " FROM cell WHERE book = ?",
        (fingerprint,),
    )
    for topic, side, partition, number, first, past, at, digests in _typed(
        rows, str, str, int, int, int, int, int, bytes
    ):
        if len(digests) % _ROW.size:
            raise ValueError("it is damaged: a digest is cut short")
        cell = Cell(number, first, past, at, tuple(map(Row._make, _ROW.iter_unpack(digests))))
        found[LogKey(Side(side), topic, partition)][number] = cell
    return found


def _set_rules(db: sqlite3.Connection, fingerprint: str, rules: Mapping[str, Rules]) -> None:
    """Delete digests that were computed by other rules."""
    book = _book(db, fingerprint)
    changed = {t: r for t, r in rules.items() if book is None or book.rules.get(t) != r}
    for topic in changed:
        for table in ("log", "cell"):
            db.execute(f"DELETE FROM {table} WHERE book = ? AND topic = ?", (fingerprint, topic))
    db.executemany(
        "INSERT OR REPLACE INTO rules VALUES (?, ?, ?, ?, ?)",
        [(fingerprint, t, r.target_topic, r.timestamps, r.bucket_ms) for t, r in changed.items()],
    )


def _place(fingerprint: str, key: LogKey) -> _Place:
    return fingerprint, key.topic, key.side.value, key.partition


def _forget(db: sqlite3.Connection, place: _Place) -> None:
    db.execute(f"DELETE FROM log WHERE {_OF_LOG}", place)
    db.execute(f"DELETE FROM cell WHERE {_OF_LOG}", place)


def _set_log(db: sqlite3.Connection, place: _Place, log: KnownLog) -> None:
    facts = (log.topic_id, log.leader_epoch, log.witness, log.witness_epoch)
    db.execute("INSERT OR REPLACE INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*place, *facts))
    found = db.execute(f"SELECT number, first, past FROM cell WHERE {_OF_LOG}", place)
    stored = {number: (first, past) for number, first, past in found}
    for number in stored.keys() - log.cells.keys():
        db.execute(f"DELETE FROM cell WHERE {_OF_LOG} AND number = ?", (*place, number))
    db.executemany(
        "INSERT OR REPLACE INTO cell VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (*place, cell.number, cell.start, cell.end, cell.digested_at, _packed(cell.rows))
            for cell in log.cells.values()
            # The digest of a range never changes; it is deleted, or the range grows.
            if stored.get(cell.number) != (cell.start, cell.end)
        ],
    )


def _packed(rows: Sequence[Row]) -> bytes:
    return b"".join(_ROW.pack(*row) for row in rows)


_ENOUGH = 200_000
"""Runs that read fewer offsets measure mainly the start of Spark."""


class MeasuredRate:
    """Stores the rates of the last runs in a file; an unreadable file counts as no measurement."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def offsets_a_second(self) -> float | None:
        """The rate of the last run of any engine; None without a measurement."""
        return _positive(self._content().get("offsets_a_second"))

    def paces(self) -> dict[Engine, float]:
        """The measured duration of each engine's last run, by the one that the model expected."""
        found = self._content().get("paces")
        paces = found if isinstance(found, dict) else {}
        return {e: pace for e in Engine if (pace := _positive(paces.get(e.value))) is not None}

    def note(self, engine: Engine, offsets: int, seconds: float, expected_s: float) -> None:
        """Store the rate of a run, if it was long enough to be meaningful.

        Args:
            expected_s: how long the cost model expected it to take.

        Raises:
            OSError: the file cannot be written.
        """
        if offsets < _ENOUGH or seconds <= 0 or expected_s <= 0:
            return
        paces = {e.value: pace for e, pace in self.paces().items()}
        paces[engine.value] = round(seconds / expected_s, 3)
        content = {"offsets_a_second": round(offsets / seconds), "paces": paces}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps(content) + "\n", encoding="utf-8")
        partial.replace(self._file)

    def _content(self) -> Mapping[str, object]:
        try:
            found = read_json(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def _positive(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None
