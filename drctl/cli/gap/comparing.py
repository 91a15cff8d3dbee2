"""The record comparison in this process, for few records: no Java, no Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.cli import wiring

if TYPE_CHECKING:
    from drctl.config.link import Link
    from drctl.gap.comparison import RecordComparer


@contextmanager
def direct_comparer(link: "Link", out: Path) -> "Iterator[RecordComparer]":
    """Reads and compares in this process.

    Args:
        out: directory for the records it finds.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.gap.comparison import Side
    from drctl.gap.direct import DirectComparer
    from drctl.systems.kafka.log_reader import KafkaLogReader, LogSource
    from drctl.systems.parquet.records import ParquetRecords

    sources = {
        Side.SOURCE: LogSource(link.source, wiring.revealed(link.source_config)),
        Side.TARGET: LogSource(link.target, wiring.revealed(link.target_config)),
    }
    yield DirectComparer(KafkaLogReader(sources), ParquetRecords(out))
