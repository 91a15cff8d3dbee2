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
    """The target cluster.

    Attributes:
        id: Kafka cluster id.
    """

    cluster: str
    id: str


class RowDocument(Document):
    """Where a group resumes in a partition.

    Attributes:
        topic: name on the source.
        target_topic: name on the target; null if the partition does not exist there.
        source_offset: committed offset on the source; null if there is none or it is unknown.
        target_offset: offset of the first record to read on the target; null without an answer.
        rereads_at_most: consumed records that are re-read at most; null if unknown.
        rereads_likely: with an unreachable source: records that are re-read if the group consumed
            nothing since the evidence; null if unknown, or if the source is reachable.
        skips_at_most: records that are skipped at most; null if unknown.
        skips_only_if: condition under which more than skips_at_most is skipped; null if the source
            is reachable, or no condition is known.
        age_seconds: age of the evidence; null if it is current or the age is unknown.
        contradictions: answers that cannot both be right.
        blocked: why the row is not applied.
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
    """Build one row; unknown numbers are null."""
    return RowDocument.of(row, **{name: getattr(row.answer, name, None) for name in _OF_ANSWER})


class OffsetsDocument(Document):
    """Where groups resume on the target: drctl offsets translate.

    Attributes:
        from_: the source of the link.
        complete: whether all evidence could be read and every row has an answer.
        source_unreachable: why the source is unreachable; empty if it is not.
        unavailable_groups: groups whose committed offsets could not be read.
        not_translatable: groups without committed offsets, such as share groups.
        committed_offsets_elsewhere: committed offsets in topics outside the link.
        groups_elsewhere: groups outside the link.
        missing_evidence: evidence that could not be read.
    """

    SCHEMA = "drctl/offsets/1"
    read = From(LinkTranslated)
    link: str
    from_: str
    to: str
    target: TargetDocument
    complete: bool = read(lambda r: exit_code(r) is not ExitCode.UNKNOWN)
    source_unreachable: str = read(lambda r: r.source.silent)
    unavailable_groups: tuple[GroupReason, ...] = read(lambda r: reasons(r.source.unseen))
    not_translatable: tuple[GroupReason, ...] = read(lambda r: reasons(r.source.untranslatable))
    committed_offsets_elsewhere: Count = read(lambda r: r.source.elsewhere)
    groups_elsewhere: Count = read(lambda r: r.source.others)
    missing_evidence: tuple[str, ...] = read(lambda r: r.missing)
    rows: tuple[RowDocument, ...] = read(
        lambda r: tuple(row_document(row.translation) for row in r.rows)
    )


def translation_document(
    link: str, source: str, target: str, result: LinkTranslated
) -> OffsetsDocument:
    """Build the document `drctl/offsets/1`."""
    whose = TargetDocument(cluster=target, id=result.target_id)
    return OffsetsDocument.of(result, link=link, from_=source, to=target, target=whose)


class AnswerDocument(Document):
    """The answer of a method.

    Attributes:
        rereads_likely: with an unreachable source: records that are re-read if the group consumed
            nothing since the evidence; null if unknown, or if the source is reachable.
        skips_only_if: condition under which more than skips_at_most is skipped; null if the source
            is reachable, or no condition is known.
        age_seconds: age of the evidence; null if it is current or the age is unknown.
    """

    read = From(Answer)
    target_offset: Count
    rereads_at_most: Count | None
    rereads_likely: Count | None
    skips_at_most: Count | None
    skips_only_if: Name | None = read(lambda answer: answer.skips_only_if or None)
    age_seconds: Seconds | None = read(lambda answer: rounded(answer.age_seconds, 1))


class MethodDocument(Document):
    """A method and its answer; null if it has none."""

    method: Annotated[str | None, ("enum", (*Method, None))]
    answer: AnswerDocument | None
    why: str


class ExplainedDocument(Document):
    """The answers of all methods for one committed offset: drctl offsets explain."""

    SCHEMA = "drctl/offsets-explain/1"
    read = From(Explained)
    row: RowDocument = read(lambda e: row_document(e.translation))
    methods: tuple[MethodDocument, ...] = read(
        lambda e: tuple(_method(method, result) for method, result in e.results)
    )


def _method(method: str, result: Answer | NoAnswer) -> MethodDocument:
    if isinstance(result, NoAnswer):
        return MethodDocument(method=method, answer=None, why=result.reason)
    return MethodDocument(method=method, answer=AnswerDocument.of(result), why=result.evidence)


def exit_code(result: LinkTranslated) -> ExitCode:
    """Exit code: unknown if evidence is missing, found if a row must be checked, else done."""
    rows = [row.translation for row in result.rows if row.translation.blocked != NEVER]
    unanswered = any(row.blocked == NO_EVIDENCE for row in rows)
    if unanswered or result.source.unseen or result.source.silent or result.missing:
        return ExitCode.UNKNOWN
    return ExitCode.FOUND if any(map(questionable, rows)) else ExitCode.DONE


def questionable(row: Translation) -> bool:
    """Return whether an engineer has to check the row before it is applied."""
    skips = row.answer is not None and row.answer.skips_at_most != 0
    return bool(row.blocked or row.contradictions or skips)
