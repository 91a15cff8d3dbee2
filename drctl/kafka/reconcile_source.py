"""Read the source's log for `drctl reconcile`."""

from collections.abc import Iterator, Mapping, Sequence

from drctl.gap.comparison import ScanFailed
from drctl.host.processes import reduced_gc
from drctl.kafka.log_reader import KafkaRangeReader, LogSource
from drctl.model.errors import Unknown
from drctl.model.topology import OffsetRange, TopicPartition
from drctl.reconcile.gap_result import Piece, seen_of

_SMALL_QUEUE = {"queued.max.messages.kbytes": "8192", "queued.min.messages": "50000"}


class KafkaSourceLog:
    """Implements `drctl.reconcile.gap_result.SourceLog`; buffers little of each partition."""

    def __init__(self, cluster: str, properties: Mapping[str, str]) -> None:
        self._reader = KafkaRangeReader(LogSource(cluster, {**_SMALL_QUEUE, **properties}))

    def read(self, topic: str, ranges: Mapping[int, Sequence[OffsetRange]]) -> Iterator[Piece]:
        """Every committed record of these ranges, in order within each partition.

        Raises:
            Unknown: a range could not be read to its end.
        """
        try:
            with reduced_gc():
                for chunk in self._reader.read({topic: ranges}):
                    place = TopicPartition(topic, chunk.partition)
                    yield Piece(place, list(map(seen_of, chunk.rows)))
        except ScanFailed as failed:
            raise Unknown(
                f"the source could not be read to the end: {failed.cause}",
                "run the command again: it continues where it stopped",
            ) from failed
