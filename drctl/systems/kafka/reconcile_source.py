"""The source's log as `drctl reconcile` reads it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from drctl.gap.failures import ScanFailed
from drctl.model.errors import Unknown
from drctl.model.rows import Row
from drctl.model.topology import OffsetRange, TopicPartition
from drctl.reconcile.rows import Piece, seen_of
from drctl.systems.collecting import seldom_collected
from drctl.systems.kafka.log_reader import PATIENCE_S, LogSource, Reading, Scan
from drctl.systems.kafka.reconcile_messages import MessageConsumer
from drctl.systems.kafka.scan_consumer import ScanConsumer

_CONNECT_S = 1.0
_WAIT = "fetch.wait.max.ms"
_LITTLE = {"queued.max.messages.kbytes": "8192", "queued.min.messages": "50000"}

Ranges = Mapping[int, Sequence[OffsetRange]]


class KafkaSourceLog:
    """Implements `drctl.reconcile.rows.SourceLog`; little is held of each partition."""

    def __init__(self, cluster: str, properties: Mapping[str, str]) -> None:
        self._source = LogSource(cluster, {**_LITTLE, **properties})

    def read(self, topic: str, ranges: Ranges) -> Iterator[Piece]:
        """Every committed record of these ranges, those of a partition in order, as `Row`.

        Raises:
            Unknown: something could not be read to its end.
        """
        for piece in self._pieces(topic, ranges, ScanConsumer):
            rows = cast("Sequence[Row]", piece.rows)
            yield piece._replace(rows=[seen_of(row) for row in rows])

    def raw(self, topic: str, ranges: Ranges) -> Iterator[Piece]:
        """The same as a copier takes them; a piece is good until the next one is asked for.

        Raises:
            Unknown: likewise.
        """
        with seldom_collected():
            yield from self._pieces(topic, ranges, MessageConsumer)

    def _pieces(self, topic: str, ranges: Ranges, opened: type[ScanConsumer]) -> Iterator[Piece]:
        waiting = {
            TopicPartition(topic, partition): Reading(wanted)
            for partition, runs in ranges.items()
            if (wanted := [r for r in reversed(runs) if r.span])
        }
        source = self._source
        # A broker may wait that long for more bytes, if the site wants it to.
        patience_s = PATIENCE_S + int(source.properties.get(_WAIT, 0)) / 1000
        if not waiting:
            return
        try:
            with opened(source.properties) as consumer:
                consumer.connect(_CONNECT_S)
                for chunk in Scan(source.cluster, consumer, waiting, patience_s).chunks():
                    rows = cast("Sequence[Any]", chunk.rows)
                    yield Piece(TopicPartition(chunk.topic, chunk.partition), rows)
        except ScanFailed as failed:
            raise Unknown(
                f"the source could not be read to the end: {failed.cause}",
                "run it again: it goes on where it stopped",
            ) from failed
