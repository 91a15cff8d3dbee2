"""Where groups stand on the target already: MirrorMaker 2 commits there, if it was told to."""

from collections.abc import Mapping, Sequence

from drctl.model.groups import Committed
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable
from drctl.model.translation import Answer, Method
from drctl.offsets.question import Answers, NoAnswer, Question

_NONE = NoAnswer("the group has no committed offset on the target")

Standing = Mapping[str, Mapping[TopicPartition, Committed] | Unavailable]
"""By group; the places are the target's."""


class TargetOffsets:
    """Implements `TranslationMethod` while the source is silent.

    With `sync.group.offsets.enabled` MirrorMaker 2 commits translated offsets on the target. It
    never moves one back: where a group was reset backwards, its newer checkpoint says so.

    Args:
        standing: what the groups have committed on the target.
        targets: the logs of the partitions there.
    """

    method = Method.TARGET_OFFSET

    def __init__(
        self,
        standing: Standing,
        targets: Mapping[TopicPartition, PartitionOffsets | Unavailable],
    ) -> None:
        self._standing = standing
        self._targets = targets

    def answers(self, questions: Sequence[Question]) -> Answers:
        """One for each question."""
        return {q: self._answer(q) for q in questions}

    def _answer(self, question: Question) -> Answer | NoAnswer:
        held = self._standing.get(question.place.group, {})
        if isinstance(held, Unavailable):
            return NoAnswer(f"its committed offsets on the target cannot be read: {held.reason}")
        committed = held.get(question.target)
        if committed is None:
            return _NONE
        log = self._targets.get(question.target)
        if isinstance(log, PartitionOffsets) and not log.log_start <= committed.offset <= log.end:
            return NoAnswer(f"its committed offset {committed.offset} is outside the target's log")
        told = f"committed offset {committed.offset} on the target: it is never set back"
        return Answer(self.method, committed.offset, None, None, told)
