"""The kinds of steps in a runbook, their settings, and the steps of a plan that they become."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from drctl.checks.source import BLOCKING
from drctl.config.endpoints import Section, Variable
from drctl.config.fields import Principal, Text, empty, frozen
from drctl.config.schema_errors import none_of
from drctl.config.secret import names_secret
from drctl.config.setting import parts_of
from drctl.engine.kind import S, StepKind
from drctl.model.loss import Mode
from drctl.model.plan import Duty, Step
from drctl.plans import failover as builders
from drctl.plans.failback import NAME, failback, reverse_inputs
from drctl.plans.failover import failover
from drctl.plans.inputs import FenceMethod, PlanInputs
from drctl.runbook.values import Duration, holds_secret_reference
from drctl.steps import commands, manual, prechecks, records, waiting
from drctl.steps.commands import COMMAND, COMMAND_FENCE, COMMAND_STOP_REPLICATION, Command
from drctl.steps.fences import FENCE_CONSUMERS
from drctl.steps.groups import Quiesce, QuiesceSettings
from drctl.steps.manual import (
    MANUAL,
    MANUAL_CHANGE,
    MANUAL_CHECK,
    MANUAL_FENCE,
    MANUAL_RECONCILE,
    MANUAL_STOP_REPLICATION,
    Manual,
)
from drctl.steps.prechecks import RunPrechecks
from drctl.steps.records import FindGap
from drctl.steps.start_replication import MANUAL_START_REPLICATION, ManualStartSettings
from drctl.steps.stop_replication import MeasureLoss
from drctl.steps.transactions import AbortSettings, AbortTransactions
from drctl.steps.waiting import CONDITIONS, Drain, DrainSettings, Wait

Argv = Annotated[tuple[Text, ...], Field(min_length=1)]


class NoSettings(Section):
    """No settings."""


class PreflightSettings(Section):
    """Settings of `preflight`."""

    mode: Literal["planned", "unplanned"] = "planned"


class FenceSettings(Section):
    """Settings of the fences that drctl sets itself; `principals` only with ACLs."""

    principals: tuple[Principal, ...] = ()
    stabilize: Duration | None = None


class OffsetsSettings(Section):
    """Settings of `commit-offsets`."""

    leave_out: bool = False


class StopSettings(Section):
    """Settings of `stop-replication`; by default all connectors of the link."""

    connectors: tuple[Text, ...] = ()


class EndpointSettings(Section):
    """Settings of `switch-endpoint`: the number of an endpoint, from 1; by default all of them."""

    endpoint: int | None = Field(default=None, ge=1)


class ManualSettings(Section):
    """Settings of `manual`."""

    text: Text


class ChangeSettings(Section):
    """Settings of changes made by a person."""

    text: Text
    undo: Text | None = None


class ManualFenceSettings(ChangeSettings):
    """Settings of `manual-fence`."""

    undo: Text
    stabilize: Duration | None = None


def _environment(values: Mapping[str, str]) -> Mapping[str, str]:
    for name, text in values.items():
        parts_of(text)
        if names_secret(name) and not holds_secret_reference(text):
            raise ValueError(
                f"{name} is a secret, and plans and journals record it: use"
                " ${env:NAME} or ${file:PATH}"
            )
    return values


class CommandSettings(Section):
    """Settings of `command`."""

    argv: Argv
    verify: tuple[Text, ...] = ()
    undo: tuple[Text, ...] = ()
    env: Annotated[Mapping[Variable, str], AfterValidator(_environment), AfterValidator(frozen)] = (
        Field(default_factory=empty)
    )
    timeout: Duration = 30

    @property
    def command_lines(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Each command line with its key."""
        for key, argv in (("argv", self.argv), ("verify", self.verify), ("undo", self.undo)):
            if argv:
                yield key, argv


class CommandFenceSettings(CommandSettings):
    """Settings of `command-fence`."""

    undo: Argv
    stabilize: Duration | None = None


def _condition(name: str) -> str:
    if name not in CONDITIONS:
        raise ValueError(none_of(name, tuple(CONDITIONS), "condition"))
    return name


class WaitSettings(Section):
    """Settings of `wait`."""

    condition: Annotated[str, AfterValidator(_condition)] = Field(alias="for")
    at_most: Duration


class CheckSettings(Section):
    """Settings of `check`."""

    prechecks: Annotated[tuple[Text, ...], Field(min_length=1)]


class GapSettings(Section):
    """Settings of `gap`."""

    scope: Literal["auto", "full", "tail"] = "auto"
    at_most: int | None = Field(default=None, ge=0)


class SequenceSettings(Section):
    """Settings of `sequence`.

    Attributes:
        policy: for failback: what to do with records that only the recovered cluster has.
        conflicting: what to do with a record for whose key the surviving cluster has a newer
            record.
    """

    name: Literal["failover-planned", "failover-unplanned", "failback"]
    policy: Literal["copy", "quarantine", "export"] | None = None
    conflicting: Literal["refuse", "copy", "quarantine", "export"] = "refuse"


class SettingMismatch(ValueError):
    """A setting does not fit the link.

    Attributes:
        key: the key of the setting.
    """

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


@dataclass(frozen=True, slots=True)
class StepOptions:
    """The options that every kind of step has; None means the kind's default."""

    id: str
    duty: Duty | None = None
    timeout_s: float | None = None
    expect: str | None = None

    def step(self, kind: StepKind[S], settings: S, timeout_s: float) -> Step:
        """Make a step of this kind; `timeout_s` is its default."""
        return self.applied_to(kind.step(self.id, settings, timeout_s))

    def applied_to(self, step: Step) -> Step:
        """A step with the duty and timeout that the runbook sets."""
        timeout_s = step.timeout_s if self.timeout_s is None else self.timeout_s
        return replace(step, timeout_s=timeout_s, duty=self.duty or step.duty)


Make = Callable[[Any, PlanInputs, StepOptions], Iterator[Step]]


@dataclass(frozen=True, slots=True)
class Spec:
    """A kind of step in runbooks.

    Attributes:
        model: the schema of its settings.
        make: makes the steps of the plan.
    """

    model: type[Section]
    make: Make


def _built(builder: Callable[[PlanInputs, str], Step]) -> Spec:
    """A kind without settings, built as in drctl's own plans."""

    def make(_: NoSettings, inputs: PlanInputs, options: StepOptions) -> Iterator[Step]:
        yield options.applied_to(builder(inputs, options.id))

    return Spec(NoSettings, make)


def _plain(
    kind: StepKind[S], settings: Callable[[PlanInputs], S], timeout_s: Callable[[PlanInputs], float]
) -> Spec:
    """A kind without settings, made from the link alone."""

    def make(_: NoSettings, inputs: PlanInputs, options: StepOptions) -> Iterator[Step]:
        yield options.step(kind, settings(inputs), timeout_s(inputs))

    return Spec(NoSettings, make)


def _preflight(
    given: PreflightSettings, inputs: PlanInputs, options: StepOptions
) -> Iterator[Step]:
    yield options.applied_to(builders.preflight(inputs, Mode(given.mode), options.id))


def _fence(given: FenceSettings, inputs: PlanInputs, options: StepOptions) -> Iterator[Step]:
    if given.principals and inputs.fence_method is not FenceMethod.ACL:
        text = f"is allowed only with fence method acl, not {inputs.fence_method.value}"
        raise SettingMismatch("principals", text)
    here = _with_fence_settings(given, inputs)
    yield options.applied_to(
        builders.fence_producers(here, options.duty or Duty.REQUIRED, options.id)
    )


def _consumer_fence(
    given: FenceSettings, inputs: PlanInputs, options: StepOptions
) -> Iterator[Step]:
    yield options.step(FENCE_CONSUMERS, builders.acl_fence(_with_fence_settings(given, inputs)), 60)


def _with_fence_settings(given: FenceSettings, inputs: PlanInputs) -> PlanInputs:
    principals = given.principals or inputs.principals
    return replace(inputs, principals=principals, stabilize_s=_stabilize_s(given.stabilize, inputs))


def _stop(given: StopSettings, inputs: PlanInputs, options: StepOptions) -> Iterator[Step]:
    yield options.applied_to(
        builders.stop_replication(
            replace(inputs, connectors=given.connectors or inputs.connectors), options.id
        )
    )


def _offsets(given: OffsetsSettings, inputs: PlanInputs, options: StepOptions) -> Iterator[Step]:
    leave_out = given.leave_out or inputs.leaves_groups_out
    lost = not inputs.source_answers
    yield options.applied_to(
        builders.commit_offsets(inputs, leave_out=leave_out, lost=lost, identity=options.id)
    )


def _producer_ids(_: NoSettings, inputs: PlanInputs, options: StepOptions) -> Iterator[Step]:
    # The timeout limits the allocation itself, not only its verification.
    default = builders.advance_producer_ids(inputs, identity=options.id)
    timeout_s = default.timeout_s if options.timeout_s is None else options.timeout_s
    yield options.applied_to(builders.advance_producer_ids(inputs, timeout_s, options.id))


def _switch(given: EndpointSettings, inputs: PlanInputs, options: StepOptions) -> Iterator[Step]:
    if given.endpoint is None:
        yield from map(options.applied_to, builders.switch_endpoints(inputs, options.id))
        return
    if given.endpoint > len(inputs.endpoints):
        raise SettingMismatch("endpoint", "is not the number of an endpoint of the link")
    chosen = list(builders.switch_endpoints(inputs, options.id))[given.endpoint - 1]
    yield options.applied_to(replace(chosen, id=options.id))


def _sources(builder: Callable[..., Iterator[Step]], *, lost: bool) -> Spec:
    """A kind about the link's source connectors; no step if the link has none.

    Args:
        lost: whether the steps differ if the source is lost.
    """

    def make(_: NoSettings, inputs: PlanInputs, options: StepOptions) -> Iterator[Step]:
        more = {"lost": not inputs.source_answers} if lost else {}
        yield from map(options.applied_to, builder(inputs, options.id, **more))

    return Spec(NoSettings, make)


def _manual(kind: Manual) -> Spec:
    def make(given: ManualSettings, inputs: PlanInputs, options: StepOptions) -> Iterator[Step]:
        yield options.step(
            kind, manual.ManualSettings(**_question_settings(given.text, None, options)), 0
        )

    return Spec(ManualSettings, make)


def _change(kind: Manual, undo: str = "") -> Spec:
    """A change by a person; `undo` is the default rollback text."""

    def make(given: ChangeSettings, inputs: PlanInputs, options: StepOptions) -> Iterator[Step]:
        rollback = given.undo or undo.format(source=inputs.source, target=inputs.target)
        yield options.step(
            kind, manual.ManualSettings(**_question_settings(given.text, rollback, options)), 0
        )

    return Spec(ChangeSettings, make)


def _start(given: ChangeSettings, inputs: PlanInputs, options: StepOptions) -> Iterator[Step]:
    values = _question_settings(given.text, given.undo or "stop that replication again", options)
    yield options.step(MANUAL_START_REPLICATION, ManualStartSettings(**values), 0)


def _manual_fence(
    given: ManualFenceSettings, inputs: PlanInputs, options: StepOptions
) -> Iterator[Step]:
    settings = manual.ManualFenceSettings(
        **_question_settings(given.text, given.undo, options),
        cluster=inputs.source,
        stabilize_seconds=_stabilize_s(given.stabilize, inputs),
    )
    yield options.step(MANUAL_FENCE, settings, 60)


def _question_settings(text: str, undo: str | None, options: StepOptions) -> dict[str, Any]:
    return {"question": options.id, "text": text, "undo": undo, "expect": options.expect or ""}


def _command(kind: Command, timeout_s: float) -> Spec:
    def make(given: CommandSettings, inputs: PlanInputs, options: StepOptions) -> Iterator[Step]:
        # Without `verify` there is nothing to poll.
        settings = commands.CommandSettings(**_command_settings(given, options))
        yield options.step(kind, settings, timeout_s if given.verify else 0)

    return Spec(CommandSettings, make)


def _command_fence(
    given: CommandFenceSettings, inputs: PlanInputs, options: StepOptions
) -> Iterator[Step]:
    settings = commands.CommandFenceSettings(
        **_command_settings(given, options),
        cluster=inputs.source,
        stabilize_seconds=_stabilize_s(given.stabilize, inputs),
    )
    yield options.step(COMMAND_FENCE, settings, 120)


def _command_settings(given: CommandSettings, options: StepOptions) -> dict[str, Any]:
    return {
        "question": options.id,
        "argv": given.argv,
        "undo": given.undo,
        "verify": given.verify,
        "env": dict(given.env),
        "timeout_seconds": given.timeout,
    }


def _wait(given: WaitSettings, inputs: PlanInputs, options: StepOptions) -> Iterator[Step]:
    settings = waiting.WaitSettings(
        inputs.source, inputs.target, given.condition, inputs.connectors
    )
    yield options.step(Wait(), settings, given.at_most)


def _check(given: CheckSettings, inputs: PlanInputs, options: StepOptions) -> Iterator[Step]:
    mode = Mode.PLANNED if inputs.source_answers else Mode.UNPLANNED
    settings = prechecks.CheckSettings(given.prechecks, mode.value, inputs.overrides)
    yield options.step(RunPrechecks(), settings, 30)


def _gap(given: GapSettings, inputs: PlanInputs, options: StepOptions) -> Iterator[Step]:
    settings = records.GapSettings(inputs.source, inputs.target, given.scope, given.at_most)
    yield options.step(FindGap(), settings, 0)


def _sequence(given: SequenceSettings, inputs: PlanInputs, options: StepOptions) -> Iterator[Step]:
    for step in _sequence_steps(given, inputs):
        identity = f"{options.id}.{step.id}"
        asks = {"question": identity} if "question" in step.settings else {}
        yield replace(step, id=identity, settings={**step.settings, **asks})


def _sequence_steps(given: SequenceSettings, inputs: PlanInputs) -> Iterator[Step]:
    if given.name != NAME:
        if given.policy is not None:
            raise SettingMismatch(
                "policy", f"is allowed only with {NAME}: {given.name} does not reconcile records"
            )
        yield from failover(Mode(given.name.removeprefix("failover-")), inputs).steps
        return
    back = inputs.failback or reverse_inputs(
        inputs, tuple(f"{name}-BACK" for name in inputs.connectors)
    )
    yield from failback(replace(back, policy=given.policy, conflicting=given.conflicting)).steps


def _stabilize_s(given: float | None, inputs: PlanInputs) -> float:
    return inputs.stabilize_s if given is None else given


SPECS: Mapping[str, Spec] = {
    "preflight": Spec(PreflightSettings, _preflight),
    "snapshot-state": _built(builders.snapshot_state),
    "fence-producers": Spec(FenceSettings, _fence),
    "fence-consumers": Spec(FenceSettings, _consumer_fence),
    "abort-transactions": _plain(
        AbortTransactions(),
        lambda inputs: AbortSettings(inputs.source, inputs.overrides.get(BLOCKING, "")),
        lambda _: 60,
    ),
    "measure-loss": _plain(MeasureLoss(), builders.both_clusters, lambda _: 30),
    "drain": _plain(
        Drain(),
        lambda inputs: DrainSettings(inputs.target, source=inputs.source),
        lambda inputs: inputs.timeout_s,
    ),
    "quiesce-consumers": _plain(
        Quiesce(), lambda inputs: QuiesceSettings(inputs.source), lambda _: 60
    ),
    "stop-replication": Spec(StopSettings, _stop),
    "prepare-groups": _built(builders.prepare_groups),
    "commit-offsets": Spec(OffsetsSettings, _offsets),
    "stop-source-connectors": _sources(builders.stop_source_connectors, lost=True),
    "move-source-positions": _sources(builders.move_source_positions, lost=True),
    "resume-source-connectors": _sources(builders.resume_source_connectors, lost=False),
    "advance-producer-ids": Spec(NoSettings, _producer_ids),
    "enable-writes": _built(builders.enable_writes),
    "switch-endpoint": Spec(EndpointSettings, _switch),
    "verify-clients": _built(builders.verify_clients),
    "manual": _manual(MANUAL),
    "manual-check": _manual(MANUAL_CHECK),
    "manual-fence": Spec(ManualFenceSettings, _manual_fence),
    "manual-stop-replication": _change(MANUAL_STOP_REPLICATION, builders.RESUME_REPLICATION),
    "manual-start-replication": Spec(ChangeSettings, _start),
    "manual-reconcile": _change(MANUAL_RECONCILE),
    "manual-change": _change(MANUAL_CHANGE),
    "command": _command(COMMAND, 60),
    "command-fence": Spec(CommandFenceSettings, _command_fence),
    "command-stop-replication": _command(COMMAND_STOP_REPLICATION, 120),
    "wait": Spec(WaitSettings, _wait),
    "check": Spec(CheckSettings, _check),
    "gap": Spec(GapSettings, _gap),
}
"""The kinds of steps by name, as in `drctl.steps.registry`."""

SEQUENCE = Spec(SequenceSettings, _sequence)
