"""Only `apply` and `undo` of a kind get a writer; nothing else changes anything."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from inspect import signature
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, cast, get_type_hints

import pytest

from drctl.engine.kind import Facts, Kind, Readback, State
from drctl.engine.ports import CommandResult, LinkReader, LinkWriter
from drctl.model.errors import DrctlError
from drctl.model.gap import OrderVerdict
from drctl.model.loss import Mode
from drctl.model.plan import Json, Plan, Step
from drctl.plans.failback import failback, rebuild, reverse_inputs
from drctl.plans.inputs import FenceMethod
from drctl.plans.single_step import election_plan, fence_probe_plan
from drctl.steps.registry import KINDS
from tests.connectors.plans import every
from tests.connectors.world import World as Workers
from tests.elections.test_executing import BEHIND, LED, Cluster, planned
from tests.engine import repairs
from tests.engine.emptied_cluster import cut, wiped
from tests.engine.failovers import ABORTING, REVERSED, SEEN, WITH_SOURCES, blocked, by_hand, plan
from tests.engine.memory_clusters import Trace
from tests.engine.pair import BACK, PRIMARY, SECONDARY, Pair, PersonAction, linked
from tests.engine.processes import FENCE, MIRROR, Process
from tests.engine.recovered_cluster import recovered_pair
from tests.fakes import FakeCluster
from tests.links import link
from tests.offsets import test_apply_runs as applied
from tests.reconcile import runs as reconciled

WRITES = ("apply", "undo")
LOOKS = ("describe", "check", "verify", "verify_undo")
WRITERS = {"writer"}


@pytest.mark.parametrize("name", sorted(KINDS))
def test_each_kind_writes_only_in_apply_and_undo(name: str) -> None:
    kind = getattr(KINDS[name], "kind", KINDS[name])
    for method in WRITES:
        hints = get_type_hints(getattr(kind, method))
        assert [hint for name, hint in hints.items() if name in WRITERS] == [LinkWriter]
    for method in LOOKS:
        asked = getattr(kind, method)
        assert LinkWriter not in get_type_hints(asked).values()
        assert WRITERS.isdisjoint(signature(asked).parameters)


def test_readers_expose_no_writer() -> None:
    # The result of a command is a value, not a writer.
    assert given_by(LinkWriter) & given_by(LinkReader) <= {CommandResult}


def given_by(port: type) -> set[object]:
    """Return what a port's methods return."""
    methods = (each for name, each in vars(port).items() if not name.startswith("_"))
    found = {get_type_hints(method)["return"] for method in methods if callable(method)}
    return found - {type(None)}


BY_HAND = replace(SEEN, connectors=(), fence_method=FenceMethod.NONE)
BY_COMMAND = replace(
    SEEN,
    connectors=(),
    stop_command=(MIRROR, "stop"),
    start_command=(MIRROR, "start"),
    stopped_command=(MIRROR, "look"),
)
ENDS = {"source": PRIMARY, "target": SECONDARY}
COMMAND = {"argv": [FENCE, "on"], "undo": [FENCE, "off"], "verify": [FENCE, "look"], "env": {}}
ASKED = {"question": "by-hand", "text": "do it", "undo": "undo it"}
OF_RUNBOOKS: dict[str, dict[str, Any]] = {
    "check": {
        "prechecks": ["source-alive"],
        "mode": "unplanned",
        "overrides": {"source-alive": "?"},
    },
    "wait": {**ENDS, "for": "replication caught up", "connectors": ["mm2"]},
    "gap": {**ENDS, "scope": "full", "at_most": None},
    "command": {**COMMAND, "question": "command", "timeout_seconds": 5},
    **dict.fromkeys(("manual-check", "manual-change", "manual-reconcile"), ASKED),
    "manual-start-replication": ASKED,
}
"""Steps that only runbooks have."""


def plans() -> Iterator[tuple[Plan, Callable[[], Pair]]]:
    """Return plans that contain all kinds except those of repairs."""
    for mode, method in product(Mode, FenceMethod):
        yield plan(mode, method), linked
    yield plan(Mode.PLANNED, seen=ABORTING), blocked
    for seen in (BY_HAND, BY_COMMAND, REVERSED, WITH_SOURCES):
        yield plan(Mode.PLANNED, seen=seen), linked
        for method in FenceMethod:
            old = replace(seen, fence_method=method, replicator="mirrormaker2", reverse=())
            way = replace(reverse_inputs(old, (BACK,)), policy="copy")
            yield failback(way), recovered_pair
            both = reverse_inputs(replace(old, origin_header="site"), (BACK,))
            yield failback(replace(both, policy="copy")), recovered_pair
            yield rebuild(way, nothing_to_empty=False), cut
            yield rebuild(way, nothing_to_empty=True), wiped
    fence = {"method": "acl", "principals": ["User:app"]}
    yield fence_probe_plan(link(PRIMARY, SECONDARY, fence=fence), "AAA", 0), linked
    yield failback(reverse_inputs(replace(BY_HAND, origin_header="site"))), recovered_pair
    steps = tuple(Step(name, name, settings) for name, settings in OF_RUNBOOKS.items())
    yield Plan("runbook", "main", PRIMARY, SECONDARY, steps), linked


def cooperative_people(pair: Pair) -> dict[str, PersonAction]:
    """People do what drctl can see, and say yes to every other question."""
    confirmed = {
        name: PersonAction(lambda: None, lambda: True) for name in ("by-hand", "stop-replication")
    }
    more = (
        "fence-primary",
        "stop-forward-replication",
        "stop-reverse-replication",
        "start-reverse-replication",
        "restart-forward-replication",
        "empty-primary",
    )
    return (
        confirmed
        | {name: PersonAction(lambda: None, lambda: True) for name in more}
        | by_hand(pair)
    )


Result = TypeVar("Result")


class ReadingKinds:
    """Calls reading methods of kinds while nothing may change, and counts the calls.

    Attributes:
        looked: number of completed calls by kind and method.
    """

    def __init__(
        self, watched: "Trace | repairs.Lagging | Cluster | FakeCluster | Workers | reconciled.Site"
    ) -> None:
        self.watched = watched
        self.looked: Counter[tuple[str, str]] = Counter()

    def at(self, step: Step, method: str, look: Callable[[], Result]) -> Result | None:
        """Return the result; None if the kind refused to continue."""
        with self._nothing_changes():
            try:
                found = look()
            except DrctlError:
                return None
        self.looked[step.kind, method] += 1
        return found

    @contextmanager
    def _nothing_changes(self) -> Iterator[None]:
        self.watched.looking = True
        try:
            yield
        finally:
            self.watched.looking = False


@dataclass
class Walk:
    """Runs plans as far as possible, and reads before, between and after the steps."""

    look: LinkReader
    writer: LinkWriter
    eye: ReadingKinds
    tick: Callable[[], None] = lambda: None

    def through(self, given: Plan) -> None:
        """Run each step in turn; its facts are available to later steps."""
        facts: dict[str, Json] = {}
        for step in given.steps:
            seen = self._step(step, KINDS[step.kind], facts)
            if seen is not None and (seen.facts or seen.state is State.DONE):
                facts[step.kind] = seen.facts

    def _step(self, step: Step, kind: Kind, facts: Facts) -> Readback | None:
        self.eye.at(step, "describe", lambda: kind.describe(step.settings))
        intent = self.eye.at(step, "check", lambda: kind.check(step.settings, facts, self.look))
        if intent is None:
            return None
        self.eye.at(step, "verify", lambda: kind.verify(intent, self.look))
        with suppress(DrctlError):
            kind.apply(intent, self.writer)
        for _ in range(3):
            self.tick()
        seen = self.eye.at(step, "verify", lambda: kind.verify(intent, self.look))
        self.eye.at(step, "verify_undo", lambda: kind.verify_undo(intent, self.look))
        return seen


@pytest.fixture(scope="module")
def looked() -> Counter[tuple[str, str]]:
    """Return the number of reads by kind and method, over all plans; any change fails the test."""
    found: Counter[tuple[str, str]] = Counter()
    for given, make in plans():
        pair = make()
        pair.manual_actions = cooperative_people(pair)
        eye, process = ReadingKinds(pair.trace), Process(pair)
        look, writer = cast(LinkReader, process.reader), cast(LinkWriter, process.writer)
        Walk(look, writer, eye, pair.tick).through(given)
        found += eye.looked
    world = repairs.Lagging()
    eye = ReadingKinds(world)
    Walk(cast(LinkReader, world), cast(LinkWriter, repairs.Doing(world)), eye).through(
        repairs.plan()
    )
    found += eye.looked
    cluster = Cluster(looks=[BEHIND, BEHIND, LED])
    eye = ReadingKinds(cluster)
    Walk(cast(LinkReader, cluster), cast(LinkWriter, cluster), eye).through(
        election_plan(planned(BEHIND), "cluster:main")
    )
    found += eye.looked
    standing = applied.cluster()
    eye, site = ReadingKinds(standing), applied.Site(standing)
    plan = applied.planned(applied.plan_of(standing, applied.WANTED), applied.WANTED)
    Walk(cast(LinkReader, site), site.writer, eye).through(plan)
    assert standing.effects
    found += eye.looked
    with TemporaryDirectory() as folder, reconciled.sites(Path(folder)) as make_site:
        site_of = make_site(reconciled.world(OrderVerdict.SAFE))
        eye, (reader, writer) = ReadingKinds(site_of), site_of.process()
        Walk(cast(LinkReader, reader), cast(LinkWriter, writer), eye).through(site_of.plan())
        assert site_of.world.target.commits
        found += eye.looked
    for given, workers in every("main"):
        eye = ReadingKinds(workers)
        Walk(cast(LinkReader, workers), cast(LinkWriter, workers), eye).through(given)
        found += eye.looked
    return found


@pytest.mark.parametrize("method", LOOKS)
@pytest.mark.parametrize("name", sorted(KINDS))
def test_no_check_of_any_kind_changes_anything(
    name: str, method: str, looked: Counter[tuple[str, str]]
) -> None:
    assert looked[name, method] > 0
