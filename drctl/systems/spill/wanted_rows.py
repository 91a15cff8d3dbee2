"""Implements `WantedRows`: sorted on disk, in a temporary file that has no name."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping

from drctl.model.errors import Refused, Unknown
from drctl.model.gap import OrderVerdict
from drctl.model.topology import TopicPartition
from drctl.reconcile.progress import Lane
from drctl.reconcile.rows import Tally, Wanted

_TABLE = """
CREATE TABLE wanted (
    topic TEXT, partition INTEGER, at INTEGER, timestamp INTEGER, key BLOB, size INTEGER,
    verdict TEXT, PRIMARY KEY (topic, partition, at)
) WITHOUT ROWID
"""
_PUT = "INSERT INTO wanted VALUES (?, ?, ?, ?, ?, ?, ?)"
_SUMS = "COUNT(*), COALESCE(SUM(size), 0), COALESCE(SUM(timestamp <= 0), 0), COALESCE(MAX(at), -1)"
_TALLIES = f"SELECT topic, partition, verdict, {_SUMS} FROM wanted GROUP BY 1, 2, 3"
_DONE = f"SELECT {_SUMS} FROM wanted WHERE topic = ? AND partition = ? AND at <= ? AND verdict = ?"
_WHERE = "FROM wanted WHERE topic = ? AND partition = ? AND at > ?"
_SETTINGS = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA cache_size = -65536",  # KiB
)


_VERDICTS = {verdict.value: verdict for verdict in OrderVerdict}

Row = tuple[str, int, int, int, bytes | None, int, str]
"""Topic, partition, offset, timestamp, digest of the key, size, order verdict."""


class TemporaryWantedRows:
    """Rows in a file that is gone with this object.

    Args:
        rows: of a gap result, in any order.

    Raises:
        Refused: an offset stands there twice.
        Unknown: there is no room for them.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        try:
            for statement in (*_SETTINGS, _TABLE, "BEGIN"):
                self._database.execute(statement)
            self._database.executemany(_PUT, rows)
            self._database.execute("COMMIT")
        except sqlite3.IntegrityError:
            raise Refused(
                "the gap result names a record twice: it is damaged", "run `drctl gap` again"
            ) from None
        except sqlite3.OperationalError as error:
            raise Unknown(
                f"the gap result does not fit into memory, and not on disk: {error}",
                "free space in the folder for temporary files, or set SQLITE_TMPDIR to another one",
            ) from None

    def tallies(self) -> Mapping[Lane, Tally]:
        """What each lane holds."""
        return {
            Lane(TopicPartition(topic, partition), OrderVerdict(verdict)): Tally(*sums)
            for topic, partition, verdict, *sums in self._database.execute(_TALLIES)
        }

    def done(self, lane: Lane, through: int) -> Tally:
        """What a lane holds up to this offset."""
        values = (*lane.place, through, lane.order.value)
        return Tally(*self._database.execute(_DONE, values).fetchone())

    def after(self, place: TopicPartition, through: Mapping[OrderVerdict, int]) -> Iterator[Wanted]:
        """The rows of these lanes of a partition, each lane's behind its offset, in order."""
        known = _VERDICTS
        columns = "at, timestamp, key, size, verdict"
        for at, timestamp, key, size, verdict in self._select(columns, place, through):
            yield Wanted(at, timestamp, key, size, known[verdict])

    def offsets_after(
        self, place: TopicPartition, through: Mapping[OrderVerdict, int]
    ) -> Iterator[int]:
        """Their offsets."""
        for (at,) in self._select("at", place, through):
            yield at

    def _select(
        self, columns: str, place: TopicPartition, through: Mapping[OrderVerdict, int]
    ) -> sqlite3.Cursor:
        """Not a generator: one that is left unfinished would close its cursor too late."""
        lanes = " OR ".join("(verdict = ? AND at > ?)" for _ in through)
        behind = [word for lane, at in through.items() for word in (lane.value, at)]
        query = f"SELECT {columns} {_WHERE} AND ({lanes}) ORDER BY at"
        return self._database.execute(query, (*place, min(through.values()), *behind))

    def close(self) -> None:
        """Give the file back; may be called again."""
        self._database.close()
