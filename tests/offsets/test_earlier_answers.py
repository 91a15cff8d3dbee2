"""Answers of an earlier translation are used again only while nothing that they rest on changed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from drctl.formats.tracked_offsets import ConsumedRecord, TrackedOffset
from drctl.model.groups import Committed
from drctl.model.topology import TopicPartition, Unavailable
from drctl.model.translation import GroupPartition
from drctl.offsets import link_translation
from drctl.offsets.checkpoints import Checkpoint, Sync
from drctl.offsets.evidence import Evidence
from drctl.offsets.link_translation import Cluster, EarlierAnswers, LinkTranslation
from drctl.offsets.methods import Question, TranslationMethod
from drctl.offsets.mirror_topics import Mirrored
from drctl.offsets.translating import Results, asked
from tests.fakes import FakeCluster, FakeLog, group
from tests.links import link

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
TRACKED = TrackedOffset(2, 3, "orders", 1_000, (ConsumedRecord(1, 1),))


@dataclass
class World:
    """Two groups on two replicated partitions; counts what the methods are asked."""

    source: FakeCluster
    target: FakeCluster
    evidence: Evidence = field(default_factory=Evidence)
    earlier: EarlierAnswers = field(default_factory=EarlierAnswers)
    asked: list[set[tuple[str, TopicPartition]]] = field(default_factory=list)
    now_ms: int = 10_000

    def translated(self, *, named: bool = False, again: bool = True) -> dict[Any, int | None]:
        """The target offsets, with `earlier` answers unless `again` is False."""
        clusters = (Cluster(each, each, each) for each in (self.source, self.target))  # type: ignore[arg-type]
        evidence: Any = self
        run = LinkTranslation(
            link(groups=[".*"]),
            *clusters,
            evidence,
            same_offsets=False,
            named_offsets=named,
            now_ms=self.now_ms,
            earlier=self.earlier if again else None,
        )
        found = run.run(lambda _: True, lambda _: None).rows
        rows = [each.translation for each in found]
        return {
            (r.place.group, r.place.partition): r.answer and r.answer.target_offset for r in rows
        }

    def read(self, _alive: bool, _progress: object) -> Evidence:
        return self.evidence


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    def log() -> FakeLog:
        rows: Any = [(n, 1_000 + n, b"k", b"v%d" % n, ()) for n in range(6)]
        return FakeLog(rows, epoch=3)

    sides = [FakeCluster({A: log(), B: log()}, name) for name in ("primary", "secondary")]
    source = sides[0]
    for name, offset in (("g", 2), ("h", 4)):
        source.groups_held[name] = group(name)
        source.positions[name] = {A: Committed(offset), B: Committed(offset)}
    found = World(*sides)

    def noted(methods: Sequence[TranslationMethod], questions: Sequence[Question]) -> Results:
        found.asked.append({(q.place.group, q.place.partition) for q in questions})
        return asked(methods, questions)

    monkeypatch.setattr(link_translation, "asked", noted)
    return found


EXACT = {("g", A): 2, ("g", B): 2, ("h", A): 4, ("h", B): 4}


def test_nothing_is_asked_again_while_nothing_changes(world: World) -> None:
    assert world.translated() == EXACT
    reads = world.source.read_offsets + world.target.read_offsets
    assert world.translated() == EXACT
    assert world.asked == [set(EXACT), set()]
    assert world.source.read_offsets + world.target.read_offsets == reads, "no record is read"


def committed(world: World) -> None:
    world.source.set_offsets("g", orders=3)


def written(world: World) -> None:
    world.source.log(A).append(b"k", 2_000)


def copied(world: World) -> None:
    world.target.log(A).append(b"k", 2_000)


def deleted(world: World) -> None:
    world.target.log(A).delete_before(1)


def replaced(world: World) -> None:
    """An unclean election: other records at the same offsets."""
    log = world.target.log(A)
    log.rows = [(n, 5_000 + n, b"k", b"other%d" % n, ()) for n in range(6)]
    log.epoch += 1


def opened(world: World) -> None:
    world.source.log(A).stable = 5


CHANGES: dict[Callable[[World], None], set[tuple[str, TopicPartition]]] = {
    committed: {("g", A)},
    written: {("g", A), ("h", A)},
    copied: {("g", A), ("h", A)},
    deleted: {("g", A), ("h", A)},
    replaced: {("g", A), ("h", A)},
    opened: {("g", A), ("h", A)},
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_changed_is_asked_again_and_nothing_else(
    world: World, change: Callable[[World], None]
) -> None:
    world.translated()
    change(world)
    found = world.translated()
    assert world.asked[-1] == CHANGES[change]
    assert found == world.translated(again=False), "as if nothing had been known"


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("what", ["id", "configuration"])
def test_a_recreated_or_reconfigured_topic_is_asked_again(
    world: World, side: str, what: str
) -> None:
    world.translated()
    cluster = getattr(world, side)
    if what == "id":
        cluster.ids["orders"] = "recreated"
    else:
        cluster.configs = {"orders": {"cleanup.policy": "compact"}}
    world.translated()
    assert world.asked[-1] == set(EXACT)


@pytest.mark.parametrize(
    ("evidence", "again"),
    [
        (Evidence(tracked_offsets={GroupPartition("g", A): TRACKED}), {("g", A)}),
        (Evidence(mirrored=Mirrored({A: (Sync(1, 1, 5),)}, {}, {}, 0, {})), set(EXACT)),
        (Evidence(mirrored=Mirrored({}, {("h", B): Checkpoint(2, 2, 5)}, {}, 0, {})), set(EXACT)),
    ],
    ids=["tracked", "sync", "checkpoint"],
)
def test_new_evidence_is_used(
    world: World, evidence: Evidence, again: set[tuple[str, TopicPartition]]
) -> None:
    world.translated()
    world.evidence = evidence
    world.translated()
    assert world.asked[-1] == again


def test_new_syncs_and_checkpoints_concern_their_partition_and_group(world: World) -> None:
    before = Mirrored({A: (Sync(1, 1, 5),)}, {("h", B): Checkpoint(2, 2, 5)}, {}, 0, {})
    world.evidence = Evidence(mirrored=before)
    world.translated()
    world.evidence = Evidence(mirrored=replace(before, syncs={A: (Sync(1, 1, 5), Sync(5, 5, 6))}))
    world.translated()
    assert world.asked[-1] == {("g", A), ("h", A)}
    checkpoints = {("h", B): Checkpoint(4, 4, 7)}
    world.evidence = Evidence(mirrored=replace(world.evidence.mirrored, checkpoints=checkpoints))  # type: ignore[type-var]
    world.translated()
    assert world.asked[-1] == {("h", B)}


def test_a_truncation_that_would_not_show_is_never_assumed_away(world: World) -> None:
    """Without leader epochs, other records may stand at the same offsets."""
    world.target.log(A).epoch = -1
    world.translated()
    world.translated()
    assert world.asked[-1] == {("g", A), ("h", A)}


def test_a_failed_lookup_is_asked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as slow:
        failed = Unavailable("no answer")
        slow.setattr(world.target, "look_up", lambda asked: lambda: [failed] * len(asked))
        assert set(world.translated().values()) == {None}
    assert world.translated() == EXACT


def test_headers_are_judged_with_all_groups_of_their_partition(world: World) -> None:
    world.translated(named=True)
    committed(world)
    world.translated(named=True)
    assert world.asked[-1] == {("g", A), ("h", A)}


def test_ages_continue(world: World) -> None:
    world.evidence = Evidence(mirrored=Mirrored({A: (Sync(1, 1, 4_000),)}, {}, {}, 0, {}))
    ages = []
    for world.now_ms in (10_000, 70_000):
        clusters = (Cluster(each, each, each) for each in (world.source, world.target))  # type: ignore[arg-type]
        evidence: Any = world
        run = LinkTranslation(
            link(groups=[".*"]),
            *clusters,
            evidence,
            False,
            False,
            world.now_ms,
            earlier=world.earlier,
        )
        found = {
            e.translation.place: e.results for e in run.run(lambda _: True, lambda _: None).rows
        }
        answers = dict(found[GroupPartition("g", A)])
        ages.append(answers["offset-sync"].age_seconds)  # type: ignore[union-attr]
    assert ages == [6, 66]
    assert world.asked[-1] == set()
