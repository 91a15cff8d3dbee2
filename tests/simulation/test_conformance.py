"""The simulated parts answer the scenario of `conformance.py` as the real ones do.

tests/cluster/test_simulation_conformance.py sends the same requests to real clusters.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import count

from drctl.engine.ports import LinkReader, LinkWriter
from drctl.kafka.journal_topic import HeldRun
from drctl.model.journal import Holder
from drctl.model.topology import TopicPartition
from tests.engine.client_state import OLD
from tests.engine.pair import APP, AUDIT, ORDERS, PRIMARY, SECONDARY
from tests.simulation.conformance import differences, text
from tests.simulation.faults import Faults
from tests.simulation.journal import SimulatedJournal, Topic
from tests.simulation.process import Clock, SimulatedProcess
from tests.simulation.schedule import simulated
from tests.simulation.world import FORWARD, Consumer, Producer, linked

SOON = 20
"""Ticks until what has not happened never does."""


class Simulated:
    """Implements `Side`."""

    source, target, principal, places = PRIMARY, SECONDARY, APP, (ORDERS, AUDIT)
    group, new_group, connector = "conforming", "new", FORWARD

    def __init__(self) -> None:
        faults = Faults()
        self.world, self.topic, self.numbers = linked(faults), Topic(faults), count()
        journal = self._journal()
        self.process = SimulatedProcess(self.world, journal=journal, clock=Clock(self.world, 0))

    @property
    def reader(self) -> LinkReader:
        return self.process.look

    @property
    def writer(self) -> LinkWriter:
        return self.process.change

    def soon(self, seen: Callable[[], bool]) -> bool:
        for _ in range(SOON):
            if seen():
                return True
            self.world.tick()
        return False

    def write(self, cluster: str, place: TopicPartition, *keys: str) -> int:
        return sum(self.world.write(cluster, APP, place, key) for key in keys)

    def transaction(
        self, cluster: str, place: TopicPartition, keys: Sequence[str], *, commit: bool
    ) -> None:
        writer = self._writing(cluster, place, keys)
        self.world.end_transaction(writer, commit=commit)

    @contextmanager
    def open_transaction(self, cluster: str, place: TopicPartition, key: str) -> Iterator[None]:
        writer = self._writing(cluster, place, [key])
        yield
        self.world.end_transaction(writer, commit=False)

    def _writing(self, cluster: str, place: TopicPartition, keys: Sequence[str]) -> Producer:
        """A producer that has written records in a transaction."""
        prefix, number = keys[0].split(":")
        made = Producer(prefix, APP, place, cluster, int(number), transactional=True)
        for _ in keys:
            assert self.world.write_in_transaction(made)
        return made

    @contextmanager
    def member(self, cluster: str) -> Iterator[None]:
        consumer = Consumer(self.group, OLD, cluster)
        self.world.join(consumer)
        yield
        self.world.leave(consumer)

    def direct_to(self, cluster: str) -> None:
        self.world.endpoints[0].cluster = cluster

    def acquire(self, run: str, *, resume: bool = False, abandoning: str = "") -> HeldRun:
        journal, holder = self._journal(), Holder(run, "ada", "laptop", 1, datetime.now(UTC))
        held = journal.resume(holder) if resume else journal.acquire(holder, abandoning)
        self.topic.beating = True
        return held

    def hang(self, held: HeldRun) -> None:
        self.topic.beating = False

    def runs(self) -> Sequence[str]:
        return self._journal().runs()

    def _journal(self) -> SimulatedJournal:
        name = f"drctl-{next(self.numbers)}"
        return SimulatedJournal(self.topic, lambda: name)


def test_the_simulated_parts_answer_as_the_real_ones_do() -> None:
    with simulated():
        wrong = differences(Simulated())
    assert not wrong, text(wrong)
