"""A recovered cluster; applications write to both clusters all the time, in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from drctl.engine.failback_state import Offsets, Reconciliation, Search
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition
from drctl.steps.stop_replication import PAUSED, RUNNING
from tests.engine.client_state import NEW, OLD, empty
from tests.engine.connect_workers import Connector
from tests.engine.memory_clusters import COPY, Logs, record
from tests.engine.pair import AUDIT, BACK, ORDERS, PRIMARY, SECONDARY, PersonAction
from tests.engine.recovered_cluster import RecoveredCluster
from tests.engine.test_failback_kinds import manual_actions, requested_offsets, start

SITE = "site"
MARK = ((SITE, b""),)

EAST, TAIL = ("e1", "e2"), ("t1", "t2")
"""Written on the primary; the tail was not replicated when it was lost."""

WEST, LOST, NEWER = ("w1", "w2"), "n1", "n2"
"""Written on the secondary; the primary has lost the copy of one of the newer ones."""


@dataclass
class BothSites(RecoveredCluster):
    """Each cluster has records that the other lacks; copies have a header.

    Attributes:
        searches: end offsets of each comparison, by result.
    """

    searches: dict[str, Offsets] = field(default_factory=dict)

    def search_result(self, only_on: str) -> Search:
        for logs in (self.home, self.away):
            logs.overview()
        result = f"gap/{only_on}-{len(self.searches)}"
        ends = {place: len(self._logs(only_on).logs[place]) for place in (AUDIT, ORDERS)}
        self.searches[result] = ends
        number = len(tuple(self.only(only_on, result)))
        return Search(result, number, number, 0, 0, {}, ends, id=result)

    def reconciliation(self, only_on: str, result: str) -> Reconciliation:
        self.away.overview()
        self.home.overview()
        due = len(tuple(self.only(only_on, result)))
        return Reconciliation(due, self.undecided if only_on == PRIMARY else ())

    def reconcile(self, only_on: str, result: str) -> None:
        other = SECONDARY if only_on == PRIMARY else PRIMARY
        for place, key in tuple(self.only(only_on, result)):
            copied = record(key, (*COPY, *MARK))
            put = lambda p=place, r=copied: self._logs(other).append(p, r)  # noqa: E731
            self.trace.change(f"records of {other}", key, put)

    def only(self, only_on: str, result: str) -> Iterator[tuple[TopicPartition, str]]:
        """Return the result of a comparison: records that only this cluster has."""
        there = set(self._logs(SECONDARY if only_on == PRIMARY else PRIMARY).all_keys())
        for place, end in self.searches[result].items():
            for each in self._logs(only_on).logs[place][:end]:
                key = (each.key or b"").decode()
                if key not in there:
                    yield place, key

    def _logs(self, name: str) -> Logs:
        return self.sites[name].logs


def both_write() -> BothSites:
    """The primary has recovered; its replication is idle, the other direction kept running."""
    pair = BothSites(SECONDARY, PRIMARY)
    on_primary = [(key, ()) for key in EAST] + [(key, MARK) for key in WEST]
    on_primary += [(key, ()) for key in TAIL] + [(NEWER, MARK)]
    away = [(key, ()) for key in WEST] + [(key, MARK) for key in EAST]
    away += [(key, ()) for key in (LOST, NEWER)]
    for logs, orders, audit in ((pair.home, on_primary, ()), (pair.away, away, MARK)):
        logs.append(AUDIT, record("a1", audit))
        for key, headers in orders:
            logs.append(ORDERS, record(key, headers))
    there = Connector(pair.home, pair.away, PAUSED, PAUSED, kept={AUDIT: 0, ORDERS: 3}, header=SITE)
    back = Connector(pair.away, pair.home, kept={AUDIT: 0, ORDERS: 5}, header=SITE)
    pair.workers.connectors = {"mm2": there, BACK: back}
    pair.sites[PRIMARY].positions.positions = {"app": {AUDIT: Committed(1), ORDERS: Committed(4)}}
    pair.arrivals.groups_of = {
        SECONDARY: {"app": empty("app", NEW), "old": empty("old", OLD)},
        PRIMARY: {"app": empty("app", NEW), "old": empty("old", OLD)},
    }
    pair.settle()
    return pair


def by_people() -> BothSites:
    """The same with people who stop and start replication as asked."""
    pair = both_write()
    done = manual_actions(pair, cuts=False)

    def starts(name: str, question: str) -> PersonAction:
        connector = pair.workers.connectors[name]

        def do() -> None:
            begin = requested_offsets(pair, question)
            connector.kept = {place: at - 1 for place, at in begin.items()}
            start(connector)

        return PersonAction(do, lambda: connector.wanted == RUNNING)

    reverse, forward = "start-reverse-replication", "restart-forward-replication"
    pair.manual_actions = {
        "stop-forward-replication": done["stop-forward-replication"],
        "stop-reverse-replication": done["stop-replication"],
        reverse: starts(BACK, reverse),
        forward: starts("mm2", forward),
    }
    return pair
