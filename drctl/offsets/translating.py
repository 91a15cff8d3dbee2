"""The rows of a translation: what each method says, the chosen answer, what blocks it.

While the source does not answer, answers are weighed by what was noted of the groups before.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from drctl.model.groups import Group
from drctl.model.moments import utc
from drctl.model.topology import PartitionOffsets, TopicPartition, TopicState, Unavailable
from drctl.model.translation import Answer, GroupPartition, Method, Translation
from drctl.offsets.choosing import Answers, NoAnswer, Question, TranslationMethod, chosen
from drctl.offsets.evidence import LastKnown
from drctl.offsets.situation import Target

Said = Sequence[tuple[str, Answer | NoAnswer]]

STANDS_AHEAD = (
    "the group was reset backwards after MirrorMaker 2 committed this offset on the target, or"
    " somebody else committed it there"
)

_SHIFTED = "the mirror does not preserve offsets"


def worth(
    said: Said, known: LastKnown, log: PartitionOffsets | Unavailable | None, now_ms: int
) -> Said:
    """The answers of one row, weighed while the source is silent.

    Args:
        known: the newest note of the position.
        log: of the target's partition.
    """
    return _without_contradicted(
        [(name, _answer(a, known, log, now_ms) if isinstance(a, Answer) else a) for name, a in said]
    )


def _answer(
    answer: Answer, known: LastKnown, log: PartitionOffsets | Unavailable | None, now_ms: int
) -> Answer:
    end = log.end if isinstance(log, PartitionOffsets) else None
    firm = None if end is None else max(0, end - answer.target_offset)
    if answer.method is Method.TIMESTAMP:  # it was given, and says nothing of any group
        return replace(answer, rereads_at_most=firm)
    likely = answer.rereads_at_most
    if answer.method is Method.CHECKPOINT and likely == firm:
        likely = None  # MirrorMaker 2 does not say how far it stayed behind the exact offset
    if answer.method is Method.TARGET_OFFSET:
        return replace(answer, rereads_at_most=firm, skips_only_if=STANDS_AHEAD)
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
        return replace(answer, rereads_at_most=firm, age_seconds=age)  # of a lone header
    shifted = answer.skips_only_if or ("" if proven else _SHIFTED)
    told = f"; {known.told_by}" if known.told_by else ""
    return replace(
        answer,
        rereads_at_most=firm,
        rereads_likely=likely if firm is None or likely is None else min(likely, firm),
        skips_at_most=answer.skips_at_most if known.followed else None,
        skips_only_if=", or ".join(filter(None, (shifted, _reset(age, now_ms)))),
        evidence=answer.evidence + told,
        age_seconds=age,
    )


def _reset(age_seconds: float | None, now_ms: int) -> str:
    if age_seconds is None:
        return "the group was reset backwards after this was noted, and nobody knows when that was"
    return f"the group was reset backwards after {utc(round(now_ms - age_seconds * 1000))}"


def _without_contradicted(said: Said) -> Said:
    """Without answers that a newer one contradicts: the group was reset between the two.

    Only timestamps are compared with offsets here; notes of offsets are compared as such.
    """
    times = [a for _, a in said if isinstance(a, Answer) and a.method is Method.CONSUMER_TIMESTAMP]
    offsets = [a for _, a in said if isinstance(a, Answer) and a.method not in _BY_THEMSELVES]
    void = {
        id(old)
        for one, other in ((t, o) for t in times for o in offsets)
        for new, old in [sorted((one, other), key=_age)]
        if new.rereads_likely is not None
        and old.target_offset > new.target_offset + new.rereads_likely
    }
    return [(name, _OVERTAKEN if id(a) in void else a) for name, a in said]


_BY_THEMSELVES = (Method.CONSUMER_TIMESTAMP, Method.TARGET_OFFSET, Method.TIMESTAMP)
_OVERTAKEN = NoAnswer("newer evidence is of a lower offset: the group was reset between the two")


def _age(answer: Answer) -> float:
    return float("inf") if answer.age_seconds is None else answer.age_seconds


NEVER = "never committed: the group begins where its auto.offset.reset says"


@dataclass(frozen=True, slots=True)
class Silence:
    """What is known instead while the source does not answer.

    Attributes:
        known: the newest note of each position.
        unproven: whether answers count that assume the group was not reset.
        now_ms: milliseconds UTC.
    """

    known: Mapping[GroupPartition, LastKnown]
    unproven: bool
    now_ms: int


@dataclass(frozen=True, slots=True)
class Explained:
    """One row with everything that was said of it.

    Attributes:
        said: by every method that was asked, in the order in which they were.
    """

    translation: Translation
    said: tuple[tuple[str, Answer | NoAnswer], ...]


def translate(
    positions: Mapping[GroupPartition, int | None],
    never: Collection[GroupPartition],
    rename: Callable[[str], str],
    target: Target,
    methods: Sequence[TranslationMethod],
    silence: Silence | None = None,
) -> tuple[Explained, ...]:
    """Every row, sorted by group, topic and partition.

    Args:
        positions: what each group has committed; None where that is not known.
        never: partitions in which a group has committed nothing, of topics that it reads.
        rename: a topic's name on the target.
        silence: what is known instead of the source's own word; None where it answers.

    Raises:
        Unreachable: a cluster that a method has to ask did not answer.
        ScanFailed: records that a method has to read could not be read.
    """
    refused = dict.fromkeys(never, NEVER)
    questions: dict[GroupPartition, Question] = {}
    for place, committed in positions.items():
        there = TopicPartition(rename(place.partition.topic), place.partition.partition)
        if reason := _unanswerable(there, target):
            refused[place] = reason
        else:
            questions[place] = Question(place, committed, there)
    said = asked(methods, tuple(questions.values()))
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
            rows.append(_explained(question, said[question], target, silence))
    return tuple(rows)


def asked(
    methods: Sequence[TranslationMethod], questions: Sequence[Question]
) -> Mapping[Question, tuple[tuple[str, Answer | NoAnswer], ...]]:
    """What each method says of each question."""
    said: dict[Question, list[tuple[str, Answer | NoAnswer]]] = defaultdict(list)
    for method in methods:
        answers: Answers = method.answers(questions) if questions else {}
        for question in questions:
            said[question].append((method.method.value, answers[question]))
    return {question: tuple(said[question]) for question in questions}


def unread(
    positions: Collection[GroupPartition], topics: Mapping[str, TopicState | Unavailable | None]
) -> frozenset[GroupPartition]:
    """Partitions in which a group has nothing, of topics of which it has read others."""
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
        return f"topic {there.topic} cannot be seen on the target: {topic.reason}"
    if there.partition not in topic.partitions:
        return f"topic {there.topic} has only {len(topic.partitions)} partitions on the target"
    log = target.logs.get(there)
    if isinstance(log, Unavailable):
        return f"{there} cannot be read on the target: {log.reason}"
    return ""


def _explained(
    question: Question, said: Said, target: Target, silence: Silence | None
) -> Explained:
    log = target.logs.get(question.target)
    if silence is not None:
        said = worth(said, silence.known[question.place], log, silence.now_ms)
    answers = [answer for _, answer in said if isinstance(answer, Answer)]
    blocked = _occupied(target.groups.get(question.place.group))
    unproven = silence is not None and silence.unproven
    return Explained(chosen(question, answers, log, blocked, unproven=unproven), tuple(said))


def _occupied(group: Group | Unavailable | None) -> str:
    if isinstance(group, Unavailable):
        return f"its group cannot be seen on the target: {group.reason}"
    if group is not None and group.active:
        return f"the group is {group.state} on the target, with {len(group.members)} members"
    return ""
