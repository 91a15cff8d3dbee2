"""A failback in which newer records were written after the search."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drctl.app import failback
from drctl.engine.failback_state import ReconcileRequest, Reconciliation
from drctl.model.gap import OrderVerdict
from drctl.model.topology import TopicPartition
from drctl.reconcile.prechecks import Changes
from tests.reconcile.world import T, World, row

PLACE = TopicPartition(T, 0)
COMPACTED = {"cleanup.policy": "compact"}


@pytest.fixture
def reconciliation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Decisions: a safe record is to be copied, and now follows a newer one."""
    rows = [row(0)]
    world = World({PLACE: rows}, {(PLACE, 0): OrderVerdict.SAFE}, {PLACE: rows})
    (tmp_path / "gap.json").write_text("{}")

    def reconciled(policy: str, order: str, topic: dict[str, str]) -> Reconciliation:
        file = SimpleNamespace(policy=SimpleNamespace(order=order))
        link = SimpleNamespace(settings=SimpleNamespace(origin_header=None))
        config: Any = SimpleNamespace(file=file, state_dir=tmp_path, link=lambda _name: link)
        newer = {PLACE: 1} if policy == "copy" else {}

        @contextmanager
        def opened(*_given: object, **_more: object) -> Iterator[Any]:
            yield SimpleNamespace(kept=dict)

        @contextmanager
        def wanted(*_given: object) -> Iterator[Any]:
            yield world.rows()

        @contextmanager
        def readers(_link: object) -> Iterator[tuple[None, None]]:
            yield None, None

        growth = SimpleNamespace(look=lambda *_given, last: Changes(newer=newer))
        monkeypatch.setattr("drctl.app.adapters.both_readers", readers)
        monkeypatch.setattr("drctl.app.reconcile_adapters.reconcile_topic", opened)
        monkeypatch.setattr("drctl.app.reconcile_adapters.wanted_rows", wanted)
        monkeypatch.setattr("drctl.app.reconcile_adapters.target_changes", lambda *_, **__: growth)
        monkeypatch.setattr("drctl.reconcile.gap_result.read_gap", lambda *_given: world.gap)
        monkeypatch.setattr(
            "drctl.reconcile.cluster_state.look", lambda *_given: world.reader(**topic)
        )
        request = ReconcileRequest(
            folder=str(tmp_path), policy=policy, topics=(), conflicting="refuse", result="g1"
        )
        return failback.reconciliation(config, config.link("main"), request)

    return reconciled


@pytest.mark.parametrize("order", ["per-key", "none"])
def test_it_continues_if_only_the_primarys_order_matters(reconciliation: Any, order: str) -> None:
    assert reconciliation("copy", order, {}) == Reconciliation(1, newer=1)


@pytest.mark.parametrize(
    ("order", "topic"),
    [
        pytest.param("per-key", COMPACTED, id="compacted"),
        pytest.param("none", {"cleanup.policy": "compact,delete"}, id="compacted-and-deleted"),
        pytest.param("per-partition", {}, id="the-order-of-a-partition"),
    ],
)
def test_it_asks_if_the_older_record_would_remain(
    reconciliation: Any, order: str, topic: dict[str, str]
) -> None:
    """A compacted surviving cluster would keep only the old value, which nobody has chosen."""
    (refusal,) = reconciliation("copy", order, topic).refused
    assert refusal.startswith(
        "orders-0: records that were safe to copy but have newer ones on the target now: 1."
    )
    assert "start again with --policy quarantine" in refusal
    assert reconciliation("quarantine", order, topic) == Reconciliation(1)
