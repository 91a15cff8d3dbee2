"""The simulated world: two clusters, MirrorMaker 2, Connect, endpoints, and applications that run.

It extends the clusters in memory of tests/engine: their ACLs, logs, committed offsets, endpoints
and workers answer drctl's ports. Here everything moves by itself, a little at each tick, as the
random numbers of the seed say.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import cast

from drctl.model.fencing import LITERAL, Denied, Topics, denials, group_denial, sign
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState
from drctl.model.health import OpenTransaction
from drctl.model.topology import Record, TopicPartition
from drctl.steps.stop_replication import RUNNING, STOPPED
from tests.engine.client_state import NEW, OLD, empty
from tests.engine.connect_workers import Connector
from tests.engine.memory_clusters import Logs, record
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
from tests.simulation.faults import NO_FAULTS, Faults

FORWARD = "mm2"
PLACES = (AUDIT, ORDERS)
GROUPS = ("app", "old")
DENIALS = {group: group_denial(APP, group) for group in GROUPS}
MOST_UNHEARD = 4
"""Ticks after which a broker has heard of the ACLs, if nothing goes wrong."""

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
        self.replicate(self.read, None if random is None else int(5 * random.random()))
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
        transactional: whether it writes in transactions; it writes the records of an aborted one
            again.
        pending: offsets of its open transaction.
    """

    key: str
    principal: str
    place: TopicPartition
    bound: str
    number: int = 0
    left: int = 10
    transactional: bool = False
    pending: list[int] = field(default_factory=list)


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
        executed_late: how many of them have been executed.
        acked: acknowledged records with the cluster that acknowledged them, in order.
        lost: records that no other cluster had when theirs was lost.
        checkpoints: the source's committed offsets as MirrorMaker 2 last saw them.
        abandoned: the cluster that was lost; empty if none.
        unfenced: the cluster that a run has left without a fence, and said so; empty if none.
        left_out: groups that a run has declared to have no offset to resume from.
        busy: whether applications write.
        stranded: when brokers abort the transaction of a producer that is gone, by cluster and
            partition.
        unheard: ticks since the second broker of a cluster heard of the ACLs.
    """

    random: Random | None = None
    seconds: float = 1_700_000_000.0
    due: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    executed_late: int = 0
    acked: list[tuple[str, str]] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    checkpoints: dict[str, dict[TopicPartition, Committed]] = field(default_factory=dict)
    producers: list[Producer] = field(default_factory=list)
    consumers: list[Consumer] = field(default_factory=list)
    abandoned: str = ""
    unfenced: str = ""
    left_out: set[str] = field(default_factory=set)
    busy: bool = True
    stranded: dict[tuple[str, TopicPartition], float] = field(default_factory=dict)
    unheard: dict[str, int] = field(default_factory=dict)

    @property
    def mirrors(self) -> Sequence[Mirror]:
        """The connectors that replicate."""
        return tuple(cast("dict[str, Mirror]", self.workers.connectors).values())

    @property
    def copies_aborted(self) -> bool:
        """Whether a failback is not possible, because aborted records may have been copied."""
        transactional = any(each.transactional for each in self.producers)
        return transactional and any(each.copies_uncommitted for each in self.mirrors)

    def tick(self) -> None:
        """Let time pass: each part does a little, or nothing."""
        random, sites = self.random, self.sites
        self.seconds += 1.0 if random is None else 3 * random.random()
        self._late_requests()
        for connector in self.mirrors:
            connector.advance(random)
        calm = cast(Faults, self.trace).rates == NO_FAULTS
        for name, site in sites.items():
            self.unheard[name] = self.unheard.get(name, 0) + 1
            late = calm and self.unheard[name] > MOST_UNHEARD
            if random is None or random.random() < 0.5 or late:
                site.rules.spread()
                self.unheard[name] = 0
        for producer in self.producers:
            if (self.busy or producer.pending) and (random is None or random.random() < 0.4):
                self._write_with(producer)
        self._time_out_transactions()
        for consumer in self.consumers:
            if random is None or random.random() < 0.6:
                self._read_with(consumer)
        if not self.home.dead and (random is None or random.random() < 0.2):
            found = sites[PRIMARY].positions.positions
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
        if not self.due:
            return
        now = [do for at, do in self.due if at <= self.seconds or self.random is None]
        self.due = [] if self.random is None else [d for d in self.due if d[0] > self.seconds]
        for do in now:
            self.executed_late += 1
            do()

    def _open(self, name: str) -> bool:
        site = self.sites[name]
        return not (site.fenced_outside or site.logs.dead)

    def _write_with(self, producer: Producer) -> None:
        entrance = self.endpoints[0].cluster
        if producer.bound != entrance and (self.random is None or self.random.random() < 0.5):
            self._strand(producer)
            producer.bound = entrance
        if producer.pending:
            self._continue_transaction(producer)
            return
        if not (producer.left and self._open(producer.bound)):
            return
        key = f"{producer.key}:{producer.number}"
        if producer.transactional:
            self.write_in_transaction(producer)
        elif self.write(producer.bound, producer.principal, producer.place, key):
            producer.number, producer.left = producer.number + 1, producer.left - 1
            self.acked.append((key, producer.bound))

    def write_in_transaction(self, producer: Producer) -> bool:
        """Write the next record of a transaction, and begin one if necessary."""
        logs, place = self.sites[producer.bound].logs, producer.place
        if not producer.pending and place in logs.open_:
            return False  # That of another producer of the same application has to end first.
        key = f"{producer.key}:{producer.number + len(producer.pending)}"
        if not self.write(producer.bound, producer.principal, place, key):
            return False
        at = len(logs.logs[place]) - 1
        logs.hidden.setdefault(place, set()).add(at)
        if not producer.pending:
            logs.open_[place] = OpenTransaction(4001, 0, at, 1, producer.key, "Ongoing", False)
        producer.pending.append(at)
        return True

    def _continue_transaction(self, producer: Producer) -> None:
        """Write another record, commit, abort or wait; to end it needs no ACL of the topic."""
        if not self._open(producer.bound):
            self._strand(producer)
            return
        drawn = 0.0 if self.random is None else self.random.random()
        if drawn < 0.1:
            self.end_transaction(producer, commit=False)
        elif drawn < 0.35:
            self.end_transaction(producer, commit=True)
        elif drawn < 0.6 and producer.left > len(producer.pending):
            accepted = self.write_in_transaction(producer)
            if not accepted:
                self.end_transaction(producer, commit=False)

    def end_transaction(self, producer: Producer, *, commit: bool) -> None:
        """Write the marker that ends a producer's transaction."""
        logs, place = self.sites[producer.bound].logs, producer.place
        if commit:
            logs.hidden[place] -= set(producer.pending)
            written = keys(logs.logs[place][at] for at in producer.pending)
            self.acked += [(key, producer.bound) for key in written]
            producer.number += len(producer.pending)
            producer.left -= len(producer.pending)
        producer.pending = []
        self._mark_end(logs, place)

    def _strand(self, producer: Producer) -> None:
        """A producer leaves its open transaction."""
        if producer.pending:
            self.stranded[producer.bound, producer.place] = self.seconds + 30
            producer.pending = []

    def _time_out_transactions(self) -> None:
        for (name, place), at in tuple(self.stranded.items()):
            logs = self.sites[name].logs
            if not logs.dead and (at <= self.seconds or self.random is None):
                del self.stranded[name, place]
                self._mark_end(logs, place)

    @staticmethod
    def _mark_end(logs: Logs, place: TopicPartition) -> None:
        """Append a control record, after which the partition has no open transaction."""
        del logs.open_[place]
        logs.hidden[place].add(len(logs.logs[place]))
        logs.logs[place].append(Record(place.partition, len(logs.logs[place]), 1, None, None, ()))

    def write(self, cluster: str, principal: str, place: TopicPartition, key: str) -> bool:
        """Write a record as an application; return whether it is acknowledged."""
        site = self.sites[cluster]
        if site.rules.denies(Denied.WRITE, principal, place.topic):
            return False
        site.logs.append(place, record(key))
        return True

    def _read_with(self, consumer: Consumer) -> None:
        entrance, group = self.endpoints[0].cluster, consumer.group
        if consumer.bound != entrance and (self.random is None or self.random.random() < 0.5):
            self.leave(consumer)
            consumer.bound = entrance
        name = consumer.bound
        site, known = self.sites[name], self.arrivals.groups_of[name][group]
        assert isinstance(known, Group)
        fits = known.protocol is consumer.protocol or (not known.active and self.restarted)
        if consumer.protocol is OLD:
            fits = True
        if not self._open(name) or name in self.stopped or not fits:
            self.leave(consumer)
            return
        if DENIALS[group] in site.rules.rules:
            self.leave(consumer)
            return
        if not consumer.at:
            self.join(consumer)
        self._consume(consumer, site)

    def join(self, consumer: Consumer) -> None:
        """Join the group; without a committed offset, it starts at the end."""
        site = self.sites[consumer.bound]
        found = site.positions.positions.get(consumer.group, {})
        logs = site.logs.logs
        consumer.at = {p: found[p].offset if p in found else len(logs[p]) for p in PLACES}
        self.arrivals.groups_of[consumer.bound][consumer.group] = Group(
            consumer.group, consumer.protocol, GroupState.STABLE, (READER,)
        )

    def leave(self, consumer: Consumer) -> None:
        """Leave the group."""
        if consumer.at:
            consumer.at = {}
            groups = self.arrivals.groups_of[consumer.bound]
            groups[consumer.group] = empty(consumer.group, consumer.protocol)

    def _consume(self, consumer: Consumer, site: Site) -> None:
        random = self.random
        logs, rules = site.logs, site.rules
        for place in PLACES:
            if not rules.denies(Denied.READ, APP, place.topic):
                at, stable = consumer.at[place], logs.stable_end(place)
                end = stable if random is None else min(stable, at + int(6 * random.random()))
                if end > at:
                    consumer.has_read.update(keys(logs.committed(place, at, end)))
                    consumer.at[place] = end
            if random is None or random.random() < 0.5:
                committed = site.positions.positions.setdefault(consumer.group, {})
                committed[place] = Committed(consumer.at[place])


def linked(trace: Faults) -> World:
    """Create a link without applications: MirrorMaker 2 runs from the primary."""
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
    return world


def begun(trace: Faults, random: Random) -> World:
    """Create a running link: applications use the primary, MirrorMaker 2 copies."""
    world = linked(trace)
    world.producers = [
        Producer("k0", APP, ORDERS, PRIMARY),
        Producer("k1", APP, AUDIT, PRIMARY),
        Producer("k2", BATCH, ORDERS, PRIMARY),
    ]
    if random.random() < 0.5:
        # Copies of aborted records make a failback impossible: see `drctl doctor`.
        uncommitted = random.random() < 0.3
        for each in world.mirrors:
            each.copies_uncommitted = uncommitted
        world.producers.append(Producer("k3", APP, AUDIT, PRIMARY, transactional=True))
    world.consumers = [Consumer("app", NEW, PRIMARY), Consumer("old", OLD, PRIMARY)]
    for group in GROUPS:
        world.sites[PRIMARY].positions.positions[group] = {place: Committed(0) for place in PLACES}
    world.random = random
    for _ in range(random.randint(2, 12)):
        world.tick()
    return world


def keys(log: Iterable[Record]) -> Iterator[str]:
    """Return the keys of records."""
    return ((each.key or b"").decode() for each in log)
