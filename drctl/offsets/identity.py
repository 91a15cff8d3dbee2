"""A mirror that keeps offsets: a position is the same number there, if the mirror is one."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from drctl.model.topology import OffsetRange, PartitionOffsets, TopicPartition, Unavailable
from drctl.model.translation import Answer, Method
from drctl.offsets.question import UNKNOWN_POSITION, Answers, NoAnswer, Question
from drctl.offsets.trail import RangeReader, Step, read_ranges

SAMPLES = 5
"""Places of a partition at which both sides are looked at."""

SAMPLE = 4
"""Offsets of one place."""

Logs = Mapping[TopicPartition, PartitionOffsets | Unavailable]


class SameOffsets:
    """Implements `TranslationMethod` for links that preserve offsets.

    Args:
        sources: the logs on the source, empty where it cannot be asked.
        targets: the logs on the target.
    """

    method = Method.IDENTITY

    def __init__(
        self, source: RangeReader, target: RangeReader, sources: Logs, targets: Logs
    ) -> None:
        self._source = source
        self._target = target
        self._sources = sources
        self._targets = targets

    def answers(self, questions: Sequence[Question]) -> Answers:
        """One for each question.

        Raises:
            ScanFailed: something could not be read to its end.
        """
        pairs = dict.fromkeys((q.place.partition, q.target) for q in questions)
        verdicts = self._verdicts(pairs)
        return {q: self._answer(q, verdicts[q.place.partition, q.target]) for q in questions}

    def _answer(self, question: Question, proof: int | NoAnswer) -> Answer | NoAnswer:
        if isinstance(proof, NoAnswer):
            return proof
        if question.committed is None:
            return UNKNOWN_POSITION
        log = self._targets[question.target]
        assert isinstance(log, PartitionOffsets)
        position = min(max(question.committed, log.log_start), log.end)
        evidence = f"offsets are kept: {proof} records at equal offsets are equal on both sides"
        if position != question.committed:
            evidence += f"; {question.committed} is outside of the target's log"
        moved = position - question.committed
        rereads, skips = max(0, -moved), max(0, moved)
        return Answer(self.method, position, rereads, skips, evidence)

    def _verdicts(
        self, pairs: Mapping[tuple[TopicPartition, TopicPartition], None]
    ) -> Mapping[tuple[TopicPartition, TopicPartition], int | NoAnswer]:
        """How many records were seen to be equal, or why offsets cannot be believed."""
        found: dict[tuple[TopicPartition, TopicPartition], int | NoAnswer] = {}
        samples: dict[tuple[TopicPartition, TopicPartition], list[OffsetRange]] = {}
        for pair in pairs:
            logs = self._sources.get(pair[0]), self._targets.get(pair[1])
            if not isinstance(logs[0], PartitionOffsets):
                found[pair] = NoAnswer("the source cannot be read, so nothing proves equal offsets")
            elif not isinstance(logs[1], PartitionOffsets):
                found[pair] = NoAnswer("the target's log cannot be read")
            else:
                samples[pair] = _places(logs[0], logs[1])
        ours: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
        theirs: dict[TopicPartition, list[OffsetRange]] = defaultdict(list)
        for (source, target), places in samples.items():
            ours[source] += places
            theirs[target] += places
        there, here = read_ranges(self._source, ours), read_ranges(self._target, theirs)
        for source, target in samples:
            found[source, target] = _judged(dict(there[source]), dict(here[target]))
        return found


def _places(source: PartitionOffsets, target: PartitionOffsets) -> list[OffsetRange]:
    """Short ranges, spread over what both logs hold."""
    start = max(source.log_start, target.log_start)
    end = min(source.last_stable, target.last_stable)
    steps = range(SAMPLES)
    starts = {start + max(0, end - start - SAMPLE) * step // (SAMPLES - 1) for step in steps}
    return [OffsetRange(s, min(s + SAMPLE, end)) for s in sorted(starts) if s < end]


def _judged(source: Mapping[int, Step], target: Mapping[int, Step]) -> int | NoAnswer:
    """Compaction may have removed some of either side, so only common offsets count."""
    both = source.keys() & target.keys()
    for offset in sorted(both):
        if source[offset] != target[offset]:
            return NoAnswer(f"offsets are not kept: different records at offset {offset}")
    if not both:
        return NoAnswer("no offset was found that holds a record on both sides")
    return len(both)
