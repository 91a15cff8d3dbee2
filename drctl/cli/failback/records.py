"""What becomes of the records that only the returned cluster has: `drctl reconcile`, in a run."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.cli.notices import notices
from drctl.cli.reconcile import wiring as reconcile_wiring
from drctl.cli.reconcile.carrying_out import Opened, ReconcileOptions, carried_out, opened
from drctl.engine.returning import Reconciliation
from drctl.model.errors import ExitCode, Stopped, Unknown
from drctl.model.plan import Json
from drctl.reconcile.export import digest_of
from drctl.reconcile.guards import Guard
from drctl.reconcile.policy import Action
from drctl.report.saved_exports import saved_lanes

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.reconcile.guards import Objection
    from drctl.reconcile.planning import Line
    from drctl.reconcile.progress import Lane
    from drctl.reconcile.rows import ExportedLane

_WORDS = {
    Action.COPY: "copy",
    Action.QUARANTINE: "quarantine",
    Action.EXPORT: "export",
    Action.DISCARD: "discard",
}

_GONE = "gone before they were exported"

Saved = Mapping["Lane", "ExportedLane"]


_MOVED = "applications write on while a run leads home, where the order is right in any case"


def reconciliation(config: "Config", link: "Link", wish: Json) -> Reconciliation:
    """How decisions on the records stand; searched for anew where the result is elsewhere.

    Where the target keeps that all of them are done, nothing has to be searched for: what was
    quarantined or discarded would be found again, and decided on twice.

    Args:
        link: from the cluster that was lost to the one that survived.

    Raises:
        Refused: the result is of other clusters, or what was found cannot be rested on.
        Unknown: not everything could be compared.
    """
    if not _is_here(wish) and (done := _kept(link, wish)):
        return Reconciliation(0, done=done)
    with opened(_options(config, _folder(config, link, wish), wish), lambda: config) as found:
        lines, saved = found.plan.lines, _saved(found)
        due = sum(_due(line, saved) for line in lines if line.guard is None)
        due += sum(progress.records for progress in found.plan.noted.values())
        refused = (*_refused(found, wish), *_left_out(found))
        blocked = tuple(map(_reason, found.plan.blocked)) if due else ()
        newer = sum(found.plan.grown.newer.values())
        return Reconciliation(due, (*refused, *blocked), _done(found, saved), newer)


def reconcile(config: "Config", link: "Link", wish: Json) -> None:
    """Act on them.

    Raises:
        Stopped: some are not done.
        Unknown: nobody can say what was done, or not everything could be compared.
    """
    with opened(_options(config, _folder(config, link, wish), wish), lambda: config) as found:
        if not found.plan.writes:
            return
        result = carried_out(found, lambda _plan: None)
    if result.exit_code not in (ExitCode.DONE, ExitCode.FOUND):
        kind = Unknown if result.exit_code is ExitCode.UNKNOWN else Stopped
        raise kind(result.failure or f"reconcile: {result.status}", result.hint)


def _is_here(wish: Json) -> bool:
    """Whether the search's result is on this machine."""
    return (Path(wish["folder"]) / "gap.json").is_file()


def _kept(link: "Link", wish: Json) -> Mapping[str, int]:
    """What the target keeps of the result, where it is all of it; else nothing."""
    with reconcile_wiring.reconcile_topic(link) as topic:
        kept = topic.kept()
    done: Counter[str] = Counter()
    for key, progress in kept.items():
        if key.result == wish.get("result"):
            for each in progress.segments:
                done[_WORDS[each.action]] += each.records + each.gone
    return done if done.total() == wish.get("records") else {}


def _folder(config: "Config", link: "Link", wish: Json) -> Path:
    """Of the search's result; on another machine than that of the run it is made anew.

    Records that were copied meanwhile are not missing any more: none is copied twice.
    """
    folder = Path(wish["folder"])
    if _is_here(wish):
        return folder
    from drctl.cli.failback.search import found_here
    from drctl.cli.failback.undecided import await_decided

    notices().detail(f"the result of the search is not on this machine: {folder}")
    await_decided(link)
    return found_here(config, link)


def _options(config: "Config", folder: Path, wish: Json) -> ReconcileOptions:
    """What was safe is copied all the same, but where the survivor would keep the disorder.

    It does in compacted topics; where the order of a whole partition counts, it is one in any case.
    """
    within = config.file.policy.order == "per-partition"
    return ReconcileOptions(
        folder,
        wish["policy"],
        tuple(wish["topics"]),
        Action(wish["conflicting"]),
        None,
        execute=True,
        yes=True,
        overrides=() if within else (f"{Guard.TARGET_MOVED}={_MOVED}",),
        undecided=True,
        known_as=wish.get("result", ""),
        spares_compacted=True,
    )


def _reason(against: "Objection") -> str:
    if against.guard is not Guard.TARGET_MOVED:
        return against.reason
    return (
        f"{against.place}: {against.reason}. A way home goes on only where the copies are not"
        " compacted and policy.order is per-key or none: begin again, or choose --policy quarantine"
    )


def _due(line: "Line", saved: Saved) -> int:
    return 0 if line.action is Action.EXPORT and line.lane in saved else line.due.records


def _saved(found: Opened) -> Saved:
    """Of the lanes that are to be exported those that a file on this machine holds all of.

    An export leaves no trace on a cluster. By lane: what the export says of it.
    """
    lines = [each for each in found.plan.lines if each.action is Action.EXPORT]
    if not lines:
        return {}
    kept = saved_lanes(found.config.state_dir, found.gap.id)
    fitting = (
        (line.lane, part)
        for line in lines
        for part in kept.get(line.lane, ())
        if part.after <= line.through and _is_of(found, part)
    )
    return dict(fitting)


def _is_of(found: Opened, part: "ExportedLane") -> bool:
    """Whether it is of the very records: a result that was made anew may have others."""
    place, order = part.lane
    return digest_of(found.rows.offsets_after(place, {order: part.after})) == part.offsets


def _refused(found: Opened, wish: Json) -> Iterator[str]:
    refused: Counter[tuple[str, str]] = Counter()
    for line in found.plan.refused:
        refused[line.lane.order.value, line.reason] += line.due.records
    if refused and wish["policy"] is None and not wish["topics"]:
        yield f"nothing is said of {refused.total():,} records"
        return
    for (order, reason), number in sorted(refused.items()):
        yield f"{number:,} {order} ones: {reason}"


def _left_out(found: Opened) -> Iterator[str]:
    if found.plan.left_out:
        yield f"nothing is said of {found.plan.left_out:,} records of other topics"


def _done(found: Opened, saved: Saved) -> Mapping[str, int]:
    done: Counter[str] = Counter()
    for line in found.plan.lines:
        for segment in line.done:
            done[_WORDS[segment.action]] += segment.records + segment.gone
        if line.action is Action.EXPORT and line.lane in saved:
            gone = min(saved[line.lane].gone, line.due.records)
            done[_WORDS[Action.EXPORT]] += line.due.records - gone
            done[_GONE] += gone
    return +done
