"""MirrorMaker 2's own answers, as far as they can be trusted."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable
from drctl.model.translation import Answer, Method
from drctl.offsets.question import UNKNOWN_POSITION, Answers, NoAnswer, Question


class Checkpoint(NamedTuple):
    """What MirrorMaker 2 last said of a group's position.

    Attributes:
        at_ms: when it said so, in milliseconds UTC.
    """

    upstream: int
    downstream: int
    at_ms: int


Checkpoints = Mapping[tuple[str, TopicPartition], Checkpoint]
"""By group and partition of the target."""


class CheckpointAnswers:
    """Implements `TranslationMethod` for links of MirrorMaker 2.

    Args:
        targets: the logs of the partitions on the target.
        anew_ms: when partitions of the target were seen to be made anew, by source partition: what
            was said before does not count.
        now_ms: the time, to say how old a checkpoint is.
    """

    method = Method.CHECKPOINT

    def __init__(
        self,
        checkpoints: Checkpoints,
        targets: Mapping[TopicPartition, PartitionOffsets | Unavailable],
        anew_ms: Mapping[TopicPartition, int],
        now_ms: int,
    ) -> None:
        self._checkpoints = checkpoints
        self._targets = targets
        self._anew_ms = anew_ms
        self._now_ms = now_ms

    def answers(self, questions: Sequence[Question]) -> Answers:
        """One for each question."""
        return {q: self._answer(q) for q in questions}

    def _answer(self, question: Question) -> Answer | NoAnswer:
        checkpoint = self._checkpoints.get((question.place.group, question.target))
        if checkpoint is None:
            return NoAnswer("MirrorMaker 2 wrote no checkpoint of it")
        committed = question.committed
        if committed is None:
            return UNKNOWN_POSITION
        if checkpoint.upstream > committed:
            return NoAnswer(
                f"its checkpoint is of source offset {checkpoint.upstream}, behind the position "
                f"{committed}: the group went back, and the checkpoint would skip records"
            )
        if checkpoint.at_ms < self._anew_ms.get(question.place.partition, 0):
            return NoAnswer("its checkpoint is older than the target's topic")
        log = self._targets.get(question.target)
        end = log.end if isinstance(log, PartitionOffsets) else None
        if end is not None and checkpoint.downstream > end:
            return NoAnswer(
                f"its checkpoint leads to {checkpoint.downstream}, behind the target's end offset "
                f"{end}: the topic was made anew there"
            )
        # How far MirrorMaker 2 stayed behind the exact position, it does not say.
        rereads = None if end is None else end - checkpoint.downstream
        evidence = f"checkpoint of source offset {checkpoint.upstream} to {checkpoint.downstream}"
        age = max(0.0, (self._now_ms - checkpoint.at_ms) / 1000)
        return Answer(self.method, checkpoint.downstream, rereads, 0, evidence, age)
