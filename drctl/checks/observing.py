"""Reads everything that the checks evaluate, concurrently, each query with a deadline."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from drctl.checks.bounded_query import BoundedQuery
from drctl.checks.cluster_pair import ClusterPair, Newest, Source
from drctl.checks.observed import (
    NOT_QUERIED,
    Ages,
    ClusterSurvey,
    Connectors,
    Observed,
    ObservedClient,
    ObservedRun,
    ObservedSourceConnector,
    ObservedTracking,
    OriginSamples,
    Sampled,
    SecretFile,
    Surveyed,
)
from drctl.checks.ports import LinkPorts
from drctl.checks.replication_flow import ReplicationFlow, observe_flow
from drctl.config.link import Link
from drctl.config.schema import PolicyConfig
from drctl.model.errors import DrctlError
from drctl.model.groups import Group
from drctl.model.health import Silent
from drctl.model.loss import Mode
from drctl.model.replication import ConnectorLister
from drctl.model.survey import ClusterSurveyor
from drctl.model.topology import Found, Overview, Unavailable

T = TypeVar("T")

PATIENCE_S = 60.0
"""Deadline of a query; the ports have shorter timeouts of their own."""

TRANSLATION_S = 180.0
"""Deadline for translating all groups, which reads records."""

_NO_WORKER = Unavailable("no Connect worker is configured")
_NO_TRANSLATION = Unavailable("offsets were not translated")
_NO_COPY = Unavailable("the target holds no copy")


@dataclass(frozen=True, slots=True)
class Observer:
    """Reads what the checks evaluate.

    Attributes:
        now_ms: clock, in milliseconds since 1970 UTC.
        neighbours: the other links of drctl.yaml.
    """

    link: Link
    policy: PolicyConfig
    ports: LinkPorts
    now_ms: Callable[[], int]
    neighbours: tuple[Link, ...] | Unavailable = NOT_QUERIED
    timeout_s: float = PATIENCE_S
    translation_s: float = TRANSLATION_S

    def observe(self, mode: Mode) -> Observed:
        """Run all queries; those without an answer are marked as unavailable."""
        now_ms, ports = self.now_ms(), self.ports
        pair = ClusterPair(self.link, ports, now_ms, self.timeout_s)
        connectors, reverse = self._listed(ports.connectors), self._listed(ports.reverse)
        flow = self._replication_flow(mode, pair.source)
        left_out = BoundedQuery(ports.left_out, self.translation_s) if ports.left_out else None
        endpoints = [BoundedQuery(each.observe, self.timeout_s) for each in ports.endpoints]
        journal = [(each.where, BoundedQuery(each.check, self.timeout_s)) for each in ports.journal]
        where = BoundedQuery(ports.active_cluster, self.timeout_s) if ports.active_cluster else None
        source, target, lag = pair.source, pair.target, pair.lag.answer()
        rows = left_out.answer() if left_out else _NO_TRANSLATION
        return Observed(
            self.link,
            connectors=connectors.answer() if connectors else _NO_WORKER,
            reverse=reverse.answer() if reverse else _NO_WORKER,
            source_topics=source.topics.answer(),
            target_topics=target.topics.answer(),
            source_groups=source.groups.answer(),
            source_coordinators=source.coordinators.answer(),
            source_acls=source.acls.answer(),
            mode=mode,
            policy=self.policy,
            neighbours=self.neighbours,
            now_ms=now_ms,
            source=_identity(source.overview.answer()),
            replication_flow=flow.answer() if flow else NOT_QUERIED,
            target=_identity(target.overview.answer()),
            target_health=target.health.answer(),
            target_groups=target.groups.answer(),
            target_acls=target.acls.answer(),
            source_rights=source.rights.answer(),
            lag=lag if isinstance(lag, Unavailable) else lag.lag,
            newest_copy_ms=_newest_ms(target.newest.answer()),
            tails=lag if isinstance(lag, Unavailable) else lag.tails,
            transactions=source.transactions.answer(),
            source_producers=source.producers.answer(),
            target_producers=target.producers.answer(),
            left_out=rows if isinstance(rows, Unavailable) else tuple(rows),
            endpoints=tuple(each.answer() for each in endpoints),
            journal={place: each.answer() for place, each in journal},
            active_cluster=where.answer() if where else NOT_QUERIED,
        )

    def _replication_flow(self, mode: Mode, source: Source) -> BoundedQuery[ReplicationFlow] | None:
        """Check whether a replicator still reaches a source that would be given up as lost."""
        ends = self.ports.copies
        if mode is not Mode.UNPLANNED or ends is None:
            return None
        silent = lambda: isinstance(source.overview.answer(), Silent)  # noqa: E731
        return BoundedQuery(
            partial(
                observe_flow,
                ends,
                silent,
                self.ports.heartbeats_topic,
                before=self.ports.copies_before,
            ),
            self.timeout_s,
        )

    def _listed(self, workers: ConnectorLister | None) -> BoundedQuery[Connectors] | None:
        return BoundedQuery(workers.all, self.timeout_s) if workers is not None else None


def _identity(overview: Overview | Unavailable) -> str | Unavailable:
    return overview if isinstance(overview, Unavailable) else overview.cluster_id


def _newest_ms(newest: Newest | Unavailable) -> int | Unavailable:
    if isinstance(newest, Unavailable):
        return newest
    times = [found.timestamp_ms for found in newest.values() if isinstance(found, Found)]
    latest = max(times, default=-1)
    return latest if latest >= 0 else _NO_COPY


_NOT_APPLICABLE = Unavailable("not queried for this link")


@dataclass(frozen=True, slots=True)
class SurveyPorts:
    """What only `doctor` reads a link with; nothing here can write.

    Each port is used by one thread at a time, concurrently with the others. The callables may raise
    any `DrctlError`.

    Attributes:
        readers: the link's groups on the source.
        ages: None if MirrorMaker 2 does not replicate the link.
        tracked_offsets: returns None if the topic does not exist.
        sampled: None if the link does not preserve offsets.
        source_connectors: that import data, by name.
        origin_samples: None if Confluent Replicator does not replicate the link.
    """

    source: ClusterSurveyor
    target: ClusterSurveyor
    readers: Callable[[], Mapping[str, Group | Unavailable]]
    ages: Callable[[], Ages] | None
    tracked_offsets: Callable[[], ObservedTracking | None]
    runs: Callable[[], tuple[ObservedRun, ...]]
    sampled: Callable[[], Sampled] | None
    source_connectors: Callable[[], Mapping[str, ObservedSourceConnector]]
    origin_samples: Callable[[], OriginSamples] | None = None


class Survey:
    """Runs the queries of `SurveyPorts`; starts immediately.

    Args:
        files: that contain secrets.
        clients: whose settings were given.
    """

    def __init__(
        self,
        ports: SurveyPorts,
        files: Sequence[SecretFile],
        clients: Sequence[ObservedClient],
        timeout_s: float = PATIENCE_S,
    ) -> None:
        self._files, self._clients = files, clients
        self._source = BoundedQuery(lambda: surveyed_cluster(ports.source), timeout_s)
        self._target = BoundedQuery(lambda: surveyed_cluster(ports.target), timeout_s)
        self._ids = BoundedQuery(lambda: self._transactional_ids(ports.source), timeout_s)
        self._readers = BoundedQuery(ports.readers, timeout_s)
        self._ages = BoundedQuery(ports.ages, timeout_s) if ports.ages else None
        self._tracked_offsets = BoundedQuery(ports.tracked_offsets, timeout_s)
        self._runs = BoundedQuery(ports.runs, timeout_s)
        self._sources = BoundedQuery(ports.source_connectors, timeout_s)
        self._sampled = BoundedQuery(ports.sampled, timeout_s) if ports.sampled else None
        self._origin_samples = (
            BoundedQuery(ports.origin_samples, timeout_s) if ports.origin_samples else None
        )

    def seen(self) -> Surveyed:
        """Wait for the results; those without an answer are marked as unavailable."""
        source, target = self._source.answer(), self._target.answer()
        ids = self._ids.answer()
        return Surveyed(
            _unless_silent(source),
            _unless_silent(target),
            self._readers.answer(),
            ids,
            self._ages.answer() if self._ages else _NOT_APPLICABLE,
            self._tracked_offsets.answer(),
            self._runs.answer(),
            tuple(self._files),
            self._sampled.answer() if self._sampled else _NOT_APPLICABLE,
            tuple(self._clients),
            source_connectors=self._sources.answer(),
            origin_samples=self._origin_samples.answer() if self._origin_samples else NOT_QUERIED,
        )

    def _transactional_ids(self, surveyor: ClusterSurveyor) -> tuple[str, ...] | Unavailable:
        # A surveyor is not thread-safe: wait until the survey no longer uses it.
        seen = self._source.answer()
        return seen if isinstance(seen, Unavailable) else surveyor.transactional_ids()


def surveyed_cluster(surveyor: ClusterSurveyor) -> ClusterSurvey:
    """Survey one cluster.

    Raises:
        Unreachable: it does not answer.
    """
    layout = surveyor.layout()
    return ClusterSurvey(
        layout,
        tried(surveyor.features),
        tried(surveyor.settings),
        tried(surveyor.scram_users),
        tried(surveyor.quotas),
        tried(surveyor.log_dirs),
    )


def tried(query: Callable[[], T]) -> T | Unavailable:
    """Run a query; return an error as a value."""
    try:
        return query()
    except DrctlError as error:
        return Unavailable(error.message)


def _unless_silent(seen: ClusterSurvey | Unavailable) -> ClusterSurvey:
    return ClusterSurvey(*[seen] * 6) if isinstance(seen, Unavailable) else seen
