"""Runs of `drctl reconcile` in memory; each process has a writer of its own."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from drctl.app.reconcile import Opened, ReconcileOptions, ResultReader, ResultWriter, settings_of
from drctl.model.gap import OrderVerdict
from drctl.model.plan import Plan
from drctl.model.topology import PartitionOffsets, TopicPartition
from drctl.plans.single_step import reconcile_plan
from drctl.reconcile.cluster_state import ClusterStates
from drctl.reconcile.planning import ReconcilePlan, build_plan
from drctl.reconcile.policy import Action, Policies
from tests.links import link
from tests.reconcile.world import FakeCopier, FakeSource, T, World, row

PLACE = TopicPartition(T, 0)
LINK = link("a", "b")


def world(*orders: OrderVerdict) -> World:
    """Create missing records with these verdicts."""
    rows = [row(offset) for offset in range(len(orders))]
    return World({PLACE: rows}, {(PLACE, n): o for n, o in enumerate(orders)}, {PLACE: rows})


@dataclass
class Site:
    """The state that runs find.

    Attributes:
        steps: number of calls until the process dies or the target fails; None for never.
        looking: whether nothing may be written now.
    """

    world: World
    folder: Path
    action: Action = Action.COPY
    conflicting: Action = Action.REFUSE
    steps: int | None = None
    failing: BaseException | None = None
    looking: bool = False
    config: Any = field(init=False)

    def __post_init__(self) -> None:
        (self.folder / "gap.json").write_text("{}")
        self.config = SimpleNamespace(state_dir=self.folder)

    def opened(self) -> Opened:
        """Return the ports of a process."""
        policies = Policies(self.action, conflicting=self.conflicting)
        rows = self.world.rows()

        def make(kept: Any, *, last: bool) -> tuple[ReconcilePlan, ClusterStates]:
            gap, overridden, reader = self.world.gap, self.world.overrides, self.world.reader()
            return build_plan(gap, policies, rows, reader, kept, overridden), reader

        def log(places: list[TopicPartition]) -> Mapping[TopicPartition, PartitionOffsets]:
            ends = {place: len(self.world.target.logs.get(place, [])) for place in places}
            return {place: PartitionOffsets(0, end, end) for place, end in ends.items()}

        kept = self.world.target.kept
        topic: Any = SimpleNamespace(
            kept=kept, settled=kept, make=self.may_write, make_quarantine=self.may_write
        )
        target: Any = SimpleNamespace(offsets=log)
        given = ReconcileOptions(self.folder, self.action.value, (), self.conflicting)
        at_hand = self.config, LINK, self.world.gap, rows, topic, target, make
        return Opened(make(kept(), last=False)[0], given, *at_hand)

    def may_write(self, *_given: object) -> None:
        assert not self.looking, "a read-only method wrote"

    def copier(self, _link: object) -> Any:
        self.may_write()
        more = {"failing": self.failing} if self.failing else {}
        return nullcontext(FakeCopier(self.world.target, self.steps, **more))

    def process(self) -> tuple[ResultReader, ResultWriter]:
        """Return a new process."""
        reader = ResultReader(self.config, LINK, lambda _reader, _mode: ())
        reader._of_result = self.opened()
        return reader, ResultWriter(self.config, LINK, self.folder, {}, reader=reader)

    def plan(self) -> Plan:
        """Return the plan of `drctl reconcile`."""
        found = self.opened()
        return reconcile_plan(LINK, found.plan, settings_of(found))


@contextmanager
def sites(folder: Path) -> Iterator[Callable[..., Site]]:
    """Create a site with clusters in memory."""
    made: list[Site] = []

    def make(world: World, **more: Any) -> Site:
        made[:] = [Site(world, folder, **more)]
        return made[0]

    adapters = "drctl.app.reconcile_adapters"
    with (
        patch(f"{adapters}.copier", lambda of, _id: made[0].copier(of)),
        patch(f"{adapters}.source_log", lambda _link: FakeSource(made[0].world.held)),
        patch("drctl.reconcile.gap_result.read_gap", lambda *_: made[0].world.gap),
    ):
        yield make
