"""All rows of a link: who asks, what every method says, which answer is taken, what is blocked."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from drctl.model.groups import Group
from drctl.model.topology import TopicPartition, TopicState, Unavailable
from drctl.model.translation import Answer, GroupPartition, Translation
from drctl.offsets.choosing import chosen
from drctl.offsets.evidence import LastKnown
from drctl.offsets.question import Answers, NoAnswer, Question, TranslationMethod
from drctl.offsets.situation import Target
from drctl.offsets.source_silent import Said, worth

NEVER = "never committed: the group begins where its auto.offset.reset says"


@dataclass(frozen=True, slots=True)
class Silence:
    """What stands for the word of a source that does not answer.

    Attributes:
        known: the newest note of each position.
        unproven: whether what rests on the group not having been reset is to be taken.
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
            committed = positions.get(place)
            rows.append(_refused(place, committed, rename, target, refused[place]))
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
    positions: Collection[GroupPartition],
    topics: Mapping[str, TopicState | Unavailable | None],
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


def _refused(
    place: GroupPartition,
    committed: int | None,
    rename: Callable[[str], str],
    target: Target,
    reason: str,
) -> Explained:
    there = TopicPartition(rename(place.partition.topic), place.partition.partition)
    exists = isinstance(state := target.topics.get(there.topic), TopicState)
    known = exists and isinstance(state, TopicState) and there.partition in state.partitions
    row = Translation(place, committed, there if known else None, None, blocked=reason)
    return Explained(row, ())
