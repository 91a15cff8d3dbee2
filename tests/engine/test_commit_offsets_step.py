"""Committing offsets when some are refused: each is named and rolled back."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from drctl.engine.kind import Kind, State
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState, Positions
from drctl.model.plan import Json
from drctl.model.topology import Found, Mark, TopicPartition, Unavailable
from drctl.offsets.applying import BasedOn, Bounds, Translated, Wanted
from drctl.steps.apply_offsets import BATCH
from drctl.steps.commit_offsets import CommitOffsets

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
OCCUPIED = Unavailable("somebody reads in it")
STEP = Kind(CommitOffsets())


@dataclass
class Groups:
    """Committed offsets of one cluster; some groups are active, or a coordinator is silent."""

    offsets: dict[str, dict[TopicPartition, Committed]] = field(default_factory=dict)
    in_use: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    calls: int = 0

    def groups(self, name: str) -> "Groups":
        assert name == "secondary"
        return self

    def commit(
        self, wanted: Mapping[str, Positions]
    ) -> Mapping[str, Mapping[TopicPartition, Unavailable | None]]:
        self.calls += 1
        for group in wanted.keys() - self.in_use:
            self.offsets.setdefault(group, {}).update(wanted[group])
        return {
            group: dict.fromkeys(positions, OCCUPIED if group in self.in_use else None)
            for group, positions in wanted.items()
        }

    def delete(
        self, unwanted: Mapping[str, Collection[TopicPartition]]
    ) -> Mapping[str, Mapping[TopicPartition, Unavailable | None]]:
        for group in unwanted.keys() - self.in_use:
            for place in unwanted[group]:
                self.offsets[group].pop(place, None)
        return {
            group: dict.fromkeys(places, OCCUPIED if group in self.in_use else None)
            for group, places in unwanted.items()
        }

    def committed(
        self, names: Collection[str]
    ) -> Mapping[str, Mapping[TopicPartition, Committed] | Unavailable]:
        silence = Unavailable("no coordinator")
        return {n: silence if n in self.silent else self.offsets.get(n, {}) for n in names}


def intent(*lines: tuple[str, TopicPartition, int | None, int]) -> Json:
    def position(offset: int | None) -> list[object] | None:
        return None if offset is None else list(Committed(offset))

    return {
        "cluster": "secondary",
        "lines": [[g, *place, position(before), position(to)] for g, place, before, to in lines],
        "same": 0,
        "left_out": [],
        "rereads_at_most": 0,
    }


def writer(groups: Groups) -> LinkWriter:
    return cast(LinkWriter, groups)


def look(groups: Groups) -> LinkReader:
    return cast(LinkReader, groups)


@dataclass
class Translating(Groups):
    """A target without committed offsets, and evidence about an unreachable source's groups."""

    known: tuple[Wanted, ...] = ()
    unknown: tuple[str, ...] = ()

    def translated(self) -> Translated:
        return Translated(self.known, self.unknown)

    def cluster_reader(self, name: str) -> "Translating":
        assert name == "secondary"
        return self

    def cluster_id(self) -> str:
        return "b"

    def look_up(
        self, wanted: Sequence[tuple[TopicPartition, int]]
    ) -> Callable[[], Sequence[Found]]:
        return lambda: [Found(0 if mark == Mark.START else 9, -1) for _, mark in wanted]

    def described(self, names: Collection[str]) -> Mapping[str, Group]:
        return {n: Group(n, GroupProtocol.CLASSIC, GroupState.EMPTY) for n in names}


SETTINGS = {"cluster": "secondary", "link": "main", "overrides": {}}


def test_groups_without_evidence_are_named() -> None:
    """The line "0 offsets of 0 groups" of an unreachable source must not look complete."""
    place = Wanted("a", ONE, Committed(7), Bounds(2, 0))
    found = Translating(known=(place,), unknown=("b", "c-.*"))
    planned = STEP.check({**SETTINGS, "leave_out": True}, {}, look(found))
    reason = "no known group matches, and the source does not respond"
    assert planned["left_out"] == [f"b: {reason}", f"c-.*: {reason}"]
    assert (planned["same"], planned["rereads"]) == (0, {"a": 2})
    STEP.apply(planned, writer(found))
    seen = STEP.verify(planned, look(found))
    assert seen.state is State.DONE
    assert seen.outstanding == f"groups or partitions left out: 2, for example b: {reason}"
    with pytest.raises(
        Refused, match="2 groups or partitions cannot be committed: b: no known group"
    ):
        STEP.check({**SETTINGS, "leave_out": False}, {}, look(found))


def test_groups_that_are_listed_no_more_are_named() -> None:
    """Seen in the soak test: while brokers start, none lists the groups of some coordinators."""
    found = Translating(known=(Wanted("a", ONE, Committed(7), Bounds(2, 0)),))
    recorded = {"committed_groups": {"primary": ["a", "b"], "secondary": ["c"]}}
    facts: dict[str, Json] = {"snapshot-state": {"active_groups": {}, "silent": [], **recorded}}
    with pytest.raises(Refused, match="cannot be committed: b: primary, where it had committed"):
        STEP.check({**SETTINGS, "leave_out": False}, facts, look(found))
    planned = STEP.check({**SETTINGS, "leave_out": True}, facts, look(found))
    assert planned["left_out"] == ["b: primary, where it had committed offsets, no longer lists it"]


def test_an_unknown_bound_is_not_zero() -> None:
    wanted = (
        Wanted("a", ONE, Committed(7), Bounds(2, 0)),
        Wanted("a", TWO, Committed(7), Bounds(None, 0)),
        Wanted("b", ONE, Committed(7), Bounds(3, 0)),
    )
    settings = {**SETTINGS, "leave_out": True}
    planned = STEP.check(settings, {}, look(Translating(known=wanted)))
    assert planned["rereads"] == {"a": None, "b": 3}
    assert planned["rereads_at_most"] is None
    assert STEP.check(settings, {}, look(Translating(known=wanted[::2])))["rereads_at_most"] == 5


def test_an_offset_that_stays_is_committed_without_the_epoch_of_another_log() -> None:
    """The target's log has epochs up to 2; the offset with epoch 5 was copied from the source."""

    class Target(Translating):
        def elections(self, name: str) -> "Target":
            assert name == "secondary"
            return self

        def ends_before(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
            return {place: 9 if epoch <= 2 else 0 for place, epoch in epochs.items()}

    known = tuple(Wanted(group, ONE, Committed(7), Bounds(2, 0)) for group in ("a", "b"))
    before = {"a": {ONE: Committed(7, 5, "x")}, "b": {ONE: Committed(7, 2)}}
    found = Target({name: dict(at) for name, at in before.items()}, known=known)
    planned = STEP.check({**SETTINGS, "leave_out": False}, {}, look(found))
    assert planned["same"] == 1
    assert STEP.apply(planned, writer(found)) == ()
    assert found.offsets == {"a": {ONE: Committed(7, -1, "x")}, "b": before["b"]}
    assert STEP.verify(planned, look(found)).state is State.DONE
    assert STEP.undo(planned, writer(found)) == ()
    assert found.offsets == before


LINES = intent(("a", ONE, None, 7), ("a", TWO, 3, 8), ("b", ONE, 5, 9))


def world(in_use: Collection[str] = (), silent: Collection[str] = ()) -> Groups:
    offsets = {"a": {TWO: Committed(3)}, "b": {ONE: Committed(5)}}
    return Groups(offsets, set(in_use), set(silent))


def test_all_offsets_are_committed() -> None:
    found = world()
    assert STEP.apply(LINES, writer(found)) == ()
    seen = STEP.verify(LINES, look(found))
    assert (seen.state, seen.message) == (
        State.DONE, "3 offsets of 2 groups committed and read back",
    )  # fmt: skip
    assert STEP.apply(LINES, writer(found)) == (), "the second call reported errors"
    assert STEP.undo(LINES, writer(found)) == ()
    assert STEP.verify_undo(LINES, look(found)).message == "3 offsets restored"
    assert found.offsets == world().offsets


def test_one_refused_offset_of_three_is_named() -> None:
    found = world(in_use={"b"})
    assert STEP.apply(LINES, writer(found)) == (f"b {ONE}: somebody reads in it",)
    seen = STEP.verify(LINES, look(found))
    assert seen.state is State.WAITING
    assert seen.items == (f"b {ONE} is at offset 5",)
    assert seen.message == f"offsets not committed: 1 of 3; b {ONE} is at offset 5"
    found.in_use.clear()
    STEP.apply(LINES, writer(found))
    assert STEP.verify(LINES, look(found)).state is State.DONE


def test_an_offset_that_cannot_be_read_back_is_not_done() -> None:
    found = world(silent={"a"})
    STEP.apply(LINES, writer(found))
    seen = STEP.verify(LINES, look(found))
    assert seen.items == (f"a {ONE}: no coordinator", f"a {TWO}: no coordinator")
    assert STEP.verify_undo(LINES, look(found)).state is State.WAITING


def test_an_offset_that_cannot_be_rolled_back_is_named() -> None:
    found = world()
    STEP.apply(LINES, writer(found))
    found.in_use.add("b")
    assert STEP.undo(LINES, writer(found)) == (f"b {ONE}: somebody reads in it",)
    seen = STEP.verify_undo(LINES, look(found))
    assert seen.items == (f"b {ONE} is at offset 9",)
    assert found.offsets["a"] == {TWO: Committed(3)}


@pytest.mark.parametrize("groups", [1, BATCH, BATCH + 1, 3 * BATCH])
def test_many_groups_in_batches(groups: int) -> None:
    lines = intent(*((f"g{n}", ONE, None, n) for n in range(groups)))
    found = Groups()
    assert STEP.apply(lines, writer(found)) == ()
    assert found.calls == -(-groups // BATCH)
    assert STEP.verify(lines, look(found)).state is State.DONE
    assert STEP.undo(lines, writer(found)) == ()
    assert STEP.verify_undo(lines, look(found)).state is State.DONE


def test_a_group_that_is_already_there_still_reads_again() -> None:
    """Its offset was committed earlier by someone else; records read since are read again."""
    bounds = Bounds(4, 0)
    wanted = tuple(
        Wanted(group, ONE, Committed(to), bounds)
        for group, to in (("moved", 7), ("there", 5), ("ahead", 5), ("far-ahead", 5))
    )
    offsets = {"there": 5, "ahead": 6, "far-ahead": 9}
    found = Translating({g: {ONE: Committed(at)} for g, at in offsets.items()}, known=wanted)
    made = STEP.check({**SETTINGS, "leave_out": True}, {}, look(found))
    assert [line[0] for line in made["lines"]] == ["moved"]
    assert made["rereads"] == {"moved": 4, "there": 4, "ahead": 3, "far-ahead": 0}
    assert made["rereads_at_most"] == 11
    STEP.apply(made, writer(found))
    put = {group: [["orders", 0, at]] for group, at in {**offsets, "moved": 7}.items()}
    assert STEP.verify(made, look(found)).facts["stand"] == put


def test_the_best_known_offset_of_a_lost_source_is_committed() -> None:
    """A checkpoint is used if there is nothing better; groups without an offset are named."""
    only_if = "the group was reset backwards after 2026-03-05 17:02:31 UTC"
    bounds = Bounds(4, None, 1, only_if)
    based_on = BasedOn("checkpoint", "a checkpoint", 41.0)
    known = (
        Wanted("a", ONE, Committed(5), bounds, based_on=based_on),
        Wanted("b", ONE, None, blocked="there is no evidence"),
    )
    found = Translating(known=known, unknown=("c",))
    settings = {**SETTINGS, "leave_out": True, "unproven_offsets": "commit"}
    made = STEP.check(settings, {}, look(found))
    assert [line[0] for line in made["lines"]] == ["a"]
    assert (made["rereads_at_most"], made["rereads_likely"]) == (4, 1)
    assert made["based_on"] == {"a": ["a checkpoint", 41.0, only_if]}
    assert made["without_offset"] == ["b", "c"]
    STEP.apply(made, writer(found))
    assert STEP.verify(made, look(found)).facts["without_offset"] == ["b", "c"]
    refusing = STEP.check(
        {**settings, "unproven_offsets": "refuse"}, {}, look(Translating(known=known))
    )
    assert (refusing["lines"], refusing["without_offset"]) == ([], ["a", "b"])
