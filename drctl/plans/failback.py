"""The way home of a link's clients, once its source is back: which steps, in which order.

The plan's own direction is the way home: from the cluster that survived to the one that was lost
and is back. What is about the link as it was before runs the other way.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from drctl.model.loss import Mode
from drctl.model.plan import Duty, Plan, Step
from drctl.plans import step_builders
from drctl.plans.inputs import Circumstances, FenceMethod
from drctl.steps.failback import ASKED_FOR, REBUILDING, WRITES, WayBackOrder
from drctl.steps.first_records import FIELDS
from drctl.steps.rebuild import EmptySource, SeedFromStart
from drctl.steps.start_replication import BOUNDARY, END, START, NoteEnds

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
class FailbackInputs:
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


def turned(old: Circumstances, connectors: tuple[str, ...] = ()) -> FailbackInputs:
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
    return FailbackInputs(home, old, *seeded)


def failback(way: FailbackInputs) -> Plan:
    """The plan; the same way back gives the same plan."""
    home = way.home
    steps = (*closed(way), *_decided(way), *_brought(way), *moved(way), *behind(way))
    return Plan(NAME, home.link, home.source, home.target, steps, home.basis, home.overrides)


def closed(way: FailbackInputs, mode: str = ASKED_FOR) -> Iterator[Step]:
    """a, b: nothing is written to the cluster that is back, and nothing is copied from it.

    Args:
        mode: in which the guards speak of the way back.
    """
    home, old, anew = way.home, way.old, mode == REBUILDING
    asked: dict[str, Any] = {"target": home.target, "overrides": dict(home.overrides)}
    yield Step("order", WayBackOrder.name, {**asked, "mode": mode} if anew else asked, 60)
    yield step_builders.stock(home)
    fence = step_builders.fence(old, Duty.REQUIRED, f"close-{home.target}")
    settings = {**fence.settings, "reverse": list(home.connectors)}
    settings |= {"made_anew": True} if anew else {}
    if "undo" in settings and old.fence_method is FenceMethod.NONE:
        settings["undo"] = ""
    yield replace(fence, kind=_CLOSES[fence.kind], settings=settings)
    stop = step_builders.stop(old, "old-replication")
    yield replace(stop, kind=_KEEPS[stop.kind])


def _decided(way: FailbackInputs) -> Iterator[Step]:
    """c, d, e: what only the cluster has that is back is found, judged and decided on."""
    ends = step_builders.ends(way.home)
    policies = {
        "policy": way.policy,
        "topics": list(way.topics),
        "conflicting": way.conflicting,
    }
    yield Step("find-missing", "find-missing", ends, 0)
    yield Step("judge-records", "judge-records", {**ends, **policies}, 0)
    yield Step("reconcile", "reconcile", {**ends, **policies}, 30)


def _brought(way: FailbackInputs) -> Iterator[Step]:
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
    settings = {**step_builders.ends(home), "scope": scope, "at_most": max(way.at_most, IN_FLIGHT)}
    if way.seeded:
        settings["connectors"] = [way.seeded]
    yield Step("caught-up", "caught-up", settings, home.patience_s)


def moved(way: FailbackInputs) -> Iterator[Step]:
    """i: the planned switchover, the other way; and where the old replication will go on."""
    passed = {"replication-lag": _COPIES}
    if way.home.fence_method is FenceMethod.NONE:
        passed["fence-not-possible"] = _BY_A_PERSON
    home = replace(way.home, overrides={**passed, **way.home.overrides})
    yield step_builders.preflight(home, Mode.PLANNED)
    yield step_builders.stock(home, "take-stock-again")
    yield step_builders.fence(home, Duty.REQUIRED)
    yield Step("drain", "drain", {"target": home.target}, home.patience_s)
    yield from step_builders.quiet(home)
    yield step_builders.stop(home)
    yield step_builders.groups(home)
    offsets = step_builders.offsets(home, leave_out=home.leaves_groups_out)
    overrides = {"moves-backwards": _OLD, **offsets.settings["overrides"]}
    yield replace(offsets, settings={**offsets.settings, "overrides": overrides})
    yield step_builders.skipping(home)
    if way.reseeded:
        settings = _seeds(way.old, way.reseeded)
        yield Step("begin-at-end", "seed-old-replication", settings, 30)
    else:
        yield Step("note-ends", NoteEnds.name, step_builders.ends(way.old), 30)
    yield step_builders.opening(home)
    yield from _let_in(way.old)
    yield from step_builders.switches(home)
    yield step_builders.clients(home)


def _let_in(old: Circumstances) -> Iterator[Step]:
    """What closed the returned cluster opens it again; rules of ACLs go when it is opened."""
    if old.fence_method is FenceMethod.ACL:
        return
    if old.fence_method is FenceMethod.COMMAND and old.fence_undo:
        yield step_builders.by_command(old, "let-in", old.fence_undo)
        return
    text = step_builders.LIFT.format(source=old.source)
    yield Step("let-in", "manual", step_builders.asked("let-in", text), 60)


def behind(way: FailbackInputs, *, anew: bool = False) -> Iterator[Step]:
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
    yield Step("prove-home", "prove-copies", {**step_builders.ends(home), "old_way": False}, 300)
    yield Step(
        "prove-away",
        "prove-old-copies",
        {**step_builders.ends(old), "old_way": True, **emptied},
        300,
    )
    yield Step("prove-groups", "prove-groups", {"cluster": home.target}, 60)
    settling = {**step_builders.ends(home), "question": "settle-owed"}
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
    return {**step_builders.ends(seen), "connector": connector}


def starts(seen: Circumstances, seeded_by: str) -> dict[str, Any]:
    """What a start of connectors needs to know.

    Args:
        seeded_by: the kind of the step that told them where to begin.
    """
    passed = {"writes_passed": True} if WRITES in seen.overrides else {}
    told = {"connectors": list(seen.connectors), "seeded_by": seeded_by}
    return {**step_builders.ends(seen), **told, **passed}


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
        begins: the same as `drctl.steps.start_replication` has it.
    """
    text = _BY_HAND.replace("{how}", hows.get(seen.replicator, ""))
    told = text.replace("{boundary}", boundary).replace("{why}", why)
    return _asked_to_start(seen, identity, begins, told)


def _asked_to_start(
    seen: Circumstances, identity: str, begins: str, text: str, *, mirrors: bool = False
) -> Step:
    told = text.format(source=seen.source, target=seen.target)
    undo = f"stop the replication from {seen.source} to {seen.target} again"
    settings = {
        **step_builders.asked(identity, told, undo),
        **step_builders.ends(seen),
        "begins": begins,
    }
    settings |= {"mirrors": True} if mirrors else {}
    settings |= {"connect": True} if seen.replicator in _HOW else {}
    settings |= {"fields": list(seen.fields)} if seen.fields != FIELDS else {}
    # What an answer says beforehand is still to be done when it is asked for.
    return Step(identity, "manual-start-replication", settings, max(120, seen.patience_s))


REBUILD_NAME = "rebuild"

_EMPTY = (
    "empty the link's topics on {cluster}: kafka-topics.sh --delete --topic TOPIC for each of them"
    " (replication makes them anew where it keeps names), or kafka-delete-records.sh. What is"
    " nowhere else is saved by drctl gap --link {link} --scope full --view truncation --export DIR"
)
_BEGINNING, _WHY = "the first record of each partition", "everything is copied"


_REBUILD_HOW = {
    "confluent-replicator": (
        ": DELETE /connectors/NAME/offsets; with offset.start=consumer another"
        " src.consumer.group.id than that of the other direction; and"
        " provenance.header.filter.overrides for what once came from there, else it leaves all of"
        " that out"
    ),
}


def rebuilds(steps: Iterable[Step]) -> bool:
    """Whether they are those of a way home on which the returned cluster is filled anew."""
    return any(step.kind == EmptySource.name for step in steps)


def rebuild(way: FailbackInputs, *, empty: bool) -> Plan:
    """The plan; the same way back gives the same plan.

    Args:
        empty: whether the returned cluster holds nothing of the link already.
    """
    home = way.home
    steps = (
        *closed(way, REBUILDING),
        *_given_up(way, empty),
        *_filled(way),
        *moved(way),
        *behind(way, anew=True),
    )
    return Plan(
        REBUILD_NAME, home.link, home.source, home.target, steps, home.basis, home.overrides
    )


def _given_up(way: FailbackInputs, empty: bool) -> Iterator[Step]:
    """c, d, e: what only the returned cluster has is found and decided on; then it is emptied."""
    home = way.home
    ends = step_builders.ends(home)
    policies = {"policy": way.policy, "topics": list(way.topics), "conflicting": way.conflicting}
    yield Step("find-missing", "find-missing", {**ends, "rebuild": True}, 0)
    yield Step("judge-records", "judge-records", {**ends, **policies}, 0)
    yield Step("reconcile", "reconcile", {**ends, **policies}, 30)
    identity = f"empty-{home.target}"
    settings = {"cluster": home.target, "survivor": home.source}
    settings |= {"connector": way.seeded} if way.seeded else {}
    if not empty:
        settings |= step_builders.asked(
            identity, _EMPTY.format(cluster=home.target, link=home.link)
        )
    yield Step(identity, EmptySource.name, settings, 600)


def _filled(way: FailbackInputs) -> Iterator[Step]:
    """f, h: everything is copied, and compared before anybody waits for it."""
    home = way.home
    if way.seeded:
        yield Step("take-copies-along", "take-copies-along", {"connector": way.seeded}, 30)
        seeds = {**step_builders.ends(home), "connector": way.seeded}
        yield Step("begin-at-start", SeedFromStart.name, seeds, 30)
        yield Step("bring-home", "start-replication", starts(home, SeedFromStart.name), 180)
    else:
        yield by_hand(home, "bring-home", _BEGINNING, _WHY, _REBUILD_HOW, begins=START)
    at_most = max(way.at_most, IN_FLIGHT)
    scope = "tail" if home.connectors else "full"
    caught_up = {**step_builders.ends(home), "scope": scope, "at_most": at_most}
    if way.seeded:
        caught_up["connectors"] = [way.seeded]
    yield Step("caught-up", "caught-up", caught_up, home.patience_s)
    whole = {**step_builders.ends(home), "scope": "full", "at_most": at_most}
    yield Step("compare-all", "caught-up", whole, max(300, home.patience_s))
