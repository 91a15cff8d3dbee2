"""Restarts what failed, with growing pauses, until it runs or all attempts are spent."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from drctl.connectors.connector import Clock, Connector, Workers, WorkersWriter
from drctl.connectors.diagnosis import Explained, explain
from drctl.model.errors import DrctlError, UsageError


class Row(NamedTuple):
    """An attempt.

    Attributes:
        delay_s: the pause before it.
        total_s: all pauses up to it.
    """

    attempt: int
    delay_s: float
    total_s: float


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pauses of Debezium's reconnects, with its defaults."""

    initial_s: float = 1.0
    maximum_s: float = 120.0
    attempts: int = 16

    def __post_init__(self) -> None:
        """Refuse what has no end or no beginning.

        Raises:
            UsageError: a value is out of range.
        """
        if not 0 < self.initial_s <= self.maximum_s or self.attempts < 1:
            raise UsageError(
                f"{self.attempts} attempts with pauses of {self.initial_s:g} s to"
                f" {self.maximum_s:g} s are not possible",
                "one attempt at least, and a first pause that is no longer than the longest",
            )

    def rows(self) -> Iterator[Row]:
        """All attempts."""
        delay, total = self.initial_s, 0.0
        for attempt in range(1, self.attempts + 1):
            total += delay
            yield Row(attempt, delay, total)
            delay = min(2 * delay, self.maximum_s)

    def delay(self, attempt: int) -> float:
        """The pause before an attempt, counted from 1."""
        return next(row.delay_s for row in self.rows() if row.attempt == attempt)


_POLL_S = 1.0


class Ending(StrEnum):
    """What became of a connector."""

    RUNNING = "running"
    FAILING = "failing"
    """All attempts are spent, or its cause needs a person."""
    GONE = "gone"
    INTERRUPTED = "interrupted"


@dataclass(slots=True)
class RestartAttempt:
    """A connector that is being restarted.

    Attributes:
        due: when the next attempt is.
        runs_since: since when it runs; None where it does not.
        said: what a worker answered to the last restart; empty where that was taken.
    """

    name: str
    due: float
    attempts: int = 0
    runs_since: float | None = None
    said: str = ""
    ending: Ending | None = None
    explained: Explained | None = None


@dataclass(slots=True)
class Recovery:
    """Restarts some connectors of one Connect cluster side by side.

    Attributes:
        settle_s: how long a connector has to run before it counts as recovered.
        announce: is told of each restart before it is sent.
        told: is told what happens.
    """

    workers: Workers
    writer: WorkersWriter
    clock: Clock
    backoff: Backoff
    settle_s: float
    announce: Callable[[str, int], None]
    told: Callable[[str], None]
    _delays: Sequence[float] = field(init=False)

    def __post_init__(self) -> None:
        """Compute all pauses."""
        self._delays = [row.delay_s for row in self.backoff.rows()]

    def run(self, names: Sequence[str]) -> tuple[RestartAttempt, ...]:
        """Restart them until they run; how each ended."""
        began = self.clock.monotonic()
        restarts = [RestartAttempt(name, began + self._delays[0]) for name in names]
        while any(each.ending is None for each in restarts) and not self.clock.stopping:
            self._look(restarts)
            for each in restarts:
                if each.ending is None and each.due <= self.clock.monotonic():
                    self._restart(each)
            now = self.clock.monotonic()
            dues = [each.due - now for each in restarts if each.ending is None and each.due > now]
            self.clock.wait(min([_POLL_S, *dues]))
        for each in restarts:
            each.ending = each.ending or Ending.INTERRUPTED
        return tuple(restarts)

    def _look(self, restarts: Sequence[RestartAttempt]) -> None:
        try:
            seen = self.workers.all()
        except DrctlError as silent:
            self.told(silent.message)
            return
        for each in restarts:
            if each.ending is None:
                self._judge(each, seen)

    def _judge(self, each: RestartAttempt, seen: Mapping[str, Connector]) -> None:
        now, connector = self.clock.monotonic(), seen.get(each.name)
        if connector is None:
            self._end(each, Ending.GONE)
        elif connector.running:
            each.explained = None
            each.runs_since = now if each.runs_since is None else each.runs_since
            if now - each.runs_since >= self.settle_s:
                self._end(each, Ending.RUNNING)
        else:
            each.runs_since = None
            each.explained = explain(connector.failed[0].trace) if connector.failed else None
            spent = each.attempts >= self.backoff.attempts and now >= each.due
            if spent and each.attempts:
                self._end(each, Ending.FAILING)

    def _restart(self, each: RestartAttempt) -> None:
        if each.runs_since is not None or each.attempts >= self.backoff.attempts:
            return
        each.attempts += 1
        number = f"{each.attempts} of {self.backoff.attempts}"
        self.told(f"{each.name}: restart {number}")
        self.announce(each.name, each.attempts)
        try:
            self.writer.restart(each.name)
            each.said = ""
        except DrctlError as refused:
            each.said = refused.message
            self.told(f"{each.name}: {refused.message}")
        last = each.attempts == self.backoff.attempts
        pause = self.settle_s if last else self._delays[each.attempts]
        each.due = self.clock.monotonic() + pause

    def _end(self, each: RestartAttempt, ending: Ending) -> None:
        each.ending = ending
        self.told(f"{each.name}: {ending.value}, after {each.attempts} restarts")
