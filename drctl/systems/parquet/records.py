"""The missing records as Parquet, as Spark writes them: `records` and `others`."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.gap.failures import ScanFailed
from drctl.gap.rows import MissingRow
from drctl.model.gap import RecordClass
from drctl.model.gap_order import Inversion
from drctl.systems.parquet.dates import micros
from drctl.systems.parquet.folder import replaced
from drctl.systems.parquet.inversions import INVERSIONS, write_inversions

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

RECORDS = "records"
OTHERS = "others"

_ROWS = 20_000
_KEY_BYTES = 8 << 20


class ParquetRecords:
    """Implements `drctl.gap.rows.RowWriter`.

    Args:
        out: the folder of all folders.
    """

    def __init__(self, out: Path) -> None:
        self._out = out

    def write(self, rows: Iterable[MissingRow]) -> None:
        """Write the missing records.

        Raises:
            ScanFailed: there is no room for them.
        """
        try:
            with _file(self._out / RECORDS) as records, _file(self._out / OTHERS) as others:
                for row in rows:
                    unreplicated = row.record_class is RecordClass.UNREPLICATED
                    (records if unreplicated else others).add(row)
        except OSError as error:
            raise ScanFailed(str(error)) from error

    def write_inversions(self, rows: Iterable[Inversion]) -> None:
        """Write those that stand in another order.

        Raises:
            ScanFailed: there is no room for them.
        """
        try:
            write_inversions(rows, self._out / INVERSIONS)
        except OSError as error:
            raise ScanFailed(str(error)) from error


def schema() -> "pyarrow.Schema":
    """Of both folders' files; the names and types of Spark's."""
    import pyarrow as pa

    return pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", "UTC")),
            ("timestamp_ms", pa.int64()),
            ("key", pa.binary()),
            ("size", pa.int64()),
            ("class", pa.string()),
            ("order", pa.string()),
            ("misplaced", pa.bool_()),
            ("repeated", pa.bool_()),
        ]
    )


class _Rows:
    """Rows of one file, which go there in batches of bounded size."""

    def __init__(self, writer: "ParquetWriter", columns: "pyarrow.Schema") -> None:
        self._writer = writer
        self._schema = columns
        self._rows: list[MissingRow] = []
        self._key_bytes = 0

    def add(self, row: MissingRow) -> None:
        """Write this row, sooner or later."""
        self._rows.append(row)
        self._key_bytes += len(row.key or b"")
        if len(self._rows) >= _ROWS or self._key_bytes >= _KEY_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is left."""
        import pyarrow as pa

        if self._rows:
            columns: list[list[object]] = list(map(list, zip(*self._rows, strict=True)))
            dates: list[object] = [micros(row.timestamp_ms) for row in self._rows]
            columns.insert(self._schema.get_field_index("timestamp"), dates)
            for name in ("class", "order"):
                at = self._schema.get_field_index(name)
                columns[at] = list(map(str, columns[at]))
            arrays = [
                pa.array(values, type=field.type)
                for values, field in zip(columns, self._schema, strict=True)
            ]
            self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        self._rows, self._key_bytes = [], 0


@contextmanager
def _file(folder: Path) -> Iterator[_Rows]:
    columns = schema()
    with replaced(folder, columns) as writer:
        rows = _Rows(writer, columns)
        yield rows
        rows.flush()
