"""Failover and failback with an application that writes in transactions throughout.

MirrorMaker 2 replicates committed records only (`isolation.level=read_committed`); by default it
also replicates aborted ones. A transaction is open whenever a fence is set.
"""

import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster.failback_stage import BACK
from tests.cluster.isolated_failbacks import OwnFailback
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, NOTHING_LOST, soon, steps_of
from tests.cluster.transactional_application import LEFT_ALONE_S, Application, Outcomes, Transaction
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(900)]

SOME = 30
"""Number of records that are committed at first."""
LONG_S = 300
LAG = 1000
OPEN = "follow an open transaction"
"""Message of a step that waits for an open transaction."""


class Transacting(OwnFailback):
    """Its application commits and aborts; committed records are replicated."""

    def __init__(self, site: Site) -> None:
        # The application writes all the time: some records are always in flight.
        super().__init__(site, policy={"max_lag_records": LAG})
        self.outcomes = Outcomes()
        self.has_read: list[str] = []
        self.direct_to("primary")
        self.copies_what_is("read_committed")

    def copies_what_is(self, level: str) -> None:
        """Set the isolation level in both directions."""
        for name in (self.forward, self.reverse):
            self.connectors.configure(name, source__consumer__isolation__level=level)

    @contextmanager
    def application(self, cluster: ClusterUnderTest, prefix: str) -> Iterator[Application]:
        """Run the application; it has committed and aborted when the block begins."""
        made = Application(cluster, self.topic, prefix, self.outcomes)
        before = len(self.outcomes.committed), len(self.outcomes.aborted)
        with made.at_work():
            soon(
                lambda: (
                    len(self.outcomes.committed) >= before[0] + SOME
                    and len(self.outcomes.aborted) > before[1]
                ),
                self.outcomes,
            )
            yield made

    def another(
        self, cluster: ClusterUnderTest, prefix: str, timeout_s: int = LONG_S
    ) -> Transaction:
        """Return a transaction besides those of the application."""
        return Transaction(cluster, self.topic, prefix, timeout_s)

    @contextmanager
    def under_way(self, *words: str) -> "Iterator[Going]":
        """Run a command that ends after the block; earlier journals do not count."""
        earlier = self.newest_run
        with self.running(*words, *GO) as process:
            yield Going(self, process, earlier)
            self.ends(process)

    def read_there(self, cluster: ClusterUnderTest) -> None:
        """Let the group read everything."""
        wanted = set(self.all_of(cluster))
        self.has_read += self.read(self.group, cluster, wanted - set(self.has_read))

    def each_once(self) -> None:
        """Assert that committed records are on both clusters once, and aborted ones on neither."""
        assert not self.outcomes.unclear
        everything = Counter(self.outcomes.committed)
        assert set(everything.values()) == {1}
        self.both_hold(everything)


class Going:
    """A run that waits for a transaction."""

    def __init__(
        self, failback: Transacting, process: subprocess.Popen[bytes], earlier: str
    ) -> None:
        self._failback, self._process, self._earlier = failback, process, earlier

    def reached(self, step: str, entry: str = "done") -> bool:
        return self._failback.newest_run != self._earlier and self._failback.has(entry, step)

    def waits_until(self, step: str, entry: str = "done") -> None:
        self._failback.until(self._process, lambda: self.reached(step, entry))

    def says(self, words: str) -> None:
        self._failback.says(self._process, words)


@pytest.fixture
def failback(site: Site) -> Transacting:
    return site.keep(Transacting(site))


def fail_back(failback: Transacting, *words: str, waited_for: str) -> None:
    """Fail back with a running application and a transaction open at the fence.

    Args:
        waited_for: the cluster on which `find-missing` waits for a transaction.
    """
    outcomes = failback.outcomes
    with failback.application(failback.secondary, "away") as away:
        failback.read_there(failback.secondary)
        early, late = (failback.another(failback.secondary, name) for name in ("early", "late"))
        early.open()
        with failback.under_way("failback", *words) as going:
            going.says(f"on {waited_for}, at most")
            assert not going.reached("find-missing")
            outcomes.aborted += early.abort()
            going.waits_until("wait-for-catch-up")
            late.open()
            going.says(OPEN)
            assert going.reached("fence-producers")
            assert away.refused
            assert not going.reached("drain")
            outcomes.committed += late.commit()
    assert failback.directed_to == failback.primary.bootstrap
    failback.each_once()

    with failback.application(failback.primary, "again"):
        pass
    everything = set(outcomes.committed)
    soon(lambda: everything <= set(failback.all_of(failback.secondary)))
    failback.each_once()
    failback.has_read += failback.read_rest(failback.has_read, everything)
    assert set(failback.has_read) == everything, (
        "the group skipped a record, or read an aborted one"
    )


def test_a_planned_failover_and_failback(failback: Transacting) -> None:
    outcomes = failback.outcomes
    with failback.application(failback.primary, "first") as first:
        failback.read_there(failback.primary)
        held = failback.another(failback.primary, "held")
        with failback.under_way("failover") as going:
            going.waits_until("preflight")
            held.open()
            going.says(OPEN)
            assert going.reached("fence-producers")
            assert first.refused
            assert not going.reached("drain")
            outcomes.committed += held.commit()
    assert failback.directed_to == failback.secondary.bootstrap
    failback.each_once()
    fail_back(failback, waited_for="secondary")


def test_an_unplanned_failover_and_failback(failback: Transacting) -> None:
    """The primary dies with unreplicated records and an open transaction."""
    outcomes = failback.outcomes
    with failback.application(failback.primary, "first"):
        failback.read_there(failback.primary)
    soon(lambda: set(outcomes.committed) <= set(failback.all_of(failback.secondary)))
    failback.replicate(False)
    with failback.application(failback.primary, "tail"):
        pass
    tail = [value for value in outcomes.committed if value.startswith("tail")]
    left = failback.another(failback.primary, "left", LEFT_ALONE_S)
    left.open()
    failback.lab.signal("primary", signal.SIGKILL)
    outcomes.aborted += left.values
    lost = failback.json("failover", "--mode", "unplanned", *GO, code=1)
    assert lost["status"] == "done", lost
    failback.lab.start("primary")
    assert not set(tail) & set(failback.all_of(failback.secondary))
    override = "producer-ids-collide=producers of the application start from scratch"
    fail_back(failback, "--policy", "copy", "--override", override, waited_for="secondary")


def test_aborted_records_are_copied_by_default(failback: Transacting) -> None:
    """Doctor warns beforehand; afterwards no boundary separates new from old records."""
    (row,) = aborted_row(failback)
    assert row["status"] == "ok", row
    failback.copies_what_is("read_uncommitted")
    with failback.application(failback.primary, "first"):
        pass
    soon(lambda: set(failback.outcomes.aborted) <= set(failback.all_of(failback.secondary)))
    assert not set(failback.outcomes.aborted) & set(failback.all_of(failback.primary))
    (row,) = aborted_row(failback)
    assert (row["status"], row["subject"]) == ("warn", f"connector {failback.forward}")
    assert "source.consumer.isolation.level=read_committed" in row["remedy"]

    done = failback.json("failover", *GO, code=0)
    assert done["rpo"] == NOTHING_LOST
    turned = failback.json(*BACK, *GO, code=4)
    why = steps_of(turned, "detail")["find-missing"]
    assert "or copied aborted transactions" in why, why
    assert "--rebuild --override source-intact=REASON" in why, why
    assert failback.directed_to == failback.secondary.bootstrap


def aborted_row(failback: Transacting) -> list[dict[str, Any]]:
    found = failback.run("doctor", "--output", "json").document()
    return [row for row in found["checks"] if row["check"] == "mm2-isolation-level"]
