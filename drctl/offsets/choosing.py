"""Chooses the best answer of all methods, and finds those that contradict each other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable
from drctl.model.translation import Answer, GroupPartition, Method, Translation


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

_UNBOUNDED = 2**63


def chosen(
    question: Question,
    answers: Sequence[Answer],
    log: PartitionOffsets | Unavailable | None,
    blocked: str,
    *,
    unproven: bool = False,
) -> Translation:
    """One row's result.

    Args:
        answers: of all methods that have one.
        log: of the target's partition.
        blocked: why the row must not be applied, whatever was found.
        unproven: whether an answer counts that skips nothing but under its condition.
    """
    fitted = sorted((_within(a, log) for a in answers), key=lambda a: _rank(a, unproven))
    best = fitted[0] if fitted else None
    found = contradictions(fitted)
    if not best:
        blocked = blocked or NO_EVIDENCE
    elif found:
        blocked = blocked or "answers contradict each other"
    return Translation(
        place=question.place,
        source_offset=question.committed,
        target=question.target,
        answer=best,
        others=tuple(fitted[1:]),
        contradictions=tuple(found),
        blocked=blocked,
    )


def contradictions(answers: Sequence[Answer]) -> list[str]:
    """Pairs of answers that cannot both be right.

    Where nothing is skipped, the exact position is at the answer or behind it, by no more than is
    read again.
    """
    sure = [a for a in answers if a.skips_at_most == 0]
    found = []
    for number, first in enumerate(sure):
        for second in sure[number + 1 :]:
            low, high = sorted((first, second), key=lambda a: a.target_offset)
            if _end(low) < high.target_offset:
                found.append(
                    f"{low.method} says {low.target_offset} to {_end(low)}, "
                    f"{high.method} says {high.target_offset}"
                )
    return found


def _rank(answer: Answer, unproven: bool) -> tuple[bool, int, bool, int, int]:
    skips, rereads = answer.skips_at_most, answer.rereads_at_most
    # Whoever may write to the topic can write a header: other evidence of the group counts first.
    only_headers = answer.method is Method.MAPPING and skips is None
    if unproven and answer.skips_only_if and skips is None:
        skips = 0
    return (
        # What is committed on the target counts only where there is no other evidence.
        answer.method is Method.TARGET_OFFSET,
        _UNBOUNDED if skips is None else skips,
        only_headers,
        _UNBOUNDED if rereads is None else rereads,
        -answer.target_offset,
    )


def _end(answer: Answer) -> int:
    rereads = answer.rereads_at_most
    return _UNBOUNDED if rereads is None else answer.target_offset + rereads


def _within(answer: Answer, log: PartitionOffsets | Unavailable | None) -> Answer:
    """The answer, moved to the log start where it lies before it."""
    if not isinstance(log, PartitionOffsets):
        return answer
    gone = log.log_start - answer.target_offset
    if gone > 0:  # retention has removed records that the group may not have consumed
        unread = f"it had not read all of the {gone} offsets that the target no longer holds"
        return replace(
            answer,
            target_offset=log.log_start,
            rereads_at_most=_less(answer.rereads_at_most, gone),
            rereads_likely=_less(answer.rereads_likely, gone),
            skips_at_most=None if answer.skips_at_most is None else answer.skips_at_most + gone,
            skips_only_if=f"{answer.skips_only_if}, or {unread}" if answer.skips_only_if else "",
            evidence=(
                f"{answer.evidence}; the target's log begins at {log.log_start}: {gone} offsets are"
                " gone there"
            ),
        )
    if answer.rereads_at_most is None and answer.skips_at_most == 0:
        return replace(answer, rereads_at_most=max(0, log.end - answer.target_offset))
    return answer


def _less(rereads: int | None, gone: int) -> int | None:
    return None if rereads is None else max(0, rereads - gone)
