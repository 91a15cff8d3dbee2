"""The result of a translation as JSON documents, and its exit code."""

from typing import Annotated

from drctl.model.document import Count, Document, From, Name, Seconds, rounded
from drctl.model.errors import ExitCode
from drctl.model.translation import Answer, Method, Translation
from drctl.offsets.link_translation import LinkTranslated
from drctl.offsets.methods import NO_EVIDENCE, NoAnswer
from drctl.offsets.snapshot import GroupReason, reasons
from drctl.offsets.translating import NEVER, Explained


class TargetDocument(Document):
    """The cluster that the offsets are of.

    Attributes:
        id: The cluster's own.
    """

    cluster: str
    id: str


class RowDocument(Document):
    """Where a group goes on reading in a partition.

    Attributes:
        topic: Its name on the source.
        target_topic: Its name on the target; null where the partition does not exist there.
        source_offset: What the group has committed; null where it has nothing, or nobody can say.
        target_offset: The first record that it reads on the target; null without an answer.
        rereads_at_most: Consumed records that it reads again; null where no bound is known.
        rereads_likely: while the source is silent: what is read again if the group consumed nothing
            since the evidence; null where that is not known, or the source answers.
        skips_at_most: Records that it never reads; null where no bound is known.
        skips_only_if: the condition under which more is skipped than skips_at_most says; null where
            the source answers, or none is known.
        age_seconds: Of the evidence; null where it is of now, or nobody can say.
        contradictions: Answers that cannot both be right.
        blocked: Why the row is not applied.
    """

    read = From(Translation)
    group: str = read(lambda row: row.place.group)
    topic: str = read(lambda row: row.place.partition.topic)
    partition: Count = read(lambda row: row.place.partition.partition)
    target_topic: str | None = read(lambda row: row.target.topic if row.target else None)
    source_offset: Count | None
    target_offset: Count | None
    method: Method | None
    rereads_at_most: Count | None
    rereads_likely: Count | None
    skips_at_most: Count | None
    skips_only_if: Name | None = read(
        lambda row: (row.answer.skips_only_if or None) if row.answer else None
    )
    evidence: str = read(lambda row: row.answer.evidence if row.answer else "")
    age_seconds: Seconds | None = read(
        lambda row: rounded(row.answer.age_seconds, 1) if row.answer else None
    )
    contradictions: tuple[str, ...]
    blocked: str | None = read(lambda row: row.blocked or None)


_OF_ANSWER = ("target_offset", "method", "rereads_at_most", "rereads_likely", "skips_at_most")


def row_document(row: Translation) -> RowDocument:
    """One row; numbers are null where they are unknown."""
    return RowDocument.of(row, **{name: getattr(row.answer, name, None) for name in _OF_ANSWER})


class OffsetsDocument(Document):
    """Where groups go on reading on the target: drctl offsets translate.

    Attributes:
        from_: The cluster that the link reads from.
        complete: Whether all evidence could be read and every row has an answer.
        source_unreachable: Why the source could not be asked; empty where it could.
        groups_not_seen: Groups whose positions could not be read.
        not_translatable: Groups that have no positions, such as share groups.
        positions_elsewhere: Positions in topics that the link does not carry.
        groups_elsewhere: Groups that the link does not carry.
        missing_evidence: Evidence that could not be read.
    """

    SCHEMA = "drctl/offsets/1"
    read = From(LinkTranslated)
    link: str
    from_: str
    to: str
    target: TargetDocument
    complete: bool = read(lambda r: exit_code(r) is not ExitCode.UNKNOWN)
    source_unreachable: str = read(lambda r: r.source.silent)
    groups_not_seen: tuple[GroupReason, ...] = read(lambda r: reasons(r.source.unseen))
    not_translatable: tuple[GroupReason, ...] = read(lambda r: reasons(r.source.untranslatable))
    positions_elsewhere: Count = read(lambda r: r.source.elsewhere)
    groups_elsewhere: Count = read(lambda r: r.source.others)
    missing_evidence: tuple[str, ...] = read(lambda r: r.missing)
    rows: tuple[RowDocument, ...] = read(
        lambda r: tuple(row_document(row.translation) for row in r.rows)
    )


def translation_document(
    link: str, source: str, target: str, result: LinkTranslated
) -> OffsetsDocument:
    """All rows.

    Args:
        link: its name, and those of its clusters.
    """
    whose = TargetDocument(cluster=target, id=result.target_id)
    return OffsetsDocument.of(result, link=link, from_=source, to=target, target=whose)


class AnswerDocument(Document):
    """What a method says of a position.

    Attributes:
        rereads_likely: while the source is silent: what is read again if the group consumed nothing
            since the evidence; null where that is not known, or the source answers.
        skips_only_if: the condition under which more is skipped than skips_at_most says; null where
            the source answers, or none is known.
        age_seconds: Of the evidence; null where it is of now, or nobody can say.
    """

    read = From(Answer)
    target_offset: Count
    rereads_at_most: Count | None
    rereads_likely: Count | None
    skips_at_most: Count | None
    skips_only_if: Name | None = read(lambda answer: answer.skips_only_if or None)
    age_seconds: Seconds | None = read(lambda answer: rounded(answer.age_seconds, 1))


class MethodDocument(Document):
    """A method, and what it says; null: it has no answer."""

    method: Annotated[str | None, ("enum", (*Method, None))]
    answer: AnswerDocument | None
    why: str


class ExplainedDocument(Document):
    """What every method says of one position: drctl offsets explain."""

    SCHEMA = "drctl/offsets-explain/1"
    read = From(Explained)
    row: RowDocument = read(lambda e: row_document(e.translation))
    methods: tuple[MethodDocument, ...] = read(
        lambda e: tuple(_said(method, said) for method, said in e.said)
    )


def _said(method: str, said: Answer | NoAnswer) -> MethodDocument:
    if isinstance(said, NoAnswer):
        return MethodDocument(method=method, answer=None, why=said.reason)
    return MethodDocument(method=method, answer=AnswerDocument.of(said), why=said.evidence)


def exit_code(result: LinkTranslated) -> ExitCode:
    """Unknown where evidence is missing; found where a row must be looked at; else done."""
    rows = [row.translation for row in result.rows if row.translation.blocked != NEVER]
    unanswered = any(row.blocked == NO_EVIDENCE for row in rows)
    if unanswered or result.source.unseen or result.source.silent or result.missing:
        return ExitCode.UNKNOWN
    return ExitCode.FOUND if any(map(questionable, rows)) else ExitCode.DONE


def questionable(row: Translation) -> bool:
    """Whether a person has to check it before it is applied."""
    skips = row.answer is not None and row.answer.skips_at_most != 0
    return bool(row.blocked or row.contradictions or skips)
