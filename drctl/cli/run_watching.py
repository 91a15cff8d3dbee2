"""Tells how a run comes along, a line for each thing that happens."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from drctl.cli.console import console
from drctl.engine.kind import Kind
from drctl.model.plan import Plan

_EVERY_S = 2.0


@dataclass(slots=True)
class Lines:
    """Implements `drctl.engine.ports.Watcher`."""

    plan: Plan
    kinds: Mapping[str, Kind]
    _told: float = field(default=0.0, init=False)

    def step(self, identity: str, number: int, total: int) -> None:
        """A step begins."""
        self._told = time.monotonic()
        step = self.plan.step(identity)
        title = self.kinds[step.kind].describe(step.settings).title
        console().progress(f"[{number}/{total}] {title}")

    def waiting(self, identity: str, words: str, left_s: float) -> None:
        """Its proof is not there yet; not told more often than a person reads."""
        if time.monotonic() - self._told >= _EVERY_S:
            self._told = time.monotonic()
            console().progress(f"      {words} ({left_s:.0f} s left)")

    def ended(self, identity: str, words: str, figures: Mapping[str, float]) -> None:
        """It came to an end."""
        console().progress(f"      {words} ({figures['seconds']:.1f} s)")
