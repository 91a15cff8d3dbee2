"""What came to one topic of the target since, held against the records that are to be sent there.

Of what came, no more is held than fits: what the wanted records have that the others have not is
put into sieves first, and only what these do not keep back is looked at.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from drctl.model.gap import OrderVerdict
from drctl.model.rows import Headers, Row
from drctl.model.topology import PartitionOffsets, TopicPartition
from drctl.reconcile.gap_result import FoundPartition
from drctl.reconcile.rows import SourceLog, WantedRow, WantedRows, key_digest, ranges_of
from drctl.reconcile.sight import SideSight
from drctl.wire import provenance
from drctl.wire.undecodable import Undecodable

MOST_SUSPECTS = 50_000
"""Records of the target that are held at once, to be compared with wanted ones."""

MOST_KEYS = 100_000
"""Keys that something newer came of; those behind so many are not counted."""

_AT_ONCE = 50_000
_BITS = 27
_HEADER = provenance.HEADER.encode()
_WHOLE_TOPIC = -1

Digest = Callable[[int, bytes | None, bytes | None, Headers], Hashable]
"""Of timestamp, key, value and headers: the same for records that are the same."""


@dataclass(frozen=True, slots=True)
class Sameness:
    """What makes two records the same, as the gap analysis has it.

    Attributes:
        by_partition: whether a copy is in the partition of its original's number.
        keyed: whether records that are the same have the same key.
        timed: whether they have the same timestamp, where the target keeps it.
        digest: what digests a topic's records; told whether the target keeps timestamps.
    """

    by_partition: bool
    keyed: bool
    timed: bool
    digest: Callable[[bool], Digest]


@dataclass(frozen=True, slots=True)
class Stake:
    """Records of one partition of the source that are about to be sent.

    Attributes:
        through: where each of their lanes goes on.
        safe: the lanes that are copied because nothing newer is in front of them.
    """

    partition: FoundPartition
    through: dict[OrderVerdict, int] = field(default_factory=dict)
    safe: set[OrderVerdict] = field(default_factory=set)


Stakes = Mapping[TopicPartition, Stake]


class Sieve:
    """Says of most things that were not put in that they were not; 16 MiB, whatever is put in."""

    def __init__(self) -> None:
        self._bits = bytearray(1 << _BITS - 3)

    def add(self, thing: Hashable) -> None:
        """Put it in."""
        at = hash(thing) & (1 << _BITS) - 1
        self._bits[at >> 3] |= 1 << (at & 7)

    def __contains__(self, thing: Hashable) -> bool:
        """Whether it may have been put in."""
        at = hash(thing) & (1 << _BITS) - 1
        return bool(self._bits[at >> 3] >> (at & 7) & 1)


class Sieves:
    """What is wanted of all topics: keys, and what records that are the same have in common."""

    def __init__(self) -> None:
        self.keys, self.traits = Sieve(), Sieve()


class Newcomers:
    """Takes what came, in pieces.

    Args:
        topic: the source's name of it.
        source_id: Kafka's id of the source: copies that name it were made by drctl, and are known.
        timed: whether the target keeps the timestamps of the source's records.
        per_partition: whether whatever is newer counts, not only what has the same key.

    Attributes:
        until: the offset of each target partition up to which all was taken.
        there: the first wanted offset that is on the target by now, by place.
    """

    def __init__(
        self,
        topic: str,
        sieves: Sieves,
        source_id: str,
        rows: WantedRows,
        source: SourceLog,
        same: Sameness,
        *,
        timed: bool,
        per_partition: bool,
    ) -> None:
        self._topic, self._sieves = topic, sieves
        self._source_id, self._rows, self._source, self._same = source_id, rows, source, same
        self._timed, self._per_partition = timed, per_partition
        self._digest = same.digest(timed)
        self._newest: dict[tuple[int, bytes | None], int] = {}
        self._suspects: dict[Hashable, set[Hashable]] = {}
        self._held = 0
        self.until: dict[int, int] = {}
        self.there: dict[TopicPartition, int] = {}

    @property
    def full(self) -> bool:
        """Whether something has to be compared before more can be taken."""
        return self._held >= MOST_SUSPECTS

    @property
    def uncounted(self) -> bool:
        """Whether there may be more keys than were counted that something newer came of."""
        return len(self._newest) >= MOST_KEYS

    def want(self, stakes: Stakes) -> None:
        """Put what is wanted into the sieves."""
        for place, stake in stakes.items():
            for row in self._rows.after(place, stake.through):
                self._sieves.keys.add((self._topic, row[2]))
                self._sieves.traits.add((self._topic, self._trait(row[2], row[1])))

    def take(self, partition: int, rows: Iterable[Row]) -> None:
        """Some records of a partition of the target."""
        unit, newest, topic = self._unit(partition), self._newest, self._topic
        keys, traits = self._sieves.keys, self._sieves.traits
        for _, time, key, value, headers in rows:
            if headers and self._is_ours(headers):
                continue
            name = key_digest(key)
            if self._per_partition or (name is not None and (topic, name) in keys):
                which = unit, None if self._per_partition else name
                if which in newest or len(newest) < MOST_KEYS:
                    newest[which] = max(time, newest.get(which, time))
            trait = self._trait(name, time)
            if (topic, trait) in traits:
                digests = self._suspects.setdefault((unit, trait), set())
                digests.add(self._digest(time, key, value, headers))
                self._held += 1

    def compare(self, stakes: Stakes, source: SideSight) -> None:
        """See which wanted records are among what came, and forget what came.

        Raises:
            Unknown: wanted records could not be read from the source.
        """
        for place, stake in stakes.items():
            if self._suspects and place not in self.there:
                log = source.log(place)
                start = log.log_start if isinstance(log, PartitionOffsets) else 0
                at = self._first_there(place, stake, start)
                self.there |= {} if at is None else {place: at}
        self._suspects, self._held = {}, 0

    def newer(self, stakes: Stakes) -> Iterator[tuple[TopicPartition, int]]:
        """How many records that are copied as safe something newer came in front of."""
        for place, stake in stakes.items():
            if not self._newest or not stake.safe or place in self.there:
                continue
            through = {order: at for order, at in stake.through.items() if order in stake.safe}
            behind = sum(self._behind(place, row) for row in self._rows.after(place, through))
            if behind:
                yield place, behind

    def _first_there(self, place: TopicPartition, stake: Stake, start: int) -> int | None:
        unit, suspects = self._unit(place.partition), self._suspects
        alike = (
            (row[0], digests)
            for row in self._rows.after(place, stake.through)
            if (digests := suspects.get((unit, self._trait(row[2], row[1]))))
        )
        while some := dict(islice(alike, _AT_ONCE)):
            ranges = {place.partition: ranges_of(some, start)}
            for piece in self._source.read(place.topic, ranges):
                for offset, *_, record in piece.rows:
                    if offset in some and self._digest(*record[1:]) in some[offset]:
                        return int(offset)
        return None

    def _behind(self, place: TopicPartition, row: WantedRow) -> bool:
        key = None if self._per_partition else row[2]
        newest = self._newest.get((self._unit(place.partition), key))
        return newest is not None and (not self._timed or newest >= row[1])

    def _trait(self, name: bytes | None, time: int) -> Hashable:
        """What records that are the same have in common, as far as a gap result tells it."""
        timed = self._same.timed and self._timed
        return (name if self._same.keyed else None), (time if timed else None)

    def _unit(self, partition: int) -> int:
        return partition if self._same.by_partition else _WHOLE_TOPIC

    def _is_ours(self, headers: Headers) -> bool:
        for name, value in headers:
            if name == _HEADER:
                try:
                    return provenance.decode(value).cluster_id == self._source_id
                except Undecodable:
                    return False
        return False
