"""A ledger as keys and packed values of a compacted topic.

Each value begins with its format and the version of the book in which it was written. The book's
header is the last record of each change: a value that is younger than the header belongs to a
change whose end is not to be seen yet.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from struct import Struct, error

from drctl.gap.comparison import Side
from drctl.gap.ledger import Book, Cell, KnownLog, LogKey, Row, Rules

Values = Mapping[bytes, bytes]

FORMAT = 1
PIECE_ROWS = 20_000
"""Rows of a cell in one record: 880 kB, less than what brokers take by default."""

_STAMP = Struct(">Bq")
_BOOK = Struct(">QIB")
_RULES = Struct(">?q")
_LOG = Struct(">iqi")
_CELL = Struct(">qqqI")
_ROW = Struct(">iqQQqq")


class Unreadable(ValueError):
    """A value that this drctl did not write."""


def prefix_of(fingerprint: str) -> bytes:
    """What all keys of a book begin with."""
    return f"{fingerprint}/".encode()


def header_key(fingerprint: str) -> bytes:
    """The key of the book itself."""
    return f"{fingerprint}/book".encode()


def header_of(fingerprint: str, book: Book) -> dict[bytes, bytes]:
    """The record of the book itself."""
    packed = _BOOK.pack(book.salt, book.buckets, book.cell_bits)
    return {header_key(fingerprint): _stamped(book.version, packed)}


def rules_of(fingerprint: str, version: int, rules: Mapping[str, Rules]) -> dict[bytes, bytes]:
    """A record for each topic."""
    return {
        f"{fingerprint}/rules/{topic}".encode(): _stamped(
            version, _RULES.pack(r.timestamps, r.bucket_ms) + r.target_topic.encode()
        )
        for topic, r in rules.items()
    }


def log_of(fingerprint: str, version: int, key: LogKey, log: KnownLog) -> dict[bytes, bytes]:
    """The log's record and those of its cells."""
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
    """All logs of which there is a record, if only of a cell."""
    logs = {_key(place) for place, _ in _of_kind("log", values)}
    return logs | {_key(place[:3]) for place, _ in _of_kind("cell", values)}


def keys_of_logs(logs: Collection[LogKey], values: Values) -> set[bytes]:
    """All keys that are there of these logs and their cells."""
    wanted = {_place(key) for key in logs}
    return {
        key
        for key in values
        if (parts := key.decode().split("/"))[1] in ("log", "cell")
        and "/".join(parts[2:5]) in wanted
    }


def same(one: bytes | None, other: bytes) -> bool:
    """Whether two values say the same, whenever they were written."""
    return one is not None and one[_STAMP.size :] == other[_STAMP.size :]


def book_in(fingerprint: str, values: Values) -> Book | None:
    """The book, if its header is there.

    Raises:
        Unreadable: a value is in no format of this drctl.
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
    """Whether a change was seen in part only."""
    return any(_opened(value)[0] > book.version for value in values.values())


def logs_in(values: Values) -> dict[LogKey, KnownLog]:
    """Every log with its cells; cells of which a part is missing are left out.

    Raises:
        Unreadable: a value is in no format of this drctl.
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
    """What stands in the keys behind the kind, and the packed values."""
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
    """The version it was written in, and the rest."""
    if len(value) < _STAMP.size or value[0] != FORMAT:
        raise Unreadable(f"a value of format {value[0] if value else 'none'}, not {FORMAT}")
    return _STAMP.unpack_from(value)[1], value[_STAMP.size :]
