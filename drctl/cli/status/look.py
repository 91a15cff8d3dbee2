"""One look for `drctl status`: everything at once, and nothing that takes long; nothing writes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.runs.guarding import opened_ports
from drctl.cli.runs.link_sight import LinkSight
from drctl.cli.runs.loss_sight import LossSight
from drctl.cli.status.groups import GroupPorts, groups_now
from drctl.model.errors import Unknown, Unreachable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from drctl.checks.glance import Glance
    from drctl.checks.go import GroupsNow, StatusNow
    from drctl.checks.observed import Observed
    from drctl.checks.ports import ClusterPorts, LinkPorts
    from drctl.checks.rpo import Rpo
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.health import ClusterHealth, HealthReader, OpenTransactions
    from drctl.model.producer_ids import Producers
    from drctl.model.topology import TopicPartition

_NOT_ASKED = "drctl status does not ask for it: drctl doctor does"
_PATIENCE_S = 30.0

_GROUPS_S = 20.0
"""A fifth of it is the first attempt: librdkafka aborts the process where that ends while it asks a
busy coordinator for a group (its issue 4605)."""


class _NoProducers:
    """Implements `ProducerIdReader`: of every partition one more question, every few seconds."""

    def in_use(self, partitions: "Collection[TopicPartition]") -> "Producers":
        """Nothing.

        Raises:
            Unknown: always.
        """
        raise Unknown(_NOT_ASKED)

    def next_ids(self) -> "dict[int, int]":
        """Nothing.

        Raises:
            Unknown: always.
        """
        raise Unknown(_NOT_ASKED)


@dataclass(frozen=True, slots=True)
class _HealthOnly:
    """Implements `HealthReader` without transactions, which are looked for in each partition."""

    reader: "HealthReader"

    def health(
        self,
        topics: "Collection[str]",
        known: "Mapping[str, Mapping[str, str]] | None" = None,
    ) -> "ClusterHealth":
        """The cluster and these topics.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return self.reader.health(topics, known)

    def open_transactions(self, partitions: "Collection[TopicPartition]") -> "OpenTransactions":
        """Nothing.

        Raises:
            Unknown: always.
        """
        raise Unknown(_NOT_ASKED)


@dataclass(frozen=True, slots=True)
class Looking:
    """A link, opened; one look after the other."""

    config: "Config"
    link: "Link"
    sight: LinkSight
    ports: "LinkPorts"
    groups: GroupPorts

    def look(self) -> "StatusNow":
        """How it stands now; what does not answer is said not to."""
        from drctl.checks.glance import Glance
        from drctl.checks.go import judged
        from drctl.checks.observing import Observer
        from drctl.model.failover import Mode
        from drctl.model.topology import Unavailable

        began = time.monotonic()
        groups = Glance(self._groups, _PATIENCE_S)
        others = self.config.beside(self.link)
        observer = Observer(self.link, self.config.policy, self.ports, _now_ms, others)
        observed = observer.observe(Mode.PLANNED)
        dead = isinstance(observed.source, Unavailable)
        lost = self._lost(observed) if dead else None
        return judged(observed, _told(groups), lost, time.monotonic() - began)

    def _groups(self) -> "GroupsNow":
        from drctl.checks.go import GroupsNow

        if not self.link.settings.translate:
            return GroupsNow(unknown="the link has translate: false")
        return groups_now(self.link, self.groups)

    def _lost(self, observed: "Observed") -> "Rpo":
        """What is probably lost, of a source that does not answer."""
        from drctl.checks.rpo import Rpo, unknown
        from drctl.model.topology import Unavailable

        copies = observed.target_topics
        if isinstance(copies, Unavailable):
            return unknown("neither cluster answers")
        names = (self.link.source_topic(name) for name in copies)
        topics = self.link.topics_of(name for name in names if name is not None)
        target = self.sight.site(self.link.target)
        try:
            loss = LossSight(self.config, self.link, target, topics).loss()
        except Unreachable as error:
            return unknown(error.message)
        return Rpo(loss.records, loss.seconds, loss.words)


def _told(groups: "Glance[GroupsNow]") -> "GroupsNow":
    from drctl.checks.go import GroupsNow
    from drctl.model.topology import Unavailable

    answer = groups.answer()
    return GroupsNow(unknown=answer.reason) if isinstance(answer, Unavailable) else answer


@contextmanager
def looking(config: "Config", link: "Link") -> Iterator[Looking]:
    """Everything opened that a look needs.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    with (
        LinkSight(config, link, lambda *_: ()) as sight,
        opened_ports(sight, None) as ports,
        wiring.both_readers(link) as (source, target),
        wiring.open_group_reader(link.source, link.source_config, _GROUPS_S) as source_groups,
        wiring.open_group_reader(link.target, link.target_config, _GROUPS_S) as target_groups,
    ):
        sight.meet()
        lean = replace(ports, source=_lean(ports.source), target=_lean(ports.target))
        groups = GroupPorts(source, source_groups, target, target_groups)
        yield Looking(config, link, sight, lean, groups)


def _lean(ports: "ClusterPorts") -> "ClusterPorts":
    return replace(ports, producers=_NoProducers(), health=_HealthOnly(ports.health))


def _now_ms() -> int:
    return int(time.time() * 1000)
