"""How far MirrorMaker 2 got, from the last offset sync that it wrote of each partition.

It writes one for some of the records that it has copied, so it got at least as far.
"""

from collections.abc import Callable, Iterable, Mapping

from drctl.gap.tail import Position
from drctl.model.topology import TopicPartition
from drctl.offsets.mirror_topics import Aliases, Place, read_syncs
from drctl.offsets.offset_syncs import usable


class SyncPositions:
    """Implements `drctl.gap.tail.PositionFinder` without a Connect worker.

    Args:
        aliases: says what MirrorMaker 2 calls the clusters; None where nobody knows.
    """

    def __init__(self, source: Place, target: Place, aliases: Callable[[], Aliases | None]) -> None:
        self._source = source
        self._target = target
        self._aliases = aliases

    @property
    def same_offsets(self) -> bool:
        """No: a copy has an offset of its own."""
        return False

    def positions(self, topics: Iterable[str]) -> Mapping[TopicPartition, Position]:
        """By source partition; without those of which there is no sync.

        Raises:
            Unreachable: a cluster did not answer.
            ScanFailed: the topic of syncs could not be read to its end.
        """
        aliases, wanted = self._aliases(), set(topics)
        if aliases is None:
            return {}
        synced = read_syncs(aliases, self._source, self._target, {}, lambda _phase: None)
        found = {}
        for place, syncs in synced.syncs.items():
            if place.topic in wanted and (kept := usable(syncs)):
                last = kept[-1]
                evidence = f"the last offset sync is of offset {last.upstream}"
                found[place] = Position(last.upstream + 1, evidence)
        return found
