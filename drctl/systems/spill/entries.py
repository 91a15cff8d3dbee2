"""Implements `EntryStore`: a database in a temporary file that has no name and leaves nothing."""

import sqlite3
from collections.abc import Iterable, Iterator

from drctl.model.errors import Unknown
from drctl.offsets.newest_timestamps import Entry

_TABLE = """
CREATE TABLE entries (
    "group" TEXT, topic TEXT, partition INTEGER,
    at_partition INTEGER, at_offset INTEGER, written_at_ms INTEGER, value BLOB,
    PRIMARY KEY ("group", topic, partition, at_partition)
) WITHOUT ROWID
"""
_PUT = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)"
_ALL = 'SELECT * FROM entries ORDER BY "group", topic, partition'
_SETTINGS = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA cache_size = -65536",  # KiB
)


class TemporaryEntries:
    """Entries in a file that is gone with this object.

    Raises:
        Unknown: there is no room for it.
    """

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        for statement in (*_SETTINGS, _TABLE):
            self._database.execute(statement)

    def put(self, entries: Iterable[Entry]) -> None:
        """Let each take the place of what is kept of its key and partition of the topic.

        Raises:
            Unknown: there is no room for it.
        """
        try:
            self._database.execute("BEGIN")
            self._database.executemany(_PUT, entries)
            self._database.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise Unknown(
                f"what was read does not fit into memory, and not on disk: {error}",
                "free space in the folder for temporary files, or set SQLITE_TMPDIR to another one",
            ) from None

    def entries(self) -> Iterator[Entry]:
        """All of them; those of one group, topic and partition one behind the other."""
        return (Entry(*row) for row in self._database.execute(_ALL))
