"""One look at where all groups of a link stand, and what has to be noted of that."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from drctl.model.errors import ConfigError
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition, Unavailable
from drctl.model.translation import GroupPartition
from drctl.offsets.anchor_log import AnchorLog, Change, Confirmations, Held
from drctl.offsets.anchor_pen import AnchorPen
from drctl.offsets.link_translation import Cluster
from drctl.offsets.readings import Reading, read_before
from drctl.offsets.sight import Problem, Sight, look_around
from drctl.offsets.situation import Carried
from drctl.wire import anchor_passes
from drctl.wire.anchor_passes import Pass, PassKey, Scope
from drctl.wire.anchors import AnchorHead

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a source found.

    Attributes:
        cluster_id: of the source.
        began_ms: milliseconds since 1970 UTC.
        groups: how many the link carries.
        positions: how many they have in its topics.
        moved: positions that are not as they are noted.
        bare: of these, how many have no consumed record left to know them by.
        astray: anchors of positions that could not be seen.
        notes: anchors to write.
        forgotten: anchors to delete.
        own: the record that vouches for all of this, once it is written.
    """

    cluster_id: str
    began_ms: int
    groups: int
    positions: int
    moved: int
    bare: int
    astray: int
    notes: tuple[Change, ...]
    forgotten: tuple[Change, ...]
    own: Change
    problems: tuple[Problem, ...]

    @property
    def noted(self) -> int:
        """How many anchors are to be written."""
        return sum(value is not None for _, value in self.notes)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Everything to write, in this order: what vouches for the rest comes last."""
        return (*self.notes, *self.forgotten, self.own)


@dataclass(frozen=True, slots=True)
class Tracker:
    """Looks at the groups of a link; writes nothing itself.

    Attributes:
        scope: the same link as patterns.
        now_ms: the time.
    """

    link: Carried
    scope: Scope
    source: Cluster
    now_ms: Callable[[], int]

    def look(self, log: AnchorLog, target_id: str, progress: Progress) -> Look:
        """Look once.

        Args:
            log: what was noted until now; read before this look begins, so that all of it is older.
            target_id: of the cluster that keeps the log.

        Raises:
            ConfigError: the source is that cluster.
            Unreachable: the source did not answer.
            ScanFailed: records could not be read to their end.
        """
        progress("looking at the groups")
        began_ms = self.now_ms()
        reader = self.source.reader
        cluster_id = reader.cluster_id()
        if cluster_id == target_id:
            raise ConfigError(
                f"cluster {reader.name} would keep the anchors of its own groups",
                "let `from` and `to` of the link name two clusters",
            )
        known = self._known(log, cluster_id)
        sight = look_around(self.link, reader, self.source.groups, known.keys())
        moved = dict(_moved(sight, known))
        if moved:
            progress("reading the last consumed records")
        readings = read_before(self.source, sight, moved, known, began_ms)
        seen_ms = Confirmations(log.passes(cluster_id), self.scope).seen_ms
        pen = AnchorPen(cluster_id, began_ms, seen_ms, log.buried)
        _put_down(pen, sight, known, readings)
        return self._look(cluster_id, began_ms, sight, readings, pen)

    def _look(
        self,
        cluster_id: str,
        began_ms: int,
        sight: Sight,
        readings: Mapping[GroupPartition, Reading | Unavailable],
        pen: AnchorPen,
    ) -> Look:
        key = PassKey(cluster_id, self.scope.digest)
        own = Pass(began_ms, self.scope, sight.groups, len(sight.positions))
        return Look(
            cluster_id=cluster_id,
            began_ms=began_ms,
            groups=sight.groups,
            positions=len(sight.positions),
            moved=len(readings),
            bare=sum(
                isinstance(each, Reading) and not each.trail.steps for each in readings.values()
            ),
            astray=pen.astray,
            notes=tuple(pen.notes),
            forgotten=tuple(pen.forgotten),
            own=(anchor_passes.encode_key(key), anchor_passes.encode_value(own)),
            problems=(*sight.problems, *_unread(readings)),
        )

    def _known(self, log: AnchorLog, cluster_id: str) -> Mapping[GroupPartition, Held]:
        """What is noted of the positions that the link carries."""
        carries, carries_group = cache(self.link.carries), cache(self.link.carries_group)
        return {
            GroupPartition(key.group, TopicPartition(key.topic, key.partition)): held
            for key, held in log.of_cluster(cluster_id)
            if carries_group(key.group) and carries(key.topic)
        }


def _moved(
    sight: Sight, known: Mapping[GroupPartition, Held]
) -> Iterator[tuple[GroupPartition, Committed]]:
    """Positions that are not as they are noted, also because their topic was made anew."""
    for place, position in sight.positions.items():
        held = known.get(place)
        topic_id = sight.topics[place.partition.topic].topic_id
        if held is None or not _same(held.head, position, topic_id):
            yield place, position


def _same(head: AnchorHead, position: Committed, topic_id: str) -> bool:
    there = (position.offset, position.leader_epoch, topic_id)
    return (head.offset, head.leader_epoch, head.topic_id) == there


def _put_down(
    pen: AnchorPen,
    sight: Sight,
    known: Mapping[GroupPartition, Held],
    readings: Mapping[GroupPartition, Reading | Unavailable],
) -> None:
    for place, position in sight.positions.items():
        held, reading = known.get(place), readings.get(place)
        if isinstance(reading, Unavailable):
            pen.lost(place, held, gone=False)
        elif reading is not None:
            topic_id = sight.topics[place.partition.topic].topic_id
            pen.moved(place, held, position, topic_id, reading)
        elif held is not None:
            pen.kept(place, held)
    for place in sorted(sight.gone | sight.unseen):
        pen.lost(place, known.get(place), gone=place in sight.gone)


def _unread(readings: Mapping[GroupPartition, Reading | Unavailable]) -> Iterator[Problem]:
    for (group, partition), reading in readings.items():
        if isinstance(reading, Unavailable):
            yield Problem(group, *partition, reading.reason)
