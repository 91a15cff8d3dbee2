"""Source connectors in a failover and a failback: they stop, their positions move, they resume."""

from dataclasses import replace
from typing import cast

import pytest

from drctl.connectors.moving import Prospect
from drctl.engine.entries import What
from drctl.engine.invariants import violations
from drctl.engine.kind import Status
from drctl.engine.ports import LinkReader
from drctl.engine.run_state import read_run
from drctl.model.loss import Mode
from drctl.model.replication import Position
from drctl.plans.failback import failback, reverse_inputs
from drctl.steps.registry import KINDS
from drctl.steps.source_connectors import MoveSettings, expected
from drctl.views import run_markdown
from drctl.views.run_json import ReportDocument
from drctl.views.run_reading import report_data
from tests.engine.connect_workers import RUNNING, SHOP, STOPPED
from tests.engine.crashing import Case, Change, Ran, assert_the_same, run
from tests.engine.failovers import WITH_SOURCES, case, named, nothing_wrong, opening_refused
from tests.engine.pair import BACK, PRIMARY, SECONDARY, Pair
from tests.engine.processes import Process
from tests.engine.recovered_cluster import recovered_pair

OLD = replace(WITH_SOURCES, replicator="mirrormaker2")
FAILBACK = failback(replace(reverse_inputs(OLD, (BACK,)), policy="copy"))


def states(pair: Pair) -> tuple[str, str]:
    """Return the states of the connector on the workers of each cluster."""
    first, second = (pair.sources[name].connectors["shop"].state for name in (PRIMARY, SECONDARY))
    return first, second


def position(pair: Pair, name: str) -> object:
    return pair.sources[name].kept["shop"].offset


def words(ran: Ran, step: str) -> str:
    found = [e for e in ran.ledger.entries if e["entry"] == What.DONE and e["step"] == step]
    return str(found[-1]["message"])


def test_the_steps_are_in_order() -> None:
    for mode in Mode:
        assert violations(case(mode, seen=WITH_SOURCES).plan, KINDS) == ()
    assert violations(FAILBACK, KINDS) == ()


def test_a_planned_failover_resumes_where_the_connector_stopped() -> None:
    ran = run(case(Mode.PLANNED, seen=WITH_SOURCES))
    assert ran.outcome.status is Status.DONE
    assert states(ran.pair) == (STOPPED, RUNNING)
    assert position(ran.pair, SECONDARY) == {"lsn": 7}
    message = words(ran, "move-source-positions")
    assert message.startswith("shop resumes at LSN 0/7: its position is read after it stopped")
    assert not ran.ledger.steps_with(What.OUTSTANDING)


def test_a_rollback_restores_the_connector() -> None:
    given = case(Mode.PLANNED, prepare=opening_refused, seen=WITH_SOURCES)
    ran = run(given)
    assert ran.outcome.status is Status.REFUSED
    assert states(ran.pair) == (RUNNING, STOPPED)
    assert position(ran.pair, SECONDARY) == {"lsn": 3}


def test_with_the_source_lost_the_last_export_is_used_and_its_age_is_stated() -> None:
    ran = run(case(Mode.UNPLANNED, seen=WITH_SOURCES))
    assert states(ran.pair) == (RUNNING, RUNNING)
    message = words(ran, "move-source-positions")
    assert message.startswith("shop resumes at LSN 0/6, with duplicates: exported ")
    assert "are sent again" in message
    assert "stop-source-connectors" in ran.ledger.steps_with(What.OUTSTANDING)


def test_old_workers_that_still_answer_give_the_newest_positions() -> None:
    def prepare(pair: Pair) -> None:
        pair.trace.silent.discard(f"sources of {PRIMARY}")

    ran = run(case(Mode.UNPLANNED, prepare=prepare, seen=WITH_SOURCES))
    assert states(ran.pair) == (STOPPED, RUNNING)
    assert words(ran, "move-source-positions").startswith("shop resumes at LSN 0/7")


def test_the_report_says_what_connectors_do_and_why() -> None:
    ran = run(case(Mode.UNPLANNED, seen=WITH_SOURCES))
    data = report_data(read_run(ran.ledger.entries))
    (shop,) = data.source_connectors
    assert (shop.connector, shop.prospect) == ("shop", Prospect.REPEATS)
    text = run_markdown.render(data)
    assert "## Source connectors" in text
    assert "resumes at LSN 0/6, with duplicates" in text
    assert "a reset takes a new snapshot" in text
    document = ReportDocument.of(data).to_json()
    assert document["source_connectors"][0]["prospect"] == "resumes-with-duplicates"


def test_the_plan_says_what_connectors_would_do() -> None:
    reader = cast(LinkReader, Process(case(Mode.PLANNED, seen=WITH_SOURCES).pair()).reader)
    settings = MoveSettings(PRIMARY, SECONDARY, {"shop": "shop"})
    (planned,) = expected(settings, reader)
    assert planned.words.startswith("shop resumes at its final position (now LSN 0/7): ")
    (unplanned,) = expected(replace(settings, lost=True), reader)
    assert unplanned.prospect is Prospect.REPEATS


def test_a_connector_that_cannot_be_moved_blocks_a_planned_failover() -> None:
    def prepare(pair: Pair) -> None:
        there = pair.sources[SECONDARY].connectors
        there["shop"] = replace(there["shop"], state=RUNNING)

    ran = run(case(Mode.PLANNED, prepare=prepare, seen=WITH_SOURCES))
    assert ran.outcome.status is Status.REFUSED
    assert "connector shop is RUNNING; offsets can be written only" in ran.outcome.message
    assert states(ran.pair) == (RUNNING, RUNNING)


def test_with_the_source_lost_it_stays_stopped_and_is_outstanding() -> None:
    def prepare(pair: Pair) -> None:
        there = pair.sources[SECONDARY].connectors
        there["shop"] = replace(there["shop"], config={"connector.class": "another.Plugin"})

    ran = run(case(Mode.UNPLANNED, prepare=prepare, seen=WITH_SOURCES))
    assert states(ran.pair)[1] == STOPPED
    (message,) = (
        e["what"]
        for e in ran.ledger.entries
        if e["entry"] == What.OUTSTANDING and e["step"] == "move-source-positions"
    )
    assert message.startswith("shop stays stopped: it is a another.Plugin")


def test_a_resumed_connector_that_fails_is_outstanding_with_its_cause() -> None:
    def prepare(pair: Pair) -> None:
        pair.sources[SECONDARY].broken = True

    ran = run(case(Mode.PLANNED, prepare=prepare, seen=WITH_SOURCES))
    assert ran.outcome.status is Status.DONE
    assert ran.outcome.outstanding
    (message,) = (e["what"] for e in ran.ledger.entries if e["entry"] == What.OUTSTANDING)
    assert "the change stream cannot be resumed" in message
    assert "drctl connect recover --remedy reset" in message


@pytest.mark.slow
@pytest.mark.parametrize("prepare", [nothing_wrong, opening_refused], ids=named)
@pytest.mark.parametrize("mode", Mode)
def test_the_end_is_the_same_wherever_the_process_ends(mode: Mode, prepare: Change) -> None:
    assert_the_same(case(mode, prepare=prepare, seen=WITH_SOURCES))


def failed_back_sources() -> Pair:
    """The connector captures into the surviving cluster; on the recovered workers it runs again."""
    pair = recovered_pair()
    pair.sources[PRIMARY].resume("shop")
    pair.sources[PRIMARY].kept["shop"] = Position(SHOP, {"lsn": 2})
    return pair


def failback_case() -> Case:
    return Case(FAILBACK, failed_back_sources, remedy=lambda pair: pair.trace.heal())


def test_a_failback_stops_the_recovered_cluster_s_connector_first_and_moves_its_position() -> None:
    ran = run(failback_case())
    assert ran.outcome.status is Status.DONE
    assert states(ran.pair) == (RUNNING, STOPPED)
    assert position(ran.pair, PRIMARY) == {"lsn": 7}
    done = ran.ledger.steps_with(What.DONE)
    assert done.index("keep-source-connectors-stopped") < done.index(f"fence-{PRIMARY}")


@pytest.mark.slow
def test_a_failback_ends_the_same_wherever_the_process_ends() -> None:
    assert_the_same(failback_case())
