"""The two failovers: which steps, in which order."""

from collections.abc import Iterator

from drctl.engine.sequences import parts
from drctl.engine.sequences.circumstances import Circumstances, Mode
from drctl.engine.steps.stop_replication import STOPPED
from drctl.model.errors import Refused
from drctl.model.pasting import put
from drctl.model.plan import Duty, Plan, Step

_SETTLE_S = 0.5
"""Records that a broker had let in before it denied writes are appended within 0.1 s."""


def failover(mode: Mode, seen: Circumstances) -> Plan:
    """The plan for these circumstances; the same ones give the same plan.

    Raises:
        Refused: what is to copy back afterwards does so already, or nobody knows.
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
    yield parts.preflight(seen, Mode.PLANNED)
    yield parts.stock(seen)
    # Before the target opens these ends are looked at again: they are proven to stand once.
    yield parts.fence(seen, Duty.REQUIRED, settle_s=_SETTLE_S)
    yield Step("drain", "drain", {"target": seen.target}, seen.patience_s)
    yield from parts.quiet(seen)
    yield parts.groups(seen)
    yield parts.skipping(seen)
    yield parts.stop(seen, rest_later=True)
    yield parts.offsets(seen, leave_out=seen.leaves_groups_out)
    yield from _opening(seen, Mode.PLANNED)
    yield from parts.confirm_stop(seen, lost=False)
    yield parts.clients(seen)
    if seen.reverse:
        yield parts.replicate_back(seen)


def _unplanned(seen: Circumstances) -> Iterator[Step]:
    yield parts.preflight(seen, Mode.UNPLANNED)
    yield parts.stock(seen)
    # The dead cannot be fenced: what could not be done is owed before it may return.
    yield parts.fence(seen, Duty.BEST_EFFORT)
    # Tasks take seconds to end: they do while the rest is looked at.
    yield from parts.request_stop(seen)
    yield parts.groups(seen)
    yield parts.skipping(seen)
    # It asks Connect, which answers once those tasks have ended.
    yield Step("measure-loss", "measure-loss", parts.ends(seen), 30)
    yield parts.stop(seen, tasks_only=True)
    # At 3 a.m. one group without evidence must not keep the others: it is named, and owed.
    yield parts.offsets(seen, leave_out=True, lost=True)
    yield from _opening(seen, Mode.UNPLANNED)
    yield from parts.confirm_stop(seen, lost=True)
    yield parts.clients(seen)


def _opening(seen: Circumstances, mode: Mode) -> Iterator[Step]:
    if mode is Mode.PLANNED and seen.reverse:
        yield parts.begin_back(seen)
    yield parts.opening(seen, mode=mode)
    yield from parts.switches(seen)
