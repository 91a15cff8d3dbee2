"""The two failovers: which steps, in which order."""

from collections.abc import Iterator

from drctl.engine.sequences.circumstances import Circumstances, Mode
from drctl.model.plan import Duty, Plan, Step


def failover(mode: Mode, seen: Circumstances) -> Plan:
    """The plan for these circumstances; the same ones give the same plan."""
    steps = _planned(seen) if mode is Mode.PLANNED else _unplanned(seen)
    name = f"failover-{mode.value}"
    return Plan(name, seen.link, seen.source, seen.target, tuple(steps), seen.basis, seen.overrides)


def _planned(seen: Circumstances) -> Iterator[Step]:
    yield _preflight(seen, Mode.PLANNED)
    yield _stock(seen)
    yield _fence(seen, Duty.REQUIRED)
    yield Step("drain", "drain", {"target": seen.target}, seen.patience_s)
    yield _quiet("grace", seen, seen.grace_s, Duty.OPTIONAL)
    yield Step("fence-consumers", "fence-consumers", _fenced(seen), 60)
    yield _quiet("quiesce", seen, 60, Duty.REQUIRED)
    yield _stop(seen)
    yield _offsets(seen, leave_out=seen.leaves_groups_out)
    yield from _opening(seen)


def _unplanned(seen: Circumstances) -> Iterator[Step]:
    yield _preflight(seen, Mode.UNPLANNED)
    yield _stock(seen)
    # The dead cannot be fenced: what could not be done is owed before it may return.
    yield _fence(seen, Duty.BEST_EFFORT)
    yield Step("measure-loss", "measure-loss", {"source": seen.source, "target": seen.target}, 30)
    yield _stop(seen)
    # At 3 a.m. one group without evidence must not keep the others: it is named, and owed.
    yield _offsets(seen, leave_out=True)
    yield from _opening(seen)


def _preflight(seen: Circumstances, mode: Mode) -> Step:
    settings = {"mode": mode.value, "overrides": dict(seen.overrides)}
    return Step("preflight", "preflight", settings, 30)


def _stock(seen: Circumstances) -> Step:
    settings = {"clusters": [seen.source, seen.target], "connectors": list(seen.connectors)}
    return Step("take-stock", "take-stock", settings, 30)


def _fence(seen: Circumstances, duty: Duty) -> Step:
    patience_s = 120 if duty is Duty.REQUIRED else 15
    return Step("fence-producers", "fence-producers", _fenced(seen), patience_s, duty)


def _fenced(seen: Circumstances) -> dict[str, object]:
    return {
        "cluster": seen.source,
        "principals": list(seen.principals),
        "settle_seconds": seen.settle_s,
    }


def _quiet(identity: str, seen: Circumstances, patience_s: float, duty: Duty) -> Step:
    return Step(identity, "quiesce-consumers", {"cluster": seen.source}, patience_s, duty)


def _stop(seen: Circumstances) -> Step:
    return Step("stop-replication", "stop-replication", {"connectors": list(seen.connectors)}, 60)


def _offsets(seen: Circumstances, *, leave_out: bool) -> Step:
    settings = {
        "link": seen.link,
        "cluster": seen.target,
        "overrides": dict(seen.offset_overrides),
        "leave_out": leave_out,
    }
    return Step("commit-offsets", "commit-offsets", settings, 30)


def _opening(seen: Circumstances) -> Iterator[Step]:
    settings = {"cluster": seen.target, "principals": list(seen.principals)}
    yield Step("open-target", "open-target", settings, 60)
    for number, kind in enumerate(seen.endpoints):
        to = {"number": number, "kind": kind, "to": seen.target}
        yield Step(f"switch-endpoint-{number + 1}", "switch-endpoint", to, 120)
    ends = {"source": seen.source, "target": seen.target}
    yield Step("verify-clients", "verify-clients", ends, 120)
