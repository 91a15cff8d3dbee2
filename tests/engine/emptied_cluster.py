"""A recovered cluster that lost all or most of its records, in memory."""

from dataclasses import dataclass

from drctl.engine.failback_state import Search, filter_to_add
from drctl.model.groups import Committed
from drctl.steps.stop_replication import PAUSED, STOPPED
from tests.engine.client_state import NEW, OLD, empty
from tests.engine.connect_workers import Connector
from tests.engine.memory_clusters import COPY, TOPICS, record
from tests.engine.pair import AUDIT, BACK, ORDERS, PRIMARY, SECONDARY, PersonAction
from tests.engine.recovered_cluster import RecoveredCluster

EVERYTHING = ("o1", "o2", "o3", "o4", "t1", "n1", "n2")
"""Records of the surviving cluster; drctl copied t1 in an earlier failback."""

ALONE = "x1"
"""A record that was written to the restored cluster and exists only there."""

QUESTION = f"empty-{PRIMARY}"


@dataclass
class RebuiltCluster(RecoveredCluster):
    """The failback to a cluster that has lost its records."""

    may_miss_topics: bool = True

    def search_before_rebuild(self) -> Search:
        self.home.overview()
        if not any(self.home.logs.values()):
            return Search("", 0, 0, 0, 0, {}, {})
        tail = len(tuple(self._tail()))
        return Search("gap/main-1", tail, tail, 0, 0, {}, {})

    def empty(self) -> None:
        """Delete the link's topics, as an operator does."""
        for topic in TOPICS:
            self.home.delete(topic)


def wiped() -> RebuiltCluster:
    """The cluster was recreated: no topics, groups or ACLs; Connect still has its offsets."""
    pair = RebuiltCluster(SECONDARY, PRIMARY)
    pair.away.append(AUDIT, record("a1"))
    for key in EVERYTHING:
        pair.away.append(ORDERS, record(key, COPY if key == "t1" else ()))
    # An earlier failback replicated everything, and its connector excludes records that drctl
    # copied.
    pair.workers.connectors = {
        "mm2": Connector(pair.home, pair.away, PAUSED, PAUSED, kept={AUDIT: 0, ORDERS: 40}),
        BACK: Connector(pair.away, pair.home, STOPPED, STOPPED, kept={AUDIT: 0, ORDERS: 6}),
    }
    back = pair.workers.connectors[BACK]
    back.config |= filter_to_add(back.config)
    pair.sites[SECONDARY].positions.positions = {"old": {ORDERS: Committed(2)}}
    pair.arrivals.groups_of = {
        SECONDARY: {"app": empty("app", NEW), "old": empty("old", OLD)},
        PRIMARY: {"app": empty("app", OLD), "old": empty("old", OLD)},
    }
    pair.manual_actions[QUESTION] = PersonAction(
        pair.empty, lambda: not any(pair.home.logs.values())
    )
    pair.settle()
    return pair


def cut() -> RebuiltCluster:
    """The cluster was restored from an older backup, and written to since."""
    pair = wiped()
    for key in ("o1", "o2", ALONE):
        pair.home.append(ORDERS, record(key))
    return pair
