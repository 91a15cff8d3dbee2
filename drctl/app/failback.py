"""What the steps of a failback read and change in the real systems of one link."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app import adapters, reconcile_adapters, run_adapters
from drctl.app.link_reader import ClusterLinkReader
from drctl.app.link_writer import ClusterLinkWriter
from drctl.app.notices import notices
from drctl.app.operation import Operation
from drctl.app.plan_inputs import connector_names
from drctl.app.prechecks import logs_of_copies, run_prechecks
from drctl.app.reconcile import Opened, ReconcileOptions, execute, opened, progress_of, require_done
from drctl.checks.bounded_query import BoundedQuery
from drctl.engine.failback_state import OutstandingAction, ReconcileRequest, Reconciliation, Search
from drctl.engine.kind import Trait
from drctl.engine.run_state import RunState
from drctl.model.errors import ConfigError, Unreachable
from drctl.model.text import plural
from drctl.model.typed_json import read_as
from drctl.plans.failback import OFFSET_PRESERVING, is_failback
from drctl.reconcile.policy import Action
from drctl.reconcile.prechecks import Precheck
from drctl.steps import commit_offsets
from drctl.steps import failback as failback_steps
from drctl.steps.commit_offsets import CommitFacts, CommitOffsets, VerifyGroups
from drctl.steps.failback import FAILBACK_MODE, ResolveFacts, ResolveOutstanding
from drctl.steps.registry import KINDS

if TYPE_CHECKING:
    from drctl.app.notices import Prompts
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.failback.answer import Answer
    from drctl.failback.blockers import Terms
    from drctl.failback.facts import Facts
    from drctl.failback.observing import Results
    from drctl.failback.ports import FailbackPorts
    from drctl.failback.suggested_commands import CommandContext
    from drctl.model.finding import Finding
    from drctl.model.producer_ids import Producers
    from drctl.model.topology import TopicPartition, Unavailable
    from drctl.offsets.applying import Translated, Wanted
    from drctl.reconcile.policy import Policies
    from drctl.reconcile.prechecks import Blocker


@dataclass(slots=True)
class FailbackReader(ClusterLinkReader):
    """Reads for a failback; its link goes from the surviving cluster to the recovered one."""

    @property
    def old(self) -> "Link":
        """The link in its configured direction."""
        return self.reversed().link

    def search_result(self) -> Search:
        """The records that only the recovered cluster has, by content.

        Raises:
            Refused: the result cannot be used.
            Unknown: not everything could be compared.
        """
        from drctl.app.failback_search import searched

        return searched(self.config, self.old)

    def reconciliation(self, request: ReconcileRequest) -> Reconciliation:
        """The progress of reconciling the records of a search.

        Raises:
            Refused: they cannot be reconciled.
            Unknown: the result is on another host, and the new comparison is incomplete.
        """
        return reconciliation(self.config, self.old, request)

    def outstanding(self) -> Sequence[OutstandingAction]:
        """Outstanding actions of the last completed failback and of later runs, newest first.

        Raises:
            Unreachable: the journal did not answer.
        """
        from drctl.engine.run_state import run_states

        link = self.old
        reader = run_adapters.journal_reader(link)
        return outstanding_since_failback(run_states(reader))

    def translated(self) -> "Translated":
        """Target offsets at which no group skips a record that it has not read.

        Raises:
            Unreachable: a cluster did not answer.
        """
        # `super()` does not work here: `slots=True` replaces the class.
        found = ClusterLinkReader.translated(self)
        if self.link.settings.replicator.kind == OFFSET_PRESERVING:
            # A copy has the same offset on both clusters.
            return found
        return found._replace(wanted=self._before_unread_copies(found.wanted))

    def _before_unread_copies(self, wanted: "tuple[Wanted, ...]") -> "tuple[Wanted, ...]":
        from drctl.failback import unread_copies as copies

        surviving, recovered = self.link.source, self.link.target
        source_id = self.cluster_reader(recovered).cluster_id()
        with reconcile_adapters.reconcile_topic(self.old) as topic:
            last = copies.last_copies(topic.kept(), source_id)
        if not last:
            return wanted
        committed = self.groups(surviving).committed(sorted({each.group for each in wanted}))
        since = copies.unread_from(last, committed)
        far = frozenset(p for p, at in since.items() if last[p] - at > copies.MOST)
        near = {place: at for place, at in since.items() if place not in far}
        reader, source_topic = self.cluster_reader(surviving), self.link.target_topic
        found = copies.find_copies(reader, near, last, source_id, source_topic)
        copied = copies.CopiedRecords(last, found, far)
        return copies.held_back(wanted, committed, copied, self.link.source_topic)


def failback_reader(
    config: "Config", link: "Link", prompts: "Prompts", policies: "Policies | None" = None
) -> ClusterLinkReader:
    """The reader for the failback of a link.

    Args:
        policies: what to do with records that only the recovered cluster has; None if the
            prechecks do not require policies.

    Raises:
        ConfigError: the reverse replication is not configured.
    """
    from drctl.config.reverse_link import both_sites, reversed_link

    links = tuple(map(config.link, config.links))
    if (other := both_sites(link, links)) is not None:
        from drctl.app.both_sites import both_sites_reader

        return both_sites_reader(config, link, other, prompts, policies)
    back = reversed_link(link, links)
    prechecks = partial(_prechecks, policies)
    return FailbackReader(
        config,
        back,
        prechecks,
        prompts,
        opposite=ClusterLinkReader(config, link, run_prechecks, prompts),
    )


def failback_writer(config: "Config", reader: ClusterLinkReader, folder: Path) -> ClusterLinkWriter:
    """The writer for the failback of a link."""
    from drctl.app.both_sites import SiteReader, both_sites_writer

    if isinstance(reader, SiteReader):
        return both_sites_writer(reader, folder)
    old = ClusterLinkWriter(config, reader.reversed().link, folder, reader.reversed().commands)
    return ClusterLinkWriter(config, reader.link, folder, reader.commands, old)


def prechecks_of(
    reader: ClusterLinkReader,
    mode: str,
    plan_mode: str,
    terms: "Callable[[ClusterLinkReader, Terms], Terms]" = lambda _, terms: terms,
) -> "Sequence[Finding]":
    """Run the prechecks of a failback.

    Args:
        plan_mode: the mode of the prechecks for the failback as a whole.
        terms: adds options of the command to the terms in drctl.yaml.
    """
    if mode != plan_mode:
        return run_prechecks(reader, mode)
    from drctl.failback.answer import answer
    from drctl.failback.blockers import against

    found = answer(look_at(reader.config, reader.reversed().link, None))
    known = terms(reader, _terms(reader, found))
    # A rebuilt cluster has no producer state.
    conflicts = () if known.rebuilding else producer_id_conflicts(reader, found.seen.facts)
    return (*against(found, known), *conflicts, *other_links(reader))


def _prechecks(
    policies: "Policies | None", reader: ClusterLinkReader, mode: str
) -> "Sequence[Finding]":
    return prechecks_of(
        reader, mode, FAILBACK_MODE, lambda _, terms: replace(terms, policies=policies)
    )


def producer_id_conflicts(reader: ClusterLinkReader, facts: "Facts") -> "tuple[Finding, ...]":
    """Check for producer ids that are in use on both clusters.

    Args:
        reader: the reader for the failback, from the surviving cluster to the recovered one.
        facts: the facts of the link in its configured direction.
    """
    from drctl.failback.facts import Cluster

    recovered, surviving = facts.on_source, facts.on_target
    if not (isinstance(recovered, Cluster) and isinstance(surviving, Cluster)):
        return ()
    return colliding_ids(reader, surviving.logs, recovered.logs)


def colliding_ids(
    reader: ClusterLinkReader,
    surviving: "Collection[TopicPartition]",
    recovered: "Collection[TopicPartition]",
) -> "tuple[Finding, ...]":
    """Check for producer ids that are in use on both clusters, in these partitions."""
    from drctl.checks.observed import Observed
    from drctl.checks.source import collide

    link = reader.link
    return collide.findings(
        Observed(
            link,
            source_producers=_in_use(reader, link.source, surviving),
            target_producers=_in_use(reader, link.target, recovered),
        )
    )


def _in_use(
    reader: ClusterLinkReader, cluster: str, places: "Collection[TopicPartition]"
) -> "Producers | Unavailable":
    from drctl.model.topology import Unavailable

    try:
        return reader.producer_ids(cluster).in_use(list(places))
    except (Unreachable, ConfigError) as error:
        return Unavailable(error.message)


_CONNECT_S = 20.0


def other_links(reader: ClusterLinkReader) -> "tuple[Finding, ...]":
    """Other links that replicate between the two clusters."""
    from drctl.failback.blockers import OtherLink, other_links

    this = reader.reversed().link
    others = [
        each
        for each in map(reader.config.link, reader.config.links)
        if {each.source, each.target} == {this.source, this.target} and each.name != this.name
    ]
    # The failback itself checks the connectors of its link.
    checked = {*connector_names(this), *connector_names(reader.link)}
    found = []
    for link in others:
        client = adapters.connect_of(link)
        if client is not None:
            known = BoundedQuery(client.all, _CONNECT_S).answer()
            rest = tuple(name for name in connector_names(link) if name not in checked)
            found.append(OtherLink(link.name, link.source, link.target, rest, known))
    return tuple(other_links(found))


def _terms(reader: ClusterLinkReader, found: "Answer") -> "Terms":
    """The terms of the failback in drctl.yaml."""
    from drctl.config.fields import for_commands
    from drctl.failback.blockers import Terms
    from drctl.failback.facts import Cluster

    replicator, target = reader.link.settings.replicator, found.seen.facts.on_target
    beside = target.beside if isinstance(target, Cluster) else ()
    links = list(map(reader.config.link, reader.config.links))
    ends = (reader.link.source, reader.link.target)
    others = [each for each in links if (each.source, each.target) == ends]
    return Terms(
        connector_names(reader.link) if replicator.connect else (),
        frozenset(p.topic for p in beside if any(each.carries(p.topic) for each in others)),
        connect=for_commands(replicator.connect),
    )


def known_overrides(given: Sequence[str]) -> Mapping[str, str]:
    """Parse overrides, `PRECHECK=REASON`, of prechecks that a failback may override.

    Raises:
        UsageError: there is no such precheck, or no reason is given.
    """
    from drctl.checks.diagnosis import checked_overrides
    from drctl.offsets.applying import OVERRIDABLE

    return checked_overrides(given, (*OVERRIDABLE, *failback_steps.OVERRIDABLE))


FAILBACK = Operation(
    lambda config, link, prompts, _lost: failback_reader(config, link, prompts),
    failback_writer,
    known_overrides,
    lambda _plan: FAILBACK_MODE,
)
"""A failback to a recovered source cluster."""


def failback_with(policies: "Policies") -> Operation:
    """A failback with policies for the records that only the recovered cluster has."""
    return replace(
        FAILBACK, reader=lambda c, link, prompts, _: failback_reader(c, link, prompts, policies)
    )


def outstanding_since_failback(run_states: Iterable[RunState]) -> Sequence[OutstandingAction]:
    """Outstanding actions of the last completed failback and of later runs.

    That failback resolved older actions, or kept them.

    Args:
        run_states: the states of runs, newest first; read only as far as needed.
    """
    found: list[OutstandingAction] = []
    for state in run_states:
        if state.status:
            found += _outstanding_of(state)
        if is_failback(state.plan.steps) and state.status == "done":
            break
    return found


def _outstanding_of(state: RunState) -> Iterator[OutstandingAction]:
    for step, what in state.outstanding.items():
        kind, facts = state.plan.step(step).kind, state.facts.get(step, {})
        if kind == ResolveOutstanding.name:
            # Actions of earlier runs that it could not resolve.
            yield from read_as(ResolveFacts, facts).kept
            continue
        known = KINDS.get(kind)
        fences = known is not None and Trait.FENCES_WRITES in known.traits
        groups: set[str] = set()
        if kind == CommitOffsets.name and facts:
            left_out = read_as(CommitFacts, facts).left_out
            groups = {row.partition(" ")[0].rstrip(":") for row in left_out}
        elif kind == VerifyGroups.name and facts:
            groups = set(read_as(commit_offsets.VerifyFacts, facts).wrong_groups)
        ends = (state.plan.source, state.plan.target)
        yield OutstandingAction(state.run, what, kind, *ends, fences, tuple(sorted(groups)))


_MOVED = "applications keep writing during a failback; order on the source is not affected"


def reconciliation(config: "Config", link: "Link", request: ReconcileRequest) -> Reconciliation:
    """The progress of reconciling the records of a search.

    If the result is on another host, the target is asked first whether all records are done: a new
    comparison would find quarantined and discarded records a second time.

    Args:
        link: the link in its configured direction, from the recovered to the surviving cluster.

    Raises:
        Refused: the result is of other clusters, or cannot be used.
        Unknown: not everything could be compared.
    """
    if not _is_here(request) and (done := _recorded(link, request)):
        return Reconciliation(0, done=done)
    with opened(_options(config, _folder(config, link, request), request), lambda: config) as found:
        progress = progress_of(found)
        refused = (*_refused(found, request), *_left_out(found))
        blocked = tuple(map(_reason, found.plan.blocked)) if progress.due else ()
        newer = sum(found.plan.appended.newer.values())
        return replace(progress, refused=(*refused, *blocked), newer=newer)


def reconcile(config: "Config", link: "Link", request: ReconcileRequest) -> None:
    """Reconcile the records of a search.

    Raises:
        Stopped: some records are not reconciled.
        Unknown: it is unknown what was done, or not everything could be compared.
    """
    with opened(_options(config, _folder(config, link, request), request), lambda: config) as found:
        if found.plan.writes:
            require_done(execute(found))


def _is_here(request: ReconcileRequest) -> bool:
    """Whether the search's result is on this host."""
    return (Path(request.folder) / "gap.json").is_file()


def _recorded(link: "Link", request: ReconcileRequest) -> Mapping[str, int]:
    """The number of records by action, if the target has recorded that all are done; else empty."""
    with reconcile_adapters.reconcile_topic(link) as topic:
        recorded = topic.kept()
    done: Counter[str] = Counter()
    for key, progress in recorded.items():
        if key.result == request.result:
            for each in progress.segments:
                done[each.action.value] += each.records + each.gone
    return done if done.total() == request.records else {}


def _folder(config: "Config", link: "Link", request: ReconcileRequest) -> Path:
    """The folder of the search's result; on another host the comparison is repeated.

    Records that were copied in the meantime are no longer missing, so none is copied twice.
    """
    folder = Path(request.folder)
    if _is_here(request):
        return folder
    from drctl.app.failback_search import found_here

    notices().detail(f"result of the comparison: {folder}: not on this host")
    await_transactions(link)
    return found_here(config, link)


def _options(config: "Config", folder: Path, request: ReconcileRequest) -> ReconcileOptions:
    """Copy safe records although new records follow, unless the copies would stay out of order.

    Copies would stay out of order in compacted topics; if policy.order is per-partition, in all.
    """
    ordered = config.file.policy.order == "per-partition"
    return ReconcileOptions(
        folder,
        request.policy,
        request.topics,
        Action(request.conflicting),
        overrides={} if ordered else {Precheck.TARGET_MOVED: _MOVED},
        undecided=True,
        known_as=request.result,
        spares_compacted=True,
    )


def _reason(blocker: "Blocker") -> str:
    if blocker.precheck is not Precheck.TARGET_MOVED:
        return blocker.reason
    return (
        f"{blocker.place}: {blocker.reason}. A failback copies them only if the topic is not"
        " compacted and policy.order is per-key or none: start again with --policy quarantine"
    )


def _refused(found: Opened, request: ReconcileRequest) -> Iterator[str]:
    refused: Counter[tuple[str, str]] = Counter()
    for line in found.plan.refused:
        refused[line.record_set.order.value, line.reason] += line.due.records
    if refused and request.policy is None and not request.topics:
        yield f"no policy for {plural(refused.total(), 'record')}"
        return
    for (order, reason), number in sorted(refused.items()):
        yield f"{number:,} {order}: {reason}"


def _left_out(found: Opened) -> Iterator[str]:
    if found.plan.left_out:
        yield f"no policy for {plural(found.plan.left_out, 'record')} of other topics"


_ABORT_INTERVAL_S = 10.0
"""The default of transaction.abort.timed.out.transaction.cleanup.interval.ms."""
_PAUSE_S = 0.5


def await_transactions(link: "Link") -> None:
    """Wait until every transaction on a link's target is committed or aborted.

    Waits as long as a transaction of drctl may stay open. A transaction that is open longer is not
    drctl's, and the following comparison reports that its records could not be read.

    Raises:
        Unreachable: the target did not answer.
    """
    lifetime_s = reconcile_adapters.transaction_lifetime_s()
    until = time.monotonic() + lifetime_s + 2 * _ABORT_INTERVAL_S
    with (
        adapters.reader(link.target, link.target_config).topics as target,
        notices().task("checking for open transactions") as task,
    ):
        wanted = {place: log.end for place, log in logs_of_copies(link, target).items()}
        while time.monotonic() < until:
            now = logs_of_copies(link, target)
            # A partition that cannot be read may have an open transaction.
            waiting = [p for p, end in wanted.items() if p not in now or now[p].last_stable < end]
            if not waiting:
                return
            what = "a transaction is open in" if waiting[0] in now else "no broker answers for"
            left = f"waiting up to {max(0.0, until - time.monotonic()):.0f} s"
            task.update(description=f"{what} {waiting[0]} of {link.target}: {left}")
            time.sleep(_PAUSE_S)


_PROBES_S = 60.0


def look_at(config: "Config", link: "Link", gap: Path | None, most: int | None = None) -> "Facts":
    """Read everything about the failback of a link.

    Args:
        most: the maximum number of records to read of each kind; None for a quick check.

    Raises:
        UsageError: the given folder has no result of `drctl gap`.
    """
    from drctl.failback.observers.copies import QUICK_LIMIT
    from drctl.failback.observing import FailbackObserver

    most = QUICK_LIMIT if most is None else most
    results = _results(config, link, gap)
    with _ports(config, link) as ports, notices().task("checking both clusters and Connect"):
        # In parallel, so that the timeouts of unreachable systems do not add up.
        probes = BoundedQuery(lambda: adapters.probe_clusters(link), _PROBES_S)
        facts = FailbackObserver(link, config.policy, ports, most=most).observe(results)
        probes.value()
        return facts


def _results(config: "Config", link: "Link", gap: Path | None) -> "Results":
    from drctl.config.reverse_link import name_of
    from drctl.failback.observing import Results
    from drctl.views.exports import results_exported

    forward = (
        (reconcile_adapters.named(gap),)
        if gap
        else reconcile_adapters.kept(config.state_dir, link.name)
    )
    names = filter(None, (_reverse_link(config, link), name_of(link)))
    found = (each for name in names for each in reconcile_adapters.kept(config.state_dir, name))
    # A link between other clusters may have the same name as the reversed link.
    reverse = (each for each in found if (each.source, each.target) == (link.target, link.source))
    newest = sorted(reverse, key=lambda each: each.started, reverse=True)
    return Results(forward, tuple(newest), results_exported(config.state_dir))


def _reverse_link(config: "Config", link: "Link") -> str | None:
    """The name of the configured link in the reverse direction, if neither renames topics."""
    from drctl.config.fields import UNCHANGED
    from drctl.config.reverse_link import opposite

    found = opposite(link, map(config.link, config.links))
    both = (link, found) if found else ()
    kept = all(each.settings.replicator.rename == UNCHANGED for each in both)
    return found.name if found and kept else None


@contextmanager
def _ports(config: "Config", link: "Link") -> "Iterator[FailbackPorts]":
    from drctl.config.mirrors import brokers
    from drctl.failback.ports import FailbackPorts

    source, target = (
        brokers(adapters.revealed(each)["bootstrap.servers"])
        for each in (link.source_config, link.target_config)
    )
    with (
        ClusterLinkReader(config, link, run_prechecks) as reader,
        adapters.reader(link.source, link.source_config).health as health,
        reconcile_adapters.reconcile_topic(link) as decisions,
    ):
        yield FailbackPorts(
            reader,
            health,
            adapters.connect_of(link),
            adapters.reverse_connect_of(link),
            (source, target),
            run_adapters.journal_reader(link),
            run_adapters.run_files(config),
            decisions.kept,
        )


def command_context(config: "Config", link: "Link", answer: "Answer") -> "CommandContext":
    """The context for suggested command lines."""
    from drctl.failback.suggested_commands import CommandContext

    return CommandContext(link, answer.seen, _reverse_link(config, link))
