"""Looks at everything that the checks judge: at all of it at once, and never waits for the dead."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from drctl.checks.arriving import Arriving, arriving
from drctl.checks.ends import Ends, Newest, Source
from drctl.checks.glance import Glance
from drctl.checks.observed import NOT_LOOKED_AT, Connectors, Observed
from drctl.checks.ports import LinkPorts
from drctl.config.link import Link
from drctl.config.schema import PolicyConfig
from drctl.model.connectors import ConnectorLister
from drctl.model.failover import Mode
from drctl.model.reachability import Silent
from drctl.model.topology import Found, Overview, Unavailable

PATIENCE_S = 60.0
"""For so long an answer is waited for; the ports have shorter deadlines of their own."""

TRANSLATION_S = 180.0
"""The same for translating all groups, which reads records."""

_NO_WORKER = Unavailable("no Connect worker is configured")
_NO_TRANSLATION = Unavailable("nobody translated")
_NO_COPY = Unavailable("the target holds no copy")


@dataclass(frozen=True, slots=True)
class Observer:
    """Fills in what the checks look at.

    Attributes:
        now_ms: the clock, milliseconds UTC.
        neighbours: the other links of drctl.yaml.
    """

    link: Link
    policy: PolicyConfig
    ports: LinkPorts
    now_ms: Callable[[], int]
    neighbours: tuple[Link, ...] | Unavailable = NOT_LOOKED_AT
    patience_s: float = PATIENCE_S
    translation_s: float = TRANSLATION_S

    def observe(self, mode: Mode) -> Observed:
        """Ask everything at once; what does not answer is said not to."""
        now_ms, ports = self.now_ms(), self.ports
        ends = Ends(self.link, ports, now_ms, self.patience_s)
        connectors, reverse = self._listed(ports.connectors), self._listed(ports.reverse)
        arriving = self._arriving(mode, ends.source)
        left_out = Glance(ports.left_out, self.translation_s) if ports.left_out else None
        endpoints = [Glance(each.observe, self.patience_s) for each in ports.endpoints]
        journal = [(each.where, Glance(each.check, self.patience_s)) for each in ports.journal]
        where = Glance(ports.whereabouts, self.patience_s) if ports.whereabouts else None
        source, target, behind = ends.source, ends.target, ends.behind.answer()
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
            arriving=arriving.answer() if arriving else NOT_LOOKED_AT,
            target=_identity(target.overview.answer()),
            target_health=target.health.answer(),
            target_groups=target.groups.answer(),
            target_acls=target.acls.answer(),
            source_rights=source.rights.answer(),
            lag=behind if isinstance(behind, Unavailable) else behind.lag,
            newest_copy_ms=_newest_ms(target.newest.answer()),
            tails=behind if isinstance(behind, Unavailable) else behind.tails,
            transactions=source.transactions.answer(),
            source_producers=source.producers.answer(),
            target_producers=target.producers.answer(),
            left_out=rows if isinstance(rows, Unavailable) else tuple(rows),
            endpoints=tuple(each.answer() for each in endpoints),
            journal={place: each.answer() for place, each in journal},
            whereabouts=where.answer() if where else NOT_LOOKED_AT,
        )

    def _arriving(self, mode: Mode, source: Source) -> Glance[Arriving] | None:
        """Where a source is given up as dead, whoever copies it may still reach it."""
        ends = self.ports.copies
        if mode is not Mode.UNPLANNED or ends is None:
            return None
        silent = lambda: isinstance(source.overview.answer(), Silent)  # noqa: E731
        return Glance(
            partial(arriving, ends, silent, self.ports.beats, before=self.ports.copies_before),
            self.patience_s,
        )

    def _listed(self, workers: ConnectorLister | None) -> Glance[Connectors] | None:
        return Glance(workers.described, self.patience_s) if workers is not None else None


def _identity(overview: Overview | Unavailable) -> str | Unavailable:
    return overview if isinstance(overview, Unavailable) else overview.cluster_id


def _newest_ms(newest: Newest | Unavailable) -> int | Unavailable:
    if isinstance(newest, Unavailable):
        return newest
    times = [found.timestamp_ms for found in newest.values() if isinstance(found, Found)]
    latest = max(times, default=-1)
    return latest if latest >= 0 else _NO_COPY
