"""Timestamps of records and headers, which can be any 64-bit number."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc(timestamp_ms: int) -> str:
    """A timestamp as text; the number itself if it is outside the calendar."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"timestamp {timestamp_ms}"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def iso(timestamp_ms: int) -> str:
    """A timestamp for JSON; the number itself if it is outside the calendar."""
    try:
        return (_EPOCH + timedelta(milliseconds=timestamp_ms)).isoformat()
    except OverflowError:
        return str(timestamp_ms)


def new_name() -> str:
    """An id for a run or result that starts now; ids sort by time."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
