"""A failback with real steps, while someone restarts forward replication in between."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from drctl.engine.entries import What
from drctl.engine.kind import Status
from drctl.steps.stop_replication import RUNNING, STOPPED
from tests.engine.crashing import Case, Change, Ran, run
from tests.engine.failovers import named
from tests.engine.pair import BACK, PRIMARY, SECONDARY, Pair
from tests.engine.recovered_cluster import BOTH, TAIL, recovered_pair
from tests.engine.test_failback_interruptions import PLAN, assert_on_primary

LAST_COPY = (f"records of {SECONDARY}", TAIL[-1])
BEGINS = ("Connect", f"{BACK} {RUNNING}")
GROUPS = (f"positions of {PRIMARY}", "")
FILTERED = ("Connect", f"configure {BACK}")
FENCED = (f"rules of {SECONDARY}", "")
"""Changes during the failback: what drctl changes, and how the description begins."""


@dataclass(frozen=True)
class Behind:
    """Does something right after one of drctl's changes, once."""

    point: tuple[str, str]
    deed: Callable[[Pair], None]

    def __call__(self, pair: Pair) -> None:
        """Wait for the change."""
        change, left = pair.trace.change, [self.deed]

        def watched(what: str, how: str, do: Callable[[], None]) -> bool:
            done = change(what, how, do)
            if left and what == self.point[0] and how.startswith(self.point[1]):
                left.pop()(pair)
            return done

        pair.trace.change = watched  # type: ignore[method-assign]


def keeps_running(pair: Pair) -> None:
    """Forward replication is resumed and keeps running."""
    pair.workers.connectors["mm2"].wanted = RUNNING


def runs_briefly(pair: Pair) -> None:
    """Forward replication catches up and is stopped again."""
    old = pair.workers.connectors["mm2"]
    old.wanted = RUNNING
    old.copy()
    old.wanted = old.state = STOPPED


def going(change: Change) -> Ran:
    """Run the first attempt and all following ones on a recovered cluster."""
    return run(Case(PLAN, recovered_pair, change))


def words_of(ran: Ran) -> str:
    return f"{ran.outcome.message} {' '.join(ran.outcome.items)}"


@pytest.mark.parametrize("deed", [keeps_running, runs_briefly], ids=named)
@pytest.mark.parametrize("point", [LAST_COPY, FILTERED], ids=lambda point: point[0].split()[0])
def test_nothing_is_copied_back_once_forward_replication_resumed(
    point: tuple[str, str], deed: Callable[[Pair], None]
) -> None:
    """Its records would return as new ones, and a comparison would find both clusters equal."""
    ran = going(Behind(point, deed))
    assert ran.first is Status.STOPPED
    assert ran.pair.state["records"][PRIMARY] == ["a1", *BOTH, *TAIL]
    assert ran.pair.workers.connectors[BACK].state == STOPPED
    assert ran.pair.state["endpoints"] == [SECONDARY, SECONDARY]
    why = (
        "mm2 is RUNNING" if deed is keeps_running else "mm2 was at offset 3 of orders-0 and is now"
    )
    assert why in words_of(ran)


def test_a_rollback_verifies_that_replication_stays_stopped() -> None:
    ran = going(Behind(LAST_COPY, keeps_running))
    assert not ran.outcome.over, "the run ended although replication runs"
    assert any(
        each.startswith("stop-forward-replication: mm2 is RUNNING") for each in ran.outcome.items
    )


def test_a_rolled_back_run_is_over_once_replication_is_stopped_again() -> None:
    def stops(pair: Pair) -> None:
        old = pair.workers.connectors["mm2"]
        old.wanted = old.state = STOPPED

    ran = run(replace(Case(PLAN, recovered_pair, Behind(LAST_COPY, keeps_running)), remedy=stops))
    assert ran.outcome.over
    assert "stop-forward-replication" in " ".join(ran.outcome.items)


def test_records_copied_after_the_start_keep_clients_on_the_surviving_cluster() -> None:
    ran = going(Behind(BEGINS, runs_briefly))
    assert ran.first is Status.STOPPED
    assert "mm2 was at offset 3 of orders-0 and is now" in words_of(ran)
    assert ran.pair.workers.connectors[BACK].state == STOPPED
    assert ran.pair.state["endpoints"] == [SECONDARY, SECONDARY]


def test_records_copied_while_clients_moved_are_outstanding() -> None:
    """Both clusters have them by then: no comparison finds them, and no rollback removes them."""
    ran = going(Behind(FENCED, runs_briefly))
    assert ran.outcome.status is Status.DONE
    assert ran.outcome.outstanding
    assert ran.ledger.steps_with(What.OUTSTANDING) == ["set-forward-start-offsets"]
    outstanding = next(each for each in ran.ledger.entries if each["entry"] == What.OUTSTANDING)
    assert "mm2 was at offset 3 of orders-0 and is now at offset" in outstanding["what"]
    assert ran.pair.state["records"][PRIMARY].count(TAIL[0]) == 2


def test_changes_by_the_run_itself_are_not_outstanding() -> None:
    ran = going(lambda pair: None)
    assert_on_primary(ran.pair)
    assert not ran.ledger.steps_with(What.OUTSTANDING)
