"""Formats values from clusters as text that is safe on a page, in a terminal and in a log.

Whatever a name, key or value contains, the result has no control, bidirectional or other invisible
characters, and two different inputs never give the same text.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import wraps
from itertools import pairwise
from typing import Any, ParamSpec, TypeVar

from drctl.config.secret import masked

COMMANDS = ("curl ", "drctl ", "kafka-")
"""The start of a line that is a command to paste."""

P = ParamSpec("P")
T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


class Kind(StrEnum):
    """Whether a key or value is null, is empty, or has bytes."""

    NULL = "null"
    EMPTY = "empty"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Shown:
    """A key or value in printable form.

    Attributes:
        text: the printable text; for null and empty, that word.
        cut: whether bytes were omitted.
    """

    kind: Kind
    text: str
    cut: bool = False


def collected(found: Callable[P, Iterator[T]]) -> Callable[P, tuple[T, ...]]:
    """Decorate a generator to return a tuple of all its items."""

    @wraps(found)
    def every(*args: P.args, **kwargs: P.kwargs) -> tuple[T, ...]:
        return tuple(found(*args, **kwargs))

    return every


def plain(text: str) -> str:
    r"""Escape text: unprintable characters become \xNN of their UTF-8, `\` is doubled."""
    return escape(_utf8(text))


def sentence(text: str) -> str:
    """Escape prose, such as a broker's reason; each run of white space becomes one space."""
    return plain(" ".join(text.split()))


def without_secrets(value: Any) -> Any:
    """Mask secrets in the text that a template shows; markup is not changed."""
    return masked(value) if type(value) is str else value


def escape(data: bytes) -> str:
    r"""Decode printable UTF-8; all other bytes become \xNN."""
    return "".join(map(_escape_char, data.decode("utf-8", "surrogateescape")))


def show(data: bytes | None, limit: int) -> Shown:
    """Format a key or value, at most its first `limit` bytes."""
    if data is None:
        return Shown(Kind.NULL, "null")
    if not data:
        return Shown(Kind.EMPTY, "empty")
    return Shown(Kind.BYTES, escape(data[:limit]), cut=len(data) > limit)


def _escape_char(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))


def _utf8(text: str) -> bytes:
    """Encode any text, even lone surrogates, which JSON allows and UTF-8 does not."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def number(value: int) -> str:
    """Format with thousands separators."""
    return f"{value:,}"


def share(part: int, whole: int) -> str:
    """Format a percentage; only exact shares become 0 % or 100 %."""
    if not part or not whole:
        return "0 %"
    if part == whole:
        return "100 %"
    if part / whole < 0.000_01:
        return "under 0.001 %"
    value = 100 * part / whole
    if value < 1:
        return f"{value:.3f}".rstrip("0").rstrip(".") + " %"
    return f"{value:.1f} %" if value < 99.9 else f"{int(value * 1000) / 1000:.3f} %"


def size(count: int) -> str:
    """Format a number of bytes in a readable unit."""
    value = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000:
            return f"{count} B" if unit == "B" else f"{value:.{1 if value < 100 else 0}f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def moment(timestamp_ms: int) -> datetime | None:
    """Convert milliseconds to UTC; None outside the years 1970 to 9999."""
    if not 0 <= timestamp_ms <= _LAST_MS:
        return None
    return _EPOCH + timedelta(milliseconds=timestamp_ms)


def utc(timestamp_ms: int | None) -> str:
    """Format to the second, without the zone (show UTC beside it); accepts any number."""
    if timestamp_ms is None:
        return "-"
    if timestamp_ms == -1:
        return "no timestamp"
    at = moment(timestamp_ms)
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else f"{timestamp_ms} ms"


def age(timestamp_ms: int | None, now: datetime) -> str:
    """Format how long before `now` it was, in two units; empty without a valid timestamp."""
    at = None if timestamp_ms is None else moment(timestamp_ms)
    if at is None:
        return ""
    # Clocks of producers may be some milliseconds ahead.
    early = at - now >= timedelta(seconds=1)
    return f"{duration(at - now)} in the future" if early else f"{duration(max(now, at) - at)} old"


def be(count: int) -> str:
    """Return the verb for a count: `1 record is`, `2 records are`."""
    return "is" if count == 1 else "are"


def duration(length: timedelta | float) -> str:
    """Format a duration in two units: `3 h 12 min`, `45 s`."""
    seconds = int(length.total_seconds() if isinstance(length, timedelta) else length)
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    for (name, width), (finer, finer_width) in pairwise(units):
        if seconds >= width:
            rest = seconds % width // finer_width
            return f"{seconds // width} {name}" + (f" {rest} {finer}" if rest else "")
    return f"{seconds} s"


def when(at: datetime | None) -> str:
    """Format to the second in UTC, without the zone."""
    return "-" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def length(seconds: float | None) -> str:
    """Format seconds: `0.3 s`, `42.1 s`, `3 min 12 s`, `2 h 5 min`."""
    if seconds is None:
        return "-"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    return f"{whole // 3600:,} h" + (f" {whole % 3600 // 60} min" if whole % 3600 // 60 else "")
