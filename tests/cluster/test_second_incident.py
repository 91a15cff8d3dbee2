"""The second and third incident of a link: earlier decisions are not asked for again.

Quarantined records remain on the primary alone, and each later search finds them.
"""

import re
import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.failback_stage import BACK, COPIED, NEW, TAIL
from tests.cluster.isolated_failbacks import POLICIES, OwnFailback
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, NOTHING_LOST, soon, steps_of
from tests.cluster.logs import read_logs
from tests.cluster.reconcile_stage import origins
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(900)]

OLDER = 6
"""Unreplicated records of each loss whose keys have newer records on the secondary."""


class Again(OwnFailback):
    """Applications that fail over and back repeatedly.

    Attributes:
        both: records on both clusters after the failback.
        aside: quarantined records, which the primary also has.
    """

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.direct_to("primary")
        self.both: set[str] = set()
        self.aside: set[str] = set()
        self.has_read: set[str] = set()

    def read_there(self, cluster: ClusterUnderTest) -> None:
        """Let the group read all of it that it has not read yet."""
        wanted = (set(self.all_of(cluster)) & self.both) - self.has_read
        self.has_read |= set(self.read(self.group, cluster, wanted))

    def record(self, prefix: str, count: int, cluster: ClusterUnderTest) -> None:
        """Write records that both clusters must have at the end."""
        self.both |= self.wrote(prefix, count, cluster)

    def copied(self) -> None:
        """Wait until the secondary has all of them."""
        soon(lambda: self.both <= set(self.all_of(self.secondary)))

    def lose(self, name: str) -> None:
        """Kill the primary with unreplicated records, some older than records written later."""
        self.copied()
        self.replicate(False)
        self.record(f"tail{name}", TAIL, self.primary)
        keys = f"flight{name}"
        self.aside |= self.wrote(f"older{name}", OLDER, self.primary, keys=keys)
        self.lab.signal("primary", signal.SIGKILL)
        lost = self.json("failover", "--mode", "unplanned", *GO, code=1)
        assert lost["status"] == "done", lost
        assert self.directed_to == self.secondary.bootstrap
        self.record(f"new{name}", NEW, self.secondary)
        self.both |= self.wrote(f"newer{name}", OLDER, self.secondary, keys=keys)
        self.read_there(self.secondary)
        self.lab.start("primary")

    def fail_back_again(self, *words: str) -> Mapping[str, Any]:
        """Fail back without an override; assert no loss, and no second copy or quarantine.

        Returns:
            The report of the run.
        """
        done = self.completed_failback("failback", *words)
        assert self.connectors.states(self.forward, self.reverse) == ["RUNNING", "STOPPED"]
        assert self.all_of(self.secondary) == Counter(self.both)
        assert self.all_of(self.primary) == Counter(self.both | self.aside)
        self.quarantined_once()
        return done

    def quarantined_once(self) -> None:
        """Assert that each is quarantined once, by the offset of its original on the primary."""
        mine = read_logs(self.primary, [self.topic])[self.topic].records
        kept = read_logs(self.secondary, [self.quarantine])[self.quarantine].records
        for number, records in mine.items():
            wanted = [r.offset for r in records if (r.value or b"").decode() in self.aside]
            assert sorted(origins(kept[number])) == wanted, number

    def missing(self) -> int:
        """Return the unreplicated records in a new gap result."""
        return int(self.json("gap", "--scope", "full", code=1)["totals"]["unreplicated"])

    def step_e(self, code: int) -> tuple[str, str]:
        """Return what `--check-order` says of the decisions."""
        found = self.json("failback", "--check-order", code=code)
        (seen,) = [(s["observed"], s["why"]) for s in found["steps"] if s["id"] == "e"]
        return seen

    def fail_over_again(self, name: str) -> None:
        """Fail over as planned: quarantined records are not awaited, new ones are replicated."""
        self.record(f"between{name}", NEW, self.primary)
        over = self.json("failover", *GO, code=0)
        assert (over["status"], over["rpo"]) == ("done", NOTHING_LOST), over
        exception = f"except {len(self.aside)} that were quarantined or discarded before"
        assert exception in steps_of(over, "detail")["drain"]
        assert self.directed_to == self.secondary.bootstrap
        self.record(f"away{name}", NEW, self.secondary)


@pytest.fixture
def again(site: Site) -> Again:
    return site.keep(Again(site))


def test_quarantined_records_need_no_second_decision(again: Again) -> None:
    failback = again
    failback.record("copied", COPIED, failback.primary)
    failback.read_there(failback.primary)
    failback.lose("1")
    reconciled(failback.fail_back_again(*POLICIES), f"copy: {TAIL}, quarantine: {OLDER}")

    failback.fail_over_again("1")
    assert failback.missing() == OLDER
    observed, why = failback.step_e(3)  # forward replication still runs
    assert observed == "done"
    assert f"quarantined or discarded with earlier results: all {OLDER}" in why
    reconciled(failback.fail_back_again(*POLICIES), f"quarantine: {OLDER}")

    failback.lose("2")
    assert failback.missing() == TAIL + 2 * OLDER
    observed, why = failback.step_e(0)
    assert observed == "not-done"
    decided = f"quarantined or discarded with earlier results: {OLDER} of {TAIL + 2 * OLDER}"
    assert decided in why
    assert f"no policy for {TAIL + OLDER} records" in failback.refused("failback")
    assert f"{OLDER} conflicting" in failback.refused(*BACK)
    reconciled(failback.fail_back_again(*POLICIES), f"copy: {TAIL}, quarantine: {2 * OLDER}")

    failback.fail_over_again("2")
    assert failback.missing() == 2 * OLDER
    failback.json("failback", code=0)
    reconciled(failback.fail_back_again(), f"quarantine: {2 * OLDER}")
    failback.read_there(failback.primary)
    assert failback.both <= failback.has_read


def reconciled(done: Mapping[str, Any], exceptions: str) -> None:
    """Return what happened to records of the primary alone, in the run and on its page."""
    assert steps_of(done, "detail")["reconcile"] == f"all reconciled ({exceptions})"
    html = Path(done["report"]).read_text(encoding="utf-8")
    page = " ".join(re.sub("<[^>]*>", " ", html).split())
    quarantined = exceptions.rpartition(": ")[2]
    assert f"Of the records only on primary, {quarantined} are in quarantine" in page
