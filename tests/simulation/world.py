"""The simulated world: two clusters, MirrorMaker 2, Connect, endpoints, and applications that run.

It extends the clusters in memory of tests/engine: their ACLs, logs, committed offsets, endpoints
and workers answer drctl's ports. Here everything moves by itself, a little at each tick, as the
random numbers of the seed say.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import cast

from drctl.model.fencing import LITERAL, Denied, Topics, denials, sign
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState
from drctl.model.topology import TopicPartition
from drctl.steps.stop_replication import RUNNING, STOPPED
from tests.engine.client_state import NEW, OLD, empty
from tests.engine.connect_workers import Connector
from tests.engine.memory_clusters import record
from tests.engine.pair import (
    APP,
    AUDIT,
    BACK,
    BATCH,
    OF_A_PERSON,
    ORDERS,
    PRIMARY,
    READER,
    SECONDARY,
    Site,
)
from tests.engine.recovered_cluster import RecoveredCluster
from tests.simulation.faults import Faults

FORWARD = "mm2"
PLACES = (AUDIT, ORDERS)
GROUPS = ("app", "old")
PASSWORD = "pa55-of-the-connector"
"""A secret in the configuration of each connector: it must never leave Connect."""


@dataclass
class Mirror(Connector):
    """MirrorMaker 2: it lags, stops late, and copies again what it had not committed.

    Attributes:
        read: the last offset that it copied, by partition; `kept` is what Connect stores.
    """

    read: dict[TopicPartition, int] = field(default_factory=dict)
    running: bool = False

    def advance(self, random: Random | None) -> None:
        """Let time pass; without random numbers, it does all that it can."""
        if self.state != self.wanted and (random is None or random.random() < 0.5):
            if self.state == RUNNING:
                self._store()
            self.state = self.wanted
        if self.state != RUNNING or self.source.dead or self.target.dead:
            self.running = self.running and self.state == RUNNING
            return
        if not self.running or (random is not None and random.random() < 0.02):
            # It starts, or its task was restarted by a rebalance: from what Connect stores.
            self.read, self.running = dict(self.kept), True
        self.replicate(self.read, None if random is None else random.randint(0, 4))
        if random is None or random.random() < 0.4:
            self._store()

    def _store(self) -> None:
        if self.running:
            self.kept = dict(self.read)


@dataclass
class Producer:
    """An application that writes records with ascending numbers for each key.

    Attributes:
        bound: the cluster to which it is connected.
        left: how many records it still has to write.
    """

    key: str
    principal: str
    place: TopicPartition
    bound: str
    number: int = 0
    left: int = 10


@dataclass
class Consumer:
    """A member of a group: it reads, and commits later.

    Attributes:
        at: the next offset that it reads, by partition; empty if it is not a member now.
        has_read: keys of all records that the group has read, on any cluster.
    """

    group: str
    protocol: GroupProtocol
    bound: str
    at: dict[TopicPartition, int] = field(default_factory=dict)
    has_read: set[str] = field(default_factory=set)


@dataclass
class World(RecoveredCluster):
    """Everything outside drctl.

    Attributes:
        random: None while everything does all that it can.
        seconds: the true time.
        due: requests that brokers or workers execute later, each with its time.
        acked: acknowledged records with the cluster that acknowledged them, in order.
        lost: records that no other cluster had when theirs was lost.
        checkpoints: the source's committed offsets as MirrorMaker 2 last saw them.
        abandoned: the cluster that was lost; empty if none.
        unfenced: the cluster that a run has left without a fence, and said so; empty if none.
        left_out: groups that a run has declared to have no offset to resume from.
        busy: whether applications write.
    """

    random: Random | None = None
    seconds: float = 1_700_000_000.0
    due: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    acked: list[tuple[str, str]] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    checkpoints: dict[str, dict[TopicPartition, Committed]] = field(default_factory=dict)
    producers: list[Producer] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)
    abandoned: str = ""
    unfenced: str = ""
    left_out: set[str] = field(default_factory=set)
    busy: bool = True

    @property
    def mirrors(self) -> Sequence[Mirror]:
        """The connectors that replicate."""
        return cast(Sequence[Mirror], tuple(self.workers.connectors.values()))

    def tick(self) -> None:
        """Let time pass: each part does a little, or nothing."""
        random = self.random
        self.seconds += 1.0 if random is None else 3 * random.random()
        self._late_requests()
        for connector in self.mirrors:
            connector.advance(random)
        for site in self.sites.values():
            if random is None or random.random() < 0.5:
                site.rules.spread()
        if self.busy:
            for producer in self.producers:
                if random is None or random.random() < 0.4:
                    self._write_with(producer)
        for consumer in self.consumers:
            if random is None or random.random() < 0.6:
                self._read_with(consumer)
        if not self.home.dead and (random is None or random.random() < 0.2):
            found = self.sites[PRIMARY].positions.positions
            self.checkpoints = {group: dict(places) for group, places in found.items()}

    def settle(self) -> None:
        """Let everything come to rest: applications stop writing, all else does what it can."""
        before, self.random, self.busy = (self.random, self.busy), None, False
        for _ in range(6):
            self.tick()
        self.random, self.busy = before

    def later(self, what: str, how: str, do: Callable[[], object]) -> None:
        """Execute a request later, as a broker does that was stalled."""
        assert self.random is not None
        if what.startswith("positions of "):
            cluster, group = what.removeprefix("positions of "), how.split()[0]
            put = do

            def do() -> None:
                if not self.active(cluster, group):
                    put()

        elif how.startswith("offsets of "):
            return  # Workers refuse them unless the connector is still stopped.
        self.due.append((self.seconds + self.random.uniform(0, 8), do))

    def die(self, name: str) -> None:
        """Lose a cluster."""
        super().die(name)
        self.abandoned = name
        there = set(self.sites[self.other(name)].logs.all_keys())
        self.lost |= {key for key, where in self.acked if where == name and key not in there}

    def outage(self, name: str, seconds: float) -> None:
        """Let a cluster not answer for a while; it loses nothing."""
        super().die(name)
        self.due.append((self.seconds + seconds, lambda: self.recover(name)))

    def recover(self, name: str) -> None:
        """A lost cluster answers again, with all it had."""
        faults = self.trace
        faults.silent -= {each for each in faults.silent if each.endswith(f" of {name}")}

    @staticmethod
    def other(name: str) -> str:
        """Return the other cluster."""
        return SECONDARY if name == PRIMARY else PRIMARY

    def _late_requests(self) -> None:
        now = [do for at, do in self.due if at <= self.seconds or self.random is None]
        self.due = [] if self.random is None else [d for d in self.due if d[0] > self.seconds]
        for do in now:
            do()

    def _open(self, name: str) -> bool:
        site = self.sites[name]
        return not (site.fenced_outside or site.logs.dead)

    def _write_with(self, producer: Producer) -> None:
        entrance = self.endpoints[0].cluster
        if producer.bound != entrance and (self.random is None or self.random.random() < 0.5):
            producer.bound = entrance
        if not (producer.left and self._open(producer.bound)):
            return
        site = self.sites[producer.bound]
        if site.rules.denies(Denied.WRITE, producer.principal, producer.place.topic):
            return
        key = f"{producer.key}:{producer.number}"
        producer.number, producer.left = producer.number + 1, producer.left - 1
        site.logs.append(producer.place, record(key))
        self.acked.append((key, producer.bound))

    def _read_with(self, consumer: Consumer) -> None:
        entrance, group = self.endpoints[0].cluster, consumer.group
        if consumer.bound != entrance and (self.random is None or self.random.random() < 0.5):
            self._leave(consumer)
            consumer.bound = entrance
        name = consumer.bound
        site, known = self.sites[name], self.arrivals.groups_of[name][group]
        assert isinstance(known, Group)
        fits = known.protocol is consumer.protocol or (not known.active and self.restarted)
        if consumer.protocol is OLD:
            fits = True
        if not self._open(name) or name in self.stopped or not fits:
            self._leave(consumer)
            return
        if self._is_denied(site, group):
            self._leave(consumer)
            return
        if not consumer.at:
            self._join(consumer, site)
        self._consume(consumer, site)

    def _is_denied(self, site: Site, group: str) -> bool:
        rules = site.rules.rules
        return any(
            (r.resource, r.name, r.principal, r.permission) == ("GROUP", group, APP, "DENY")
            for r in rules
        )

    def _join(self, consumer: Consumer, site: Site) -> None:
        """Join the group; without a committed offset, it starts at the end."""
        found = site.positions.positions.get(consumer.group, {})
        logs = site.logs.logs
        consumer.at = {p: found[p].offset if p in found else len(logs[p]) for p in PLACES}
        self.arrivals.groups_of[consumer.bound][consumer.group] = Group(
            consumer.group, consumer.protocol, GroupState.STABLE, (READER,)
        )

    def _leave(self, consumer: Consumer) -> None:
        if consumer.at:
            consumer.at = {}
            groups = self.arrivals.groups_of[consumer.bound]
            groups[consumer.group] = empty(consumer.group, consumer.protocol)

    def _consume(self, consumer: Consumer, site: Site) -> None:
        random = self.random
        for place in PLACES:
            log, at = site.logs.logs[place], consumer.at[place]
            if not site.rules.denies(Denied.READ, APP, place.topic):
                end = len(log) if random is None else min(len(log), at + random.randint(0, 5))
                consumer.has_read |= {(each.key or b"").decode() for each in log[at:end]}
                consumer.at[place] = max(at, end)
            if random is None or random.random() < 0.5:
                committed = site.positions.positions.setdefault(consumer.group, {})
                committed[place] = Committed(consumer.at[place])


def begun(trace: Faults, random: Random) -> World:
    """Create a running link: applications use the primary, MirrorMaker 2 copies."""
    world = World(PRIMARY, SECONDARY, trace=trace)
    ours, theirs = world.sites[PRIMARY], world.sites[SECONDARY]
    ours.rules.rules |= {OF_A_PERSON}
    (closed,) = denials([APP], [Topics("orders", LITERAL)], [Denied.WRITE])
    theirs.rules.rules |= {closed, sign(closed, "main")}
    for site in (ours, theirs):
        site.rules.spread()
        for place in PLACES:
            site.logs.logs[place] = []
    world.workers.connectors[FORWARD] = Mirror(ours.logs, theirs.logs)
    world.workers.connectors[BACK] = Mirror(theirs.logs, ours.logs, STOPPED, STOPPED)
    for each in world.workers.connectors.values():
        each.config["source.cluster.sasl.jaas.config"] = PASSWORD
    world.producers = [
        Producer("k0", APP, ORDERS, PRIMARY),
        Producer("k1", APP, AUDIT, PRIMARY),
        Producer("k2", BATCH, ORDERS, PRIMARY),
    ]
    world.consumers = [Consumer("app", NEW, PRIMARY), Consumer("old", OLD, PRIMARY)]
    for group in GROUPS:
        ours.positions.positions[group] = {place: Committed(0) for place in PLACES}
    world.random = random
    for _ in range(random.randint(2, 12)):
        world.tick()
    return world


def keys(log: Collection[object]) -> Iterator[str]:
    """Return the keys of records."""
    return ((each.key or b"").decode() for each in log)  # type: ignore[attr-defined]
