"""What the steps of a failback read and change, over the real systems of one link."""

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
from drctl.app.prechecks import judged, logs_of_copies
from drctl.app.reconcile import (
    Opened,
    ReconcileOptions,
    carried_out,
    must_be_done,
    opened,
    standing,
)
from drctl.checks.bounded_query import BoundedQuery
from drctl.engine.failback_state import OutstandingAction, ReconcileRequest, Reconciliation, Search
from drctl.engine.kind import Trait
from drctl.engine.run_state import RunState
from drctl.model.errors import ConfigError, Unreachable
from drctl.model.typed_json import read_as
from drctl.plans.failback import OFFSET_PRESERVING, is_failback
from drctl.reconcile.policy import Action
from drctl.reconcile.prechecks import Precheck
from drctl.steps import commit_offsets
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
        """The link as it was, and will be again."""
        return self.reversed().link

    def search_result(self) -> Search:
        """What only the recovered cluster has, by content.

        Raises:
            Refused: what was found cannot be rested on.
            Unknown: not everything could be compared.
        """
        from drctl.app.failback_search import searched

        return searched(self.config, self.old)

    def reconciliation(self, wish: ReconcileRequest) -> Reconciliation:
        """How decisions on the records of a search stand.

        Raises:
            Refused: they cannot be acted upon.
            Unknown: the result is elsewhere, and not everything could be compared.
        """
        return reconciliation(self.config, self.old, wish)

    def outstanding(self) -> Sequence[OutstandingAction]:
        """Outstanding actions since the last finished failback, and what that left, newest first.

        Raises:
            Unreachable: the journal did not answer.
        """
        from drctl.engine.run_state import run_states

        link = self.old
        reader = run_adapters.journal_reader(link)
        return outstanding_since_failback(run_states(reader))

    def translated(self) -> "Translated":
        """Target offsets of groups: before every record that they have not read.

        Raises:
            Unreachable: a cluster did not answer.
        """
        # A dataclass with slots is another class than the one that `super()` looks for.
        found = ClusterLinkReader.translated(self)
        if self.link.settings.replicator.kind == OFFSET_PRESERVING:
            # A copy has the same offset on both clusters.
            return found
        return found._replace(wanted=self._held_back(found.wanted))

    def _held_back(self, wanted: "tuple[Wanted, ...]") -> "tuple[Wanted, ...]":
        from drctl.failback import unread_copies as copies

        survivor, home = self.link.source, self.link.target
        source_id = self.cluster_reader(home).cluster_id()
        with reconcile_adapters.reconcile_topic(self.old) as topic:
            last = copies.last_copies(topic.kept(), source_id)
        if not last:
            return wanted
        stands = self.groups(survivor).committed(sorted({each.group for each in wanted}))
        since = copies.unread_from(last, stands)
        far = frozenset(p for p, at in since.items() if last[p] - at > copies.MOST)
        near = {place: at for place, at in since.items() if place not in far}
        reader, source_topic = self.cluster_reader(survivor), self.link.target_topic
        found = copies.find_copies(reader, near, last, source_id, source_topic)
        copied = copies.CopiedRecords(last, found, far)
        return copies.held_back(wanted, stands, copied, self.link.source_topic)


def failback_reader(
    config: "Config", link: "Link", asked: "Prompts", policies: "Policies | None" = None
) -> FailbackReader:
    """The reader for the failback of a link.

    Args:
        policies: what is to become of records that only the recovered cluster has; None where the
            prechecks are not to ask.

    Raises:
        ConfigError: nothing says what copies back.
    """
    from drctl.config.reverse_link import reversed_link

    back = reversed_link(link, map(config.link, config.links))
    prechecks = partial(_prechecks, policies)
    return FailbackReader(
        config, back, prechecks, asked, opposite=ClusterLinkReader(config, link, judged, asked)
    )


def failback_writer(config: "Config", reader: ClusterLinkReader, folder: Path) -> ClusterLinkWriter:
    """The writer for it."""
    old = ClusterLinkWriter(config, reader.reversed().link, folder, reader.reversed().commands)
    return ClusterLinkWriter(config, reader.link, folder, reader.commands, old)


def prechecks_of(
    reader: ClusterLinkReader,
    mode: str,
    of_the_way: str,
    terms: "Callable[[ClusterLinkReader, Terms], Terms]" = lambda _, terms: terms,
) -> "Sequence[Finding]":
    """What the prechecks say.

    Args:
        of_the_way: the mode in which they are asked about the failback as a whole.
        terms: what is said of the failback beside drctl.yaml.
    """
    if mode != of_the_way:
        return judged(reader, mode)
    from drctl.failback.answer import answer
    from drctl.failback.blockers import against

    found = answer(look_at(reader.config, reader.reversed().link, None))
    known = terms(reader, _terms(reader, found))
    # Rebuilt, the recovered cluster remembers no producer.
    met = () if known.rebuilding else producer_id_conflicts(reader, found.seen.facts)
    return (*against(found, known), *met, *_other_links(reader))


def _prechecks(
    policies: "Policies | None", reader: ClusterLinkReader, mode: str
) -> "Sequence[Finding]":
    return prechecks_of(
        reader, mode, FAILBACK_MODE, lambda _, terms: replace(terms, policies=policies)
    )


def producer_id_conflicts(reader: ClusterLinkReader, facts: "Facts") -> "tuple[Finding, ...]":
    """What the precheck says now.

    Args:
        reader: for the failback, from the surviving cluster to the recovered one.
        facts: of the link as it was.
    """
    from drctl.checks.observed import Observed
    from drctl.checks.source import collide
    from drctl.failback.facts import Cluster

    home, survivor = facts.on_source, facts.on_target
    if not (isinstance(home, Cluster) and isinstance(survivor, Cluster)):
        return ()
    link = reader.link
    return collide.findings(
        Observed(
            link,
            source_producers=_in_use(reader, link.source, survivor.logs),
            target_producers=_in_use(reader, link.target, home.logs),
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


def _other_links(reader: ClusterLinkReader) -> "tuple[Finding, ...]":
    """What replicates between the two clusters beside the link."""
    from drctl.failback.blockers import OtherLink, other_links

    ours = reader.reversed().link
    others = [
        each
        for each in map(reader.config.link, reader.config.links)
        if {each.source, each.target} == {ours.source, ours.target} and each.name != ours.name
    ]
    # What copies over the link itself is looked at by the failback.
    mine = {*connector_names(ours), *connector_names(reader.link)}
    found = []
    for link in others:
        lister = adapters.connect_of(link)
        if lister is not None:
            known = BoundedQuery(lister.all, _CONNECT_S).answer()
            rest = tuple(name for name in connector_names(link) if name not in mine)
            found.append(OtherLink(link.name, link.source, link.target, rest, known))
    return tuple(other_links(found))


def _terms(reader: ClusterLinkReader, found: "Answer") -> "Terms":
    """What drctl.yaml says of the failback."""
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
    """`GUARD=REASON` as typed: those that a failback may override.

    Raises:
        UsageError: there is no such precheck, or no reason is given.
    """
    from drctl.checks.diagnosis import checked_overrides
    from drctl.offsets.applying import OVERRIDABLE

    return checked_overrides(given, (*OVERRIDABLE, *OVERRIDABLE))


HOME = Operation(
    lambda config, link, asked, _lost: failback_reader(config, link, asked),
    failback_writer,
    known_overrides,
    lambda _plan: FAILBACK_MODE,
)
"""A failback to a recovered source cluster."""


def failback_with(policies: "Policies") -> Operation:
    """The same, where somebody was to say what becomes of the records that only it has."""
    return replace(HOME, reader=lambda c, link, asked, _: failback_reader(c, link, asked, policies))


def outstanding_since_failback(run_states: Iterable[RunState]) -> Sequence[OutstandingAction]:
    """Outstanding actions of runs that ended; the last failback settled or kept what is older.

    Args:
        run_states: the newest first; no more of them are asked for than is needed.
    """
    found: list[OutstandingAction] = []
    for state in run_states:
        if state.status:
            found += _owed_by(state)
        if is_failback(state.plan.steps) and state.status == "done":
            break
    return found


def _owed_by(state: RunState) -> Iterator[OutstandingAction]:
    for step, what in state.outstanding.items():
        kind, facts = state.plan.step(step).kind, state.facts.get(step, {})
        if kind == ResolveOutstanding.name:
            # What it could not settle is still what it was.
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


def reconciliation(config: "Config", link: "Link", wish: ReconcileRequest) -> Reconciliation:
    """How decisions on the records stand; searched for again where the result is elsewhere.

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
        stands = standing(found)
        refused = (*_refused(found, wish), *_left_out(found))
        blocked = tuple(map(_reason, found.plan.blocked)) if stands.due else ()
        newer = sum(found.plan.appended.newer.values())
        return replace(stands, refused=(*refused, *blocked), newer=newer)


def reconcile(config: "Config", link: "Link", wish: ReconcileRequest) -> None:
    """Act on them.

    Raises:
        Stopped: some are not done.
        Unknown: nobody can say what was done, or not everything could be compared.
    """
    with opened(_options(config, _folder(config, link, wish), wish), lambda: config) as found:
        if found.plan.writes:
            must_be_done(carried_out(found))


def _is_here(wish: ReconcileRequest) -> bool:
    """Whether the search's result is on this machine."""
    return (Path(wish.folder) / "gap.json").is_file()


def _kept(link: "Link", wish: ReconcileRequest) -> Mapping[str, int]:
    """What the target keeps of the result, where it is all of it; else nothing."""
    with reconcile_adapters.reconcile_topic(link) as topic:
        kept = topic.kept()
    done: Counter[str] = Counter()
    for key, progress in kept.items():
        if key.result == wish.result:
            for each in progress.segments:
                done[each.action.value] += each.records + each.gone
    return done if done.total() == wish.records else {}


def _folder(config: "Config", link: "Link", wish: ReconcileRequest) -> Path:
    """Of the search's result; on another machine than that of the run it is made again.

    Records that were copied meanwhile are not missing any more: none is copied twice.
    """
    folder = Path(wish.folder)
    if _is_here(wish):
        return folder
    from drctl.app.failback_search import found_here

    notices().detail(f"result of the comparison: {folder}: not on this host")
    await_decided(link)
    return found_here(config, link)


def _options(config: "Config", folder: Path, wish: ReconcileRequest) -> ReconcileOptions:
    """What was safe is copied all the same, but where the surviving cluster keeps the disorder.

    It does in compacted topics; where the order of a whole partition counts, it is one in any case.
    """
    within = config.file.policy.order == "per-partition"
    return ReconcileOptions(
        folder,
        wish.policy,
        wish.topics,
        Action(wish.conflicting),
        overrides={} if within else {Precheck.TARGET_MOVED: _MOVED},
        undecided=True,
        known_as=wish.result,
        spares_compacted=True,
    )


def _reason(against: "Blocker") -> str:
    if against.precheck is not Precheck.TARGET_MOVED:
        return against.reason
    return (
        f"{against.place}: {against.reason}. A failback requires that copies are not"
        " compacted and policy.order is per-key or none: start again with --policy quarantine"
    )


def _refused(found: Opened, wish: ReconcileRequest) -> Iterator[str]:
    refused: Counter[tuple[str, str]] = Counter()
    for line in found.plan.refused:
        refused[line.record_set.order.value, line.reason] += line.due.records
    if refused and wish.policy is None and not wish.topics:
        yield f"no policy for {refused.total():,} records"
        return
    for (order, reason), number in sorted(refused.items()):
        yield f"{number:,} {order}: {reason}"


def _left_out(found: Opened) -> Iterator[str]:
    if found.plan.left_out:
        yield f"no policy for {found.plan.left_out:,} records of other topics"


_BROKERS_LOOK_EVERY_S = 10.0
"""transaction.abort.timed.out.transaction.cleanup.interval.ms"""
_PAUSE_S = 0.5


def await_decided(link: "Link") -> None:
    """Wait until all that has come to a link's target by now counts, or does not.

    For as long as a transaction of drctl may live; what is open then is somebody else's, and the
    comparison that follows says of it that it could not be read.

    Raises:
        Unreachable: the target did not answer.
    """
    lifetime_s = reconcile_adapters.transaction_lifetime_s()
    until = time.monotonic() + lifetime_s + 2 * _BROKERS_LOOK_EVERY_S
    with (
        adapters.reader(link.target, link.target_config).topics as target,
        notices().task("checking for open transactions") as task,
    ):
        wanted = {place: log.end for place, log in logs_of_copies(link, target).items()}
        while time.monotonic() < until:
            now = logs_of_copies(link, target)
            # One that cannot be read now is not known to be decided.
            behind = [p for p, end in wanted.items() if p not in now or now[p].last_stable < end]
            if not behind:
                return
            what = "a transaction is open in" if behind[0] in now else "no broker answers for"
            left = f"waiting for its brokers, up to {max(0.0, until - time.monotonic()):.0f} s"
            task.update(description=f"{what} {behind[0]} of {link.target}: {left}")
            time.sleep(_PAUSE_S)


_MET_S = 60.0


def look_at(config: "Config", link: "Link", gap: Path | None, most: int | None = None) -> "Facts":
    """Everything that can be seen of the failback of a link.

    Args:
        most: so many records of a kind are looked through; None: as many as a look may take.

    Raises:
        UsageError: the folder that was named holds no result of `drctl gap`.
    """
    from drctl.failback.observers.copies import QUICK_LIMIT
    from drctl.failback.observing import FailbackObserver

    most = QUICK_LIMIT if most is None else most
    results = _results(config, link, gap)
    with _ports(config, link) as ports, notices().task("checking both clusters and Connect"):
        # Nobody waits for one silent party after another: Connect is asked meanwhile.
        met = BoundedQuery(lambda: adapters.meet(link), _MET_S)
        facts = FailbackObserver(link, config.policy, ports, most=most).observe(results)
        met.value()
        return facts


def _results(config: "Config", link: "Link", gap: Path | None) -> "Results":
    from drctl.config.reverse_link import name_of
    from drctl.failback.observing import Results
    from drctl.views.exports import results_exported

    there = (
        (reconcile_adapters.named(gap),)
        if gap
        else reconcile_adapters.kept(config.state_dir, link.name)
    )
    names = filter(None, (_link_back(config, link), name_of(link)))
    back = (each for name in names for each in reconcile_adapters.kept(config.state_dir, name))
    # A link of drctl.yaml, between other clusters, may have the name of this one's failback.
    ours = (each for each in back if (each.source, each.target) == (link.target, link.source))
    newest = sorted(ours, key=lambda each: each.started, reverse=True)
    return Results(there, tuple(newest), results_exported(config.state_dir))


def _link_back(config: "Config", link: "Link") -> str | None:
    """The link in the other direction, where there is one that replicates topics back."""
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
        ClusterLinkReader(config, link, judged) as reader,
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


def site_of(config: "Config", link: "Link", answer: "Answer") -> "CommandContext":
    """What command lines need of the link."""
    from drctl.failback.suggested_commands import CommandContext

    return CommandContext(link, answer.seen, _link_back(config, link))
