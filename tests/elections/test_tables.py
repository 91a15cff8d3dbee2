"""What a terminal shows of cluster states, plans and results of elections."""

from collections.abc import Callable
from io import StringIO

from rich.console import Console, RenderableType

from drctl.elections.loss import Beyond, Evidence
from drctl.elections.planning import ElectionPlan, Precheck, preferred_plan, unclean_plan
from drctl.elections.results import ElectionOutcome, ElectionResult, LineResult, Outcome
from drctl.model.topology import Unavailable
from drctl.views.elections import plan_table, result_table, show_table
from tests.elections.cluster_states import PLACE, partition, reader

BEHIND = reader(partition((2, 3), (3,), eligible=()), alive=(1, 2), ends={2: 100})
EVIDENCE = [Evidence(PLACE, "group app has read up to 180", 180)]
EXECUTE = "drctl elect unclean --execute"


def drawn(table: RenderableType) -> str:
    file = StringIO()
    Console(file=file, width=160, color_system=None).print(table)
    return file.getvalue()


def planned(**overrides: str) -> ElectionPlan:
    passed = {Precheck(name): why for name, why in overrides.items()}
    groups = {PLACE: [Beyond("app", 180)]}
    return unclean_plan("main", BEHIND, [PLACE], EVIDENCE, groups, passed, ["b is silent"])


def test_a_state_shows_brokers_and_their_logs() -> None:
    text = drawn(show_table("main", BEHIND))
    assert "Cluster main: 1 of 1 partition without a leader" in text
    lines = [line.split() for line in text.splitlines() if line.startswith("orders")]
    assert lines == [
        ["orders", "0", "2", "yes", "out", "of", "sync", "100"],
        ["orders", "0", "3", "no", "in", "sync", "?"],
    ]
    headless = reader(partition((2,), (2,), leader=2), controller=Unavailable("no quorum"))
    text = drawn(show_table("main", headless))
    assert "Cluster main: 1 partition, all have a leader" in text
    assert "no controller: no quorum; no leader can be elected without one" in text


def test_a_plan_shows_the_loss_and_its_blockers() -> None:
    text = drawn(plan_table(planned(), EXECUTE))
    assert "Unclean election on cluster main: 1 refused" in text
    assert "note: b is silent" in text
    assert "orders-0: at least 80 offsets, 100 to 179: group app has read up to 180" in text
    assert "group app committed offset 180, beyond the kept log" in text
    assert "orders-0: unclean: data loss: at least 80 offsets" in text
    assert EXECUTE not in text, "the command of a refused plan was shown"
    assert "To override: --override unclean=REASON" in text
    text = drawn(plan_table(planned(unclean="given up"), EXECUTE))
    assert "override unclean: given up" in text
    assert text.rstrip().endswith(EXECUTE)


def measured(cut: int | Unavailable) -> str:
    plan = planned(unclean="given up")
    done = LineResult(plan.lines[0], ElectionOutcome(Outcome.ELECTED, 2, cut))
    return drawn(result_table(ElectionResult(plan, (done,), "R", "journal", 1.5)))


def test_a_result_shows_the_loss() -> None:
    text = measured(100)
    assert "Unclean election on cluster main: 1 elected" in text
    loss = "the kept log ended at 100: at least 80 offsets, 100 to 179"
    assert f"orders-0: {loss}" in text
    assert "ended at 90 (not as planned)" in measured(90)
    assert "unknown: too old" in measured(Unavailable("too old"))


def test_a_preferred_plan_with_nothing_to_do() -> None:
    led = reader(partition((1, 2), (1, 2), leader=1))
    text = drawn(plan_table(preferred_plan("main", led, None), EXECUTE))
    assert text.split("\n")[0] == "Preferred election on cluster main: nothing to do"
    assert "No elections are needed." in text


def test_names_cannot_act_on_the_terminal() -> None:
    hostile = PLACE._replace(topic="\x1b[2Jorders")
    seen = reader(partition((2, 3), (3,), place=hostile), alive=(2,), ends={2: 1})
    plan = unclean_plan("main", seen, [hostile], (), {}, {})
    shown: list[Callable[[], RenderableType]] = [
        lambda: show_table("main", seen),
        lambda: plan_table(plan, EXECUTE),
    ]
    for table in shown:
        assert "\x1b" not in drawn(table())
