"""What each kind of step takes in a runbook.

A runbook names what is its own: texts, limits, commands. Clusters, connectors, principals and
endpoints come from the link.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from drctl.config.endpoints import Variable
from drctl.config.fields import Principal, Text, empty, frozen
from drctl.config.secret import names_secret
from drctl.config.section import Section
from drctl.config.setting import parts_of
from drctl.engine.conditions import CONDITIONS
from drctl.runbook.durations import Duration
from drctl.runbook.substitution import holds_secret_reference
from drctl.runbook.wording import none_of

Argv = Annotated[tuple[Text, ...], Field(min_length=1)]


class Nothing(Section):
    """No settings."""


class PreflightSettings(Section):
    """Of `preflight`."""

    mode: Literal["planned", "unplanned"] = "planned"


class FenceSettings(Section):
    """Of the fences that drctl sets itself; principals only where it does so by ACLs."""

    principals: tuple[Principal, ...] = ()
    settle: Duration | None = None


class OffsetsSettings(Section):
    """Of `commit-offsets`."""

    leave_out: bool = False


class StopSettings(Section):
    """Of `stop-replication`; else all connectors of the link."""

    connectors: tuple[Text, ...] = ()


class EndpointSettings(Section):
    """Of `switch-endpoint`; the first is 1; else all of them."""

    endpoint: int | None = Field(default=None, ge=1)


class ManualSettings(Section):
    """Of `manual`."""

    text: Text


class ChangeSettings(Section):
    """Of what a person changes."""

    text: Text
    undo: Text | None = None


class ManualFenceSettings(ChangeSettings):
    """Of `manual-fence`."""

    undo: Text
    settle: Duration | None = None


def _variable(values: Mapping[str, str]) -> Mapping[str, str]:
    for name, text in values.items():
        parts_of(text)
        if names_secret(name) and not holds_secret_reference(text):
            raise ValueError(
                f"{name} is a secret, and goes into plans and journals: refer to it,"
                " ${env:NAME} or ${file:PATH}"
            )
    return values


class CommandSettings(Section):
    """Of `command`."""

    argv: Argv
    verify: tuple[Text, ...] = ()
    undo: tuple[Text, ...] = ()
    env: Annotated[Mapping[Variable, str], AfterValidator(_variable), AfterValidator(frozen)] = (
        Field(default_factory=empty)
    )
    timeout: Duration = 30

    @property
    def command_lines(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Each with its key."""
        for key, argv in (("argv", self.argv), ("verify", self.verify), ("undo", self.undo)):
            if argv:
                yield key, argv


class CommandFenceSettings(CommandSettings):
    """Of `command-fence`."""

    undo: Argv
    settle: Duration | None = None


def _condition(name: str) -> str:
    if name not in CONDITIONS:
        raise ValueError(none_of(name, tuple(CONDITIONS), "condition"))
    return name


class WaitSettings(Section):
    """Of `wait`."""

    condition: Annotated[str, AfterValidator(_condition)] = Field(alias="for")
    at_most: Duration


class CheckSettings(Section):
    """Of `check`."""

    guards: Annotated[tuple[Text, ...], Field(min_length=1)]


class GapSettings(Section):
    """Of `gap`."""

    scope: Literal["auto", "full", "tail"] = "auto"
    at_most: int | None = Field(default=None, ge=0)


class SequenceSettings(Section):
    """Of `sequence`.

    Attributes:
        policy: with failback: what becomes of the records that only the returned cluster has.
        conflicting: of those that the survivor has something newer than.
    """

    name: Literal["failover-planned", "failover-unplanned", "failback"]
    policy: Literal["copy", "quarantine", "export"] | None = None
    conflicting: Literal["refuse", "copy", "quarantine", "export"] = "refuse"
