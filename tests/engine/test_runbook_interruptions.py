"""Every shipped runbook with real steps; the process may end anywhere."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from drctl import resources
from drctl.engine.kind import Status
from drctl.model.plan import Plan
from drctl.plans.failback import reverse_inputs
from drctl.plans.inputs import PlanInputs
from drctl.runbook.building import build
from drctl.runbook.reading import files, load
from drctl.runbook.values import sample
from tests.engine.crashing import Case, assert_looked_at, assert_the_same, ends, run
from tests.engine.failovers import SEEN, by_hand, lost
from tests.engine.pair import BACK, PRIMARY, SECONDARY, Pair, PersonAction, linked
from tests.engine.recovered_cluster import recovered_pair

BOOKS = {path.stem: load(path) for path in files(resources.shipped("runbooks"))}
INPUTS = replace(SEEN, replicator="mirrormaker2")
ON: dict[str, tuple[Callable[[], Pair], PlanInputs]] = {
    "unplanned-failover": (lost, replace(SEEN, source_answers=False)),
    "failback": (recovered_pair, replace(INPUTS, failback=reverse_inputs(INPUTS, (BACK,)))),
}
"""Clusters and inputs for runbooks that are not for a running link."""

MOVES = {
    **{name: [SECONDARY] * 2 for name in ("planned-switchover", "migrate-topic", "move-producers")},
    "unplanned-failover": [SECONDARY] * 2,
    "failback": [PRIMARY] * 2,
}
"""Where each runbook directs clients; other runbooks do not move them."""


class Willing(dict[str, PersonAction]):
    """A person who confirms everything that drctl cannot see."""

    def get(self, question: str, default: PersonAction | None = None) -> PersonAction:  # type: ignore[override]
        return super().get(question) or PersonAction(lambda: None, lambda: True)


def plan(name: str, seen: PlanInputs) -> Plan:
    """Create the plan of a runbook, with made-up parameters."""
    given = {
        key: str(sample(each))
        for key, each in BOOKS[name].file.parameters.items()
        if each.default is None
    }
    return build(BOOKS[name], given, seen)


def case(name: str) -> Case:
    make, seen = ON.get(name, (linked, SEEN))

    def prepared(pair: Pair) -> None:
        pair.manual_actions = Willing({q: d for q, d in by_hand(pair).items() if "consumers" in q})
        pair.settle()

    return Case(plan(name, seen), make, prepared)


@pytest.mark.parametrize("name", sorted(BOOKS))
def test_a_runbook_ends_the_same_wherever_the_process_ends(name: str) -> None:
    given = case(name)
    ran = run(given)
    assert ran.outcome.status is Status.DONE
    assert ran.pair.state["endpoints"] == MOVES.get(name, [ran.pair.source] * 2)
    assert_looked_at(ran.pair)
    assert_the_same(given, ends(given)[::2])
