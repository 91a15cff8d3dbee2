"""Translates all groups of a link: looks, asks every method with evidence, and chooses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from drctl.model.ports import ClusterReader, GroupReader
from drctl.model.translation import GroupPartition
from drctl.offsets.anchored import AnchorAnswers
from drctl.offsets.by_time import ConsumerTimestamps, GivenTime
from drctl.offsets.checkpoints import CheckpointAnswers
from drctl.offsets.evidence import Evidence, EvidenceReader, LastKnown, Progress, last_known
from drctl.offsets.identity import SameOffsets
from drctl.offsets.mapping import MappedOffsets
from drctl.offsets.offset_syncs import OffsetSyncs
from drctl.offsets.question import TranslationMethod
from drctl.offsets.record_match import RecordMatch
from drctl.offsets.searching import TargetSearch
from drctl.offsets.situation import (
    Carried,
    SourceGroups,
    Target,
    look_at_source,
    look_at_target,
)
from drctl.offsets.trail import RangeReader
from drctl.offsets.translating import Explained, aged, translate, unread


@dataclass(frozen=True, slots=True)
class Cluster:
    """One end of a link, opened."""

    reader: ClusterReader
    groups: GroupReader
    records: RangeReader


@dataclass(frozen=True, slots=True)
class LinkTranslated:
    """All rows of a link.

    Attributes:
        source: what was known of its groups.
        target_id: the target's cluster id.
        missing: evidence that could not be read.
    """

    rows: tuple[Explained, ...]
    source: SourceGroups
    target_id: str
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LinkTranslation:
    """One translation of a link.

    Attributes:
        same_offsets: whether the link's mirror preserves offsets.
        named_offsets: whether copies may name their offset on the source.
        now_ms: milliseconds UTC.
        given_ms: a time that the engineer gives.
    """

    link: Carried
    source: Cluster
    target: Cluster
    evidence: EvidenceReader
    same_offsets: bool
    named_offsets: bool
    now_ms: int
    given_ms: int | None = None

    def run(self, wanted: Callable[[str], bool], progress: Progress) -> LinkTranslated:
        """Translate the groups that are wanted.

        Raises:
            Unreachable: the target did not answer.
            ScanFailed: records could not be read to their end.
        """
        progress("looking at the groups")
        source = look_at_source(self.link, self.source.groups, wanted)
        progress("looking for evidence")
        evidence = self.evidence.read(not source.silent, progress)
        known, never = self._positions(source, evidence, wanted)
        positions = {place: position.offset for place, position in known.items()}
        progress("looking at the target")
        rename = self.link.target_topic
        target = look_at_target(positions, rename, self.target.reader, self.target.groups)
        progress("translating")
        methods = self._methods(positions, source, evidence, target)
        rows = translate(positions, never, rename, target, methods)
        if source.silent:
            rows = tuple(aged(row, known[row.translation.place], self.now_ms) for row in rows)
        return LinkTranslated(rows, source, self.target.reader.cluster_id(), evidence.missing)

    def _positions(
        self, source: SourceGroups, evidence: Evidence, wanted: Callable[[str], bool]
    ) -> tuple[Mapping[GroupPartition, LastKnown], frozenset[GroupPartition]]:
        """What groups have committed, and where they have nothing."""
        if not source.silent:
            names = {place.partition.topic for place in source.positions}
            topics = self.source.reader.topics(sorted(names)) if names else {}
            said = {place: LastKnown(offset) for place, offset in source.positions.items()}
            return said, unread(source.positions, topics)
        mine = {
            place: position
            for place, position in last_known(evidence, self.link.source_topic).items()
            if self.link.carries_group(place.group)
            and self.link.carries(place.partition.topic)
            and wanted(place.group)
        }
        return mine, frozenset()

    def _methods(
        self,
        positions: Mapping[GroupPartition, int | None],
        source: SourceGroups,
        evidence: Evidence,
        target: Target,
    ) -> list[TranslationMethod]:
        search = TargetSearch(self.target.reader, self.target.records, target.timed)
        mirrored = evidence.mirrored
        methods: list[TranslationMethod] = []
        syncs = None
        if mirrored is not None:
            noted = {place: c.upstream for place, c in mirrored.checkpoints.items()}
            syncs = OffsetSyncs(mirrored.syncs, target.logs, noted, self.now_ms)
        if self.same_offsets:
            partitions = {p.partition for p in positions}
            logs = self.source.reader.offsets(partitions) if not source.silent else {}
            methods.append(
                SameOffsets(
                    self.source.records,
                    self.target.records,
                    logs,
                    target.logs,
                    evidence.anchors if source.silent else {},
                )
            )
        if evidence.anchors:
            methods.append(AnchorAnswers(evidence.anchors, search, self.now_ms))
        if not source.silent:
            windows = syncs.window if syncs else (lambda _question: None)
            methods.append(RecordMatch(self.source.reader, self.source.records, search, windows))
        if self.named_offsets:
            there = None if source.silent else (self.source.reader, self.source.records)
            records, anchors = self.target.records, evidence.anchors
            methods.append(MappedOffsets(evidence.source_id, there, records, target.logs, anchors))
        if mirrored is not None and syncs is not None:
            methods.append(syncs)
            methods.append(
                CheckpointAnswers(mirrored.checkpoints, target.logs, mirrored.anew_ms, self.now_ms)
            )
        if evidence.consumed:
            reader = None if source.silent else self.source.reader
            methods.append(
                ConsumerTimestamps(
                    reader, self.target.reader, evidence.consumed, target.timed, self.now_ms
                )
            )
        if self.given_ms is not None:
            methods.append(GivenTime(self.target.reader, self.given_ms))
        return methods
