"""When the records were made that a consumer has consumed and may commit."""

from array import array
from bisect import bisect_left
from threading import Lock

Place = tuple[str, int]
"""Topic and partition."""


class ConsumedTimes:
    """Remembers offset and timestamp of consumed records, of each partition the last ones.

    Where there are too many, every other one is forgotten: an older one then stands for it, which
    means more records to read again after a failover, and none skipped.

    Args:
        limit: how many of a partition are remembered.
    """

    def __init__(self, limit: int) -> None:
        self._limit = max(2, limit)
        self._windows: dict[Place, tuple[array[int], array[int]]] = {}
        self._lock = Lock()

    def note(self, place: Place, offset: int, timestamp_ms: int) -> None:
        """A record was consumed."""
        with self._lock:
            window = self._windows.get(place)
            if window is None:
                window = self._windows[place] = (array("q"), array("q"))
            offsets, times = window
            if offsets and offset <= offsets[-1]:
                del offsets[:], times[:]  # the consumer went back
            offsets.append(offset)
            times.append(timestamp_ms)
            if len(offsets) > self._limit:
                del offsets[1:-1:2], times[1:-1:2]

    def before(self, place: Place, committed: int) -> int | None:
        """The timestamp of the last consumed record before this offset; None where nobody knows.

        What lies before that record is forgotten.
        """
        with self._lock:
            offsets, times = self._windows.get(place, (array("q"), array("q")))
            last = bisect_left(offsets, committed) - 1
            if last < 0:
                return None
            found = times[last]
            del offsets[:last], times[:last]
            return found

    def forget(self, place: Place) -> None:
        """The partition is consumed anew: what somebody else did with it meanwhile is not known."""
        with self._lock:
            self._windows.pop(place, None)
