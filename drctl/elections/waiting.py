"""Waits for leaders and reports changes meanwhile."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from drctl.elections.cluster_state import Clock, ElectionReader, PartitionStates
from drctl.model.errors import Unreachable

_WAIT_EVERY_S = 1.0


@dataclass(slots=True)
class Wait:
    """Poll until all partitions have leaders, the timeout expires, or it is stopped.

    Attributes:
        topics: None waits for all.
        report: called with each state, None if no broker answered, and descriptions of changes.
    """

    reader: ElectionReader
    clock: Clock
    topics: Collection[str] | None
    report: Callable[[PartitionStates | None, tuple[str, ...]], None]

    def run(self, within_s: float) -> PartitionStates:
        """The last observed state.

        Raises:
            Unreachable: no broker answered at the end.
        """
        until = self.clock.monotonic() + within_s
        before: PartitionStates | None = None
        while True:
            over = self.clock.stopping or self.clock.monotonic() >= until
            try:
                states = self.reader.look(self.topics)
            except Unreachable as silent:
                if over or self.clock.monotonic() >= until:
                    raise
                self.report(None, (silent.message,))
            else:
                self.report(states, news(before, states))
                before = states
                if over or not states.leaderless:
                    return states
            self.clock.wait(min(_WAIT_EVERY_S, max(0.0, until - self.clock.monotonic())))


def news(before: PartitionStates | None, now: PartitionStates) -> tuple[str, ...]:
    """The changes between two polls, one per line."""
    return tuple(_news(before, now)) if before else ()


def _news(before: PartitionStates, now: PartitionStates) -> Iterator[str]:
    for node in sorted(now.alive - before.alive):
        yield f"broker {node} answers"
    for node in sorted(before.alive - now.alive):
        yield f"broker {node} no longer answers"
    earlier = {each.place: each for each in before.partitions}
    for each in now.partitions:
        then = earlier.get(each.place)
        if then is not None and before.led(then) != now.led(each):
            led = now.led(each)
            yield f"{each.place}: " + (f"broker {each.leader} leads it" if led else "no leader")
        elif then is not None and then.leader != each.leader and each.leader is not None:
            yield f"{each.place}: broker {each.leader} leads it, no longer broker {then.leader}"
