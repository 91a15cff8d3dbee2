"""The missing records as Parquet, as Spark writes them: `records` and `others`."""

import shutil
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from drctl.gap.failures import ScanFailed
from drctl.gap.rows import MissingRow
from drctl.model.gap import RecordClass

if TYPE_CHECKING:
    import pyarrow

RECORDS = "records"
OTHERS = "others"
FILE = "part-00000.snappy.parquet"

_ROWS = 20_000
_KEY_BYTES = 8 << 20


class ParquetRecords:
    """Implements `drctl.gap.rows.MissingWriter`.

    Args:
        out: the folder of both folders.
    """

    def __init__(self, out: Path) -> None:
        self._out = out

    def write(self, rows: Iterable[MissingRow]) -> None:
        """Write all of them, in place of what was written before; also if there are none.

        Raises:
            ScanFailed: there is no room for them.
        """
        try:
            with ExitStack() as stack:
                records, others = (
                    stack.enter_context(_File(self._out / name)) for name in (RECORDS, OTHERS)
                )
                for row in rows:
                    unreplicated = row.record_class is RecordClass.UNREPLICATED
                    (records if unreplicated else others).add(row)
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
            ("key", pa.binary()),
            ("size", pa.int64()),
            ("class", pa.string()),
            ("order", pa.string()),
            ("misplaced", pa.bool_()),
            ("repeated", pa.bool_()),
        ]
    )


class _File:
    """One folder's only file; what is added goes there in batches of bounded size."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: list[MissingRow] = []
        self._key_bytes = 0

    def __enter__(self) -> Self:
        from pyarrow.parquet import ParquetWriter

        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        self._schema = schema()
        # Twelve bytes for a timestamp are out of fashion, but what Spark writes.
        self._writer = ParquetWriter(
            self._folder / FILE,
            self._schema,
            compression="snappy",
            use_deprecated_int96_timestamps=True,
            store_schema=False,
        )
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if exc is None:
                self._flush()
        finally:
            self._writer.close()

    def add(self, row: MissingRow) -> None:
        """Write this row, sooner or later."""
        self._rows.append(row)
        self._key_bytes += len(row.key or b"")
        if len(self._rows) >= _ROWS or self._key_bytes >= _KEY_BYTES:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        if self._rows:
            columns: list[list[object]] = list(map(list, zip(*self._rows, strict=True)))
            columns[3] = [row.timestamp_ms * 1000 for row in self._rows]
            columns[6] = [str(row.record_class) for row in self._rows]
            columns[7] = [str(row.order) for row in self._rows]
            arrays = [
                pa.array(values, type=field.type)
                for values, field in zip(columns, self._schema, strict=True)
            ]
            self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))
        self._rows, self._key_bytes = [], 0
