"""What differs between two plans, in words: the one agreed on, and the one there is now."""

import json
from collections.abc import Iterator, Mapping

from drctl.model.plan import Plan, Step

_ABSENT = "not there"


def changes(planned: Plan, now: Plan) -> tuple[str, ...]:
    """A line each, what they were built from first; empty where it is the same plan."""
    return tuple(_changes(planned, now)) if planned.fingerprint != now.fingerprint else ()


def _changes(planned: Plan, now: Plan) -> Iterator[str]:
    yield from _differing(planned.basis, now.basis)
    yield from _differing(_head(planned), _head(now))
    before, after = ({step.id: step for step in plan.steps} for plan in (planned, now))
    yield from _differing(_there(before), _there(after))
    kept, wanted = [n for n in before if n in after], [n for n in after if n in before]
    for name in kept:
        yield from _differing(_told(before[name]), _told(after[name]))
    if kept != wanted:
        yield f"the order of its steps: {', '.join(kept)} -> {', '.join(wanted)}"


def _differing(planned: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for part in sorted({*planned, *now}):
        before, after = planned.get(part, _ABSENT), now.get(part, _ABSENT)
        if before != after:
            yield f"{part}: {before} -> {after}"


def _head(plan: Plan) -> Mapping[str, str]:
    ends = {"plan": plan.name, "link": plan.link, "from": plan.source, "to": plan.target}
    return {**ends, **{f"override {guard}": why for guard, why in plan.overrides.items()}}


def _there(steps: Mapping[str, Step]) -> Mapping[str, str]:
    return {f"step {name}": "there" for name in steps}


def _told(step: Step) -> Mapping[str, str]:
    """What it is told, as JSON; its settings may be called as what stands beside them."""
    beside = {"kind": step.kind, "patience": step.patience_s, "duty": step.duty.value}
    told = {**{f"its {name}": value for name, value in beside.items()}, **step.settings}
    return {
        f"step {step.id}, {name}": json.dumps(value, sort_keys=True) for name, value in told.items()
    }
