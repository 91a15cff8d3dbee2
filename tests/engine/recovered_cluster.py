"""A recovered cluster with records that only it has, in memory."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from drctl.engine.failback_state import Offsets, Reconciliation, Search
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition
from drctl.steps.first_records import is_copy
from drctl.steps.stop_replication import PAUSED, STOPPED
from tests.engine.client_state import NEW, OLD, empty
from tests.engine.connect_workers import Connector
from tests.engine.memory_clusters import COPY, Logs, record
from tests.engine.pair import AUDIT, BACK, OF_A_PERSON, ORDERS, PRIMARY, SECONDARY, Pair

BOTH, TAIL, NEWER = ("o1", "o2", "o3", "o4"), ("t1", "t2"), ("n1", "n2")


@dataclass
class RecoveredCluster(Pair):
    """A failback: clients are on the secondary.

    Attributes:
        search: the result on which decisions are based.
        undecided: records without a decision.
        discards: whether the records are discarded.
    """

    search: Search | None = None
    undecided: tuple[str, ...] = ()
    discards: bool = False
    given_up: tuple[str, ...] = ()

    @property
    def home(self) -> Logs:
        """The records of the recovered cluster."""
        return self.sites[PRIMARY].logs

    @property
    def away(self) -> Logs:
        """The records of the surviving cluster."""
        return self.sites[SECONDARY].logs

    def search_result(self, only_on: str) -> Search:
        for logs in (self.home, self.away):
            logs.overview()
        begun = bool(self.workers.connectors[BACK].kept)
        if self.search is None or not (begun or self._copied()):
            tail = len(tuple(self._tail()))
            ends = {place: len(log) for place, log in self.home.logs.items()}
            twice = Counter(self.away.all_keys()) - Counter(self.home.all_keys())
            there = set(self.home.all_keys())
            duplicated = sum(number for key, number in twice.items() if key in there)
            result = ("gap/main-1", tail, tail, 0, 0, ends, self._boundaries())
            self.search = Search(*result, duplicated=duplicated)
        return replace(self.search, started=begun)

    def reconciliation(self, only_on: str, result: str) -> Reconciliation:
        self.away.overview()
        due = len(tuple(self._tail())) - len(self.given_up)
        done = {"discard": len(self.given_up)} if self.discards else {"copy": len(self._copied())}
        return Reconciliation(due, self.undecided, done)

    def reconcile(self, only_on: str, result: str) -> None:
        if self.discards:
            gone = tuple(key for _, key in self._tail())
            note = lambda: setattr(self, "given_up", gone)  # noqa: E731
            self.trace.change(f"records of {SECONDARY}", "given up", note)
            return
        for place, key in tuple(self._tail()):
            # The progress is stored in the same transaction as the record.
            put = lambda p=place, k=key: self.away.append(p, record(k, COPY))  # noqa: E731
            self.trace.change(f"records of {SECONDARY}", key, put)

    def _tail(self) -> Iterator[tuple[TopicPartition, str]]:
        """The records that only the recovered cluster has."""
        there = set(self.away.all_keys())
        for place in sorted(self.home.logs):
            for each in self.home.committed(place):
                key = (each.key or b"").decode()
                if place in (AUDIT, ORDERS) and key not in there:
                    yield place, key

    def _copied(self) -> list[str]:
        return [
            (each.key or b"").decode()
            for log in self.away.logs.values()
            for each in log
            if is_copy(each)
        ]

    def _boundaries(self) -> Offsets:
        there = set(self.home.all_keys())
        found = {}
        for place in (AUDIT, ORDERS):
            log, hidden = self.away.logs[place], self.away.hidden.get(place, ())
            # Records of an open transaction may be committed later; those of others may not.
            stable = self.away.stable_end(place)
            new = (
                each.offset
                for each in log
                if each.offset >= stable
                or (each.offset not in hidden and (each.key or b"").decode() not in there)
            )
            found[place] = next(new, len(log))
        return found


def recovered_pair() -> RecoveredCluster:
    """The cluster has recovered: forward replication is idle, reverse replication never ran."""
    pair = RecoveredCluster(SECONDARY, PRIMARY)
    for logs, orders in ((pair.home, (*BOTH, *TAIL)), (pair.away, (*BOTH, *NEWER))):
        logs.append(AUDIT, record("a1"))
        for key in orders:
            logs.append(ORDERS, record(key))
    old = Connector(pair.home, pair.away, PAUSED, PAUSED, kept={AUDIT: 0, ORDERS: 3})
    pair.workers.connectors = {"mm2": old, BACK: Connector(pair.away, pair.home, STOPPED, STOPPED)}
    surviving, lost = pair.sites[SECONDARY], pair.sites[PRIMARY]
    surviving.rules.rules |= {OF_A_PERSON}
    surviving.rules.spread()
    surviving.positions.positions = {"old": {ORDERS: Committed(2)}}
    lost.positions.positions = {
        "app": {AUDIT: Committed(1), ORDERS: Committed(5)},
        "old": {ORDERS: Committed(1)},
    }
    pair.arrivals.groups_of = {
        SECONDARY: {"app": empty("app", NEW), "old": empty("old", OLD)},
        PRIMARY: {"app": empty("app", OLD), "old": empty("old", OLD)},
    }
    pair.settle()
    return pair
