"""What a runbook may hold, before its parameters have values.

What stands in a step is raw here; `drctl.runbook.specs` says what each kind of step takes.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints

from drctl.config.endpoints import Section
from drctl.config.fields import Text, empty, frozen
from drctl.model.plan import Duty

NAME = r"[a-z][a-z0-9]*(-[a-z0-9]+)*"
PARAMETER = r"[a-z][a-z0-9_]*"

ParameterType = Literal["string", "integer", "number", "duration", "boolean", "choice", "list"]
DutyWord = Literal["required", "best-effort", "optional"]
Name = Annotated[str, StringConstraints(pattern=rf"^{NAME}$", max_length=64)]
ParameterName = Annotated[str, StringConstraints(pattern=rf"^{PARAMETER}$", max_length=64)]

SHORT = ("step", "manual", "wait", "check", "command", "gap", "sequence")
"""The keys of which each step has exactly one: they say what it does."""


class ParameterConfig(Section):
    """Something that differs from one run to the next.

    Attributes:
        default: None where a value must be given.
        choices: with type choice.
    """

    type: ParameterType
    about: Text
    default: Any = None
    choices: tuple[Text, ...] = ()


class StepConfig(Section):
    """One step; for a person, with what to expect, and how to do it by hand.

    Attributes:
        step: a kind of the engine; `with_` is for it (`with` in the file).
        when: on what was observed; the step is left out where it is not so.
        patience: how long its proof may take.
        by_hand: command lines for a person, never run by drctl.
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
    patience: Any = None
    expect: Text | None = None
    by_hand: tuple[Text, ...] = ()

    @property
    def wanted_duty(self) -> Duty | None:
        """What becomes of the run where the step cannot be done; None where the kind decides."""
        return None if self.duty is None else Duty(self.duty)


class RunbookFile(Section):
    """The whole file."""

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
"""What may stand at the top, in a parameter and in a step."""
