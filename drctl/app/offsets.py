"""Translates offsets, and finds the offsets that `drctl offsets apply` and `undo` commit."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app import adapters, run_adapters, run_journal
from drctl.app.notices import notices
from drctl.model.errors import DrctlError, Refused, Unreachable, UsageError

if TYPE_CHECKING:
    from drctl.app.link_reader import ClusterLinkReader
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.config.schema import ClusterConfig
    from drctl.engine.run_state import RunState
    from drctl.model.journal import JournalReader
    from drctl.offsets.applying import ApplyPlan, Wanted
    from drctl.offsets.documents import TranslationDocument
    from drctl.offsets.link_translation import Cluster, EarlierAnswers, LinkTranslated
    from drctl.offsets.snapshot import Snapshot

QUICK_S = 5.0
"""The timeout for a source that is probably down."""


def link_translated(
    link: "Link",
    groups: Sequence[str],
    given_ms: int | None,
    *,
    unproven: bool,
    shown: bool = True,
    earlier: "EarlierAnswers | None" = None,
) -> "LinkTranslated":
    """Translate the offsets of a link's groups.

    Args:
        groups: patterns that match whole names; none means all.
        given_ms: a time given by the user, milliseconds UTC.
        unproven: whether `policy.unproven_offsets` is `commit`.
        shown: whether to show the progress; not allowed in other threads.
        earlier: answers of the link's earlier translations; the answers of this one are added.

    Raises:
        UsageError: a pattern is invalid.
        Unreachable: the target did not answer.
    """
    from drctl.offsets.evidence_topics import EvidenceTopics
    from drctl.offsets.link_translation import LinkTranslation
    from drctl.offsets.snapshot import Filters
    from drctl.offsets.tracking_log import scope_of

    wanted = Filters(tuple(groups)).wants_group
    replicator = link.settings.replicator
    with (
        _opened(link.source, link.source_config, QUICK_S) as source,
        _opened(link.target, link.target_config, adapters.TIMEOUT_S) as target,
        notices().task("translating") if shown else nullcontext() as task,
    ):
        evidence = EvidenceTopics(
            (source.reader, source.records),
            (target.reader, target.records),
            lambda: adapters.mirror_aliases(link, target.reader),
            mirrors=replicator.kind == "mirrormaker2",
            copied_topic=replicator.copied_offsets_topic,
            scope=scope_of(link),
        )
        run = LinkTranslation(
            link,
            source,
            target,
            evidence,
            same_offsets=replicator.kind == "offset-preserving",
            # Other replicators may write source offsets into headers, and have kind none.
            named_offsets=replicator.kind == "none",
            now_ms=int(time.time() * 1000),
            given_ms=given_ms,
            unproven=unproven,
            earlier=earlier,
        )
        return run.run(wanted, lambda phase: task.update(description=phase) if task else None)


@contextmanager
def _opened(name: str, config: "ClusterConfig", timeout_s: float) -> "Iterator[Cluster]":
    from drctl.offsets.link_translation import Cluster

    with (
        adapters.reader(name, config, timeout_s).topics as reader,
        adapters.reader(name, config, timeout_s).groups as groups,
    ):
        yield Cluster(reader, groups, adapters.range_reader(name, config))


@dataclass(frozen=True, slots=True)
class Origin:
    """Offsets to commit, and where they come from.

    Attributes:
        description: the origin, in words.
    """

    wanted: "tuple[Wanted, ...]"
    description: str
    notes: tuple[str, ...] = ()


def translated(reader: "ClusterLinkReader", groups: Sequence[str]) -> Origin:
    """The offsets that `drctl offsets translate` finds.

    Raises:
        UsageError: a group's pattern is invalid.
        Unreachable: the target did not answer.
    """
    from drctl.offsets.applying import from_translations

    link, unproven = reader.link, reader.config.policy.commits_unproven
    found = link_translated(link, groups, None, unproven=unproven)
    wanted = from_translations(row.translation for row in found.rows)
    return Origin(wanted, f"translation of link {link.name}")


def origin_of(
    found: "Snapshot | TranslationDocument",
    file: Path,
    groups: Sequence[str],
    reader: "ClusterLinkReader",
) -> Origin:
    """The offsets in a file.

    Raises:
        UsageError: a named group is not in the file.
        Refused: the file is for another cluster.
        Unreachable: the cluster did not answer.
    """
    from drctl.offsets.snapshot import Snapshot, of_groups

    target = reader.link.target
    target_id = reader.cluster_reader(target).cluster_id()
    if isinstance(found, Snapshot):
        origin = _from_snapshot(found, file, reader, target_id)
    else:
        cluster = found.target_id or found.target
        if cluster and cluster != (target_id if found.target_id else target):
            raise Refused(
                f"{file} is a translation for cluster {cluster}, not for {target} ({target_id})",
                "translate again, or choose the link with --link",
            )
        notes = () if cluster else (f"{file} does not name its cluster",)
        origin = Origin(found.rows, f"translation {file}", notes)
    return replace(origin, wanted=of_groups(origin.wanted, groups))


def _from_snapshot(
    snapshot: "Snapshot", file: Path, reader: "ClusterLinkReader", target_id: str
) -> Origin:
    from drctl.offsets.snapshot import renamed, restored

    link, wanted = reader.link, restored(snapshot)
    description = f"snapshot {file} of {snapshot.cluster}, {snapshot.taken:%Y-%m-%d %H:%M:%S} UTC"
    notes = [
        f"the snapshot has no group {name}: {why}" for name, why in snapshot.unavailable.items()
    ]
    if snapshot.cluster_id != target_id:
        if not _of_source(snapshot, reader):
            raise Refused(
                f"the snapshot is of cluster {snapshot.cluster} ({snapshot.cluster_id}), not of"
                f" {link.target} ({target_id}): its offsets refer to other records there",
                "translate them with `drctl offsets apply --link`; apply a snapshot only to the"
                " cluster that it was taken of (--cluster), or over a link of kind"
                " offset-preserving",
            )
        wanted = renamed(wanted, link.carries_group, link.carries, link.target_topic)
        notes.append("the link preserves offsets: source offsets are used")
    return Origin(wanted, description, tuple(notes))


def _of_source(snapshot: "Snapshot", reader: "ClusterLinkReader") -> bool:
    """Whether the snapshot is of the source of a link that preserves offsets.

    Compares names instead of ids if the source is unreachable.
    """
    link = reader.link
    if link.settings.replicator.kind != "offset-preserving":
        return False
    try:
        return snapshot.cluster_id == reader.cluster_reader(link.source).cluster_id()
    except Unreachable:
        return snapshot.cluster == link.source


def planned(
    reader: "ClusterLinkReader",
    cluster: str,
    origin: Origin,
    overrides: Mapping[str, str],
    written_to: str = "",
) -> "ApplyPlan":
    """Plan the commits, with the results of prechecks.

    Args:
        written_to: the id of the cluster that an undone run wrote to; empty if unknown or no run
            is undone.

    Raises:
        Refused: the cluster has another id.
        Unreachable: it did not answer.
    """
    from drctl.steps.apply_offsets import checked_plan

    identity = reader.cluster_reader(cluster).cluster_id()
    if written_to not in ("", identity):
        raise Refused(
            f"the run wrote to cluster id {written_to}, but {cluster} has id {identity} now",
            "use the drctl.yaml of that run",
        )
    return checked_plan(
        origin.wanted,
        cluster,
        reader,
        overrides=overrides,
        unproven=reader.config.policy.commits_unproven,
        origin=origin.description,
        notes=origin.notes,
    )


@dataclass(frozen=True, slots=True)
class Undoable:
    """A run that committed offsets.

    Attributes:
        cluster: the cluster that it wrote to.
        cluster_id: the id of that cluster at the time; empty if the run did not record it.
        origin: the previous offsets.
        ended: whether the run has ended.
    """

    run: str
    link: "Link"
    cluster: str
    cluster_id: str
    origin: Origin
    ended: bool


def undoable(config: "Config", run: str | None, link: str | None, cluster: str | None) -> Undoable:
    """The run of this name, or the newest run of `offsets apply` that may have changed offsets.

    Raises:
        UsageError: there is no such run, or it changed no offset.
        Unknown: its journal cannot be read, or is damaged.
    """
    from drctl.engine.run_state import read_run

    files = run_adapters.run_files(config)
    if run is None and link is None and cluster is None:
        run = next(filter(None, (_applied(files, name) for name in files.runs())), None)
    over = run_journal.scope(config, run, link, cluster)
    reader = run_journal.reading(config, over, run)
    names = (_applied(reader, name) for name in reader.runs())
    chosen = run or next(filter(None, names), None)
    if chosen is None:
        raise UsageError(f"no run to undo for {over.name}", "to list runs: drctl journal")
    found = undo_of(read_run(reader.entries(chosen)), over)
    if not found.origin.wanted:
        raise UsageError(f"run {chosen} committed no offset", "to list runs: drctl journal")
    reader.must_be_signed(chosen)
    return found


def _applied(reader: "JournalReader", run: str) -> str | None:
    """The run, if it is one of `offsets apply` that may have changed offsets."""
    from drctl.engine.run_state import read_run
    from drctl.plans.single_step import OFFSETS_APPLY

    with suppress(DrctlError):
        state = read_run(reader.entries(run))
        if state.plan.name == OFFSETS_APPLY and any(
            each.intent.get("lines") for each in state.effects
        ):
            return run
    return None


def undo_of(state: "RunState", link: "Link") -> Undoable:
    """The offsets that restore what a run may have changed.

    The run may not have made every commit that it recorded; unchanged offsets are skipped later.

    Raises:
        DamagedJournal: an intent is not in the format that drctl writes.
    """
    from drctl.engine.run_state import decoding
    from drctl.offsets.applying import Wanted, Written
    from drctl.offsets.results import Change, Place
    from drctl.steps.apply_offsets import ApplyOffsets
    from drctl.steps.commit_offsets import CommitOffsets

    kinds = {kind.name: kind for kind in (ApplyOffsets(), CommitOffsets())}
    changes: dict[Place, Change] = {}
    cluster = state.plan.target
    with decoding(state.run):
        for effect in state.effects:
            kind = kinds.get(state.plan.step(effect.step).kind)
            if kind is None or effect.undone:
                continue
            intent = kind.read_intent(effect.intent)
            cluster = intent.cluster
            for change in intent.lines:
                # After a crash the same offset may be changed again: restore the first value.
                first = changes.get(change.place, change)
                changes[change.place] = change._replace(before=first.before)
    wanted = tuple(
        Wanted(each.group, each.partition, each.before, undoes=Written(each.to))
        for each in changes.values()
    )
    notes = () if state.status else ("the run has not finished",)
    origin = Origin(wanted, f"undo of run {state.run}", notes)
    identity = state.plan.basis.get(f"cluster {cluster}", "")
    return Undoable(state.run, link, cluster, identity, origin, bool(state.status))
