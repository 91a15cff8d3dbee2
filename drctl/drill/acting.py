"""The drill's own applications, moved as the engine's steps go by."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from drctl.drill.ports import Reader, Writer
from drctl.engine.ports import Watcher
from drctl.model.plan import Plan

_DRAIN, _QUIET, _OPEN = "drain", "quiesce-consumers", "open-target"

FIRST_ON_TARGET = 50
"""So many records are written on the target once it is open."""


@dataclass(slots=True)
class Applications:
    """A writer and a reader, and those that take their places on the target.

    Attributes:
        there: opens the ones on the target, when they are wanted.
    """

    writer: Writer
    reader: Reader
    there: Callable[[], tuple[Writer, Reader]]
    moved: tuple[Writer, Reader] | None = field(default=None, init=False)

    def fence_set(self) -> None:
        """Producers are denied now: the writer finds out, or stops by itself."""
        self.writer.expect_refusal()

    def stop_writing(self, *, wait: bool = True) -> None:
        """Nothing is written to the source any more."""
        self.writer.stop(wait=wait)

    def stop_reading(self, *, wait: bool = True) -> None:
        """The group is left on the source."""
        self.reader.leave(wait=wait)

    def move(self) -> None:
        """Write and read on the target; once."""
        if self.moved is None:
            self.moved = self.there()
            writer, reader = self.moved
            # The first accepted write is what the time without writes ends with.
            writer.start(FIRST_ON_TARGET)
            reader.start()

    def end(self) -> None:
        """All of them; nobody is waited for on a cluster that may be dead."""
        self.stop_writing(wait=False)
        self.stop_reading(wait=False)
        if self.moved is not None:
            self.moved[0].stop(wait=True)
            self.moved[1].leave(wait=True)


@dataclass(slots=True)
class Conducted:
    """Implements `drctl.engine.ports.Watcher`: moves the applications, and passes everything on."""

    plan: Plan
    applications: Applications
    heard: Watcher

    def step(self, identity: str, number: int, total: int) -> None:
        """A step begins."""
        self.heard.step(identity, number, total)
        kind = self.plan.step(identity).kind
        if kind == _DRAIN:
            self.applications.stop_writing()
        elif kind == _QUIET:
            self.applications.stop_reading()

    def waiting(self, identity: str, words: str, left_s: float) -> None:
        """Its proof is not there yet."""
        self.heard.waiting(identity, words, left_s)

    def ended(self, identity: str, words: str, figures: Mapping[str, float]) -> None:
        """It came to an end."""
        self.heard.ended(identity, words, figures)
        if self.plan.step(identity).kind == _OPEN:
            self.applications.move()
