"""The schema of a runbook file, before its parameters have values.

The settings of a step are raw here; `drctl.runbook.specs` has the settings of each kind of step.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints

from drctl.config.endpoints import Section
from drctl.config.fields import Text, empty, frozen

NAME = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
PARAMETER = r"[a-z][a-z0-9_]*"

ParameterType = Literal["string", "integer", "number", "duration", "boolean", "choice", "list"]
DutyWord = Literal["required", "best-effort", "optional"]
Name = Annotated[str, StringConstraints(pattern=rf"^{NAME}$", max_length=64)]
ParameterName = Annotated[str, StringConstraints(pattern=rf"^{PARAMETER}$", max_length=64)]

ACTION_KEYS = ("step", "manual", "wait", "check", "command", "gap", "sequence")
"""Each step has exactly one of these keys."""


class ParameterConfig(Section):
    """A parameter of a runbook.

    Attributes:
        default: None if a value must be given.
        choices: for type choice.
    """

    type: ParameterType
    about: Text
    default: Any = None
    choices: tuple[Text, ...] = ()


class StepConfig(Section):
    """One step of a runbook.

    Attributes:
        step: a kind of step; `with_` (`with` in the file) has its settings.
        when: a condition on observed facts; the step is skipped if it is false.
        timeout: how long its verification may take.
        expect: the expected result, for people.
        by_hand: command lines for people, never run by drctl.
    """

    id: Name
    step: Text | None = None
    with_: Any = Field(default=None, alias="with")
    manual: Any = None
    wait: Any = None
    check: Any = None
    command: Any = None
    gap: Any = None
    sequence: Any = None
    when: Text | None = None
    duty: DutyWord | None = None
    timeout: Any = None
    expect: Text | None = None
    by_hand: tuple[Text, ...] = ()


class RunbookFile(Section):
    """A runbook file."""

    name: Name
    about: Text
    parameters: Annotated[Mapping[ParameterName, ParameterConfig], AfterValidator(frozen)] = Field(
        default_factory=empty
    )
    steps: tuple[StepConfig, ...] = Field(min_length=1)


KEYS: Mapping[str, tuple[str, ...]] = {
    "": tuple(RunbookFile.model_fields),
    "parameters": tuple(ParameterConfig.model_fields),
    "steps": tuple(f.alias or n for n, f in StepConfig.model_fields.items()),
}
"""The keys allowed at the top level, in a parameter and in a step."""
