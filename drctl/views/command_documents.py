"""Small documents: errors, init, runbooks, the lab, versions, schemas and help."""

from typing import Annotated, Any, Literal, get_args

from drctl.config.schema import ReplicatorKind
from drctl.model.document import Count, Document, Name, Seconds

Positive = Annotated[int, ("minimum", 1)]


class ErrorBody(Document):
    """Why a command ended.

    Attributes:
        code: the exit code.
        kind: the kind of error, such as Refused.
        message: what failed, and why.
        hint: what to do; empty if there is no advice.
    """

    code: Literal[2, 3, 4, 5, 70, 130]
    kind: Annotated[str, ("pattern", "^[A-Z][A-Za-z]*$")]
    message: str
    hint: str


class ErrorDocument(Document):
    """Why a command ended without a result."""

    SCHEMA = "drctl/error/1"
    error: ErrorBody


class InitCluster(Document):
    """A cluster of the new file."""

    name: Name
    id: str
    topics: Count


class InitDocument(Document):
    """A new configuration file."""

    SCHEMA = "drctl/init/1"
    file: Name
    clusters: tuple[InitCluster, InitCluster]
    link: Name
    replicator: Annotated[str, ("enum", get_args(ReplicatorKind))]
    notes: tuple[str, ...]


class LintedRunbook(Document):
    """What is wrong with a runbook.

    Attributes:
        problems: each as FILE:LINE:COLUMN: what is wrong.
    """

    path: Name
    problems: tuple[Name, ...]


class RunbookLintDocument(Document):
    """What is wrong with runbooks."""

    SCHEMA = "drctl/runbook-lint/1"
    runbooks: tuple[LintedRunbook, ...]


class RunbookDocument(Document):
    """The text of a runbook: its file, or a Markdown page."""

    SCHEMA = "drctl/runbook/1"
    name: Name
    path: Name
    text: str


class ListedRunbook(Document):
    """An available runbook.

    Attributes:
        own: whether it is user-supplied.
        replaced: whether a user-supplied runbook of the same name is used instead.
        valid: whether it has no errors; `drctl runbook lint` lists them.
    """

    name: Name
    about: str
    own: bool
    replaced: bool
    valid: bool


class RunbooksDocument(Document):
    """The available runbooks."""

    SCHEMA = "drctl/runbooks/1"
    runbooks: tuple[ListedRunbook, ...]


class LabRunDocument(Document):
    """The result of a lab scenario.

    Attributes:
        correct: whether every record matches ground truth.
        page: HTML page of the unreplicated records.
        seconds: duration, including start and stop of the lab.
    """

    SCHEMA = "drctl/lab-run/1"
    scenario: Name
    correct: bool
    summary: Name
    page: Name
    seconds: Seconds


class LabDownDocument(Document):
    """The end of a lab.

    Attributes:
        ended: number of processes that were stopped.
    """

    SCHEMA = "drctl/lab-down/1"
    dir: Name
    ended: Count
    data: Annotated[str, ("enum", ("kept", "removed"))]


class VersionDocument(Document):
    """The version of drctl."""

    SCHEMA = "drctl/version/1"
    version: Name


class SchemaDocument(Document):
    """A JSON Schema of drctl."""

    SCHEMA = "drctl/schema/1"
    name: Name
    version: Positive
    json_schema: dict[str, Any]


class SchemasDocument(Document):
    """The JSON Schemas of drctl.

    Attributes:
        names: the names of all documents.
    """

    SCHEMA = "drctl/schemas/1"
    names: tuple[Name, ...]


class HelpDocument(Document):
    """A page of --help."""

    SCHEMA = "drctl/help/1"
    command: Name
    text: Name


class CompletionDocument(Document):
    """A completion script for a shell."""

    SCHEMA = "drctl/completion/1"
    shell: Literal["bash", "zsh", "fish"]
    script: Name
