"""A failback as `drctl failback --check-order` observes it, on clusters in memory."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from drctl.config.link import Link
from drctl.config.schema import PolicyConfig
from drctl.engine.ports import CommandResult
from drctl.failback.facts import Facts
from drctl.failback.observing import FailbackObserver, Results
from drctl.failback.ports import FailbackPorts
from drctl.formats import provenance
from drctl.formats.provenance import Provenance
from drctl.model.endpoints import EndpointState
from drctl.model.fencing import Enforcement, FenceProof, NoWrites
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState, Member, Positions
from drctl.model.ports import ClusterReader
from drctl.model.repairs import Acl, Acls
from drctl.model.replication import Connector
from drctl.model.topology import Record, TopicPartition, Unavailable
from drctl.reconcile.progress import Key, Progress
from tests import links
from tests.failback.failback_orders import DROP, HERE, IDENTITY, PLACE, WHOLE, connector
from tests.fakes import FakeCluster, FakeLog, row_of

NAME = PLACE.topic
CREATE_TIME = {"message.timestamp.type": "CreateTime"}


def record(offset: int, key: str, at: int, *headers: tuple[str, bytes | None]) -> Record:
    return Record(0, offset, at, key.encode(), b"v", headers)


def origin(cluster: str, offset: int, place: TopicPartition = PLACE) -> tuple[str, bytes]:
    """Return the provenance header of a record that drctl copied."""
    return provenance.HEADER, provenance.encode(Provenance(cluster, *place, offset, 5))


@dataclass
class Log:
    """The records of a partition."""

    log: Sequence[Record]
    name: str = "primary"
    most_at_once: int = 0

    def following(
        self, positions: Mapping[TopicPartition, int], number: int
    ) -> Mapping[TopicPartition, tuple[Record, ...]]:
        found = {
            place: tuple(each for each in self.log if each.offset >= at)[:number]
            for place, at in positions.items()
        }
        self.most_at_once = max(self.most_at_once, sum(map(len, found.values())))
        return found

    def records(
        self, positions: Sequence[tuple[TopicPartition, int]]
    ) -> Mapping[tuple[TopicPartition, int], Record]:
        known = {each.offset: each for each in self.log}
        return {(place, at): known[at] for place, at in positions if at in known}


def reader(*log: Record) -> ClusterReader:
    return cast(ClusterReader, Log(log))


def side(
    name: str,
    *log: Record,
    settings: Mapping[str, str] = CREATE_TIME,
    read_in: Mapping[str, Group | Unavailable] | None = None,
    committed: Mapping[str, Positions | Unavailable] | None = None,
    hollow: int = 0,
    silent: bool = False,
) -> FakeCluster:
    """Return a cluster with one topic of one partition, and groups.

    Args:
        settings: configuration of the topic.
        hollow: number of offsets at the end without records.
    """
    held: Any = {
        n: dict(at) if isinstance(at, Mapping) else at for n, at in (committed or {}).items()
    }
    logs: dict[TopicPartition, FakeLog | Unavailable] = {}
    if log:
        logs[PLACE] = FakeLog(list(map(row_of, log)), log[-1].offset + 1 + hollow, log[0].offset)
    return FakeCluster(logs, name, dict(read_in or {}), held, settings, silent=silent)


def read_by(name: str) -> Group:
    """Return a group with a member."""
    members = (Member("app", "host"),)
    return Group(name, GroupProtocol.CLASSIC, GroupState.STABLE, members)


def committed_at(offset: int) -> Positions:
    return {PLACE: Committed(offset)}


@dataclass
class Around:
    """Other observations, all healthy: fenced, and clients on the surviving cluster.

    Attributes:
        kept: source offsets by connector as Connect stores them: the last replicated ones.
    """

    kept: Mapping[str, int]
    back: str = "STOPPED"
    drops: bool = True
    decided: Mapping[Key, Progress] = field(default_factory=dict)

    def kafka_cluster_id(self) -> str:
        return HERE

    def all(self) -> Mapping[str, Connector]:
        mirror = {**IDENTITY, "connector.class": "org.apache.kafka.connect.mirror.x"}
        source = {**mirror, "connector.class": f"{mirror['connector.class'][:-1]}{_SOURCE}"}
        config = {**source, **(DROP["config"] if self.drops else {})}
        return {
            "mm2-source": connector("mm2-source", "STOPPED", source),
            "mm2-back": connector("mm2-back", self.back, config),
        }

    def offsets(self, name: str) -> Sequence[Mapping[str, Any]]:
        if name not in self.kept:
            return ()
        partition = {"cluster": "x", "topic": NAME, "partition": 0}
        return [{"partition": partition, "offset": {"offset": self.kept[name]}}]

    def health(self, *_given: object) -> Any:
        return WHOLE

    def acls(self) -> Acls:
        return Acls(True, (Acl(NAME, "LITERAL", "User:app", "*", "WRITE", "DENY"),))

    def prove(self, rules: Collection[Acl], topics: Collection[str]) -> FenceProof:
        return FenceProof(Enforcement({1: None}, len(rules), 1), NoWrites(2, {}))

    def observe(self) -> EndpointState:
        return EndpointState("file bootstrap", "secondary", "it leads there")

    def runs(self) -> tuple[()]:
        return ()


_SOURCE = "MirrorSourceConnector"


def link(**settings: object) -> Link:
    """Return a link from primary to secondary by MirrorMaker 2."""
    connect = {"connect": "http://connect:8083", "connectors": {"source": "mm2-source"}}
    back = {"connect": "http://connect:8083", "connectors": {"source": "mm2-back"}}
    main = {
        "topics": [NAME],
        "groups": [".*"],
        "replicator": {"kind": "mirrormaker2", **connect, "reverse": back},
        "fence": {"method": "acl", "principals": ["User:app"]},
        "endpoints": [{"kind": "file", "path": "bootstrap"}],
        **settings,
    }
    return links.link(**main)


SUCCEEDED = CommandResult(0)


@dataclass
class Looks:
    """The reader of the link's steps: both clusters, the source's ACLs and commands."""

    sides: Mapping[str, Any] = field(default_factory=dict)
    rules: Any = None
    command_result: CommandResult = SUCCEEDED

    def cluster_reader(self, name: str) -> Any:
        return self.sides[name]

    groups = cluster_reader

    def acls(self, name: str) -> Any:
        return self.rules

    def fence(self, name: str, stabilize_s: float) -> Any:
        return self.rules

    def endpoint(self, number: int) -> Any:
        return self.rules

    def run_read_only(self, argv: object, env: object, timeout_s: float) -> CommandResult:
        return self.command_result


def looked_at(
    source: FakeCluster,
    target: FakeCluster,
    results: Results,
    around: Around,
    most: int = 1_000,
    **settings: Any,
) -> Facts:
    """Return all observations."""
    rest, looks = cast(Any, around), Looks({"primary": source, "secondary": target}, around)
    ports = FailbackPorts(
        reader=cast(Any, looks),
        health=rest,
        forward=rest,
        reverse=rest,
        brokers=(frozenset({"primary:1"}), frozenset({"secondary:1"})),
        journal=rest,
        journal_copies=rest,
        decisions=lambda: around.decided,
    )
    return FailbackObserver(link(**settings), PolicyConfig(), ports, most=most).observe(results)


def primary(*log: Record, **more: Any) -> FakeCluster:
    return side("primary", *log, **more)


def secondary(*log: Record, **more: Any) -> FakeCluster:
    return side("secondary", *log, **more)
