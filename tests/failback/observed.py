"""A way back that is looked at as `drctl failback --check-order` does: clusters in memory."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from drctl.config.link import Link
from drctl.config.schema import PolicyConfig
from drctl.failback.facts import Facts
from drctl.failback.observing import FailbackObserver, Results
from drctl.failback.ports import Brokers, FailbackPorts
from drctl.model.endpoints import EndpointState
from drctl.model.fencing import FenceProof, Obedience, Stillness
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState, Member, Positions
from drctl.model.repairs import Acl, Acls
from drctl.model.replication import Connector
from drctl.model.topology import (
    Found,
    Mark,
    Overview,
    Record,
    TopicPartition,
    TopicState,
    Unavailable,
)
from drctl.reconcile.progress import Key, Progress
from tests import links
from tests.failback.ways import DROP, HERE, IDENTITY, PLACE, THERE, WHOLE, connector

NAME = PLACE.topic
CREATE_TIME = {"message.timestamp.type": "CreateTime"}


@dataclass
class Side:
    """A cluster that has one topic of one partition, and groups.

    Attributes:
        settings: of the topic.
        hollow: so many offsets at its end hold no record.
    """

    identity: str
    log: Sequence[Record]
    settings: Mapping[str, str] = field(default_factory=lambda: CREATE_TIME)
    read_in: Mapping[str, Group | Unavailable] = field(default_factory=dict)
    stands: Mapping[str, Positions | Unavailable] = field(default_factory=dict)
    name: str = ""
    hollow: int = 0

    @property
    def end(self) -> int:
        return self.log[-1].offset + 1 + self.hollow if self.log else 0

    def overview(self) -> Overview:
        return Overview(self.identity, {NAME: (0,)} if self.log else {})

    def topics(self, names: Collection[str]) -> Mapping[str, TopicState]:
        return {each: TopicState(each, {0: 1}, self.settings) for each in names}

    def look_up(
        self, questions: Sequence[tuple[TopicPartition, int]]
    ) -> Callable[[], Sequence[Found]]:
        marks = {Mark.START: self.log[0].offset if self.log else 0, Mark.END: self.end}
        return lambda: [Found(marks[Mark(mark)], -1) for _, mark in questions]

    def following(
        self, positions: Mapping[TopicPartition, int], number: int
    ) -> Mapping[TopicPartition, tuple[Record, ...]]:
        return {
            place: tuple(each for each in self.log if each.offset >= at)[:number]
            for place, at in positions.items()
        }

    def records(
        self, positions: Sequence[tuple[TopicPartition, int]]
    ) -> Mapping[tuple[TopicPartition, int], Record]:
        known = {each.offset: each for each in self.log}
        return {(place, at): known[at] for place, at in positions if at in known}

    def groups(self) -> tuple[str, ...]:
        return tuple(sorted({*self.read_in, *self.stands}))

    def described(self, names: Collection[str]) -> Mapping[str, Group | Unavailable]:
        nobody = {each: Group(each, GroupProtocol.CLASSIC, GroupState.DEAD) for each in names}
        return {**nobody, **{n: each for n, each in self.read_in.items() if n in names}}

    def committed(self, names: Collection[str]) -> Mapping[str, Positions | Unavailable]:
        nothing: Positions = {}
        return {each: self.stands.get(each, nothing) for each in names}


def read_by(name: str) -> Group:
    """A group with a member."""
    members = (Member("app", "host"),)
    return Group(name, GroupProtocol.CLASSIC, GroupState.STABLE, members)


def stands_at(offset: int) -> Positions:
    return {PLACE: Committed(offset)}


@dataclass
class Around:
    """What else is looked at, all of it well: closed, and led to the survivor.

    Attributes:
        kept: offsets by connector, as Connect keeps them: the last one that was copied.
    """

    kept: Mapping[str, int]
    back: str = "STOPPED"
    drops: bool = True
    decided: Mapping[Key, Progress] = field(default_factory=dict)
    endpoint: str = "file bootstrap"

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
        return FenceProof(Obedience({1: None}, len(rules), 1), Stillness(2, {}))

    def observe(self) -> EndpointState:
        return EndpointState(self.endpoint, "secondary", "it leads there")

    def runs(self) -> tuple[()]:
        return ()


_SOURCE = "MirrorSourceConnector"


def link(**settings: object) -> Link:
    """From primary to secondary, by MirrorMaker 2."""
    connect = {"connect": "http://connect:8083", "connectors": {"source": "mm2-source"}}
    back = {"connect": "http://connect:8083", "connectors": {"source": "mm2-back"}}
    main = {
        "topics": [NAME],
        "groups": [".*"],
        "replicator": {"kind": "mirrormaker2", **connect, "reverse": back},
        "fence": {"method": "acl", "principals": ["User:app"]},
        **settings,
    }
    return links.link(**main)


def looked_at(
    source: Side, target: Side, results: Results, around: Around, most: int = 1_000, **settings: Any
) -> Facts:
    """Everything that is seen of it."""
    here, there, rest = cast(Any, source), cast(Any, target), cast(Any, around)
    ports = FailbackPorts(
        source=here,
        target=there,
        source_groups=here,
        target_groups=there,
        health=rest,
        acls=rest,
        prover=rest,
        forward=rest,
        reverse=rest,
        brokers=Brokers(frozenset({"primary:1"}), frozenset({"secondary:1"})),
        endpoints=[rest],
        journal=rest,
        journal_copies=rest,
        decisions=lambda: around.decided,
        fence_verified=lambda: None,
        stopped_told=lambda: None,
    )
    return FailbackObserver(link(**settings), PolicyConfig(), ports, most=most).observe(results)


def primary(*log: Record, **more: Any) -> Side:
    return Side(HERE, log, **more, name="primary")


def secondary(*log: Record, **more: Any) -> Side:
    return Side(THERE, log, **more, name="secondary")
