"""Two clusters in memory, with replication between them and clients that move."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from drctl.engine.failback_state import Reconciliation, Search
from drctl.model.endpoints import EndpointMoved, EndpointState, must_be_of
from drctl.model.errors import UsageError
from drctl.model.fencing import LITERAL, Denied, Topics, denials, sign
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState, Member
from drctl.model.repairs import Acl
from drctl.model.topology import TopicPartition
from drctl.steps.enable_writes import PROBE_TOPIC
from drctl.steps.stop_replication import STOPPED
from tests.engine.client_state import NEW, OLD, Arrivals, empty
from tests.engine.connect_workers import Connector, SourceWorkers, Workers, capturing
from tests.engine.memory_clusters import Committing, Logs, Rules, Trace, record

PRIMARY, SECONDARY = "primary", "secondary"
BACK = "mm2-back"
"""The connector that replicates from the secondary to the primary."""

APP, BATCH = "User:app", "User:batch"
ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 0)
SOMEBODY = Acl("orders", "LITERAL", APP, "*", "READ", "ALLOW")
OF_A_PERSON = Acl("audit", "LITERAL", BATCH, "*", "WRITE", "DENY")
"""An ACL that a person set, equal to one of drctl's fence: it must stay."""

READER = Member("app-1", "10.0.0.1")


@dataclass
class Endpoint:
    """An endpoint that directs clients to a cluster."""

    number: int
    trace: Trace
    cluster: str

    @property
    def endpoint(self) -> str:
        return f"endpoint {self.number + 1}"

    def observe(self) -> EndpointState:
        self.trace.look(self.endpoint)
        words = f"{self.endpoint} points to {self.cluster}"
        return EndpointState(self.endpoint, self.cluster, words)

    def switch(self, to: str, before: EndpointState) -> None:
        must_be_of(self.endpoint, before)
        if self.cluster not in (before.cluster, to):
            raise EndpointMoved(f"{self.endpoint} points to {self.cluster}")
        self._point(to)

    def restore(self, before: EndpointState) -> None:
        must_be_of(self.endpoint, before)
        assert before.cluster is not None
        self._point(before.cluster)

    def _point(self, to: str) -> None:
        def put() -> None:
            self.cluster = to

        if not self.trace.change(self.endpoint, to, put):
            raise EndpointMoved(f"{self.endpoint} does not do it")


@dataclass
class Site:
    """One of the two clusters.

    Attributes:
        fenced_outside: whether a user-supplied fence keeps clients away.
    """

    logs: Logs
    rules: Rules
    positions: Committing
    fenced_outside: bool = False


@dataclass(frozen=True)
class PersonAction:
    """What a person does when asked, and how the person sees that it is done."""

    do: Callable[[], None]
    is_so: Callable[[], bool]


@dataclass
class Pair:
    """Both clusters before a run.

    Attributes:
        source: the cluster that clients use at first.
        may_miss_topics: whether a cluster may have lost its topics.
        to_write: keys of records that the producer still has to write.
        written: keys of acknowledged records, with the cluster that acknowledged them.
        stopped: clusters whose consumers a person has stopped.
        restarted: whether a person restarts consumers that ended.
        kept: evidence files by name.
        manual_actions: actions of people by question.
        asked: texts shown to people by question.
        blind: whether people only observe and do nothing.
        against: names of prechecks that fail.
    """

    source: str = PRIMARY
    target: str = SECONDARY
    may_miss_topics: bool = False
    trace: Trace = field(default_factory=Trace)
    to_write: list[str] = field(default_factory=list)
    written: list[tuple[str, str]] = field(default_factory=list)
    stopped: set[str] = field(default_factory=set)
    restarted: bool = False
    blind: bool = False
    kept: dict[str, str] = field(default_factory=dict)
    manual_actions: dict[str, PersonAction] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    against: set[str] = field(default_factory=set)
    sites: dict[str, Site] = field(init=False)
    workers: Workers = field(init=False)
    sources: dict[str, SourceWorkers] = field(init=False)
    arrivals: Arrivals = field(init=False)
    endpoints: list[Endpoint] = field(init=False)

    def __post_init__(self) -> None:
        self.sites = {name: self._site(name) for name in (PRIMARY, SECONDARY)}
        self.workers = Workers(self.trace)
        self.sources = {
            name: capturing(name, self.trace, runs=name == self.source) for name in self.sites
        }
        self.endpoints = [Endpoint(number, self.trace, self.source) for number in (0, 1)]
        self.arrivals = Arrivals(
            remembered={ORDERS: 2500, AUDIT: -1},
            groups_of={
                PRIMARY: {"app": empty("app", NEW), "old": empty("old", OLD)},
                SECONDARY: {"app": empty("app", OLD), "old": empty("old", OLD)},
            },
        )

    @property
    def state(self) -> dict[str, Any]:
        """The whole state, except probe records and the number of requested producer ids."""
        groups = self.arrivals.groups_of
        connectors = self.workers.connectors.items()
        return {
            "rules": {name: sorted(site.rules.rules) for name, site in self.sites.items()},
            "records": {name: site.logs.all_keys() for name, site in self.sites.items()},
            "positions": {name: self._positions(name) for name in self.sites},
            "groups": {
                n: {g: (e.protocol, e.active) for g, e in groups[n].items()} for n in groups
            },
            "transactions": {n: sorted(site.logs.open_) for n, site in self.sites.items()},
            "ids": self.arrivals.end[0],  # type: ignore[index]
            "connectors": {
                n: (c.state, c.wanted, dict(c.config), dict(c.kept)) for n, c in connectors
            },
            "sources": {
                name: (sorted((c.name, c.state) for c in each.connectors.values()), dict(each.kept))
                for name, each in self.sources.items()
            },
            "endpoints": [each.cluster for each in self.endpoints],
            "people": (
                sorted(self.stopped),
                *(site.fenced_outside for site in self.sites.values()),
            ),
        }

    def has_probe_record(self, name: str) -> bool:
        """Whether a cluster has received a probe record."""
        return bool(self.sites[name].logs.logs.get(TopicPartition(PROBE_TOPIC, 0)))

    def tick(self) -> None:
        """Let time pass: replication, clients and the second brokers proceed."""
        self.workers.copy()
        # A broker that has not applied an ACL yet still accepts records.
        self._write()
        for site in self.sites.values():
            site.rules.spread()
        for name in self.sites:
            self._read(name)

    def settle(self) -> None:
        """Let time pass until nothing changes."""
        before: object = None
        while before != self.state:
            before = self.state
            self.tick()

    def die(self, name: str) -> None:
        """Lose a cluster."""
        self.trace.silent |= {
            f"{what} of {name}"
            for what in (
                *("logs", "rules", "positions", "groups", "ids", "sources"),
                "transactions",
            )
        }

    def active(self, name: str, group: str) -> bool:
        """Whether a group is active."""
        found = self.arrivals.groups_of[name].get(group)
        return isinstance(found, Group) and found.active

    def search_result(self, only_on: str) -> Search:
        """Raise: only a failback searches."""
        raise UsageError("only a failback does this")

    def search_before_rebuild(self) -> Search:
        """Raise: only a rebuild searches before it."""
        raise UsageError("only a failback does this")

    def reconciliation(self, only_on: str, result: str) -> Reconciliation:
        """Raise: only a failback reconciles."""
        raise UsageError("only a failback does this")

    def reconcile(self, only_on: str, result: str) -> None:
        """Raise: only a failback reconciles."""
        raise UsageError("only a failback does this")

    def _site(self, name: str) -> Site:
        logs, rules = Logs(name, self.trace), Rules(name, self.trace, {SOMEBODY})
        return Site(logs, rules, Committing(name, self.trace, lambda g: self.active(name, g)))

    def _positions(self, name: str) -> dict[str, dict[str, int]]:
        found = self.sites[name].positions.positions
        known = sorted(group for group in found if found[group])
        return {g: {str(p): at.offset for p, at in sorted(found[g].items())} for g in known}

    def _lets_in(self, name: str) -> bool:
        site = self.sites[name]
        return self.endpoints[0].cluster == name and not site.fenced_outside and not site.logs.dead

    def _write(self) -> None:
        """Write one record through the endpoint, if the topic's leader allows it."""
        for name, site in self.sites.items():
            if not self.to_write or not self._lets_in(name):
                continue
            place = (ORDERS, AUDIT)[len(self.to_write) % 2]
            if not site.rules.denies(Denied.WRITE, APP, place.topic):
                key = self.to_write.pop(0)
                site.logs.append(place, record(key))
                self.written.append((key, name))

    def _read(self, name: str) -> None:
        """Read everything as group app through the endpoint, as far as the brokers allow it."""
        groups, site = self.arrivals.groups_of[name], self.sites[name]
        known = groups["app"]
        assert isinstance(known, Group)
        if not self._lets_in(name) or name in self.stopped or not self._may_join(known):
            groups["app"] = empty("app", known.protocol)
            return
        groups["app"] = Group("app", NEW, GroupState.STABLE, (READER,))
        for place in (AUDIT, ORDERS):
            if not site.rules.denies(Denied.READ, APP, place.topic):
                end = len(site.logs.logs.get(place, ()))
                site.positions.positions.setdefault("app", {})[place] = Committed(end)

    def _may_join(self, group: Group) -> bool:
        """Whether the consumer can join: one of the KIP-848 protocol ends if the group has another
        type.
        """
        return group.protocol is GroupProtocol.CONSUMER or self.restarted


def linked(source: str = PRIMARY, target: str = SECONDARY) -> Pair:
    """Create a running link: one record is not replicated yet, and one group lags on the target."""
    pair = Pair(source, target)
    ours, theirs = pair.sites[source], pair.sites[target]
    ours.rules.rules |= {OF_A_PERSON}
    # An earlier run fenced the target: the deny ACL there is drctl's own.
    (closed,) = denials([APP], [Topics("orders", LITERAL)], [Denied.WRITE])
    theirs.rules.rules |= {closed, sign(closed, "main")}
    ours.rules.spread()
    theirs.rules.spread()
    theirs.logs.append(ORDERS, record("before there was a link"))
    for place, keys in ((AUDIT, ("a1",)), (ORDERS, ("o1", "o2", "o3", "o4"))):
        for key in keys:
            ours.logs.append(place, record(key))
    pair.workers.connectors["mm2"] = Connector(ours.logs, theirs.logs)
    pair.workers.connectors[BACK] = Connector(theirs.logs, ours.logs, STOPPED, STOPPED)
    for key, place in (("a1", AUDIT), ("o1", ORDERS), ("o2", ORDERS), ("o3", ORDERS)):
        theirs.logs.append(place, record(key))
    pair.workers.connectors["mm2"].kept = {AUDIT: 0, ORDERS: 2}
    ours.positions.positions = {
        "app": {AUDIT: Committed(1), ORDERS: Committed(4)},
        "old": {ORDERS: Committed(2)},
    }
    theirs.positions.positions = {"old": {ORDERS: Committed(2)}}
    pair._read(source)
    return pair
