"""A plan: what will be done to two clusters, in which order, and what it was built from."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Json = Mapping[str, Any]
"""What JSON can hold: it goes into plans and journals as it is."""


class Duty(StrEnum):
    """What becomes of a run in which a step cannot be done."""

    REQUIRED = "required"
    """The run ends there."""
    BEST_EFFORT = "best-effort"
    """The run goes on; what was not done is owed."""
    OPTIONAL = "optional"
    """The run goes on; the steps after it do without."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do.

    Attributes:
        id: unique in its plan.
        kind: the name in the registry of `drctl.engine.registry`.
        settings: what the kind needs to know; it names clusters, topics, never secrets.
        patience_s: how long its proof may take.
    """

    id: str
    kind: str
    settings: Json = field(default_factory=dict)
    patience_s: float = 60
    duty: Duty = Duty.REQUIRED

    def to_json(self) -> dict[str, Any]:
        """As it stands in plans and journals."""
        return {
            "id": self.id,
            "kind": self.kind,
            "settings": dict(self.settings),
            "patience_seconds": self.patience_s,
            "duty": self.duty.value,
        }

    @classmethod
    def from_json(cls, data: Json) -> "Step":
        """From what `to_json` made.

        Raises:
            KeyError, TypeError, ValueError: it did not.
        """
        return cls(
            _text(_mapping(data)["id"]),
            _text(data["kind"]),
            _mapping(data["settings"]),
            _number(data["patience_seconds"]),
            Duty(_text(data["duty"])),
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps over one link.

    Attributes:
        name: of the sequence or runbook that it comes from.
        source: name of the cluster that replication reads from now.
        target: name of the cluster that will take the writes.
        basis: what it was built from: each part in words that change when it does.
        overrides: guard to the reason why it is passed over.
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
        """Of the steps and of what they were built from: 16 hex digits."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def step(self, identity: str) -> Step:
        """The step of this id.

        Raises:
            KeyError: there is none.
        """
        for step in self.steps:
            if step.id == identity:
                return step
        raise KeyError(identity)

    def to_json(self) -> dict[str, Any]:
        """As it stands in files and journals; the same plan gives the same document."""
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
        """From what `to_json` made; its fingerprint is that of the plan that it was made from.

        Raises:
            KeyError, TypeError, ValueError: it did not.
        """
        if not isinstance(_mapping(data)["steps"], list | tuple):
            raise ValueError("its steps are no list")
        steps = tuple(Step.from_json(each) for each in data["steps"])
        if len({step.id for step in steps}) < len(steps):
            raise ValueError("two of its steps have one name")
        name, link, source, target = (
            _text(data[each]) for each in ("name", "link", "source", "target")
        )
        basis, overrides = (_told(data[each]) for each in ("basis", "overrides"))
        return cls(name, link, source, target, steps, basis, overrides)


def _number(value: object) -> float:
    """As it stands: 60 and 60.0 are equal, and written differently.

    Raises:
        ValueError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise ValueError(f"{value!r} is no number of seconds")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _mapping(value: object) -> Json:
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{value!r} is no mapping")
    return value


def _told(value: object) -> dict[str, str]:
    return {name: _text(each) for name, each in _mapping(value).items()}
