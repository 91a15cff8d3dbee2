"""Formats consumer timestamps as aligned columns; all text is made printable."""

from collections.abc import Iterable, Sequence

from drctl.offsets.consumer_timestamps import TimestampRow
from drctl.views.text import moment, plain

HEADINGS = ("GROUP", "TOPIC", "PARTITION", "LAST CONSUMED (UTC)", "DELTA", "WRITTEN (UTC)")
_TIME = 23
_LEAST = (8, 8, len("PARTITION"), _TIME, len("DELTA"), _TIME)
_NUMBERS = (2, 4)
_GAP = "  "
_WIDEST = 60
_SHOWN = 48

Cells = tuple[str, ...]


class Columns:
    """Aligned columns, as wide as the widest cell so far."""

    def __init__(self) -> None:
        self._widths = list(_LEAST)

    def fit(self, rows: Iterable[TimestampRow]) -> None:
        """Make room for these rows."""
        for row in rows:
            self._widen(_cells(row))

    def heading(self) -> str:
        """Return the heading line."""
        return self._line(HEADINGS)

    def line(self, row: TimestampRow) -> str:
        """Format one row."""
        if row.error:
            return undecodable(row)
        cells = _cells(row)
        self._widen(cells)
        return self._line(cells)

    def _widen(self, cells: Cells) -> None:
        self._widths = [
            max(width, min(_WIDEST, len(c))) for width, c in zip(self._widths, cells, strict=True)
        ]

    def _line(self, cells: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if n in _NUMBERS else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(cells, self._widths, strict=True))
        )
        return _GAP.join(padded).rstrip()


def undecodable(row: TimestampRow) -> str:
    """Format a record that cannot be decoded, with its first bytes."""
    partition, offset = row.at
    key, value = _hex(row.key), _hex(row.value)
    return (
        f"undecodable  partition {partition} offset {offset}: {row.error}; key {key} value {value}"
    )


def time(timestamp_ms: int | None) -> str:
    """Format a timestamp to the millisecond; records may hold any number."""
    if timestamp_ms is None:
        return "-"
    at = moment(timestamp_ms)
    return f"{at:%Y-%m-%d %H:%M:%S}.{timestamp_ms % 1000:03}" if at else f"{timestamp_ms} ms"


def _cells(row: TimestampRow) -> Cells:
    return (
        plain(row.group or "") or '""',
        plain(row.topic or "") or '""',
        str(row.partition),
        "deleted" if row.value is None else time(row.timestamp_ms),
        "-" if row.delta is None else str(row.delta),
        time(row.written_at_ms),
    )


def _hex(data: bytes | None) -> str:
    if data is None:
        return "null"
    text = data.hex()
    return (text[:_SHOWN] + ("..." if len(text) > _SHOWN else "")) or "empty"
