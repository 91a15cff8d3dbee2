"""The source's log as `drctl reconcile` reads it."""

from collections.abc import Iterator, Mapping, Sequence

from drctl.gap.failures import ScanFailed
from drctl.model.errors import Unknown
from drctl.model.rows import Chunk
from drctl.model.topology import OffsetRange
from drctl.systems.kafka.log_reader import KafkaRangeReader, LogSource

_QUEUE = "queued.max.messages.kbytes"
_LITTLE = {_QUEUE: "8192", "queued.min.messages": "20000"}


class KafkaSourceLog:
    """Implements `drctl.reconcile.rows.SourceLog`; little is held of each partition."""

    def __init__(self, cluster: str, properties: Mapping[str, str]) -> None:
        self._reader = KafkaRangeReader(LogSource(cluster, {**_LITTLE, **properties}))

    def read(self, topic: str, ranges: Mapping[int, Sequence[OffsetRange]]) -> Iterator[Chunk]:
        """Every committed record of these ranges, those of a partition in order.

        Raises:
            Unknown: something could not be read to its end.
        """
        if not ranges:
            return
        try:
            yield from self._reader.read({topic: ranges})
        except ScanFailed as failed:
            raise Unknown(
                f"the source could not be read to the end: {failed.cause}",
                "run it again: it goes on where it stopped",
            ) from failed
