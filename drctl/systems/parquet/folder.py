"""A folder of one Parquet file, written in place of an earlier one as Spark would write it."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

FILE = "part-00000.snappy.parquet"


@contextmanager
def replaced(folder: Path, schema: "pyarrow.Schema") -> "Iterator[ParquetWriter]":
    """What writes the file; it is whole when the block ends.

    Raises:
        OSError: it cannot be written.
    """
    from pyarrow.parquet import ParquetWriter

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with ParquetWriter(
        folder / FILE,
        schema,
        compression="snappy",
        # Twelve bytes for a timestamp are out of fashion, but what Spark writes.
        use_deprecated_int96_timestamps=True,
        store_schema=False,
    ) as writer:
        yield writer
