"""`drctl status`: options, and which groups could resume without their source."""

from pathlib import Path
from typing import NoReturn

import pytest

from drctl.app.status import _left_out, _methods, _tracked
from drctl.cli.status import Watching
from drctl.config.loading import read
from drctl.formats.tracked_offsets import TrackedOffset
from drctl.model.errors import Interrupted
from drctl.model.groups import Group, GroupProtocol, GroupState, Member
from drctl.model.topology import TopicPartition
from drctl.model.translation import GroupPartition
from drctl.offsets.by_time import Consumed
from drctl.offsets.checkpoints import Checkpoint, Sync
from drctl.offsets.evidence import Evidence
from drctl.offsets.methods import Question
from drctl.offsets.mirror_topics import Mirrored
from tests.cli.conftest import Run

LINK = """
clusters: {a: {bootstrap: "a:1"}, b: {bootstrap: "b:1"}}
links: {main: {from: a, to: b, topics: ["orders.*"], replicator: {kind: KIND}}}
"""


def test_every_implies_watch(called: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def watched(_watching: Watching, _listen: str | None) -> NoReturn:
        raise Interrupted("watched")

    monkeypatch.setattr(Watching, "run", watched)
    config = tmp_path / "drctl.yaml"
    config.write_text(LINK.replace("KIND", "none"))
    assert called("status", "--config", str(config), "--every", "5s").code == 130


def place(group: str, topic: str = "orders", partition: int = 0) -> GroupPartition:
    return GroupPartition(group, TopicPartition(topic, partition))


def left_out(kind: str, **evidence: object) -> set[str]:
    """Return groups that could not resume, each at offset 40 of the only partition."""
    link = read(LINK.replace("KIND", kind), Path("x.yaml")).link()
    names = ("synced", "checkpointed", "tracked", "consumed", "unknown", "reading")
    positions = {place(name): 40 for name in names} | {place("lost", "orders-old"): 40}
    reading = Group("reading", GroupProtocol.CLASSIC, GroupState.STABLE, (Member("c", "/h"),))
    seen = Evidence("AAA", **evidence)  # type: ignore[arg-type]
    groups = {"reading": reading}
    found = _left_out(link, positions, seen, {"orders": (0,)}, groups, _methods(seen))
    return {each.group for each in found}


def test_preserved_offsets_let_every_group_resume() -> None:
    assert left_out("offset-preserving", mirrored=None, tracked_offsets={}, consumed={}) == {
        "lost",
        "reading",
    }


def test_offsets_on_the_target_show_where_groups_resume() -> None:
    tracked = TrackedOffset(40, -1, "", 1, ())
    cluster_reads = {
        "tracked_offsets": {place("tracked"): tracked},
        "consumed": {place("consumed"): Consumed(1, 1)},
    }
    assert left_out("none", mirrored=None, **cluster_reads) == {
        *("synced", "checkpointed", "unknown"),
        *("lost", "reading"),
    }
    checkpoints = {("checkpointed", TopicPartition("orders", 0)): Checkpoint(30, 30, 1)}
    mirrored = Mirrored({}, checkpoints, {}, 0, {})
    found = left_out("mirrormaker2", mirrored=mirrored, **cluster_reads)
    assert found == {"synced", "unknown", "lost", "reading"}
    syncs = {TopicPartition("orders", 0): (Sync(0, 0, 1),)}
    mirrored = Mirrored(syncs, {}, {}, 0, {})
    assert left_out("mirrormaker2", mirrored=mirrored, **cluster_reads) == {"lost", "reading"}


@pytest.mark.parametrize(("offset", "noted"), [(40, True), (41, False)])
def test_a_tracked_offset_below_the_position_is_ignored(offset: int, noted: bool) -> None:
    tracked = TrackedOffset(offset, -1, "", 1, ())
    question = Question(place("g"), 40, TopicPartition("orders", 0))
    seen = Evidence("AAA", None, {place("g"): tracked}, {})
    assert _tracked(question, seen) is noted
