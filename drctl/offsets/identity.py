"""Mirrors that preserve offsets: the same offset on the target, if samples prove it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from drctl.formats.anchors import Anchor
from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition
from drctl.model.translation import Answer, GroupPartition, Method
from drctl.offsets.consumed import (
    Logs,
    Position,
    RangeReader,
    Records,
    Step,
    by_partition,
    committed_before,
    read_ranges,
    spread,
)
from drctl.offsets.methods import UNKNOWN_POSITION, Answers, NoAnswer, Question

SAMPLES = 5
"""Places of a partition at which both sides are compared."""

SAMPLE = 4
"""Offsets of one place."""

Pair = tuple[TopicPartition, TopicPartition]


class _Proof(NamedTuple):
    """The evidence for equal offsets.

    Attributes:
        equal: equal records at equal offsets; 0 where nothing could be compared.
        words: what the target was compared with.
    """

    equal: int
    words: str


_ON_BOTH_SIDES = "records at equal offsets are equal on both sides"
_AS_NOTED = "records stand where their anchors say that they stood on the source"
_UNPROVEN = "the source is silent and nothing was noted that could show that offsets are kept"


@dataclass(frozen=True, slots=True)
class SameOffsets:
    """Implements `TranslationMethod` for links that preserve offsets.

    Attributes:
        sources: the logs on the source, empty where it cannot be asked.
        targets: the logs on the target.
        anchors: what was noted of the source's records, for where it cannot be asked.
    """

    method = Method.IDENTITY

    source: RangeReader
    target: RangeReader
    sources: Logs
    targets: Logs
    anchors: Mapping[GroupPartition, Anchor]

    def answers(self, questions: Sequence[Question]) -> Answers:
        """One for each question.

        Raises:
            ScanFailed: something could not be read to its end.
        """
        pairs = dict.fromkeys((q.place.partition, q.target) for q in questions)
        proofs = self._proofs(pairs) if self.sources else self._noted(pairs)
        return {q: self._answer(q, proofs[q.place.partition, q.target]) for q in questions}

    def _answer(self, question: Question, proof: _Proof | NoAnswer) -> Answer | NoAnswer:
        if isinstance(proof, NoAnswer):
            return proof
        if question.committed is None:
            return UNKNOWN_POSITION
        log = self.targets[question.target]
        assert isinstance(log, PartitionOffsets)
        position = min(max(question.committed, log.log_start), log.end)
        outside = ""
        if position != question.committed:
            outside = f"; {question.committed} is outside of the target's log"
        if not proof.equal:
            return Answer(self.method, position, None, None, proof.words + outside)
        evidence = f"offsets are kept: {proof.equal} {proof.words}{outside}"
        moved = position - question.committed
        rereads, skips = max(0, -moved), max(0, moved)
        return Answer(self.method, position, rereads, skips, evidence)

    def _proofs(self, pairs: Iterable[Pair]) -> Mapping[Pair, _Proof | NoAnswer]:
        """From both logs, or why offsets cannot be believed."""
        found: dict[Pair, _Proof | NoAnswer] = {}
        samples: dict[Pair, list[OffsetRange]] = {}
        for pair in pairs:
            logs = self.sources.get(pair[0]), self.targets.get(pair[1])
            if not isinstance(logs[0], PartitionOffsets):
                found[pair] = NoAnswer("the source cannot be read, so nothing proves equal offsets")
            elif not isinstance(logs[1], PartitionOffsets):
                found[pair] = NoAnswer("the target's log cannot be read")
            else:
                start = max(logs[0].log_start, logs[1].log_start)
                end = min(logs[0].last_stable, logs[1].last_stable)
                samples[pair] = spread(start, end, SAMPLES, SAMPLE)  # over what both logs hold
        ours, theirs = (
            by_partition((pair[side], each) for pair, places in samples.items() for each in places)
            for side in (0, 1)
        )
        there, here = read_ranges(self.source, ours), read_ranges(self.target, theirs)
        for source, target in samples:
            records = dict(there.get(source, ())), dict(here.get(target, ()))
            found[source, target] = _compared(*records)
        return found

    def _noted(self, pairs: Iterable[Pair]) -> Mapping[Pair, _Proof | NoAnswer]:
        """From what was noted of the source's records, as far as the target has the offsets."""
        anchors: dict[TopicPartition, dict[int, Anchor]] = defaultdict(dict)
        for place, anchor in self.anchors.items():
            # What was aborted may be the last record before the offset here.
            if anchor.records and not anchor.passed:
                anchors[place.partition][anchor.offset] = anchor
        found: dict[Pair, _Proof | NoAnswer] = {}
        looked: dict[Position, PartitionOffsets] = {}
        chosen: dict[Pair, list[Anchor]] = {}
        for pair in pairs:
            log = self.targets.get(pair[1])
            if not isinstance(log, PartitionOffsets):
                found[pair] = NoAnswer("the target's log cannot be read")
                continue
            held = range(log.log_start + 1, log.last_stable + 1)
            usable = [anchor for offset, anchor in anchors[pair[0]].items() if offset in held]
            step = max(1, -(-len(usable) // SAMPLES))  # some of them, spread over all
            chosen[pair] = sorted(usable, key=lambda anchor: anchor.offset)[::step]
            looked |= {(pair[1], anchor.offset): log for anchor in chosen[pair]}
        before = committed_before(self.target, looked)
        for pair, some in chosen.items():
            found[pair] = _as_noted([(anchor, before[pair[1], anchor.offset]) for anchor in some])
        return found


def _compared(source: Mapping[int, Step], target: Mapping[int, Step]) -> _Proof | NoAnswer:
    """Compaction may have removed some of either side, so only common offsets count."""
    both = source.keys() & target.keys()
    for offset in sorted(both):
        if source[offset] != target[offset]:
            return NoAnswer(f"offsets are not kept: different records at offset {offset}")
    if not both:
        return NoAnswer("no offset was found that holds a record on both sides")
    return _Proof(len(both), _ON_BOTH_SIDES)


def _as_noted(found: Iterable[tuple[Anchor, Records]]) -> _Proof | NoAnswer:
    """The last record before an offset must be the one that was noted as such."""
    equal = 0
    for anchor, before in found:
        last = anchor.records[0]
        if before and before[-1][1] != last:
            return NoAnswer(
                f"offsets are not kept: what stands before offset {anchor.offset} of the target is "
                "not what stood there on the source"
            )
        equal += bool(before)
    return _Proof(equal, _AS_NOTED if equal else _UNPROVEN)
