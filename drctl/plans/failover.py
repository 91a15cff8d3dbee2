"""The two failovers: which steps, in which order."""

from collections.abc import Iterator

from drctl.model.errors import Refused
from drctl.model.loss import Mode
from drctl.model.plan import Duty, Plan, Step
from drctl.model.text import put
from drctl.plans import step_builders
from drctl.plans.inputs import Circumstances
from drctl.steps.stop_replication import STOPPED, MeasureLoss
from drctl.steps.waiting import Drain, DrainSettings

_SETTLE_S = 0.5
"""Records that a broker had let in before it denied writes are appended within 0.1 s."""


def failover(mode: Mode, seen: Circumstances) -> Plan:
    """The plan for these circumstances; the same ones give the same plan.

    Raises:
        Refused: the reverse replication runs already, or its state is not known.
    """
    _refuse_if_reversed(seen, mode)
    steps = _planned(seen) if mode is Mode.PLANNED else _unplanned(seen)
    name = f"failover-{mode.value}"
    return Plan(name, seen.link, seen.source, seen.target, tuple(steps), seen.basis, seen.overrides)


def _refuse_if_reversed(seen: Circumstances, mode: Mode) -> None:
    if mode is not Mode.PLANNED:
        return
    for name in seen.reverse:
        state = seen.basis.get(f"connector {name}", STOPPED)
        if state != STOPPED:
            raise Refused(
                f"connector {name}, which is to copy from {seen.target} to {seen.source} after the"
                f" failover, is not stopped: {state}",
                f"stop it, that it can be told where to begin: "
                f"{put('', name, 'stop')}; or take `after_failover` from `reverse`",
            )


def _planned(seen: Circumstances) -> Iterator[Step]:
    yield step_builders.preflight(seen, Mode.PLANNED)
    yield step_builders.stock(seen)
    # Before the target opens these ends are looked at again: they are proven to stand once.
    yield step_builders.fence(seen, Duty.REQUIRED, settle_s=_SETTLE_S)
    yield Drain().step("drain", DrainSettings(seen.target), seen.timeout_s)
    yield from step_builders.quiet(seen, ahead=True)
    yield step_builders.groups(seen)
    yield step_builders.skipping(seen)
    yield step_builders.stop(seen, rest_later=True)
    yield step_builders.offsets(seen, leave_out=seen.leaves_groups_out)
    yield from _opening(seen, Mode.PLANNED)
    yield from step_builders.confirm_stop(seen, lost=False)
    yield step_builders.clients(seen)
    if seen.reverse:
        yield step_builders.replicate_back(seen)


def _unplanned(seen: Circumstances) -> Iterator[Step]:
    yield step_builders.preflight(seen, Mode.UNPLANNED)
    yield step_builders.stock(seen)
    # The dead cannot be fenced: what could not be done is owed before it may return.
    yield step_builders.fence(seen, Duty.BEST_EFFORT)
    # Tasks take seconds to end: they do while the rest is looked at.
    yield from step_builders.request_stop(seen)
    yield step_builders.groups(seen)
    yield step_builders.skipping(seen)
    # It asks Connect, which answers once those tasks have ended.
    yield MeasureLoss().step("measure-loss", step_builders.ends(seen), 30)
    yield step_builders.stop(seen, tasks_only=True)
    # At 3 a.m. one group without evidence must not keep the others: it is named, and owed.
    yield step_builders.offsets(seen, leave_out=True, lost=True)
    yield from _opening(seen, Mode.UNPLANNED)
    yield from step_builders.confirm_stop(seen, lost=True)
    yield step_builders.clients(seen)


def _opening(seen: Circumstances, mode: Mode) -> Iterator[Step]:
    if mode is Mode.PLANNED and seen.reverse:
        yield step_builders.begin_back(seen)
    yield step_builders.opening(seen, mode=mode)
    yield from step_builders.switches(seen)
