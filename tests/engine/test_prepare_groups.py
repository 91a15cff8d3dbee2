"""Groups of the KIP-848 protocol are created on the target, or reported as outstanding."""

from typing import cast

import pytest

from drctl.engine.kind import Kind, Readback, State, Status
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.groups import Group, GroupProtocol, GroupState, Member
from drctl.model.plan import Json
from drctl.model.topology import Unavailable
from drctl.steps.groups import BATCH, RESTART, PrepareGroups
from tests.engine.client_state import ENDS, NEW, OLD, SOURCE, TARGET, Arrivals, empty
from tests.engine.toggles import Blind, MemoryJournal, World, execution, plan

KIND = Kind(PrepareGroups())
READ_IN = Group("busy", OLD, GroupState.STABLE, (Member("c", "h"),))


def clusters(source: list[Group], target: list[Group]) -> Arrivals:
    both = {SOURCE: source, TARGET: target}
    return Arrivals(groups_of={site: {g.name: g for g in them} for site, them in both.items()})


def checked(world: Arrivals) -> Json:
    return KIND.check(ENDS, {}, cast(LinkReader, world))


def seen(intent: Json, world: Arrivals) -> Readback:
    return KIND.verify(intent, cast(LinkReader, world))


def done(world: Arrivals) -> Readback:
    intent = checked(world)
    assert KIND.apply(intent, cast(LinkWriter, world)) == ()
    return seen(intent, world)


def test_only_groups_of_the_new_protocol_are_created() -> None:
    source = [empty("absent", NEW), empty("ready", NEW), empty("known", NEW), empty("old", OLD)]
    world = clusters(source, [empty("ready", NEW), empty("known", OLD), empty("old", OLD)])
    readback = done(world)
    assert (readback.state, readback.outstanding) == (State.DONE, "")
    assert readback.message == "3 KIP-848 groups ready on secondary, 2 of them new"
    assert readback.facts == {"created": 2, "ready": 1, "silent": ""}
    protocols = {name: group.protocol for name, group in world.groups_of[TARGET].items()}  # type: ignore[union-attr]
    assert protocols == {"absent": NEW, "ready": NEW, "known": NEW, "old": OLD}


def test_a_link_without_such_groups_changes_nothing() -> None:
    world = clusters([empty("old", OLD)], [])
    intent = checked(world)
    assert KIND.apply(intent, cast(LinkWriter, Blind())) == ()
    assert seen(intent, world).state is State.DONE


def test_an_active_group_on_the_target_is_unchanged_and_outstanding() -> None:
    world = clusters([empty("app", NEW), empty("busy", NEW)], [READ_IN])
    readback = done(world)
    assert world.groups_of[TARGET]["busy"] == READ_IN
    assert readback.state is State.DONE
    reason = "busy: it is active on secondary with another group protocol"
    assert readback.items == (reason,)
    assert readback.outstanding == f"{RESTART}; 1 group could not be prepared: {reason}"


@pytest.mark.parametrize("site", [SOURCE, TARGET])
def test_a_group_without_description_is_outstanding(site: str) -> None:
    world = clusters([empty("app", NEW)], [])
    world.groups_of[site]["app"] = Unavailable("its coordinator is away")
    readback = done(world)
    assert readback.state is State.DONE
    assert (
        readback.outstanding
        == f"{RESTART}; 1 group could not be prepared: app: its coordinator is away"
    )


def test_a_group_that_is_not_created_yet_is_named() -> None:
    world = clusters([empty("app", NEW), empty("deaf", NEW)], [empty("deaf", OLD)])
    world.deaf.add("deaf")
    intent = checked(world)
    assert KIND.apply(intent, cast(LinkWriter, world)) == ("deaf: its coordinator is away",)
    readback = seen(intent, world)
    assert (readback.state, readback.items) == (State.WAITING, ("deaf: classic",))
    assert readback.message.startswith(
        "groups not ready on secondary: 1 of 2; deaf: classic; restart"
    )
    world.deaf.clear()
    KIND.apply(intent, cast(LinkWriter, world))
    assert seen(intent, world).state is State.DONE


def test_a_group_that_disappears_is_detected() -> None:
    world = clusters([empty("app", NEW)], [])
    intent = checked(world)
    KIND.apply(intent, cast(LinkWriter, world))
    world.groups_of[TARGET].clear()
    assert seen(intent, world).items == ("app: it does not exist",)


def test_a_thousand_groups_are_created_in_batches() -> None:
    world = clusters([empty(f"app-{n}", NEW) for n in range(1000)], [])
    points: list[str] = []
    world.fall = points.append
    assert done(world).facts["created"] == 1000
    assert points.count("after groups are made") == 1000 / BATCH


def test_group_types_of_a_dead_source_are_not_guessed() -> None:
    world = clusters([], [empty("ready", NEW), empty("app", OLD), empty("other", OLD)])
    world.silent.add(SOURCE)
    intent = checked(world)
    assert KIND.apply(intent, cast(LinkWriter, Blind())) == ()
    readback = seen(intent, world)
    silent = "cluster primary did not answer within 3 s"
    assert readback.state is State.DONE
    assert readback.facts == {"created": 0, "ready": 1, "silent": silent}
    assert readback.items == ("app", "other")
    assert readback.outstanding == (
        f"{RESTART}; it is unknown which groups of primary use the KIP-848 protocol (2 groups of"
        f" secondary may): {silent}"
    )


def test_with_a_dead_source_the_run_continues_with_outstanding_actions() -> None:
    world = World(silent={SOURCE})
    state, outcome = execution(world, MemoryJournal(world)).start(plan(), {})
    assert (outcome.status, outcome.outstanding) == (Status.DONE, True)
    assert list(state.outstanding) == ["prepare-groups", "advance-producer-ids"]
    assert all(action.startswith("restart ") for action in state.outstanding.values())
    assert world.on["switch"]


def test_nothing_is_rolled_back_and_the_report_states_it() -> None:
    intent = checked(clusters([empty("app", NEW)], []))
    assert KIND.undo(intent, cast(LinkWriter, Blind())) == ()
    assert KIND.verify_undo(intent, cast(LinkReader, Blind())).state is State.DONE
    assert "deletes empty groups" in KIND.describe(ENDS).rollback


def test_share_groups_are_ignored() -> None:
    world = clusters([Group("share", GroupProtocol.SHARE, GroupState.UNKNOWN)], [])
    assert done(world).facts["created"] == 0
