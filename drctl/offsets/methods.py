"""What every method of translation is asked, and what it answers."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from drctl.model.topology import TopicPartition, Unavailable
from drctl.model.translation import Answer, GroupPartition, Method


class Question(NamedTuple):
    """Where on the target does this group resume?

    Attributes:
        committed: the source offset of the next record that the group wants; None where the
            source cannot be asked and it was not noted.
        target: the partition that its records are copied to.
    """

    place: GroupPartition
    committed: int | None
    target: TopicPartition


class NoAnswer(NamedTuple):
    """Why a method says nothing, in words for a person."""

    reason: str


UNKNOWN_POSITION = NoAnswer("what it had committed on the source is not known")


def not_asked(silent: Unavailable) -> NoAnswer:
    """The target did not tell where a time begins in its log: run again."""
    return NoAnswer(f"the target did not answer where to look, try again: {silent.reason}")


Answers = Mapping[Question, Answer | NoAnswer]


class TranslationMethod(Protocol):
    """Finds positions on the target from one kind of evidence."""

    @property
    def method(self) -> Method:
        """Its name."""

    def answers(self, questions: Sequence[Question]) -> Answers:
        """One for each question.

        Raises:
            Unreachable: the cluster that keeps the evidence did not answer.
        """


NO_EVIDENCE = "there is no evidence of its position on the target"
