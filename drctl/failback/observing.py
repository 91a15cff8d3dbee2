"""Observes the state of a failback concurrently, with a deadline for each answer.

What depends on a result of `drctl gap` is observed after both clusters have answered.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple, TypeVar

from drctl.checks.bounded_query import BoundedQuery
from drctl.config.link import Link
from drctl.config.schema import ConnectorsConfig, PolicyConfig
from drctl.failback.facts import (
    NO_WORKERS,
    NOT_LOOKED_AT,
    Cluster,
    Copies,
    Facts,
    JournaledRun,
    Replication,
)
from drctl.failback.gap_results import GapEvidence
from drctl.failback.observers.boundaries import (
    divergence,
    find_out_of_order,
    observe_boundaries,
    observe_reverse_start,
)
from drctl.failback.observers.clusters import (
    observe_fence,
    observe_groups,
    observe_source,
    observe_stopped,
    observe_target,
)
from drctl.failback.observers.copies import MOST, QUICK_LIMIT, observe_copies, observe_pending, span
from drctl.failback.observers.journal import (
    observe_decisions,
    observe_journal,
    observe_left_missing,
)
from drctl.failback.observers.records import (
    RecordIdentity,
    copied_since,
    observe_filled,
    source_mismatch,
)
from drctl.failback.observers.replication import observe_replication
from drctl.failback.ports import Ends, FailbackPorts, Workers
from drctl.failback.rebuilding import lost_records
from drctl.failback.situation import (
    clean_there,
    endpoints_point_to_source,
    is_fenced,
    located_by,
    over_the_same,
    reference,
)
from drctl.model.errors import DrctlError
from drctl.model.ports import ClusterReader
from drctl.model.topology import TopicPartition, Unavailable

T = TypeVar("T")

PATIENCE_S = 60.0
"""How long to wait for an answer; the ports have shorter deadlines."""

_NO_RESULT = Unavailable("these clusters have no result of drctl gap yet")


class Results(NamedTuple):
    """Results of `drctl gap` on this host, newest first.

    Attributes:
        there: from the source to the target.
        back: from the target to the source.
        exported: ids of gap results with an export on this host.
    """

    there: tuple[GapEvidence, ...]
    back: tuple[GapEvidence, ...] = ()
    exported: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FailbackObserver:
    """Collects the facts about a failback.

    Attributes:
        most: maximum number of records to scan for each question.
    """

    link: Link
    policy: PolicyConfig
    ports: FailbackPorts
    timeout_s: float = PATIENCE_S
    most: int = QUICK_LIMIT

    @property
    def _readers(self) -> tuple[ClusterReader, ClusterReader]:
        return self.ports.reader.cluster_reader(self.link.source), self.ports.reader.cluster_reader(
            self.link.target
        )

    def observe(self, results: Results) -> Facts:
        """Observe everything in parallel, then what depends on these observations."""
        facts = self._at_once(results)
        source, target = facts.on_source, facts.on_target
        if isinstance(source, Unavailable) or isinstance(target, Unavailable):
            return facts
        since = self._copied_since(results, source, target)
        facts = replace(facts, source_mismatch=self._not_the_same(results), copied_since=since)
        facts = self._with_filled(facts, source, target)
        facts = self._with_decisions(facts, source)
        result = reference(facts)
        if result is None:
            return replace(
                facts,
                boundaries=_NO_RESULT,
                out_of_order=_NO_RESULT,
                reverse_start=_NO_RESULT,
                drctl_copies=_NO_RESULT,
                returned_copies=_NO_RESULT,
            )
        readers = self._readers
        source_partitions = {each.copy: each.place for each in result.partitions}
        ends: dict[TopicPartition, int] = dict(result.ends)
        at_a_look = min(self.most, QUICK_LIMIT)
        before = located_by(facts, source, target)
        identity = self._record_identity(target)
        boundaries: Mapping[TopicPartition, int] | Unavailable = (
            before.boundaries
            if before
            else _answer(
                lambda: observe_boundaries(
                    result, source, *readers, self.most, target.compacted, identity
                )
            )
        )
        # That failback found the result valid after it had fenced the source.
        ours = bool(before and before.set_start and before.fenced) and is_fenced(facts)
        return replace(
            facts,
            diverged=self._divergence(facts, source, target),
            boundaries=boundaries,
            out_of_order=_answer(
                lambda: find_out_of_order(
                    over_the_same(facts),
                    source,
                    boundaries,
                    *readers,
                    self.most,
                    identity,
                    target.compacted,
                )
            ),
            reverse_start=_answer(
                lambda: observe_reverse_start(
                    result, boundaries, source, *readers, target.compacted, ours=ours
                )
            ),
            drctl_copies=_answer(
                lambda: self._drctl_copies(boundaries, facts.gaps[0], source, target)
            ),
            returned_copies=_answer(
                lambda: observe_copies(ends, source, readers[0], source.identity, most=at_a_look)
            ),
            pending=_answer(
                lambda: observe_pending(
                    facts.reverse,
                    boundaries,
                    source.identity,
                    target,
                    readers[1],
                    source_partitions,
                )
            ),
        )

    def _with_decisions(self, facts: Facts, source: Cluster) -> Facts:
        kept = cache(self.ports.decisions)
        left = _answer(lambda: observe_left_missing(kept, source.identity, source.topic_ids))
        return replace(
            facts,
            decided=_answer(lambda: observe_decisions(kept, source.identity)),
            # If it is unknown, so are the decisions, which report the reason.
            left_missing={} if isinstance(left, Unavailable) else left,
        )

    def _at_once(self, results: Results) -> Facts:
        link, ports = self.link, self.ports
        here, there = self._readers
        source = self._ask(lambda: observe_source(link, here))
        target = self._ask(lambda: observe_target(link, there))

        def topics() -> tuple[str, ...]:
            return tuple(sorted(source.value().topics))

        health = self._ask(lambda: ports.health.health(topics()))
        fence = self._ask(lambda: observe_fence(link, topics(), ports.reader))
        stopped = self._ask(lambda: observe_stopped(link, ports.reader))
        replicator = link.settings.replicator
        forward = self._replication(
            ports.forward,
            replicator.connectors,
            ports.brokers,
            lambda: _names(source, target, link.source_topic),
        )
        reverse = self._replication(
            ports.reverse,
            replicator.reverse.connectors if replicator.reverse else ConnectorsConfig(),
            ports.brokers[::-1],
            lambda: _names(target, source, link.target_topic),
        )
        endpoints = [
            self._ask(ports.reader.endpoint(number).observe)
            for number in range(len(link.settings.endpoints))
        ]
        groups = self._ask(
            partial(observe_groups, link, *map(ports.reader.groups, (link.source, link.target)))
        )
        journal = self._ask(lambda: observe_journal(ports.journal, link.source))
        copies: tuple[JournaledRun, ...] | Unavailable = ()
        if isinstance(journal.answer(), Unavailable):
            copies = _answer(lambda: observe_journal(ports.journal_copies, link.source, link.name))
        return Facts(
            link.name,
            link.source,
            link.target,
            self.policy.order,
            self.policy.max_lag_records,
            on_source=source.answer(),
            on_target=target.answer(),
            health=health.answer(),
            fence=fence.answer(),
            forward=forward.answer() if forward else NO_WORKERS,
            reverse=reverse.answer() if reverse else NO_WORKERS,
            stopped=stopped.answer(),
            gaps=results.there,
            reverse_gaps=results.back,
            exported=results.exported,
            endpoints=tuple(each.answer() for each in endpoints),
            groups=groups.answer(),
            journal=journal.answer(),
            local_journal=() if isinstance(copies, Unavailable) else copies,
        )

    def _replication(
        self,
        workers: Workers | None,
        named: ConnectorsConfig,
        ends: Ends,
        topics: Callable[[], Collection[str]],
    ) -> BoundedQuery[Replication] | None:
        if workers is None:
            return None
        asked = workers
        return self._ask(lambda: observe_replication(asked, named, ends, topics))

    def _ask(self, question: Callable[[], T]) -> BoundedQuery[T]:
        return BoundedQuery(question, self.timeout_s)

    def _not_the_same(self, results: Results) -> Mapping[str, str | Unavailable]:
        asked = {
            each.where: _answer(partial(source_mismatch, each, self._readers[0]))
            for each in results.there
        }
        return {where: why for where, why in asked.items() if why}

    def _copied_since(
        self, results: Results, source: Cluster, target: Cluster
    ) -> Mapping[str, str | Unavailable]:
        found = _answer(
            lambda: copied_since(
                results.there,
                source.identity,
                target,
                *self._readers,
                self.most,
                self._record_identity(target),
            )
        )
        if isinstance(found, Unavailable):
            return dict.fromkeys((each.where for each in results.there), found)
        return found

    def _with_filled(self, facts: Facts, source: Cluster, target: Cluster) -> Facts:
        """Add whether the source's content is a prefix of the target's.

        Read only if reverse replication has ever run, or the source has lost records.
        """
        origins = {copy: self.link.source_topic(copy) for copy in sorted(target.topics)}
        names = {copy: origin for copy, origin in origins.items() if origin is not None}
        facts = replace(facts, names=names)
        replicated = isinstance(facts.reverse, Replication) and not facts.reverse.never_ran
        if not replicated and not lost_records(facts):
            return facts
        filled = _answer(lambda: observe_filled(names, source, target, *self._readers))
        return replace(facts, filled=filled is True)

    def _divergence(self, facts: Facts, source: Cluster, target: Cluster) -> str | Unavailable:
        """How the clusters differ; read only after clients are back: before, they always differ."""
        if endpoints_point_to_source(facts) is not True or not clean_there(facts):
            return NOT_LOOKED_AT
        return _answer(
            lambda: divergence(
                facts.gaps[0], source, target, *self._readers, self._record_identity(target)
            )
        )

    def _record_identity(self, target: Cluster) -> RecordIdentity:
        return RecordIdentity(self.link.settings.identity, target.own_time)

    def _drctl_copies(
        self,
        boundaries: Mapping[TopicPartition, int] | Unavailable,
        newest: GapEvidence,
        source: Cluster,
        target: Cluster,
    ) -> Copies | Unavailable:
        """Read drctl's copies from the boundary or, if too many, from the newest result's ends."""
        since = {} if isinstance(boundaries, Unavailable) else boundaries
        whole = not isinstance(boundaries, Unavailable) and span(since, target) <= MOST
        if not whole:
            since = {each.copy: each.target.end for each in newest.partitions if each.target}
        source_partitions = {each.copy: each.place for each in newest.partitions}
        reader, origin = self._readers[1], source.identity
        return observe_copies(
            since, target, reader, origin, source_partitions=source_partitions, whole=whole
        )


def _names(
    here: BoundedQuery[Cluster],
    there: BoundedQuery[Cluster],
    name_here: Callable[[str], str | None],
) -> Collection[str]:
    """The link's topics by their names on one cluster; derived from the other if it is unreachable.

    Args:
        name_here: returns the name on this cluster of a topic of the other cluster.
    """
    seen = here.answer()
    if isinstance(seen, Cluster) and seen.logs:
        return seen.topics
    other = there.answer()
    names = other.topics if isinstance(other, Cluster) else ()
    return {name for topic in names if (name := name_here(topic)) is not None}


def _answer(question: Callable[[], T]) -> T | Unavailable:
    try:
        return question()
    except DrctlError as error:
        return Unavailable(error.message)
