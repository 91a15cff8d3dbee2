"""What each kind of step in a runbook becomes on a link: steps of a plan."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from drctl.config.endpoints import Section, Variable
from drctl.config.fields import Principal, Text, empty, frozen
from drctl.config.schema_errors import none_of
from drctl.config.secret import names_secret
from drctl.config.setting import parts_of
from drctl.engine.kind import S, StepKind
from drctl.model.loss import Mode
from drctl.model.plan import Duty, Step
from drctl.plans import step_builders
from drctl.plans.failback import NAME, failback, turned
from drctl.plans.failover import failover
from drctl.plans.inputs import Circumstances, FenceMethod
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
from drctl.steps.waiting import CONDITIONS, Drain, DrainSettings, Wait

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
                f"{name} is a secret, and plans and journals record it: use"
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

    prechecks: Annotated[tuple[Text, ...], Field(min_length=1)]


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


class SettingMismatch(ValueError):
    """A setting does not fit the link.

    Attributes:
        key: of the setting.
    """

    def __init__(self, key: str, text: str) -> None:
        super().__init__(text)
        self.key = key


@dataclass(frozen=True, slots=True)
class Given:
    """What a step has beside its settings; None where the kind decides."""

    id: str
    duty: Duty | None = None
    timeout_s: float | None = None
    expect: str | None = None

    def step(self, kind: StepKind[S], settings: S, timeout_s: float) -> Step:
        """A step of the plan."""
        return self.over(kind.step(self.id, settings, timeout_s))

    def over(self, step: Step) -> Step:
        """A step that drctl made, with what the runbook says otherwise."""
        timeout_s = step.timeout_s if self.timeout_s is None else self.timeout_s
        return replace(step, timeout_s=timeout_s, duty=self.duty or step.duty)


Make = Callable[[Any, Circumstances, Given], Iterator[Step]]


@dataclass(frozen=True, slots=True)
class Spec:
    """A kind of step in runbooks.

    Attributes:
        model: of its settings.
        make: the steps that it becomes.
    """

    model: type[Section]
    make: Make


def _built(builder: Callable[[Circumstances, str], Step]) -> Spec:
    """A kind without settings, as every sequence of drctl builds it."""

    def make(_: Nothing, seen: Circumstances, given: Given) -> Iterator[Step]:
        yield given.over(builder(seen, given.id))

    return Spec(Nothing, make)


def _plain(
    kind: StepKind[S],
    settings: Callable[[Circumstances], S],
    timeout_s: Callable[[Circumstances], float],
) -> Spec:
    """A kind without settings, of which the link says everything."""

    def make(_: Nothing, seen: Circumstances, given: Given) -> Iterator[Step]:
        yield given.step(kind, settings(seen), timeout_s(seen))

    return Spec(Nothing, make)


def _preflight(own: PreflightSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    yield given.over(step_builders.preflight(seen, Mode(own.mode), given.id))


def _fence(own: FenceSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    if own.principals and seen.fence_method is not FenceMethod.ACL:
        text = f"goes with fence method acl, not {seen.fence_method.value}"
        raise SettingMismatch("principals", text)
    here = _settled(own, seen)
    yield given.over(step_builders.fence(here, given.duty or Duty.REQUIRED, given.id))


def _consumers(own: FenceSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    yield given.step(FENCE_CONSUMERS, step_builders.by_acls(_settled(own, seen)), 60)


def _settled(own: FenceSettings, seen: Circumstances) -> Circumstances:
    principals = own.principals or seen.principals
    return replace(seen, principals=principals, settle_s=_settle(own.settle, seen))


def _stop(own: StopSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    yield given.over(
        step_builders.stop(replace(seen, connectors=own.connectors or seen.connectors), given.id)
    )


def _offsets(own: OffsetsSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    leave_out = own.leave_out or seen.leaves_groups_out
    lost = not seen.source_answers
    yield given.over(step_builders.offsets(seen, leave_out=leave_out, lost=lost, identity=given.id))


def _skipping(_: Nothing, seen: Circumstances, given: Given) -> Iterator[Step]:
    # How long its proof may take is how long it may take itself: only then there is a proof.
    plain = step_builders.skipping(seen, identity=given.id)
    timeout_s = plain.timeout_s if given.timeout_s is None else given.timeout_s
    yield given.over(step_builders.skipping(seen, timeout_s, given.id))


def _switch(own: EndpointSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    if own.endpoint is None:
        yield from map(given.over, step_builders.switches(seen, given.id))
        return
    if own.endpoint > len(seen.endpoints):
        raise SettingMismatch("endpoint", "is not the number of an endpoint of the link")
    chosen = list(step_builders.switches(seen, given.id))[own.endpoint - 1]
    yield given.over(replace(chosen, id=given.id))


def _manual(kind: Manual) -> Spec:
    def make(own: ManualSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
        yield given.step(kind, manual.ManualSettings(**_asked(own.text, None, given)), 0)

    return Spec(ManualSettings, make)


def _change(kind: Manual, undo: str = "") -> Spec:
    """A change by a person; `undo` stands where the runbook does not say how it is rolled back."""

    def make(own: ChangeSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
        rollback = own.undo or undo.format(source=seen.source, target=seen.target)
        yield given.step(kind, manual.ManualSettings(**_asked(own.text, rollback, given)), 0)

    return Spec(ChangeSettings, make)


def _start(own: ChangeSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    asked = _asked(own.text, own.undo or "stop that replication again", given)
    yield given.step(MANUAL_START_REPLICATION, ManualStartSettings(**asked), 0)


def _manual_fence(own: ManualFenceSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    settings = manual.ManualFenceSettings(
        **_asked(own.text, own.undo, given),
        cluster=seen.source,
        settle_seconds=_settle(own.settle, seen),
    )
    yield given.step(MANUAL_FENCE, settings, 60)


def _asked(text: str, undo: str | None, given: Given) -> dict[str, Any]:
    return {"question": given.id, "text": text, "undo": undo, "expect": given.expect or ""}


def _command(kind: Command, timeout_s: float) -> Spec:
    def make(own: CommandSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
        # Without a look of its own, looking again tells nothing new.
        settings = commands.CommandSettings(**_ran(own, given))
        yield given.step(kind, settings, timeout_s if own.verify else 0)

    return Spec(CommandSettings, make)


def _command_fence(own: CommandFenceSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    settings = commands.CommandFenceSettings(
        **_ran(own, given), cluster=seen.source, settle_seconds=_settle(own.settle, seen)
    )
    yield given.step(COMMAND_FENCE, settings, 120)


def _ran(own: CommandSettings, given: Given) -> dict[str, Any]:
    return {
        "question": given.id,
        "argv": own.argv,
        "undo": own.undo,
        "verify": own.verify,
        "env": dict(own.env),
        "timeout_seconds": own.timeout,
    }


def _wait(own: WaitSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    settings = waiting.WaitSettings(seen.source, seen.target, own.condition, seen.connectors)
    yield given.step(Wait(), settings, own.at_most)


def _check(own: CheckSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    mode = Mode.PLANNED if seen.source_answers else Mode.UNPLANNED
    settings = prechecks.CheckSettings(own.prechecks, mode.value, seen.overrides)
    yield given.step(RunPrechecks(), settings, 30)


def _gap(own: GapSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    settings = records.GapSettings(seen.source, seen.target, own.scope, own.at_most)
    yield given.step(FindGap(), settings, 0)


def _sequence(own: SequenceSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    for step in _sequence_steps(own, seen):
        identity = f"{given.id}.{step.id}"
        asks = {"question": identity} if "question" in step.settings else {}
        yield replace(step, id=identity, settings={**step.settings, **asks})


def _sequence_steps(own: SequenceSettings, seen: Circumstances) -> Iterator[Step]:
    if own.name != NAME:
        if own.policy is not None:
            raise SettingMismatch(
                "policy", f"goes with {NAME}: {own.name} does not reconcile records"
            )
        yield from failover(Mode(own.name.removeprefix("failover-")), seen).steps
        return
    way = seen.failback or turned(seen, tuple(f"{name}-BACK" for name in seen.connectors))
    yield from failback(replace(way, policy=own.policy, conflicting=own.conflicting)).steps


def _settle(own: float | None, seen: Circumstances) -> float:
    return seen.settle_s if own is None else own


SPECS: Mapping[str, Spec] = {
    "preflight": Spec(PreflightSettings, _preflight),
    "snapshot-state": _built(step_builders.stock),
    "fence-producers": Spec(FenceSettings, _fence),
    "fence-consumers": Spec(FenceSettings, _consumers),
    "measure-loss": _plain(MeasureLoss(), step_builders.ends, lambda _: 30),
    "drain": _plain(Drain(), lambda seen: DrainSettings(seen.target), lambda seen: seen.timeout_s),
    "quiesce-consumers": _plain(Quiesce(), lambda seen: QuiesceSettings(seen.source), lambda _: 60),
    "stop-replication": Spec(StopSettings, _stop),
    "prepare-groups": _built(step_builders.groups),
    "commit-offsets": Spec(OffsetsSettings, _offsets),
    "advance-producer-ids": Spec(Nothing, _skipping),
    "enable-writes": _built(step_builders.opening),
    "switch-endpoint": Spec(EndpointSettings, _switch),
    "verify-clients": _built(step_builders.clients),
    "manual": _manual(MANUAL),
    "manual-check": _manual(MANUAL_CHECK),
    "manual-fence": Spec(ManualFenceSettings, _manual_fence),
    "manual-stop-replication": _change(MANUAL_STOP_REPLICATION, step_builders.START),
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
"""By the name of the kind; the same names as in `drctl.steps.registry`."""

SEQUENCE = Spec(SequenceSettings, _sequence)
