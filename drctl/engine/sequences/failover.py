"""The two failovers: which steps, in which order."""

from collections.abc import Iterator

from drctl.engine.sequences import parts
from drctl.engine.sequences.circumstances import Circumstances, Mode
from drctl.model.plan import Duty, Plan, Step


def failover(mode: Mode, seen: Circumstances) -> Plan:
    """The plan for these circumstances; the same ones give the same plan."""
    steps = _planned(seen) if mode is Mode.PLANNED else _unplanned(seen)
    name = f"failover-{mode.value}"
    return Plan(name, seen.link, seen.source, seen.target, tuple(steps), seen.basis, seen.overrides)


def _planned(seen: Circumstances) -> Iterator[Step]:
    yield parts.preflight(seen, Mode.PLANNED)
    yield parts.stock(seen)
    yield parts.fence(seen, Duty.REQUIRED)
    yield Step("drain", "drain", {"target": seen.target}, seen.patience_s)
    yield from parts.quiet(seen)
    yield parts.stop(seen)
    yield parts.groups(seen)
    yield parts.offsets(seen, leave_out=seen.leaves_groups_out)
    yield from _opening(seen, Mode.PLANNED)


def _unplanned(seen: Circumstances) -> Iterator[Step]:
    yield parts.preflight(seen, Mode.UNPLANNED)
    yield parts.stock(seen)
    # The dead cannot be fenced: what could not be done is owed before it may return.
    yield parts.fence(seen, Duty.BEST_EFFORT)
    yield Step("measure-loss", "measure-loss", parts.ends(seen), 30)
    yield parts.stop(seen)
    yield parts.groups(seen)
    # At 3 a.m. one group without evidence must not keep the others: it is named, and owed.
    yield parts.offsets(seen, leave_out=True)
    yield from _opening(seen, Mode.UNPLANNED)


def _opening(seen: Circumstances, mode: Mode) -> Iterator[Step]:
    yield parts.skipping(seen)
    yield parts.opening(seen, mode=mode)
    yield from parts.switches(seen)
    yield Step("verify-clients", "verify-clients", parts.ends(seen), 120)
