"""Reads `__consumer_timestamps` and shows it, as far as it goes and then as it comes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.console import console
from drctl.cli.dump.output import DumpOutput
from drctl.gap.failures import ScanFailed
from drctl.model.errors import ExitCode, Unknown
from drctl.model.rows import Chunk
from drctl.offsets.newest_timestamps import NewestTimestamps
from drctl.offsets.timestamp_rows import RowDecoder, Wanted
from drctl.offsets.timestamps_topic import Extent, freeze, read_frozen
from drctl.wire.consumer_timestamps import TOPIC

if TYPE_CHECKING:
    from drctl.cli.notices import Task
    from drctl.config.schema import ClusterConfig


@dataclass(frozen=True, slots=True)
class Dump:
    """What is to be shown.

    Attributes:
        everything: every record; else the newest of each key.
    """

    name: str
    cluster: "ClusterConfig"
    wanted: Wanted
    everything: bool

    def run(self, follow: bool) -> ExitCode:
        """Show it; does not return while it is followed.

        Raises:
            Unknown: it could not be read to its end, or not be followed any more.
            Unreachable: the cluster did not answer.
        """
        decoder = RowDecoder(self.wanted)
        output = DumpOutput(self.name, self.everything)
        with wiring.open_reader(self.name, self.cluster) as reader:
            extent = freeze(reader)
            for reason in extent.incomplete:
                console().warn(f"topic {TOPIC} of {self.name}: {reason}")
            self._show(extent, decoder, output)
            output.end()
            if follow:
                tail = wiring.topic_tail(reader, self.cluster, extent.topic)
                for chunk in tail.chunks(extent.ends):
                    output.rows(decoder.rows(chunk))
                    output.flush()
        if extent.incomplete:
            return ExitCode.UNKNOWN
        return ExitCode.FOUND if output.undecodable else ExitCode.DONE

    def _show(self, extent: Extent, decoder: RowDecoder, output: DumpOutput) -> None:
        with output.task(f"reading {TOPIC} of {self.name}", extent.offsets) as task:
            chunks = self._chunks(extent, task)
            if self.everything:
                for chunk in chunks:
                    output.rows(decoder.rows(chunk))
            else:
                newest = NewestTimestamps(decoder, wiring.temporary_entries)
                for chunk in chunks:
                    output.rows(newest.take(chunk))
        if not self.everything:
            output.rows(newest.rows())
        output.flush()

    def _chunks(self, extent: Extent, task: "Task") -> Iterator[Chunk]:
        reader = wiring.frugal_range_reader(self.name, self.cluster)
        try:
            yield from read_frozen(reader, extent, task.update)
        except ScanFailed as failed:
            raise Unknown(
                f"topic {TOPIC} could not be read to its end: {failed.cause}",
                "see that all brokers run, and run it again",
            ) from failed
