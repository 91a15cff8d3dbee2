"""Plans and results about connectors as JSON."""

from collections.abc import Mapping
from typing import Annotated, Any

from drctl.connectors import applying, recovery_plan
from drctl.connectors.applying import Line, Precheck
from drctl.connectors.diagnosis import ExplainedDocument
from drctl.connectors.recovery_plan import RecoverLine, Row
from drctl.connectors.remedies import Remedy
from drctl.connectors.results import (
    Ending,
    LineResult,
    OffsetsResult,
    Outcome,
    RemedyResult,
    Restarted,
)
from drctl.model.document import Count, Document, From, Name

Offset = Mapping[str, Any] | None


class RecoverLineDocument(Document):
    """A connector of a plan.

    Attributes:
        consequence: consequence of the remedy for the data.
        refused: what blocks it.
    """

    read = From(RecoverLine)
    connector: Name = read(lambda line: line.connector.name)
    plugin: str = read(lambda line: line.connector.plugin)
    action: recovery_plan.Action
    explained: ExplainedDocument | None
    steps: tuple[str, ...]
    consequence: str
    refused: str


class _RecoverPlan(Document):
    """Connectors that failed."""

    workers: Name
    overrides: Mapping[str, str]
    remedy: Remedy | None
    lines: tuple[RecoverLineDocument, ...]


class RecoverPlanDocument(_RecoverPlan):
    """The plan for failed connectors."""

    SCHEMA = "drctl/connect-recover-plan/1"
    backoff: tuple[Row, ...]
    execute: Name


class RestartedDocument(Document):
    """The result of restarting a connector.

    Attributes:
        response: the workers' error response to the last restart, if any.
    """

    read = From(Restarted)
    connector: Name = read(lambda each: each.name)
    ending: Ending
    restarts: Count = read(lambda each: each.attempts)
    response: str = read(lambda each: each.response)
    explained: ExplainedDocument | None


class RecoverDocument(_RecoverPlan):
    """The result for failed connectors."""

    SCHEMA = "drctl/connect-recover/1"
    run: str
    code: Count
    connectors: tuple[RestartedDocument, ...]
    remedy_result: RemedyResult | None


class LineDocument(Document):
    """A source offset.

    Attributes:
        from_: the connector that it was exported from.
    """

    read = From(Line)
    connector: Name
    from_: Name = read(lambda line: line.came_from)
    partition: Mapping[str, Any]
    before: Offset
    to: Offset
    precheck: Precheck | None
    reason: str
    overridden: bool


class PlannedLineDocument(LineDocument):
    """A source offset to write."""

    action: applying.Action


class WrittenLineDocument(LineDocument):
    """A source offset, and whether it was written."""

    outcome: Outcome
    now: Offset


class _OffsetsPlan(Document):
    """Source offsets from an export."""

    workers: Name
    origin: str
    overrides: Mapping[str, str]


class OffsetsPlanDocument(_OffsetsPlan):
    """The plan to write source offsets."""

    SCHEMA = "drctl/connect-offsets-plan/1"
    lines: tuple[PlannedLineDocument, ...]
    execute: Name


class OffsetsApplyDocument(_OffsetsPlan):
    """The result of writing source offsets.

    Attributes:
        before: the file with the previous offsets, for apply --from.
        undo: the command that restores the previous offsets.
    """

    SCHEMA = "drctl/connect-offsets-apply/1"
    run: str
    status: Annotated[str, ("enum", ("done", "refused", "stopped", "unknown"))]
    before: str
    undo: str
    lines: tuple[WrittenLineDocument, ...]


def offsets_result_document(result: OffsetsResult, undo: str) -> OffsetsApplyDocument:
    """The document of a result."""
    return OffsetsApplyDocument.of(
        result.plan,
        run=result.run,
        status=result.exit_code.name.lower(),
        before=result.before,
        undo=undo,
        lines=tuple(map(_written, result.results)),
    )


def _written(row: LineResult) -> WrittenLineDocument:
    reason = row.reason or row.line.reason
    return WrittenLineDocument.of(row.line, outcome=row.outcome, now=row.now, reason=reason)
