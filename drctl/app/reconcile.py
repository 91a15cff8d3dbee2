"""Reconciling the records that a gap result lists: both clusters opened, a plan, carried out."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from drctl.app import adapters, reconcile_adapters
from drctl.app.notices import notices
from drctl.model.errors import DrctlError, Interrupted, Refused, UsageError
from drctl.reconcile.policy import POLICIES, Action

if TYPE_CHECKING:
    from drctl.app.reconcile_adapters import ReconcileTopic
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.ports import ClusterReader
    from drctl.reconcile.cluster_state import ClusterStates
    from drctl.reconcile.executing import Execution
    from drctl.reconcile.gap_result import Exporter, FoundGap, WantedRows
    from drctl.reconcile.planning import ReconcilePlan
    from drctl.reconcile.policy import Policies
    from drctl.reconcile.progress import Kept
    from drctl.reconcile.results import ReconcileResult


@dataclass(frozen=True, slots=True)
class ReconcileOptions:
    """What becomes of the records of a result.

    Attributes:
        undecided: whether nothing may be said of the records: they are refused then.
        known_as: the id of the result that this one was made again for; what was done by that one
            is done. Empty where it stands for itself.
        spares_compacted: whether `target-moved` is not overridden where the target's topic is
            compacted.
    """

    folder: Path
    policy: str | None
    topics: tuple[str, ...]
    conflicting: Action
    out: Path | None
    overrides: tuple[str, ...]
    undecided: bool = False
    known_as: str = ""
    spares_compacted: bool = False


class MakePlan(Protocol):
    """Makes the plan, as both clusters are now."""

    def __call__(self, kept: "Kept", *, last: bool) -> "tuple[ReconcilePlan, ClusterStates]":
        """Hold it against this progress.

        Args:
            last: whether records are written next.
        """


@dataclass(frozen=True, slots=True)
class Opened:
    """What a run has at hand.

    Attributes:
        plan: as things stand now.
    """

    plan: "ReconcilePlan"
    given: ReconcileOptions
    config: "Config"
    link: "Link"
    gap: "FoundGap"
    rows: "WantedRows"
    topic: "ReconcileTopic"
    target: "ClusterReader"
    make: "MakePlan"


@contextmanager
def opened(given: ReconcileOptions, configuration: "Callable[[], Config]") -> "Iterator[Opened]":
    """The gap result and both clusters, looked at.

    Raises:
        UsageError: what is given does not go together, or there is no such result.
        Refused: the result is of other clusters.
    """
    from drctl.reconcile.gap_result import read_gap
    from drctl.reconcile.guards import parse_overrides
    from drctl.reconcile.policy import check_names

    overrides = parse_overrides(given.overrides)
    _policies(given, per_partition=False)
    gap = read_gap(document_of(given.folder), str(given.folder))
    gap = replace(gap, id=given.known_as or gap.id)
    config = configuration()
    policies = _policies(given, per_partition=config.file.policy.order == "per-partition")
    check_names(policies, gap.topics)
    link = config.link(gap.link)
    with (
        adapters.both_readers(link) as (source, target),
        reconcile_adapters.reconcile_topic(link) as topic,
        notices().task("reading the gap result") as task,
        reconcile_adapters.wanted_rows(gap, given.folder) as rows,
    ):
        growth = reconcile_adapters.target_growth(
            link,
            gap,
            rows,
            lambda done, total: task.update(
                done, total, f"looking through what came to {link.target}"
            ),
            per_partition=policies.per_partition,
        )

        def make(kept: "Kept", *, last: bool) -> "tuple[ReconcilePlan, ClusterStates]":
            from drctl.reconcile.cluster_state import look
            from drctl.reconcile.guards import check_clusters
            from drctl.reconcile.planning import build_plan, compacted, with_growth

            task.update(description="looking at both clusters")
            chosen = [p for p in gap.partitions if policies.chooses(p.place.topic)]
            sight = look(source, target, chosen)
            check_clusters(gap, sight)
            plan = build_plan(gap, policies, rows, sight, kept, overrides)
            spared = compacted(gap, sight) if given.spares_compacted else ()
            return with_growth(plan, growth.look(plan, sight, last=last), spared), sight

        plan, _ = make(topic.kept(), last=False)
        yield Opened(plan, given, config, link, gap, rows, topic, target, make)


def _policies(given: ReconcileOptions, *, per_partition: bool) -> "Policies":
    from drctl.reconcile.policy import Policies, parse_policies

    if given.undecided and given.policy is None and not given.topics:
        return Policies(Action.REFUSE, {}, given.conflicting, per_partition)
    return parse_policies(
        _policy(given.policy), given.topics, given.conflicting, per_partition=per_partition
    )


def _policy(name: str | None) -> Action | None:
    if name is None:
        return None
    if name not in list(POLICIES):
        raise UsageError(f"there is no policy {name!r}", f"there are: {', '.join(POLICIES)}")
    return Action(name)


def document_of(folder: Path) -> str:
    """The text of its `gap.json`.

    Raises:
        UsageError: there is none.
    """
    try:
        return (folder / "gap.json").read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        raise UsageError(
            f"{folder} holds no gap result: there is no gap.json that can be read",
            "give the folder that `drctl gap` left; it writes gap.json last",
        ) from None


def carried_out(
    opened: Opened, confirm: "Callable[[ReconcilePlan], None]", again: str = ""
) -> "ReconcileResult":
    """Carry the plan out, once `confirm` has let it pass.

    Args:
        again: the command line that continues an interrupted run; empty where there is none.

    Raises:
        Refused: something moved since the plan was made.
        DrctlError: it could not be begun.
    """
    from drctl.reconcile import results as journals

    plan = opened.plan
    confirm(plan)
    began = datetime.now(UTC)
    run = began.strftime("%Y%m%dT%H%M%S.%fZ")
    with reconcile_adapters.journal(opened.config, run) as journal, ExitStack() as stack:
        copier = None
        if plan.recorded or plan.noted:
            _make_topics(plan, opened.topic)
            copier = stack.enter_context(reconcile_adapters.copier(opened.link))
        # Whoever wrote before is fenced now: what counts, counts for good.
        kept = opened.topic.settled() if copier else opened.topic.kept()
        plan, sight = opened.make(kept, last=True)
        if plan.blocked:
            moved = "something moved since the plan was made: " + plan.blocked[0].reason
            raise Refused(moved, "see the plan anew: run it without --execute")
        journal.append([journals.began(run, plan, began)])
        task = stack.enter_context(notices().task("reconciling"))
        from drctl.reconcile.executing import Execution

        execution = Execution(
            plan,
            opened.rows,
            reconcile_adapters.source_log(opened.link),
            sight,
            copier,
            _exporter(opened),
            journal,
            time.monotonic,
            lambda done, total: task.update(done=done, total=total),
        )
        result = replace(_ended(execution, opened, again), run=run, journal=journal.where)
        ended = datetime.now(UTC)
        journal.append([*journals.outcomes(result.results), journals.ended(result.status, ended)])
        return replace(result, seconds=(ended - began).total_seconds())


def _ended(execution: "Execution", opened: Opened, again: str) -> "ReconcileResult":
    """Run it; how every line ended is read back, also where it stopped early."""
    from drctl.reconcile.executing import judged
    from drctl.reconcile.results import ReconcileResult

    failed: DrctlError | None = None
    try:
        execution.run()
    except DrctlError as error:
        failed = error
    except KeyboardInterrupt:
        message = "interrupted: what is committed counts, nothing else was written"
        raise Interrupted(message, again and f"to continue where it stopped: {again}") from None
    results = judged(
        execution,
        opened.topic.settled,
        opened.target.offsets,
        failed.message if failed else "",
    )
    return ReconcileResult(
        execution.plan,
        results=results,
        gone=execution.gone,
        exported=execution.exported,
        failure=failed.message if failed else "",
        hint=failed.hint if failed else "",
        failure_code=failed.exit_code if failed else None,
    )


def _make_topics(plan: "ReconcilePlan", topic: "ReconcileTopic") -> None:
    """Those of ours; topics of applications are never made."""
    topic.make()
    quarantines = {
        line.to: line.target_topic for line in plan.recorded if line.action is Action.QUARANTINE
    }
    for name, like in quarantines.items():
        topic.make_quarantine(name, like, _partitions(plan, like))


def _partitions(plan: "ReconcilePlan", target_topic: str) -> int:
    """As many as the source has."""
    numbers = [p.place.partition for p in plan.gap.partitions if p.target_topic == target_topic]
    return max(numbers, default=0) + 1


def _exporter(opened: Opened) -> "Exporter":
    from drctl.views.exports import exports_of

    if opened.given.out is not None:
        return reconcile_adapters.exporter(opened.given.out, opened.gap)
    folder = exports_of(opened.config.state_dir, opened.gap.id)
    return reconcile_adapters.exporter(folder, opened.gap, beside=True)
