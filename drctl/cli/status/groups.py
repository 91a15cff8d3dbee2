"""Which groups could go on if the source were lost now: by what the target keeps of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drctl.cli import wiring

if TYPE_CHECKING:
    from drctl.checks.go import GroupsNow
    from drctl.config.link import Link
    from drctl.model.groups import Group
    from drctl.model.ports import ClusterReader, GroupReader
    from drctl.model.topology import Unavailable
    from drctl.model.translation import GroupPartition
    from drctl.offsets.evidence import Evidence
    from drctl.offsets.question import Question, TranslationMethod

_NOTHING = "nothing on the target tells where it stands there"


@dataclass(frozen=True, slots=True)
class GroupPorts:
    """What knows groups and positions of both clusters; the source may be dead."""

    source: "ClusterReader"
    source_groups: "GroupReader"
    target: "ClusterReader"
    target_groups: "GroupReader"


def groups_now(link: "Link", ports: GroupPorts) -> "GroupsNow":
    """All groups of the link.

    Raises:
        Unreachable: the target did not answer.
        ScanFailed: what it keeps could not be read to its end.
    """
    from drctl.checks.go import GroupsNow
    from drctl.model.errors import Unreachable
    from drctl.model.replication import LeftOut
    from drctl.offsets.evidence import last_known
    from drctl.offsets.situation import SourceGroups, look_at_source

    try:
        # Whoever is dead is not waited for twice.
        ports.source.cluster_id()
        seen = look_at_source(link, ports.source_groups, lambda _group: True)
    except Unreachable as error:
        seen = SourceGroups({}, silent=error.message)
    evidence = _evidence(link, ports)
    positions: Mapping[GroupPartition, int | None] = seen.positions
    if seen.silent:
        known = last_known(evidence, link.source_topic)
        positions = {
            place: each.offset
            for place, each in known.items()
            if link.carries_group(place.group) and link.carries(place.partition.topic)
        }
    names = sorted({place.group for place in positions})
    there = ports.target.overview().partitions
    found = _left_out(link, positions, evidence, there, ports.target_groups.described(names))
    rows = tuple(LeftOut(p.group, p.partition, why) for p, why in sorted(found.items()))
    unseen = f"{len(seen.unseen):,} groups could not be seen" if seen.unseen else ""
    return GroupsNow(len(names), len(positions), rows, unseen)


def _evidence(link: "Link", ports: GroupPorts) -> "Evidence":
    """What the target keeps: as if the source were lost, whose name alone is asked for."""
    from drctl.offsets.anchor_log import scope_of
    from drctl.offsets.evidence_topics import EvidenceTopics

    records = wiring.range_reader(link.target, link.target_config)
    replicator = link.settings.replicator
    topics = EvidenceTopics(
        (ports.source, records),
        (ports.target, records),
        lambda: wiring.mirror_aliases(link, ports.target),
        mirrors=replicator.kind == "mirrormaker2",
        copied_topic=replicator.copied_offsets_topic,
        scope=scope_of(link),
    )
    return topics.read(False, lambda _phase: None)


def _left_out(
    link: "Link",
    positions: "Mapping[GroupPartition, int | None]",
    evidence: "Evidence",
    there: Mapping[str, tuple[int, ...]],
    groups: "Mapping[str, Group | Unavailable]",
) -> "dict[GroupPartition, str]":
    """Why each position has no place there."""
    from drctl.model.groups import Group
    from drctl.model.topology import TopicPartition
    from drctl.offsets.question import NoAnswer, Question

    found: dict[GroupPartition, str] = {}
    questions = []
    for place, committed in positions.items():
        copy = TopicPartition(link.target_topic(place.partition.topic), place.partition.partition)
        group = groups.get(place.group)
        if copy.partition not in there.get(copy.topic, ()):
            found[place] = f"{copy} does not exist on the target"
        elif isinstance(group, Group) and group.active:
            found[place] = "somebody reads in the group on the target"
        else:
            questions.append(Question(place, committed, copy))
    if link.settings.replicator.kind == "offset-preserving":
        return found
    open_ = questions
    for method in _methods(evidence):
        answers = method.answers(open_)
        open_ = [q for q in open_ if isinstance(answers[q], NoAnswer)]
    return found | {q.place: _NOTHING for q in open_ if not _noted(q, evidence)}


def _noted(question: "Question", evidence: "Evidence") -> bool:
    """Whether drctl's own tracking, or the consumer itself, noted where it was."""
    anchor = evidence.anchors.get(question.place)
    if anchor is None:
        return question.place in evidence.consumed
    return question.committed is None or anchor.offset <= question.committed


def _methods(evidence: "Evidence") -> "list[TranslationMethod]":
    """Those that need no record."""
    from drctl.offsets.checkpoints import CheckpointAnswers
    from drctl.offsets.offset_syncs import OffsetSyncs

    mirrored = evidence.mirrored
    if mirrored is None:
        return []
    return [
        OffsetSyncs(mirrored.syncs, {}, {}, 0),
        CheckpointAnswers(mirrored.checkpoints, {}, mirrored.anew_ms, 0),
    ]
