"""Translation for offset-preserving mirrors: the same offset, if samples prove it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from drctl.formats.tracked_offsets import TrackedOffset
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
"""Number of places in a partition at which both logs are compared."""

SAMPLE = 4
"""Number of offsets that are compared at one place."""

Pair = tuple[TopicPartition, TopicPartition]


class _Proof(NamedTuple):
    """The evidence for equal offsets.

    Attributes:
        equal: number of equal records at equal offsets; 0 if nothing could be compared.
        message: what was compared.
    """

    equal: int
    message: str


_ON_BOTH_SIDES = "sampled records are equal at equal offsets on both clusters"
_AS_NOTED = "records are at the same offsets as in the source's tracked offsets"
_UNPROVEN = "not verified that offsets are preserved: source unreachable, no tracked offsets"


@dataclass(frozen=True, slots=True)
class SameOffsets:
    """Implements `TranslationMethod` for links that preserve offsets.

    Attributes:
        sources: logs on the source; empty if it is unreachable.
        targets: logs on the target.
        tracked_offsets: tracked offsets, for an unreachable source.
    """

    method = Method.IDENTITY

    source: RangeReader
    target: RangeReader
    sources: Logs
    targets: Logs
    tracked_offsets: Mapping[GroupPartition, TrackedOffset]

    def answers(self, questions: Sequence[Question]) -> Answers:
        """Return one answer for each question.

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
            outside = f"; {question.committed} is outside the target log"
        if not proof.equal:
            return Answer(self.method, position, None, None, proof.message + outside)
        evidence = f"offsets are preserved: {proof.equal} {proof.message}{outside}"
        moved = position - question.committed
        rereads, skips = max(0, -moved), max(0, moved)
        return Answer(self.method, position, rereads, skips, evidence)

    def _proofs(self, pairs: Iterable[Pair]) -> Mapping[Pair, _Proof | NoAnswer]:
        """Compare samples of both logs."""
        found: dict[Pair, _Proof | NoAnswer] = {}
        samples: dict[Pair, list[OffsetRange]] = {}
        for pair in pairs:
            logs = self.sources.get(pair[0]), self.targets.get(pair[1])
            if not isinstance(logs[0], PartitionOffsets):
                found[pair] = NoAnswer("not verified: the source log cannot be read")
            elif not isinstance(logs[1], PartitionOffsets):
                found[pair] = NoAnswer("the target log cannot be read")
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
        """Compare the target with tracked offsets of the source."""
        tracked_offsets: dict[TopicPartition, dict[int, TrackedOffset]] = defaultdict(dict)
        for place, tracked in self.tracked_offsets.items():
            # The last record before the offset on the target may be an aborted one.
            if tracked.records and not tracked.passed:
                tracked_offsets[place.partition][tracked.offset] = tracked
        found: dict[Pair, _Proof | NoAnswer] = {}
        looked: dict[Position, PartitionOffsets] = {}
        chosen: dict[Pair, list[TrackedOffset]] = {}
        for pair in pairs:
            log = self.targets.get(pair[1])
            if not isinstance(log, PartitionOffsets):
                found[pair] = NoAnswer("the target log cannot be read")
                continue
            held = range(log.log_start + 1, log.last_stable + 1)
            usable = [
                tracked for offset, tracked in tracked_offsets[pair[0]].items() if offset in held
            ]
            step = max(1, -(-len(usable) // SAMPLES))  # some of them, spread over all
            chosen[pair] = sorted(usable, key=lambda tracked: tracked.offset)[::step]
            looked |= {(pair[1], tracked.offset): log for tracked in chosen[pair]}
        before = committed_before(self.target, looked)
        for pair, some in chosen.items():
            found[pair] = _as_noted(
                [(tracked, before[pair[1], tracked.offset]) for tracked in some]
            )
        return found


def _compared(source: Mapping[int, Step], target: Mapping[int, Step]) -> _Proof | NoAnswer:
    """Compare records at common offsets; compaction may have removed others on either side."""
    both = source.keys() & target.keys()
    for offset in sorted(both):
        if source[offset] != target[offset]:
            return NoAnswer(f"offsets are not preserved: records differ at offset {offset}")
    if not both:
        return NoAnswer("no common offset with a record on both clusters was found")
    return _Proof(len(both), _ON_BOTH_SIDES)


def _as_noted(found: Iterable[tuple[TrackedOffset, Records]]) -> _Proof | NoAnswer:
    """Check that the last record before each offset is the one in the tracked offset."""
    equal = 0
    for tracked, before in found:
        last = tracked.records[0]
        if before and before[-1][1] != last:
            return NoAnswer(
                f"offsets are not preserved: the record before offset {tracked.offset} on the "
                "target is not the one in the tracked offset of the source"
            )
        equal += bool(before)
    return _Proof(equal, _AS_NOTED if equal else _UNPROVEN)
