"""Moments as records, offsets and headers tell them: any 64-bit number, whoever wrote it."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def utc(timestamp_ms: int) -> str:
    """A moment in words; as a number where it is none of the calendar."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"timestamp {timestamp_ms}"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


def iso(timestamp_ms: int) -> str:
    """A moment as JSON has it; the number itself where it is none of the calendar."""
    try:
        return (_EPOCH + timedelta(milliseconds=timestamp_ms)).isoformat()
    except OverflowError:
        return str(timestamp_ms)


def new_name() -> str:
    """A name for a run, or a result, that begins now; names sort by time."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
