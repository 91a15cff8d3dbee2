"""Which process runs which tests with pytest-xdist."""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

CROWDED = (
    "tests/cluster/test_submit.py",
    "tests/lab/test_shapes.py",
    "tests/kafka/test_three_brokers.py",
    "tests/kafka/test_broker_runbooks.py",
    "tests/kafka/test_elections.py",
    "tests/clients/test_clients_move.py",
    "tests/soak/test_seeds.py",
    "tests/soak/test_three_brokers.py",
)
"""Each starts so many JVMs that two files at once take longer than one after the other."""

TRAPPED = ("tests/cluster/test_traps.py", "tests/cluster/test_read_only.py")
"""They need the same traps as two of the `CROWDED` files, which take two minutes to set up."""

TLS = tuple(
    f"tests/kafka/test_{name}.py"
    for name in (
        *("cluster_rights", "failures", "groups_read_only", "java_client"),
        *("journal_takeover", "journal_topic", "ledger_topic", "log_reader", "read_only"),
        *("tracked_offsets_topic", "acl_fence"),
    )
)
"""They share the cluster with TLS: otherwise each process would start one of its own.

The last file uses groups; others need a cluster that has never had a group.
"""

SPARK = tuple(
    f"tests/spark/test_{name}.py"
    for name in ("against_reference", "events", "fingerprint", "parquet", "same_digests")
)
"""They share a Spark session."""

GROUPS = {"crowded": (*CROWDED, *TRAPPED), "tls": TLS, "spark": SPARK}
"""Files that one process runs one after the other."""

LONGEST = tuple(
    f"tests/cluster/test_{name}.py"
    for name in (
        *(
            "drill",
            "offsets_apply",
            "failover",
            "check_order",
            "failback",
            "unresponsive_components",
        ),
        *("offsets_track", "failover_refusals", "bidirectional_links", "ledger", "interrupts"),
    )
)
"""Each takes a minute or more, much of it waiting."""

LONG = (
    *CROWDED,
    *TRAPPED,
    *LONGEST,
    *TLS,
    *SPARK,
    "tests/simulation/test_simulation.py",
    "tests/cluster/",
    "tests/soak/",
    "tests/lab/",
    "tests/spark/",
    "tests/clients/",
    "tests/connect/",
    "tests/kafka/",
    "tests/checks/test_observer.py",
    "tests/test_side_by_side.py",
)
"""Files in the order in which they start: the longest first."""


def file_of(nodeid: str) -> str:
    """Return the path from the project's root."""
    return nodeid.partition("::")[0]


class ByFile(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
    """Runs each file, and each group of files, in one process."""

    def _split_scope(self, nodeid: str) -> str:
        file = file_of(nodeid)
        return next((name for name, files in GROUPS.items() if file in files), file)

    def remove_node(self, node: Any) -> str | None:
        """Give the tests that a dead process had not begun to others.

        xdist 3.8 also reassigns the test that was running and finished ones. A process that gets
        only finished tests reports nothing, and the run never ends.
        """
        units = self.assigned_work.pop(node)
        left = [(unit, test) for unit in units.values() for test, done in unit.items() if not done]
        if not left:
            return None
        unit, died_of = left[0]
        unit[died_of] = True
        self.workqueue.update(
            {name: tests for name, tests in units.items() if not all(tests.values())}
        )
        for other in self.nodes:
            self._reschedule(other)
        return str(died_of)

    def _reschedule(self, node: Any) -> None:
        """Assign more: a process begins a test once it has the next one, or none is left."""
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    """Use this scheduler for every --dist: the groups of xdist do nothing with pytest 9."""
    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest first, and keep the order of files that share a cluster."""

    def rank(item: pytest.Item) -> int:
        starts = (n for n, name in enumerate(LONG) if file_of(item.nodeid).startswith(name))
        return next(starts, len(LONG))

    items.sort(key=rank)
