"""Timestamps of records in Parquet: the number that Kafka holds, and a date where there is one.

Kafka takes any 64 bits for a timestamp, and clients write nanoseconds where milliseconds belong.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.parquet import ParquetFile

DATE, RAW = "timestamp", "timestamp_ms"

_WORD = 1 << 63


def micros(timestamp_ms: int) -> int | None:
    """What Parquet holds of it as a date; None where it cannot."""
    found = timestamp_ms * 1000
    return found if -_WORD <= found < _WORD else None


def column_in(file: "ParquetFile") -> str:
    """Where the file has timestamps; those of earlier versions have dates alone."""
    return RAW if RAW in file.schema_arrow.names else DATE


def millis(times: "pyarrow.Array") -> "pyarrow.Array":
    """That column as milliseconds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(times.type):
        return times
    return pc.divide(times.cast(pa.timestamp("us")).cast(pa.int64()), 1000)
