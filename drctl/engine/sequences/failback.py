"""The way home of a link's clients, once its source is back: which steps, in which order.

The plan's own direction is the way home: from the cluster that survived to the one that was lost
and is back. What is about the link as it was before runs the other way.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from drctl.engine.first_records import FIELDS
from drctl.engine.sequences import parts
from drctl.engine.sequences.circumstances import Circumstances, FenceMethod, Mode
from drctl.engine.steps.manual_start import BOUNDARY, END
from drctl.engine.steps.note_ends import NoteEnds
from drctl.engine.steps.way_back_order import ASKED_FOR, REBUILDING, WRITES, WayBackOrder
from drctl.model.plan import Duty, Plan, Step

NAME = "failback"

SEEDED = "mirrormaker2"
"""The kind of replicator whose offsets drctl sets itself."""

IN_FLIGHT = 1_000
"""So many records may be on their way when clients are moved: behind the fence none may be."""

_COPIES = "caught-up compares by content; copies that are left out count as lag"
_BY_A_PERSON = "a person keeps producers from it, and its logs have to stand still: fence-producers"
_OLD = "positions that were committed there before it was lost"

_BY_HAND = (
    "start the replication from {source} to {target} at {boundary}, so that {why}: set its position"
    " while it is stopped{how}"
)
_HOW = {
    "confluent-replicator": (
        ": PATCH /connectors/NAME/offsets; or offset.start=consumer with the src.consumer.group.id"
        " of the other direction, and provenance.header.enable=true in both"
    ),
}

MIRRORED = "offset-preserving"
"""The kind of replicator that appends nothing to what differs: the other end is cut first."""

_MIRROR = (
    "let {target} mirror {source} from where both part: what {target} holds behind that is cut off,"
    " and what was reconciled comes back from {source} (Cluster Linking: confluent kafka mirror"
    " truncate-and-restore TOPIC --link LINK, with --dry-run first)"
)
_MIRROR_AGAIN = (
    "let {target} mirror {source} again, from where {source} ended when it was opened (Cluster"
    " Linking: confluent kafka mirror reverse-and-start TOPIC --link LINK)"
)


@dataclass(frozen=True, slots=True)
class WayBack:
    """What a way back is planned from.

    Attributes:
        home: from the cluster that survived to the one that was lost.
        old: the link as it was, and will be again.
        seeded: the connector that brings records home; empty where a person starts it.
        reseeded: the one that copied before, and will again; likewise.
        policy: what becomes of the records that only the returned cluster has; None where nobody
            said.
        topics: `TOPIC=POLICY`, for some of them.
        conflicting: what becomes of those that the survivor has something newer than.
        at_most: records that may be on their way when clients are moved.
    """

    home: Circumstances
    old: Circumstances
    seeded: str = ""
    reseeded: str = ""
    policy: str | None = None
    topics: tuple[str, ...] = ()
    conflicting: str = "refuse"
    at_most: int = 0


def leads_home(steps: Iterable[Step]) -> bool:
    """Whether they are those of a way home, by themselves or within a runbook."""
    return any(step.kind == WayBackOrder.name for step in steps)


def turned(old: Circumstances, connectors: tuple[str, ...] = ()) -> WayBack:
    """The way home of a link, as far as the link itself tells.

    Args:
        connectors: that bring records home, the one that copies first.
    """
    # A command of the site fences the cluster, and stops the replication, it was written for.
    acl = old.fence_method is FenceMethod.ACL
    home = replace(
        old,
        source=old.target,
        target=old.source,
        connectors=connectors,
        fence_method=FenceMethod.ACL if acl else FenceMethod.NONE,
        stop_command=(),
        start_command=(),
        stopped_command=(),
        source_answers=old.target_answers,
        target_answers=old.source_answers,
    )
    known = old.replicator == SEEDED and bool(connectors and old.connectors)
    seeded = (connectors[0], old.connectors[0]) if known else ("", "")
    return WayBack(home, old, *seeded)


def failback(way: WayBack) -> Plan:
    """The plan; the same way back gives the same plan."""
    home = way.home
    steps = (*closed(way), *_decided(way), *_brought(way), *moved(way), *behind(way))
    return Plan(NAME, home.link, home.source, home.target, steps, home.basis, home.overrides)


def closed(way: WayBack, mode: str = ASKED_FOR) -> Iterator[Step]:
    """a, b: nothing is written to the cluster that is back, and nothing is copied from it.

    Args:
        mode: in which the guards speak of the way back.
    """
    home, old, anew = way.home, way.old, mode == REBUILDING
    asked: dict[str, Any] = {"target": home.target, "overrides": dict(home.overrides)}
    yield Step("order", WayBackOrder.name, {**asked, "mode": mode} if anew else asked, 60)
    yield parts.stock(home)
    fence = parts.fence(old, Duty.REQUIRED, f"close-{home.target}")
    settings = {**fence.settings, "reverse": list(home.connectors)}
    settings |= {"made_anew": True} if anew else {}
    if "undo" in settings and old.fence_method is FenceMethod.NONE:
        settings["undo"] = ""
    yield replace(fence, kind=_CLOSES[fence.kind], settings=settings)
    stop = parts.stop(old, "old-replication")
    yield replace(stop, kind=_KEEPS[stop.kind])


def _decided(way: WayBack) -> Iterator[Step]:
    """c, d, e: what only the cluster has that is back is found, judged and decided on."""
    ends = parts.ends(way.home)
    policies = {
        "policy": way.policy,
        "topics": list(way.topics),
        "conflicting": way.conflicting,
    }
    yield Step("find-missing", "find-missing", ends, 0)
    yield Step("judge-records", "judge-records", {**ends, **policies}, 0)
    yield Step("reconcile", "reconcile", {**ends, **policies}, 30)


def _brought(way: WayBack) -> Iterator[Step]:
    """f, g, h: what is new comes home, and nothing else does."""
    home = way.home
    if way.seeded:
        yield Step("leave-copies-out", "leave-copies-out", {"connector": way.seeded}, 30)
        yield Step("begin-at-boundary", "seed-replication", _seeds(home, way.seeded), 30)
        yield Step("bring-home", "start-replication", starts(home, "seed-replication"), 180)
    elif home.replicator == MIRRORED:
        yield _asked_to_start(home, "bring-home", BOUNDARY, _MIRROR, mirrors=True)
    else:
        boundary = "the first record that was written there since (step find-missing), without"
        told = f"{boundary} what reconcile copied"
        yield by_hand(home, "bring-home", told, "nothing is copied twice", begins=BOUNDARY)
    scope = "tail" if home.connectors else "full"
    settings = {**parts.ends(home), "scope": scope, "at_most": max(way.at_most, IN_FLIGHT)}
    if way.seeded:
        settings["connectors"] = [way.seeded]
    yield Step("caught-up", "caught-up", settings, home.patience_s)


def moved(way: WayBack) -> Iterator[Step]:
    """i: the planned switchover, the other way; and where the old replication will go on."""
    passed = {"replication-lag": _COPIES}
    if way.home.fence_method is FenceMethod.NONE:
        passed["fence-not-possible"] = _BY_A_PERSON
    home = replace(way.home, overrides={**passed, **way.home.overrides})
    yield parts.preflight(home, Mode.PLANNED)
    yield parts.stock(home, "take-stock-again")
    yield parts.fence(home, Duty.REQUIRED)
    yield Step("drain", "drain", {"target": home.target}, home.patience_s)
    yield from parts.quiet(home)
    yield parts.stop(home)
    yield parts.groups(home)
    offsets = parts.offsets(home, leave_out=home.leaves_groups_out)
    overrides = {"moves-backwards": _OLD, **offsets.settings["overrides"]}
    yield replace(offsets, settings={**offsets.settings, "overrides": overrides})
    yield parts.skipping(home)
    if way.reseeded:
        settings = _seeds(way.old, way.reseeded)
        yield Step("begin-at-end", "seed-old-replication", settings, 30)
    else:
        yield Step("note-ends", NoteEnds.name, parts.ends(way.old), 30)
    yield parts.opening(home)
    yield from _let_in(way.old)
    yield from parts.switches(home)
    yield parts.clients(home)


def _let_in(old: Circumstances) -> Iterator[Step]:
    """What closed the returned cluster opens it again; rules of ACLs go when it is opened."""
    if old.fence_method is FenceMethod.ACL:
        return
    if old.fence_method is FenceMethod.COMMAND and old.fence_undo:
        yield parts.by_command(old, "let-in", old.fence_undo)
        return
    text = parts.LIFT.format(source=old.source)
    yield Step("let-in", "manual", parts.asked("let-in", text), 60)


def behind(way: WayBack, *, anew: bool = False) -> Iterator[Step]:
    """j, k: the old replication goes on, everything is proven, and nothing is owed any more.

    Args:
        anew: whether the cluster was emptied: then nothing may be missing on the survivor. So is
            one that mirrors, behind where both parted.
    """
    home, old = way.home, way.old
    emptied = {"emptied": True} if anew or home.replicator == MIRRORED else {}
    if way.reseeded:
        settings = starts(old, "seed-old-replication")
        yield Step("replicate-again", "start-old-replication", settings, 180)
    else:
        step = _again_by_hand(old)
        yield replace(step, kind="manual-start-old-replication")
    yield Step("prove-home", "prove-copies", {**parts.ends(home), "old_way": False}, 300)
    yield Step(
        "prove-away", "prove-old-copies", {**parts.ends(old), "old_way": True, **emptied}, 300
    )
    yield Step("prove-groups", "prove-groups", {"cluster": home.target}, 60)
    settling = {**parts.ends(home), "question": "settle-owed"}
    yield Step("settle-owed", "settle-owed", settling, 30)


_CLOSES = {
    "fence-producers": "close-source",
    "command-fence": "command-close-source",
    "manual-fence": "manual-close-source",
}
_KEEPS = {
    "stop-replication": "keep-stopped",
    "command-stop-replication": "command-keep-stopped",
    "manual-stop-replication": "manual-keep-stopped",
}


def _seeds(seen: Circumstances, connector: str) -> dict[str, Any]:
    return {**parts.ends(seen), "connector": connector}


def starts(seen: Circumstances, seeded_by: str) -> dict[str, Any]:
    """What a start of connectors needs to know.

    Args:
        seeded_by: the kind of the step that told them where to begin.
    """
    passed = {"writes_passed": True} if WRITES in seen.overrides else {}
    told = {"connectors": list(seen.connectors), "seeded_by": seeded_by}
    return {**parts.ends(seen), **told, **passed}


def _again_by_hand(old: Circumstances) -> Step:
    if old.replicator == MIRRORED:
        return _asked_to_start(old, "replicate-again", END, _MIRROR_AGAIN, mirrors=True)
    told = f"where {old.source} ended when it was opened"
    return by_hand(old, "replicate-again", told, "nothing is copied twice", begins=END)


def by_hand(
    seen: Circumstances,
    identity: str,
    boundary: str,
    why: str,
    hows: Mapping[str, str] = _HOW,
    *,
    begins: str,
) -> Step:
    """Ask a person to start what copies, where drctl cannot.

    Args:
        boundary: where it begins, in words.
        hows: by the kind of the replicator, what it takes.
        begins: the same as `drctl.engine.steps.manual_start` has it.
    """
    text = _BY_HAND.replace("{how}", hows.get(seen.replicator, ""))
    told = text.replace("{boundary}", boundary).replace("{why}", why)
    return _asked_to_start(seen, identity, begins, told)


def _asked_to_start(
    seen: Circumstances, identity: str, begins: str, text: str, *, mirrors: bool = False
) -> Step:
    told = text.format(source=seen.source, target=seen.target)
    undo = f"stop the replication from {seen.source} to {seen.target} again"
    settings = {**parts.asked(identity, told, undo), **parts.ends(seen), "begins": begins}
    settings |= {"mirrors": True} if mirrors else {}
    settings |= {"connect": True} if seen.replicator in _HOW else {}
    settings |= {"fields": list(seen.fields)} if seen.fields != FIELDS else {}
    # What an answer says beforehand is still to be done when it is asked for.
    return Step(identity, "manual-start-replication", settings, max(120, seen.patience_s))
