"""The committed offsets at the end, compared with those that drctl committed."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drctl.engine.entries import What
from drctl.engine.kind import State, Status
from drctl.engine.ports import LinkReader
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition, Unavailable
from drctl.model.typed_json import to_json
from drctl.plans.failback import failback, reverse_inputs
from drctl.steps.commit_offsets import CommitFacts
from drctl.steps.registry import KINDS
from tests.engine.crashing import Case, run
from tests.engine.failovers import SEEN
from tests.engine.pair import BACK, ORDERS, PRIMARY
from tests.engine.recovered_cluster import recovered_pair
from tests.fakes import FakeCluster, FakeLog

PLACE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
COMMITTED = {"app": (("orders", 0, 5), ("orders", 1, 0))}
PUT = {"commit-offsets": to_json(CommitFacts(2, 1, 0, None, None, (), (), COMMITTED))}
SILENT = Unavailable("its coordinator did not answer")
KIND = KINDS["verify-groups"]


OFFSETS = {PLACE: 5, OTHER: 0}


def standing(at: Mapping[TopicPartition, int] | None) -> LinkReader:
    """A cluster with a group's committed offset, if it can be read, and the end offsets."""
    held = SILENT if at is None else {place: Committed(offset) for place, offset in at.items()}
    logs = {place: FakeLog(end=9) for place in (PLACE, OTHER)}
    cluster = FakeCluster(dict(logs), positions={"app": held})
    return cast(
        LinkReader, SimpleNamespace(groups=lambda _: cluster, cluster_reader=lambda _: cluster)
    )


def seen(look: LinkReader, put: Any = PUT) -> Any:
    return KIND.verify(KIND.check({"cluster": "primary"}, put, look), look)


@pytest.mark.parametrize("at", [OFFSETS, {PLACE: 9, OTHER: 3}])
def test_a_group_at_or_after_its_offset_is_ok(at: Any) -> None:
    found = seen(standing(at))
    assert (found.state, found.outstanding) == (State.DONE, "")
    assert found.message == "2 offsets of 1 group: none is before the offset that was set"


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ({PLACE: 4, OTHER: 0}, "app is at offset 4 of orders-0; it was set to 5"),
        ({PLACE: 5}, "app has no offset in orders-1 any more; it was set to 0"),
        ({PLACE: 10, OTHER: 0}, "app is at offset 10 of orders-0, which ends at 9"),
    ],
)
def test_a_group_that_moved_backwards_or_disappeared_is_named(at: Any, words: str) -> None:
    found = seen(standing(at))
    assert (found.state, found.items) == (State.DONE, (words,))
    assert found.outstanding == f"wrong offsets on primary: 1 of 2; {words}"


def test_unreadable_offsets_are_awaited() -> None:
    assert seen(standing(None)).state is State.WAITING


def test_no_offsets_were_set() -> None:
    found = seen(standing(OFFSETS), {})
    assert (found.state, found.outstanding) == (State.DONE, "")


def test_a_group_reset_during_a_failback_is_outstanding() -> None:
    """The group has no members: its consumers did not move the offset."""
    old = replace(SEEN, replicator="mirrormaker2")
    plan = failback(replace(reverse_inputs(old, (BACK,)), policy="copy"))
    pair = recovered_pair()
    whole = run(Case(plan, lambda: pair))
    put = pair.sites[PRIMARY].positions.positions["old"][ORDERS].offset
    assert put > 0
    assert "verify-groups" not in whole.ledger.steps_with(What.OUTSTANDING)

    thrown = recovered_pair()

    def throw_back(point: str) -> None:
        if thrown.endpoints[0].cluster == PRIMARY:
            thrown.sites[PRIMARY].positions.positions["old"][ORDERS] = Committed(put - 1)

    ran = run(Case(plan, lambda: thrown), throw_back)
    assert ran.outcome.status is Status.DONE
    assert ran.ledger.steps_with(What.OUTSTANDING) == ["verify-groups"]
    (outstanding,) = [
        each["what"] for each in ran.ledger.entries if each["entry"] == What.OUTSTANDING
    ]
    assert f"old is at offset {put - 1} of orders-0; it was set to {put}" in outstanding
