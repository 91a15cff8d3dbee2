"""Copies that name their offset on the source, in a header of Redpanda Migrator's or of drctl's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from drctl.model.ports import ClusterReader
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition, Unavailable
from drctl.model.translation import Answer, GroupPartition, Method
from drctl.offsets.crossing import CopySearch, Crossing
from drctl.offsets.origins import Copy, copy_of
from drctl.offsets.question import UNKNOWN_POSITION, Answers, NoAnswer, Question
from drctl.offsets.trail import RangeReader, Step, read_ranges
from drctl.wire.anchors import Anchor

COMPARED = 8
"""Copies of a partition that are held against the source, where it can be read."""

NO_COPY = NoAnswer("no record of the target names its offset on the source")
NONE_NEAR = NoAnswer("no copy that names its offset was found on either side of the position")
UNREADABLE = NoAnswer("the target's log cannot be read")

Logs = Mapping[TopicPartition, PartitionOffsets | Unavailable]


class MappedOffsets:
    """Implements `TranslationMethod` for copies that name their offset on the source.

    Args:
        cluster_id: Kafka's id of the source; empty where it is not known.
        source: to compare some copies with what they are copies of; None where it is silent.
        logs: of the target's partitions.
        anchors: what was noted of the last consumed records, to hold against the copies.
    """

    method = Method.MAPPING

    def __init__(
        self,
        cluster_id: str,
        source: tuple[ClusterReader, RangeReader] | None,
        target: RangeReader,
        logs: Logs,
        anchors: Mapping[GroupPartition, Anchor],
    ) -> None:
        self._cluster_id = cluster_id
        self._source = source
        self._target = target
        self._logs = logs
        self._anchors = anchors

    def answers(self, questions: Sequence[Question]) -> Answers:
        """One for each question.

        Raises:
            Unreachable: the source did not answer.
            ScanFailed: something could not be read to its end.
        """
        if not self._cluster_id:
            return dict.fromkeys(questions, NoAnswer("the source's cluster id is not known"))
        sources = {q.target: q.place.partition for q in questions}
        logs = {t: log for t in sources if isinstance(log := self._logs.get(t), PartitionOffsets)}
        search = CopySearch(
            self._target, logs, lambda place, row: copy_of(row, self._cluster_id, sources[place])
        )
        proofs = self._proofs(search.sample(), sources)
        known = {
            (q.target, q.committed): None
            for q in questions
            if q.committed is not None and isinstance(proofs.get(q.target), int)
        }
        crossings = search.find(known)
        unordered = {place for place in proofs if not search.ascends(place)}
        found: dict[Question, Answer | NoAnswer] = {}
        for question in questions:
            proof = proofs.get(question.target, NO_COPY if question.target in logs else UNREADABLE)
            if isinstance(proof, NoAnswer):
                found[question] = proof
            elif question.committed is None:
                found[question] = UNKNOWN_POSITION
            else:
                crossing = crossings[question.target, question.committed]
                said = self._said(question, question.committed, crossing, proof)
                found[question] = _unordered(said) if question.target in unordered else said
        return found

    def _said(
        self, question: Question, committed: int, crossing: Crossing, proof: int
    ) -> Answer | NoAnswer:
        before, behind = crossing
        if before is None and behind is None:
            return NONE_NEAR
        compared = f"; {proof} copies are equal to the source's records" if proof else ""
        if before is None:
            assert behind is not None
            evidence = f"the first copy, at {behind.offset}, is of source offset {behind.upstream}"
            return self._at_the_beginning(
                question, behind.upstream - committed, evidence + compared
            )
        if not self._as_noted(question.place, committed, before):
            return NoAnswer(
                f"the target's record at {before.offset} says that it is the last consumed one, "
                "and its anchor says that it is not"
            )
        evidence = f"the target's record at {before.offset} is of source offset {before.upstream}"
        if behind is not None:
            evidence += f", the next copy, at {behind.offset}, of {behind.upstream}"
            return Answer(self.method, before.offset + 1, 0, 0, evidence + compared)
        lacking = committed - 1 - before.upstream
        if lacking:
            evidence += f"; of the {lacking:,} offsets from there to the position no copy was found"
        return Answer(self.method, before.offset + 1, lacking, 0, evidence + compared)

    def _at_the_beginning(self, question: Question, lacking: int, evidence: str) -> Answer:
        """The group has consumed none of the copies: what stands before them may be read, too."""
        log = self._logs[question.target]
        assert isinstance(log, PartitionOffsets)
        # Where the log still has its first record, nothing that was copied is gone.
        skips = lacking if log.log_start else 0
        return Answer(self.method, log.log_start, 0, skips, evidence)

    def _as_noted(self, place: GroupPartition, committed: int, before: Copy) -> bool:
        """Whether nothing speaks against this being the record that the group consumed last."""
        anchor = self._anchors.get(place)
        if anchor is None or anchor.offset != committed or before.upstream != committed - 1:
            return True
        if not anchor.records:
            return True
        last = anchor.records[0]
        return _alike(before.step, Step(last.timestamp_ms, last.fingerprint))

    def _proofs(
        self,
        samples: Mapping[TopicPartition, Sequence[Copy]],
        sources: Mapping[TopicPartition, TopicPartition],
    ) -> Mapping[TopicPartition, int | NoAnswer]:
        """How many copies were seen to be copies, or why what they say is not believed."""
        if self._source is None or not samples:
            return dict.fromkeys(samples, 0)
        cluster, reader = self._source
        logs = cluster.offsets({sources[place] for place in samples})
        chosen = {place: _some(copies, logs[sources[place]]) for place, copies in samples.items()}
        wanted = {
            sources[place]: [OffsetRange(copy.upstream, copy.upstream + 1) for copy in copies]
            for place, copies in chosen.items()
        }
        there = {place: dict(steps) for place, steps in read_ranges(reader, wanted).items()}
        return {place: _judged(copies, there[sources[place]]) for place, copies in chosen.items()}


def _some(copies: Sequence[Copy], log: PartitionOffsets | Unavailable) -> Sequence[Copy]:
    """The first and the last copies of what the source still holds."""
    if isinstance(log, Unavailable):
        return ()
    held = [copy for copy in copies if log.log_start <= copy.upstream < log.last_stable]
    half = COMPARED // 2
    return held if len(held) <= COMPARED else [*held[:half], *held[-half:]]


def _judged(copies: Sequence[Copy], there: Mapping[int, Step]) -> int | NoAnswer:
    both = [copy for copy in copies if copy.upstream in there]
    for copy in both:
        if not _alike(copy.step, there[copy.upstream]):
            return NoAnswer(
                f"the target's record at {copy.offset} says that it is of source offset "
                f"{copy.upstream}, where the source has another one"
            )
    return len(both)


def _alike(one: Step, other: Step) -> bool:
    """A replicator may have changed the value (ids of schemas), a broker the time; not both."""
    return one.fingerprint == other.fingerprint or one.timestamp_ms == other.timestamp_ms


def _unordered(said: Answer | NoAnswer) -> Answer | NoAnswer:
    if isinstance(said, NoAnswer):
        return said
    evidence = f"{said.evidence}; copies do not stand in the source's order"
    return replace(said, rereads_at_most=None, evidence=evidence)
