"""Questions to and answers of translation methods."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from drctl.model.topology import TopicPartition, Unavailable
from drctl.model.translation import Answer, GroupPartition, Method


class Question(NamedTuple):
    """A committed offset of a group, to be found on the target.

    Attributes:
        committed: the committed source offset; None if the source is unreachable and there is no
            record of it.
        target: the partition that the records are copied to.
    """

    place: GroupPartition
    committed: int | None
    target: TopicPartition


class NoAnswer(NamedTuple):
    """Why a method has no answer.

    Attributes:
        transient: whether the method may have an answer if it is asked again.
    """

    reason: str
    transient: bool = False


UNKNOWN_POSITION = NoAnswer("its committed offset on the source is unknown")


def not_asked(silent: Unavailable) -> NoAnswer:
    """Build the answer for a failed timestamp lookup on the target."""
    reason = f"timestamp lookup on the target failed, run again: {silent.reason}"
    return NoAnswer(reason, transient=True)


Answers = Mapping[Question, Answer | NoAnswer]


class TranslationMethod(Protocol):
    """Finds offsets on the target from one kind of evidence."""

    @property
    def method(self) -> Method:
        """The name of the method."""

    def answers(self, questions: Sequence[Question]) -> Answers:
        """Return one answer for each question.

        Raises:
            Unreachable: the cluster that stores the evidence did not answer.
        """


NO_EVIDENCE = "no evidence of its offset on the target"
