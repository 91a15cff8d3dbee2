"""The rows of a translation: the answers of all methods, the chosen one, and what blocks it.

With an unreachable source, answers are adjusted to what was recorded about the groups before.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from drctl.model.groups import Group
from drctl.model.moments import utc
from drctl.model.text import plural
from drctl.model.topology import PartitionOffsets, TopicPartition, TopicState, Unavailable
from drctl.model.translation import Answer, GroupPartition, Method, Translation
from drctl.offsets.evidence import LastKnown
from drctl.offsets.methods import NO_EVIDENCE, Answers, NoAnswer, Question, TranslationMethod
from drctl.offsets.situation import Target

MethodResults = Sequence[tuple[str, Answer | NoAnswer]]

COMMITTED_AHEAD = (
    "the group was reset backwards after MirrorMaker 2 committed this offset on the target, or"
    " something else committed it there"
)

_SHIFTED = "the mirror does not preserve offsets"


def adjusted_for_unreachable_source(
    results: MethodResults,
    known: LastKnown,
    log: PartitionOffsets | Unavailable | None,
    now_ms: int,
) -> MethodResults:
    """Adjust the bounds of one row's answers for an unreachable source.

    Args:
        known: what was last recorded about the committed offset.
        log: log of the target partition.
    """
    return _without_contradicted(
        [
            (name, _answer(a, known, log, now_ms) if isinstance(a, Answer) else a)
            for name, a in results
        ]
    )


def _answer(
    answer: Answer, known: LastKnown, log: PartitionOffsets | Unavailable | None, now_ms: int
) -> Answer:
    end = log.end if isinstance(log, PartitionOffsets) else None
    firm = None if end is None else max(0, end - answer.target_offset)
    if answer.method is Method.TIMESTAMP:  # given by the engineer: no evidence about the group
        return replace(answer, rereads_at_most=firm)
    likely = answer.rereads_at_most
    if answer.method is Method.CHECKPOINT and likely == firm:
        likely = None  # how far a checkpoint is below the exact offset is not recorded
    if answer.method is Method.TARGET_OFFSET:
        return replace(answer, rereads_at_most=firm, skips_only_if=COMMITTED_AHEAD)
    if answer.method is Method.CONSUMER_TIMESTAMP:
        return replace(
            answer,
            rereads_at_most=firm,
            rereads_likely=likely,
            skips_only_if=_reset(answer.age_seconds, now_ms),
        )
    age = None if known.at_ms is None else max(0.0, (now_ms - known.at_ms) / 1000)
    proven = answer.skips_at_most is not None
    if answer.method is Method.MAPPING and not (proven or answer.skips_only_if):
        # Too few copies with a header: no bounds.
        return replace(answer, rereads_at_most=firm, age_seconds=age)
    shifted = answer.skips_only_if or ("" if proven else _SHIFTED)
    reported = f"; {known.reported_by}" if known.reported_by else ""
    return replace(
        answer,
        rereads_at_most=firm,
        rereads_likely=likely if firm is None or likely is None else min(likely, firm),
        skips_at_most=answer.skips_at_most if known.followed else None,
        skips_only_if=", or ".join(filter(None, (shifted, _reset(age, now_ms)))),
        evidence=answer.evidence + reported,
        age_seconds=age,
    )


def _reset(age_seconds: float | None, now_ms: int) -> str:
    if age_seconds is None:
        return "the group was reset backwards after the evidence was recorded (time unknown)"
    return f"the group was reset backwards after {utc(round(now_ms - age_seconds * 1000))}"


def _without_contradicted(results: MethodResults) -> MethodResults:
    """Drop answers that a newer one contradicts: the group was reset in between.

    Only answers by consumer timestamps are compared with answers by offsets.
    """
    times = [
        a for _, a in results if isinstance(a, Answer) and a.method is Method.CONSUMER_TIMESTAMP
    ]
    offsets = [a for _, a in results if isinstance(a, Answer) and a.method not in _BY_THEMSELVES]
    void = {
        id(old)
        for one, other in ((t, o) for t in times for o in offsets)
        for new, old in [sorted((one, other), key=_age)]
        if new.rereads_likely is not None
        and old.target_offset > new.target_offset + new.rereads_likely
    }
    return [(name, _OVERTAKEN if id(a) in void else a) for name, a in results]


_BY_THEMSELVES = (Method.CONSUMER_TIMESTAMP, Method.TARGET_OFFSET, Method.TIMESTAMP)
_OVERTAKEN = NoAnswer("newer evidence has a lower offset: the group was reset in between")


def _age(answer: Answer) -> float:
    return float("inf") if answer.age_seconds is None else answer.age_seconds


NEVER = "never committed: consumers start at auto.offset.reset"


@dataclass(frozen=True, slots=True)
class UnreachableSource:
    """What is known about committed offsets on an unreachable source.

    Attributes:
        known: what was last recorded about each committed offset.
        unproven: whether to use answers that assume that the group was not reset.
        now_ms: milliseconds UTC.
    """

    known: Mapping[GroupPartition, LastKnown]
    unproven: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class Explained:
    """One row with the answers of all methods.

    Attributes:
        results: the answer of each method, in order.
    """

    translation: Translation
    results: tuple[tuple[str, Answer | NoAnswer], ...]


def translate(
    positions: Mapping[GroupPartition, int | None],
    never: Collection[GroupPartition],
    rename: Callable[[str], str],
    target: Target,
    methods: Sequence[TranslationMethod],
    unreachable: UnreachableSource | None = None,
    ask: "Ask | None" = None,
) -> tuple[Explained, ...]:
    """Translate committed offsets; rows are sorted by group, topic and partition.

    Args:
        positions: committed offset of each group and partition; None if unknown.
        never: partitions without a committed offset, of topics that the group reads.
        rename: returns the name of a topic on the target.
        unreachable: what is known about an unreachable source; None if it is reachable.
        ask: returns the answers of all methods; `asked` by default.

    Raises:
        Unreachable: a cluster did not answer.
        ScanFailed: records could not be read.
    """
    refused = dict.fromkeys(never, NEVER)
    questions: dict[GroupPartition, Question] = {}
    for place, committed in positions.items():
        there = TopicPartition(rename(place.partition.topic), place.partition.partition)
        if reason := _unanswerable(there, target):
            refused[place] = reason
        else:
            questions[place] = Question(place, committed, there)
    results = (ask or asked)(methods, tuple(questions.values()))
    rows = []
    for place in sorted({*positions, *never}):
        if place in refused:
            there = TopicPartition(rename(place.partition.topic), place.partition.partition)
            state = target.topics.get(there.topic)
            exists = isinstance(state, TopicState) and there.partition in state.partitions
            committed, where = positions.get(place), there if exists else None
            row = Translation(place, committed, where, None, blocked=refused[place])
            rows.append(Explained(row, ()))
        else:
            question = questions[place]
            rows.append(_explained(question, results[question], target, unreachable))
    return tuple(rows)


Results = Mapping[Question, tuple[tuple[str, Answer | NoAnswer], ...]]
"""The answer of each method to each question."""

Ask = Callable[[Sequence[TranslationMethod], Sequence[Question]], Results]
"""Asks all methods all questions."""


def asked(methods: Sequence[TranslationMethod], questions: Sequence[Question]) -> Results:
    """Return the answer of each method to each question."""
    results: dict[Question, list[tuple[str, Answer | NoAnswer]]] = defaultdict(list)
    for method in methods:
        answers: Answers = method.answers(questions) if questions else {}
        for question in questions:
            results[question].append((method.method.value, answers[question]))
    return {question: tuple(results[question]) for question in questions}


def unread(
    positions: Collection[GroupPartition], topics: Mapping[str, TopicState | Unavailable | None]
) -> frozenset[GroupPartition]:
    """Return partitions without a committed offset, of topics that the group reads."""
    reads = {(place.group, place.partition.topic) for place in positions}
    held = set(positions)
    return frozenset(
        place
        for group, topic in reads
        if isinstance(state := topics.get(topic), TopicState)
        for number in state.partitions
        if (place := GroupPartition(group, TopicPartition(topic, number))) not in held
    )


def _unanswerable(there: TopicPartition, target: Target) -> str:
    topic = target.topics.get(there.topic)
    if topic is None:
        return f"topic {there.topic} does not exist on the target"
    if isinstance(topic, Unavailable):
        return f"topic {there.topic} cannot be read on the target: {topic.reason}"
    if there.partition not in topic.partitions:
        return (
            f"topic {there.topic} has only {plural(len(topic.partitions), 'partition')} on"
            " the target"
        )
    log = target.logs.get(there)
    if isinstance(log, Unavailable):
        return f"{there} cannot be read on the target: {log.reason}"
    return ""


def _explained(
    question: Question,
    results: MethodResults,
    target: Target,
    unreachable: UnreachableSource | None,
) -> Explained:
    log = target.logs.get(question.target)
    if unreachable is not None:
        results = adjusted_for_unreachable_source(
            results, unreachable.known[question.place], log, unreachable.now_ms
        )
    answers = [answer for _, answer in results if isinstance(answer, Answer)]
    blocked = _occupied(target.groups.get(question.place.group))
    unproven = unreachable is not None and unreachable.unproven
    return Explained(chosen(question, answers, log, blocked, unproven=unproven), tuple(results))


def _occupied(group: Group | Unavailable | None) -> str:
    if isinstance(group, Unavailable):
        return f"the group cannot be read on the target: {group.reason}"
    if group is not None and group.active:
        return (
            f"the group is {group.state} on the target, with {plural(len(group.members), 'member')}"
        )
    return ""


_UNBOUNDED = 2**63


def chosen(
    question: Question,
    answers: Sequence[Answer],
    log: PartitionOffsets | Unavailable | None,
    blocked: str,
    *,
    unproven: bool = False,
) -> Translation:
    """Choose the best answer of a row.

    Args:
        answers: answers of all methods that have one.
        log: log of the target partition.
        blocked: why the row must not be applied, whatever the answers are.
        unproven: whether to use answers that skip records under a condition.
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
    """Find pairs of answers that cannot both be right.

    If nothing is skipped, the exact offset is between the answer and the answer plus its re-reads.
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
    # Anyone who can write to the topic can write a header: prefer other evidence.
    only_headers = answer.method is Method.MAPPING and skips is None
    if unproven and answer.skips_only_if and skips is None:
        skips = 0
    return (
        # Committed offsets on the target are used only without other evidence.
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
    """Move an answer to the log start if it is before it."""
    if not isinstance(log, PartitionOffsets):
        return answer
    gone = log.log_start - answer.target_offset
    if gone > 0:  # retention has removed records that the group may not have consumed
        what = plural(gone, "offset")
        unread = f"the group had not consumed all of the {what} that the target has deleted"
        return replace(
            answer,
            target_offset=log.log_start,
            rereads_at_most=_less(answer.rereads_at_most, gone),
            rereads_likely=_less(answer.rereads_likely, gone),
            skips_at_most=None if answer.skips_at_most is None else answer.skips_at_most + gone,
            skips_only_if=f"{answer.skips_only_if}, or {unread}" if answer.skips_only_if else "",
            evidence=(
                f"{answer.evidence}; log start offset on the target is {log.log_start}:"
                f" {plural(gone, 'offset is', 'offsets are')} deleted there"
            ),
        )
    if answer.rereads_at_most is None and answer.skips_at_most == 0:
        return replace(answer, rereads_at_most=max(0, log.end - answer.target_offset))
    return answer


def _less(rereads: int | None, gone: int) -> int | None:
    return None if rereads is None else max(0, rereads - gone)
