"""A plan: what will be done to two clusters, in which order, and what it was built from."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeVar

from drctl.model.errors import UsageError

G = TypeVar("G", bound=str)

PLACEHOLDER = "REASON"
"""Placeholder for a reason in help and printed commands; it is not accepted as a reason."""


def parse_overrides(
    given: Iterable[str], known: Iterable[G], final: Mapping[str, str] = MappingProxyType({})
) -> dict[G, str]:
    """Parse `PRECHECK=REASON`: the reason of each override, by precheck.

    Args:
        known: the prechecks that may be overridden.
        final: the prechecks that may not be overridden, and when each of them passes.

    Raises:
        UsageError: there is no such precheck, it cannot be overridden, or no reason is given.
    """
    prechecks, found = {str(each): each for each in known}, {}
    for text in given:
        name, _, reason = (part.strip() for part in text.partition("="))
        if name in final:
            raise UsageError(
                f"precheck {name} cannot be overridden: the run depends on it",
                f"it passes when {final[name]}",
            )
        if name not in prechecks:
            near = get_close_matches(name, prechecks, 1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise UsageError(
                f"--override {name!r}: no precheck of that name can be overridden",
                f"{meant}prechecks that can: {', '.join(prechecks)}",
            )
        if reason in ("", PLACEHOLDER):
            raise UsageError(
                f"--override {name} needs a reason" + f", not the word {reason}" * bool(reason),
                f'say who decided and why: --override {name}="disk lost, decided by A. Meyer"; the'
                " journal and the report keep it",
            )
        found[prechecks[name]] = reason
    return found


Json = Mapping[str, Any]
"""A JSON object in a plan or journal."""


class Duty(StrEnum):
    """What a run does if a step fails."""

    REQUIRED = "required"
    """The run stops."""
    BEST_EFFORT = "best-effort"
    """The run continues; the step becomes an outstanding action."""
    OPTIONAL = "optional"
    """The run continues without the step."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a plan.

    Attributes:
        id: unique in its plan.
        kind: the name in the registry of `drctl.steps.registry`.
        settings: settings of the kind; they never contain secrets.
        timeout_s: how long its verification may take.
    """

    id: str
    kind: str
    settings: Json = field(default_factory=dict)
    timeout_s: float = 60
    duty: Duty = Duty.REQUIRED

    def to_json(self) -> dict[str, Any]:
        """The JSON form in plans and journals."""
        return {
            "id": self.id,
            "kind": self.kind,
            "settings": dict(self.settings),
            "timeout_seconds": self.timeout_s,
            "duty": self.duty.value,
        }

    @classmethod
    def from_json(cls, data: Json) -> "Step":
        """Read the result of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: the data does not have that form.
        """
        return cls(
            _text(_mapping(data)["id"]),
            _text(data["kind"]),
            _mapping(data["settings"]),
            _number(data["timeout_seconds"]),
            Duty(_text(data["duty"])),
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps for one link.

    Attributes:
        name: name of its sequence or runbook.
        source: name of the cluster that replication currently reads from.
        target: name of the cluster that will take the writes.
        basis: what the plan was built from: each part as text that changes when the part does.
        overrides: the reason of each override, by precheck.
    """

    name: str
    link: str
    source: str
    target: str
    steps: tuple[Step, ...]
    basis: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the steps and their basis: 16 hex digits."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def step(self, identity: str) -> Step:
        """The step with this id.

        Raises:
            KeyError: there is none.
        """
        for step in self.steps:
            if step.id == identity:
                return step
        raise KeyError(identity)

    def to_json(self) -> dict[str, Any]:
        """The JSON form for files and journals; equal plans have equal documents."""
        return {
            "name": self.name,
            "link": self.link,
            "source": self.source,
            "target": self.target,
            "steps": [step.to_json() for step in self.steps],
            "basis": dict(self.basis),
            "overrides": dict(self.overrides),
        }

    @classmethod
    def from_json(cls, data: Json) -> "Plan":
        """Read a plan from the result of `to_json`; the fingerprint stays the same.

        Raises:
            KeyError, TypeError, ValueError: the data does not have that form.
        """
        if not isinstance(_mapping(data)["steps"], list | tuple):
            raise ValueError("its steps are not a list")
        steps = tuple(Step.from_json(each) for each in data["steps"])
        if len({step.id for step in steps}) < len(steps):
            raise ValueError("two of its steps have the same id")
        name, link, source, target = (
            _text(data[each]) for each in ("name", "link", "source", "target")
        )
        basis, overrides = (_texts(data[each]) for each in ("basis", "overrides"))
        return cls(name, link, source, target, steps, basis, overrides)


def _number(value: object) -> float:
    """Return a number of seconds unchanged: 60 and 60.0 are equal, but not the same as JSON.

    Raises:
        ValueError: it is not a number of seconds.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise ValueError(f"{value!r} is not a number of seconds")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not text")
    return value


def _mapping(value: object) -> Json:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{value!r} is not an object")
    return value


def _texts(value: object) -> dict[str, str]:
    return {name: _text(each) for name, each in _mapping(value).items()}


_ABSENT = "missing"


def changes(planned: Plan, now: Plan) -> tuple[str, ...]:
    """Describe the differences of two plans, one line each, the basis first; empty if equal."""
    return tuple(_changes(planned, now)) if planned.fingerprint != now.fingerprint else ()


def _changes(planned: Plan, now: Plan) -> Iterator[str]:
    yield from _differing(planned.basis, now.basis)
    yield from _differing(_head(planned), _head(now))
    before, after = ({step.id: step for step in plan.steps} for plan in (planned, now))
    yield from _differing(_there(before), _there(after))
    kept, wanted = [n for n in before if n in after], [n for n in after if n in before]
    for name in kept:
        yield from _differing(_settings_of(before[name]), _settings_of(after[name]))
    if kept != wanted:
        yield f"the order of its steps: {', '.join(kept)} -> {', '.join(wanted)}"


def _differing(planned: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for part in sorted({*planned, *now}):
        before, after = planned.get(part, _ABSENT), now.get(part, _ABSENT)
        if before != after:
            yield f"{part}: {before} -> {after}"


def _head(plan: Plan) -> Mapping[str, str]:
    ends = {"plan": plan.name, "link": plan.link, "from": plan.source, "to": plan.target}
    return {**ends, **{f"override {precheck}": why for precheck, why in plan.overrides.items()}}


def _there(steps: Mapping[str, Step]) -> Mapping[str, str]:
    return {f"step {name}": "there" for name in steps}


def _settings_of(step: Step) -> Mapping[str, str]:
    """Each field as JSON; a setting may have the same name as a field of the step."""
    own = {"its kind": step.kind, "its timeout": step.timeout_s, "its duty": step.duty.value}
    values = {**own, **step.settings}
    return {f"step {step.id}, {name}": json.dumps(values[name], sort_keys=True) for name in values}
