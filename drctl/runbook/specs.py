"""What each kind of step in a runbook becomes on a link: steps of a plan."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from drctl.config.endpoints import Section, Variable
from drctl.config.fields import Principal, Text, empty, frozen
from drctl.config.secret import names_secret
from drctl.config.setting import parts_of
from drctl.model.loss import Mode
from drctl.model.plan import Duty, Step
from drctl.plans import step_builders
from drctl.plans.failback import NAME, failback, turned
from drctl.plans.failover import failover
from drctl.plans.inputs import Circumstances, FenceMethod
from drctl.runbook.values import Duration, holds_secret_reference, none_of
from drctl.steps.waiting import CONDITIONS

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


class Misfit(ValueError):
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
    patience_s: float | None = None
    expect: str | None = None

    def step(self, kind: str, settings: Mapping[str, Any], patience_s: float) -> Step:
        """A step of the plan."""
        return self.over(Step(self.id, kind, settings, patience_s))

    def over(self, step: Step) -> Step:
        """A step that drctl made, with what the runbook says otherwise."""
        patience_s = step.patience_s if self.patience_s is None else self.patience_s
        return replace(step, patience_s=patience_s, duty=self.duty or step.duty)


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
    kind: str,
    settings: Callable[[Circumstances], Mapping[str, Any]],
    patience_s: Callable[[Circumstances], float],
) -> Spec:
    """A kind without settings, of which the link says everything."""

    def make(_: Nothing, seen: Circumstances, given: Given) -> Iterator[Step]:
        yield given.step(kind, settings(seen), patience_s(seen))

    return Spec(Nothing, make)


def _preflight(own: PreflightSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    yield given.over(step_builders.preflight(seen, Mode(own.mode), given.id))


def _fence(own: FenceSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    if own.principals and seen.fence_method is not FenceMethod.ACL:
        text = f"goes with fence method acl, not {seen.fence_method.value}"
        raise Misfit("principals", text)
    here = _settled(own, seen)
    yield given.over(step_builders.fence(here, given.duty or Duty.REQUIRED, given.id))


def _consumers(own: FenceSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    yield given.step("fence-consumers", step_builders.fenced(_settled(own, seen)), 60)


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
    patience_s = plain.patience_s if given.patience_s is None else given.patience_s
    yield given.over(step_builders.skipping(seen, patience_s, given.id))


def _switch(own: EndpointSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    if own.endpoint is None:
        yield from map(given.over, step_builders.switches(seen, given.id))
        return
    if own.endpoint > len(seen.endpoints):
        raise Misfit("endpoint", "is the number of no endpoint of the link")
    chosen = list(step_builders.switches(seen, given.id))[own.endpoint - 1]
    yield given.over(replace(chosen, id=given.id))


def _manual(kind: str) -> Spec:
    def make(own: ManualSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
        yield given.step(kind, _asked(own.text, None, given), 0)

    return Spec(ManualSettings, make)


def _change(kind: str, undo: str = "") -> Spec:
    """A change by a person; `undo` stands where the runbook does not say how it is rolled back."""

    def make(own: ChangeSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
        rollback = own.undo or undo.format(source=seen.source, target=seen.target)
        yield given.step(kind, _asked(own.text, rollback, given), 0)

    return Spec(ChangeSettings, make)


def _manual_fence(own: ManualFenceSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    settings = _asked(own.text, own.undo, given)
    where = {"cluster": seen.source, "settle_seconds": _settle(own.settle, seen)}
    yield given.step("manual-fence", settings | where, 60)


def _asked(text: str, undo: str | None, given: Given) -> dict[str, Any]:
    settings: dict[str, Any] = {"question": given.id, "text": text}
    settings |= {} if undo is None else {"undo": undo}
    return settings | ({"expect": given.expect} if given.expect else {})


def _command(kind: str, patience_s: float) -> Spec:
    def make(own: CommandSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
        # Without a look of its own, looking again tells nothing new.
        yield given.step(kind, _ran(own, given), patience_s if own.verify else 0)

    return Spec(CommandSettings, make)


def _command_fence(own: CommandFenceSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    where = {"cluster": seen.source, "settle_seconds": _settle(own.settle, seen)}
    yield given.step("command-fence", _ran(own, given) | where, 120)


def _ran(own: CommandSettings, given: Given) -> dict[str, Any]:
    return {
        "question": given.id,
        "argv": list(own.argv),
        "undo": list(own.undo),
        "verify": list(own.verify),
        "env": dict(own.env),
        "timeout_seconds": own.timeout,
    }


def _wait(own: WaitSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    connectors = list(seen.connectors)
    settings = {"for": own.condition, "connectors": connectors, **step_builders.ends(seen)}
    yield given.step("wait", settings, own.at_most)


def _check(own: CheckSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    mode = Mode.PLANNED if seen.source_answers else Mode.UNPLANNED
    settings = {"guards": list(own.guards), "mode": mode.value, "overrides": dict(seen.overrides)}
    yield given.step("check", settings, 30)


def _gap(own: GapSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    settings = {"scope": own.scope, "at_most": own.at_most, **step_builders.ends(seen)}
    yield given.step("gap", settings, 0)


def _sequence(own: SequenceSettings, seen: Circumstances, given: Given) -> Iterator[Step]:
    for step in _sequence_steps(own, seen):
        identity = f"{given.id}.{step.id}"
        asks = {"question": identity} if "question" in step.settings else {}
        yield replace(step, id=identity, settings={**step.settings, **asks})


def _sequence_steps(own: SequenceSettings, seen: Circumstances) -> Iterator[Step]:
    if own.name != NAME:
        if own.policy is not None:
            raise Misfit("policy", f"goes with {NAME}: {own.name} brings no records over")
        yield from failover(Mode(own.name.removeprefix("failover-")), seen).steps
        return
    way = seen.way_back or turned(seen, tuple(f"{name}-BACK" for name in seen.connectors))
    yield from failback(replace(way, policy=own.policy, conflicting=own.conflicting)).steps


def _settle(own: float | None, seen: Circumstances) -> float:
    return seen.settle_s if own is None else own


SPECS: Mapping[str, Spec] = {
    "preflight": Spec(PreflightSettings, _preflight),
    "take-stock": _built(step_builders.stock),
    "fence-producers": Spec(FenceSettings, _fence),
    "fence-consumers": Spec(FenceSettings, _consumers),
    "measure-loss": _plain("measure-loss", step_builders.ends, lambda _: 30),
    "drain": _plain("drain", lambda seen: {"target": seen.target}, lambda seen: seen.patience_s),
    "quiesce-consumers": _plain(
        "quiesce-consumers", lambda seen: {"cluster": seen.source}, lambda _: 60
    ),
    "stop-replication": Spec(StopSettings, _stop),
    "prepare-groups": _built(step_builders.groups),
    "commit-offsets": Spec(OffsetsSettings, _offsets),
    "skip-producer-ids": Spec(Nothing, _skipping),
    "open-target": _built(step_builders.opening),
    "switch-endpoint": Spec(EndpointSettings, _switch),
    "verify-clients": _built(step_builders.clients),
    "manual": _manual("manual"),
    "manual-check": _manual("manual-check"),
    "manual-fence": Spec(ManualFenceSettings, _manual_fence),
    "manual-stop-replication": _change("manual-stop-replication", step_builders.START),
    "manual-start-replication": _change("manual-start-replication", "stop that replication again"),
    "manual-reconcile": _change("manual-reconcile"),
    "manual-change": _change("manual-change"),
    "command": _command("command", 60),
    "command-fence": Spec(CommandFenceSettings, _command_fence),
    "command-stop-replication": _command("command-stop-replication", 120),
    "wait": Spec(WaitSettings, _wait),
    "check": Spec(CheckSettings, _check),
    "gap": Spec(GapSettings, _gap),
}
"""By the name of the kind; the same names as in `drctl.steps.registry`."""

SEQUENCE = Spec(SequenceSettings, _sequence)
