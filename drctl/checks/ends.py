"""Both clusters of a link, asked at once; one that is dead keeps nobody from asking the other."""

from collections.abc import Collection, Mapping

from drctl.checks.glance import Glance
from drctl.checks.lagging import Behind, Lagging
from drctl.checks.ports import ClusterPorts, LinkPorts
from drctl.config.link import Link
from drctl.model.groups import POSITIONS_TOPIC, Group
from drctl.model.health import ClusterHealth, OpenTransactions
from drctl.model.producer_ids import Producers
from drctl.model.replication import ReplicatedTo
from drctl.model.topology import (
    Found,
    Mark,
    Overview,
    TopicPartition,
    TopicState,
    Unavailable,
)
from drctl.wire.consumer_timestamps import TOPIC as CONSUMER_TIMESTAMPS

Topics = Mapping[str, TopicState | Unavailable | None]
Newest = Mapping[TopicPartition, Found | Unavailable]


class Source:
    """The cluster that replication reads from; it may be dead.

    Attributes:
        topics: those that the link carries, and those that checks ask for by name.
    """

    def __init__(self, link: Link, ports: ClusterPorts, patience_s: float) -> None:
        self._link, self._ports = link, ports
        self.overview = Glance(ports.reader.overview, patience_s)
        self.groups = Glance(ports.groups.groups, patience_s)
        self.acls = Glance(ports.acls.acls, patience_s)
        self.rights = Glance(ports.rights.operations, patience_s)
        self.topics = Glance(self._topics, patience_s)
        self.coordinators = Glance(self._coordinators, patience_s)
        self.transactions = Glance(self._transactions, patience_s)
        self.producers = Glance(self._producers, patience_s)

    def carried(self) -> tuple[str, ...]:
        """Topics of the link.

        Raises:
            Unreachable: the source does not answer.
        """
        return self._link.topics_of(self.overview.value().partitions)

    def places(self) -> list[TopicPartition]:
        """All their partitions.

        Raises:
            Unreachable: the source does not answer.
        """
        return _places(self.overview.value(), self.carried())

    def _topics(self) -> Topics:
        names = self.carried()
        if self._link.settings.replicator.kind == "confluent-replicator":
            names = tuple({*names, CONSUMER_TIMESTAMPS})
        return self._ports.reader.topics(names)

    def _coordinators(self) -> ClusterHealth:
        # Its configuration is of no concern here, and not asked for.
        return self._ports.health.health([POSITIONS_TOPIC], {POSITIONS_TOPIC: {}})

    def _transactions(self) -> OpenTransactions:
        return self._ports.health.open_transactions(self.places())

    def _producers(self) -> Producers:
        return self._ports.producers.in_use(self.places())


class Target:
    """The cluster that replication writes to.

    Attributes:
        topics: the copies that are there, and those that should be.
        groups: those that the link carries.
        newest: the newest record of each partition of the copies.
    """

    def __init__(self, link: Link, ports: ClusterPorts, source: Source, patience_s: float) -> None:
        self._link, self._ports, self._source = link, ports, source
        self.overview = Glance(ports.reader.overview, patience_s)
        self.groups = Glance(self._groups, patience_s)
        self.acls = Glance(ports.acls.acls, patience_s)
        self.topics = Glance(self._topics, patience_s)
        # These wait for others, which have to be there by then.
        self.health = Glance(self._health, patience_s)
        self.newest = Glance(self._newest, patience_s)
        self.producers = Glance(self._producers, patience_s)

    def copies(self) -> tuple[str, ...]:
        """Topics that are there, and that are called as copies are.

        Raises:
            Unreachable: the target does not answer.
        """
        origins = {self._link.source_topic(name): name for name in self.overview.value().partitions}
        return tuple(origins[t] for t in self._link.topics_of(o for o in origins if o is not None))

    def _topics(self) -> Topics:
        there = self.copies()
        overview = self._source.overview.answer()
        known = () if isinstance(overview, Unavailable) else self._source.carried()
        return self._ports.reader.topics(tuple({*there, *map(self._link.target_topic, known)}))

    def _health(self) -> ClusterHealth:
        topics = self.topics.answer()
        states = {} if isinstance(topics, Unavailable) else topics
        # Of very many topics configurations are most of the work: they are read once.
        told = {n: s.config for n, s in states.items() if isinstance(s, TopicState) and s.config}
        return self._ports.health.health(self.copies(), told)

    def _groups(self) -> Mapping[str, Group | Unavailable]:
        groups = self._ports.groups
        return groups.described(tuple(filter(self._link.carries_group, groups.groups())))

    def _newest(self) -> Newest:
        # One reader is asked in turn: by now nobody else asks it.
        self.topics.answer()
        places = _places(self.overview.value(), self.copies())
        answers = self._ports.reader.look_up([(place, Mark.NEWEST) for place in places])()
        return dict(zip(places, answers, strict=True))

    def _producers(self) -> Producers:
        return self._ports.producers.in_use(_places(self.overview.value(), self.copies()))


class Ends:
    """Both, and how far the one is behind the other."""

    def __init__(self, link: Link, ports: LinkPorts, now_ms: int, patience_s: float) -> None:
        self._link, self._ports, self._now_ms = link, ports, now_ms
        self.source = Source(link, ports.source, patience_s)
        self.target = Target(link, ports.target, self.source, patience_s)
        self._told = Glance(self._progress, patience_s)
        self.behind = Glance(self._behind, patience_s)

    def _progress(self) -> Mapping[TopicPartition, ReplicatedTo]:
        progress = self._ports.progress
        return progress.positions(self.source.carried()) if progress is not None else {}

    def _behind(self) -> Behind:
        # The readers are asked in turn: these answers come before.
        topics, copies = self.source.topics.value(), self.target.topics.value()
        newest, told = self.target.newest.answer(), self._told.answer()
        look = Lagging(
            self._link,
            self._ports.source.reader,
            topics,
            copies,
            {} if isinstance(newest, Unavailable) else newest,
            self._now_ms,
        )
        if isinstance(told, Unavailable):
            return look.look(self.source.places(), {}, told.reason)
        return look.look(self.source.places(), told)


def _places(overview: Overview, topics: Collection[str]) -> list[TopicPartition]:
    return [TopicPartition(t, number) for t in topics for number in overview.partitions.get(t, ())]
