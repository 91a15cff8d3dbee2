"""Failback of a link's clients once its source is back: which steps, in which order.

The plan's direction is from the surviving cluster to the one that was lost and is back. Steps about
the link as it was before have the opposite direction. A rebuild is a failback to a cluster that is
emptied and filled again.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from drctl.model.loss import Mode
from drctl.model.plan import Duty, Plan, Step
from drctl.plans import step_builders
from drctl.plans.inputs import Circumstances, FenceMethod
from drctl.steps.failback import REBUILDING, WRITES, WayBackOrder
from drctl.steps.first_records import FIELDS
from drctl.steps.rebuild import EmptySource, SeedFromStart
from drctl.steps.start_replication import BOUNDARY, END, START, NoteEnds

NAME = "failback"
REBUILD_NAME = "rebuild"

SEEDED = "mirrormaker2"
"""The kind of replicator whose offsets drctl sets itself."""

IN_FLIGHT = 1_000
"""So many records may be in flight when clients are moved; once writes are fenced, none may."""

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

_REBUILD_HOW = {
    "confluent-replicator": (
        ": DELETE /connectors/NAME/offsets; with offset.start=consumer another"
        " src.consumer.group.id than that of the other direction; and"
        " provenance.header.filter.overrides for what once came from there, else it leaves all of"
        " that out"
    ),
}
_EMPTY = (
    "empty the link's topics on {cluster}: kafka-topics.sh --delete --topic TOPIC for each of them"
    " (replication makes them anew where it keeps names), or kafka-delete-records.sh. What is"
    " nowhere else is saved by drctl gap --link {link} --scope full --view truncation --export DIR"
)

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
    """What a failback is planned from.

    Attributes:
        home: from the surviving cluster to the one that was lost.
        old: the link as it was, and will be again.
        seeded: the connector of the reverse replication; empty where a person starts it.
        reseeded: the one that copied before, and will again; likewise.
        policy: what becomes of the records that only the returned cluster has; None where nobody
            said.
        topics: `TOPIC=POLICY`, for some of them.
        conflicting: what becomes of those of which the surviving cluster has something newer.
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
    """Whether they are those of a failback, by themselves or within a runbook."""
    return any(step.kind == WayBackOrder.name for step in steps)


def rebuilds(steps: Iterable[Step]) -> bool:
    """Whether they are those of a failback to a cluster that is emptied and filled again."""
    return any(step.kind == EmptySource.name for step in steps)


def turned(old: Circumstances, connectors: tuple[str, ...] = ()) -> FailbackInputs:
    """The inputs of a failback, as far as the link itself tells.

    Args:
        connectors: of the reverse replication, the one that copies first.
    """
    # A user-supplied command is written for one cluster, and for one direction of replication.
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
    """The plan; the same inputs give the same plan."""
    steps = (*_closed(way), *_decided(way), *_replicated(way), *_moved(way), *_restored(way))
    return _plan(NAME, way.home, steps)


def rebuild(way: FailbackInputs, *, empty: bool) -> Plan:
    """The plan of a rebuild; the same inputs give the same plan.

    Args:
        empty: whether the returned cluster holds nothing of the link already.
    """
    steps = (
        *_closed(way, rebuild=True),
        *_decided(way, rebuild=True),
        _emptied(way, empty),
        *_replicated(way, rebuild=True),
        *_moved(way),
        *_restored(way, rebuild=True),
    )
    return _plan(REBUILD_NAME, way.home, steps)


def _plan(name: str, home: Circumstances, steps: tuple[Step, ...]) -> Plan:
    return Plan(name, home.link, home.source, home.target, steps, home.basis, home.overrides)


def _closed(way: FailbackInputs, *, rebuild: bool = False) -> Iterator[Step]:
    """a, b: nothing is written to the cluster that is back, and nothing is copied from it."""
    home, old = way.home, way.old
    asked: dict[str, Any] = {"target": home.target, "overrides": dict(home.overrides)}
    if rebuild:
        asked["mode"] = REBUILDING
    yield Step("order", WayBackOrder.name, asked, 60)
    yield step_builders.stock(home)
    fence = step_builders.fence(old, Duty.REQUIRED, f"close-{home.target}")
    settings = {**fence.settings, "reverse": list(home.connectors)}
    settings |= {"made_anew": True} if rebuild else {}
    if "undo" in settings and old.fence_method is FenceMethod.NONE:
        settings["undo"] = ""
    yield replace(fence, kind=_CLOSES[fence.kind], settings=settings)
    stop = step_builders.stop(old, "old-replication")
    yield replace(stop, kind=_KEEPS[stop.kind])


def _decided(way: FailbackInputs, *, rebuild: bool = False) -> Iterator[Step]:
    """c, d, e: what only the cluster has that is back is found, judged and decided on."""
    ends = step_builders.ends(way.home)
    policies = {"policy": way.policy, "topics": list(way.topics), "conflicting": way.conflicting}
    yield Step("find-missing", "find-missing", {**ends, "rebuild": True} if rebuild else ends, 0)
    yield Step("judge-records", "judge-records", {**ends, **policies}, 0)
    yield Step("reconcile", "reconcile", {**ends, **policies}, 30)


def _emptied(way: FailbackInputs, empty: bool) -> Step:
    """A person empties the returned cluster, unless it is empty already."""
    home = way.home
    identity = f"empty-{home.target}"
    settings: dict[str, Any] = {"cluster": home.target, "survivor": home.source}
    if way.seeded:
        settings["connector"] = way.seeded
    if not empty:
        text = _EMPTY.format(cluster=home.target, link=home.link)
        settings |= step_builders.asked(identity, text)
    return Step(identity, EmptySource.name, settings, 600)


def _replicated(way: FailbackInputs, *, rebuild: bool = False) -> Iterator[Step]:
    """f, g, h: what is new is replicated, and nothing else; all of it, where a rebuild begins."""
    home = way.home
    if way.seeded:
        filtering = "take-copies-along" if rebuild else "leave-copies-out"
        yield Step(filtering, filtering, {"connector": way.seeded}, 30)
        begin, seeding = "begin-at-boundary", "seed-replication"
        if rebuild:
            begin, seeding = "begin-at-start", SeedFromStart.name
        yield Step(begin, seeding, _seeds(home, way.seeded), 30)
        yield Step("bring-home", "start-replication", _starts(home, seeding), 180)
    elif rebuild:
        boundary, why = "the first record of each partition", "everything is copied"
        yield _by_hand(home, "bring-home", boundary, why, _REBUILD_HOW, begins=START)
    elif home.replicator == MIRRORED:
        yield _asked_to_start(home, "bring-home", BOUNDARY, _MIRROR, mirrors=True)
    else:
        boundary = "the first record that was written there since (step find-missing), without"
        told = f"{boundary} what reconcile copied"
        yield _by_hand(home, "bring-home", told, "nothing is copied twice", begins=BOUNDARY)
    ends, at_most = step_builders.ends(home), max(way.at_most, IN_FLIGHT)
    scope = "tail" if home.connectors else "full"
    caught_up = {**ends, "scope": scope, "at_most": at_most}
    if way.seeded:
        caught_up["connectors"] = [way.seeded]
    yield Step("caught-up", "caught-up", caught_up, home.patience_s)
    if rebuild:
        # All of it is compared before anybody waits for it.
        whole = {**ends, "scope": "full", "at_most": at_most}
        yield Step("compare-all", "caught-up", whole, max(300, home.patience_s))


def _moved(way: FailbackInputs) -> Iterator[Step]:
    """i: the planned switchover; and where the old replication will resume."""
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


def _restored(way: FailbackInputs, *, rebuild: bool = False) -> Iterator[Step]:
    """j, k: the old replication resumes, everything is proven, and nothing is outstanding."""
    home, old = way.home, way.old
    # What was emptied has no record left that is to stay away; nor has a mirror that was cut off.
    emptied = {"emptied": True} if rebuild or home.replicator == MIRRORED else {}
    if way.reseeded:
        settings = _starts(old, "seed-old-replication")
        yield Step("replicate-again", "start-old-replication", settings, 180)
    else:
        if old.replicator == MIRRORED:
            step = _asked_to_start(old, "replicate-again", END, _MIRROR_AGAIN, mirrors=True)
        else:
            told = f"where {old.source} ended when it was opened"
            step = _by_hand(old, "replicate-again", told, "nothing is copied twice", begins=END)
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


def _starts(seen: Circumstances, seeded_by: str) -> dict[str, Any]:
    """What a start of connectors needs to know.

    Args:
        seeded_by: the kind of the step that told them where to begin.
    """
    passed = {"writes_passed": True} if WRITES in seen.overrides else {}
    told = {"connectors": list(seen.connectors), "seeded_by": seeded_by}
    return {**step_builders.ends(seen), **told, **passed}


def _by_hand(
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
