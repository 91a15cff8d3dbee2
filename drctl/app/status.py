"""Reads everything for `drctl status` in parallel and quickly; nothing here writes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from drctl.app import adapters
from drctl.app.link_reader import ClusterLinkReader
from drctl.app.loss import LossReader
from drctl.app.prechecks import opened_ports
from drctl.model.errors import Unreachable
from drctl.model.text import plural

if TYPE_CHECKING:
    from drctl.checks.go import GroupsNow, Rpo, StatusNow
    from drctl.checks.observed import Observed
    from drctl.checks.ports import LinkPorts
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.groups import Group
    from drctl.model.ports import ClusterReader, GroupReader
    from drctl.model.topology import Unavailable
    from drctl.model.translation import GroupPartition
    from drctl.offsets.evidence import Evidence
    from drctl.offsets.methods import Question, TranslationMethod

_NO_EVIDENCE = "the target has no evidence of its offset"


@dataclass(frozen=True, slots=True)
class GroupPorts:
    """Readers of groups and offsets of both clusters; the source may be unreachable."""

    source: "ClusterReader"
    source_groups: "GroupReader"
    target: "ClusterReader"
    target_groups: "GroupReader"


def groups_now(link: "Link", ports: GroupPorts) -> "GroupsNow":
    """The state of all groups of the link.

    Raises:
        Unreachable: the target did not answer.
        ScanFailed: the topics with evidence could not be read to their end.
    """
    from drctl.checks.go import GroupsNow
    from drctl.model.errors import Unreachable
    from drctl.model.replication import LeftOut
    from drctl.offsets.evidence import last_known
    from drctl.offsets.situation import SourceGroups, look_at_source

    try:
        # Fails at once if the source is already known to be unreachable.
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
    partitions = ports.target.overview().partitions
    groups = ports.target_groups.described(names)
    methods = [*_methods(evidence), *_translated(link, names, ports)]
    found = _left_out(link, positions, evidence, partitions, groups, methods)
    rows = tuple(LeftOut(p.group, p.partition, why) for p, why in sorted(found.items()))
    unseen = f"{plural(len(seen.unseen), 'group')} could not be read" if seen.unseen else ""
    return GroupsNow(len(names), len(positions), rows, unseen)


def _evidence(link: "Link", ports: GroupPorts) -> "Evidence":
    """The evidence of offsets on the target, as if the source were lost."""
    from drctl.offsets.evidence_topics import EvidenceTopics
    from drctl.offsets.tracking_log import scope_of

    records = adapters.range_reader(link.target, link.target_config)
    replicator = link.settings.replicator
    topics = EvidenceTopics(
        (ports.source, records),
        (ports.target, records),
        lambda: adapters.mirror_aliases(link, ports.target),
        mirrors=replicator.kind == "mirrormaker2",
        copied_topic=replicator.copied_offsets_topic,
        scope=scope_of(link),
    )
    return topics.read(False, lambda _phase: None)


def _left_out(
    link: "Link",
    positions: "Mapping[GroupPartition, int | None]",
    evidence: "Evidence",
    partitions: Mapping[str, tuple[int, ...]],
    groups: "Mapping[str, Group | Unavailable]",
    methods: "Sequence[TranslationMethod]",
) -> "dict[GroupPartition, str]":
    """Committed offsets without a target offset, each with the reason."""
    from drctl.model.groups import Group
    from drctl.model.topology import TopicPartition
    from drctl.offsets.methods import NoAnswer, Question

    found: dict[GroupPartition, str] = {}
    questions = []
    for place, committed in positions.items():
        copy = TopicPartition(link.target_topic(place.partition.topic), place.partition.partition)
        group = groups.get(place.group)
        if copy.partition not in partitions.get(copy.topic, ()):
            found[place] = f"{copy} does not exist on the target, or is not visible to this user"
        elif isinstance(group, Group) and group.active:
            found[place] = "the group is active on the target"
        else:
            questions.append(Question(place, committed, copy))
    if link.settings.replicator.kind == "offset-preserving":
        return found
    open_ = questions
    for method in methods:
        answers = method.answers(open_)
        open_ = [q for q in open_ if isinstance(answers[q], NoAnswer)]
    return found | {q.place: _NO_EVIDENCE for q in open_ if not _tracked(q, evidence)}


def _tracked(question: "Question", evidence: "Evidence") -> bool:
    """Whether drctl's tracking, or the consumer itself, recorded the offset on the target."""
    tracked = evidence.tracked_offsets.get(question.place)
    if tracked is None:
        return question.place in evidence.consumed
    return question.committed is None or tracked.offset <= question.committed


def _methods(evidence: "Evidence") -> "list[TranslationMethod]":
    """The methods of translation that do not read records."""
    from drctl.offsets.checkpoints import CheckpointAnswers, OffsetSyncs

    mirrored = evidence.mirrored
    if mirrored is None:
        return []
    return [
        OffsetSyncs(mirrored.syncs, {}, {}, 0),
        CheckpointAnswers(mirrored.checkpoints, {}, mirrored.recreated_ms, 0),
    ]


def _translated(
    link: "Link", groups: "Sequence[str]", ports: GroupPorts
) -> "Iterator[TranslationMethod]":
    """The offsets that Confluent Replicator has translated and committed on the target."""
    from drctl.offsets.link_translation import TargetOffsets

    if link.settings.replicator.kind == "confluent-replicator":
        yield TargetOffsets(ports.target_groups.committed(groups), {})


_NOT_CHECKED = "not checked by drctl status: see drctl doctor"
_DEADLINE_S = 30.0

_GROUPS_S = 20.0
"""Timeout for reading the groups. The first attempt takes up to a fifth of it, and must not be
shorter: librdkafka aborts the process if the attempt ends while a busy coordinator describes a
group (its issue 4605)."""


@dataclass(frozen=True, slots=True)
class StatusReader:
    """Reads the status of a link, repeatedly if needed."""

    config: "Config"
    link: "Link"
    reader: ClusterLinkReader
    ports: "LinkPorts"
    groups: GroupPorts

    def look(self) -> "StatusNow":
        """Read the current status; names the systems that do not answer."""
        from drctl.checks.bounded_query import BoundedQuery
        from drctl.checks.go import GroupsNow, judged
        from drctl.checks.observing import Observer
        from drctl.model.loss import Mode
        from drctl.model.topology import Unavailable

        began = time.monotonic()
        groups = BoundedQuery(self._groups, _DEADLINE_S)
        others = self.config.beside(self.link)
        observer = Observer(self.link, self.config.policy, self.ports, _now_ms, others)
        observed = observer.observe(Mode.PLANNED)
        lost = self._lost(observed) if isinstance(observed.source, Unavailable) else None
        answer = groups.answer()
        if isinstance(answer, Unavailable):
            answer = GroupsNow(unknown=answer.reason)
        return judged(observed, answer, lost, time.monotonic() - began)

    def _groups(self) -> "GroupsNow":
        from drctl.checks.go import GroupsNow

        if not self.link.settings.translate:
            return GroupsNow(unknown="the link has translate: false")
        return groups_now(self.link, self.groups)

    def _lost(self, observed: "Observed") -> "Rpo":
        """Estimate the loss if the source does not answer."""
        from drctl.checks.go import Rpo, unknown
        from drctl.model.topology import Unavailable

        copies = observed.target_topics
        if isinstance(copies, Unavailable):
            return unknown("both clusters are unreachable")
        names = (self.link.source_topic(name) for name in copies)
        topics = self.link.topics_of(name for name in names if name is not None)
        target = self.reader.cluster_reader(self.link.target)
        try:
            loss = LossReader(self.config, self.link, target, topics).loss()
        except Unreachable as error:
            return unknown(error.message)
        return Rpo(loss.records, loss.seconds, loss.message)


@contextmanager
def status_reader(config: "Config", link: "Link") -> Iterator[StatusReader]:
    """Open everything that `drctl status` reads.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    with (
        ClusterLinkReader(config, link, lambda *_: ()) as reader,
        opened_ports(reader, None) as ports,
        adapters.both_readers(link) as (source, target),
        adapters.reader(link.source, link.source_config, _GROUPS_S).groups as source_groups,
        adapters.reader(link.target, link.target_config, _GROUPS_S).groups as target_groups,
    ):
        reader.probe_clusters()
        lean = replace(
            ports,
            source=replace(ports.source, not_asked=_NOT_CHECKED),
            target=replace(ports.target, not_asked=_NOT_CHECKED),
        )
        groups = GroupPorts(source, source_groups, target, target_groups)
        yield StatusReader(config, link, reader, lean, groups)


def _now_ms() -> int:
    return int(time.time() * 1000)
