"""One drctl process over two clusters in memory: its reader, its writer and its memory.

A new process does not know what an earlier one remembered.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from zlib import crc32

from drctl.checks.registry import PRECHECKS
from drctl.engine.failback_state import OutstandingAction, ReconcileRequest, Reconciliation, Search
from drctl.engine.ports import CommandResult, Missing
from drctl.formats.tracked_positions import TrackedPositions
from drctl.kafka.acls import SharedRules
from drctl.model.errors import Unreachable
from drctl.model.fencing import AclReader, FenceProof, Moved, NoWrites
from drctl.model.finding import Finding, Status
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState
from drctl.model.loss import Loss, exactly
from drctl.model.repairs import Acls
from drctl.model.topology import TopicPartition, Unavailable
from drctl.offsets.applying import Bounds, Translated, Wanted
from drctl.steps.stop_replication import RUNNING, STOPPED
from tests.engine.client_state import NEW, empty
from tests.engine.client_state import SOURCE as ASKED
from tests.engine.client_state import TARGET as ADVANCED
from tests.engine.connect_workers import SHOP, SourceWorkers, Workers
from tests.engine.memory_clusters import NOT_ALLOWED, TOPICS, Logs, Rules, record
from tests.engine.pair import Endpoint, Pair, Site

LINK = "main"
FENCE, MIRROR = "./fence", "./mirror"
"""User-supplied commands with the arguments `on`, `off`, `look`, and `stop`, `start`, `look`."""

_ABSENT = Group("", GroupProtocol.UNKNOWN, GroupState.DEAD)


@dataclass
class Memory:
    """What one process remembers."""

    ended: dict[str, CommandResult] = field(default_factory=dict)
    answers: dict[str, bool | None] = field(default_factory=dict)


@dataclass
class MemoryReader:
    """Implements `LinkReader`."""

    pair: Pair
    source: str
    target: str
    memory: Memory = field(default_factory=Memory)

    def topics(self) -> tuple[str, ...]:
        alive = {each for each in (self.source, self.target) if not self._site(each).logs.dead}
        if not alive:
            raise Unreachable(f"neither {self.source} nor {self.target} answers")
        if self.source in alive and not self.pair.may_miss_topics:
            alive = {self.source}
        names = {
            topic for each in sorted(alive) for topic in self.cluster_reader(each).topic_names()
        }
        return tuple(sorted(names & set(TOPICS)))

    def target_topic(self, topic: str) -> str:
        return topic

    def cluster_reader(self, name: str) -> Logs:
        return self._site(name).logs

    def live_cluster_id(self, name: str, *, newly: bool = False) -> str:
        return self.cluster_reader(name).cluster_id()

    def groups(self, name: str) -> Any:
        return SimpleNamespace(
            groups=lambda: self.link_groups(name),
            described=lambda names: self._described(name, names),
            committed=self._site(name).positions.committed,
        )

    def link_groups(self, name: str, *, incomplete: bool = False) -> tuple[str, ...]:
        self.pair.trace.look(f"groups of {name}")
        return tuple(sorted(self.pair.arrivals.groups_of[name]))

    def acls(self, name: str) -> Rules:
        return self._site(name).rules

    def shapes(self, name: str) -> Logs:
        return self.cluster_reader(name)

    def producer_ids(self, name: str) -> Any:
        self.pair.trace.look(f"ids of {name}")
        found = self.pair.arrivals.producer_ids(ADVANCED if name == self.target else ASKED)
        return SimpleNamespace(in_use=found.in_use, next_ids=found.next_ids)

    def health(self, name: str) -> Logs:
        return self._site(name).logs

    def fence(self, name: str, stabilize_s: float) -> Any:
        return SimpleNamespace(prove=lambda rules, topics: self._prove(name, rules, topics))

    def connectors(self) -> Workers:
        return self.pair.workers

    def source_workers(self, name: str) -> SourceWorkers:
        return self.pair.sources[name]

    def tracked_positions(self) -> Mapping[str, TrackedPositions]:
        self.pair.trace.look(f"checkpoints on {self.target}")
        plugin = self.pair.sources[self.source].connectors["shop"].plugin
        exported = ((SHOP, {"lsn": 6}),)
        return {"shop": TrackedPositions(1, "w:8083", "id", plugin, RUNNING, {}, exported)}

    def endpoint(self, number: int) -> Endpoint:
        return self.pair.endpoints[number]

    def reached(self, number: int, name: str) -> str:
        return self.cluster_reader(self.pair.endpoints[number].cluster).cluster_id()

    def findings(self, mode: str) -> Sequence[Finding]:
        against = set(self.pair.against)
        dead = {name for name in (self.source, self.target) if self._site(name).logs.dead}
        self.pair.trace.look("everything that prechecks look at")
        if mode == "unplanned" and self.source not in dead:
            against.add("source-alive")
        if self.target in dead:
            against.add("target-unreachable")
        status = {name: Status.FAIL if name in against else Status.OK for name in PRECHECKS}
        return [Finding(name, each, LINK, "as seen") for name, each in status.items()]

    def translated(self) -> Translated:
        self.pair.trace.look(f"checkpoints on {self.target}")
        found = self._site(self.source).positions.positions
        rows = (
            Wanted(group, place, Committed(self._there(place, at.offset)), Bounds(0, 0))
            for group in sorted(found)
            for place, at in sorted(found[group].items())
        )
        return Translated(tuple(rows))

    def translate_ahead(self, moved: object = None) -> None:
        """Do nothing: offsets are translated at each call."""

    def early_snapshot(self) -> None:
        """Return None: nothing is read in the background."""

    def compare_ahead(self) -> None:
        """Do nothing: records are compared at each call."""

    def missing(self) -> Missing:
        ours, theirs = self._counted(self.source), self._counted(self.target)
        absent, twice = ours - theirs, theirs - ours
        repeated = sum(number for key, number in absent.items() if key in theirs)
        duplicated = sum(number for key, number in twice.items() if key in ours)
        return Missing(absent.total(), (), tuple(sorted(absent)), duplicated, repeated)

    def compared(self, scope: str) -> Missing:
        return self.missing()

    def proof(self) -> Missing:
        return self.missing()

    def loss(self, *, halted: str | None = None) -> Loss:
        self.cluster_reader(self.target).overview()
        return Loss(exactly(1, "counted"), 2.0, 2.0, "about 1 record", ("the connector's offsets",))

    def probe_readable(self, name: str, topic: str, text: str) -> bool:
        log = self.cluster_reader(name).following({TopicPartition(topic, 0): 0}, 50)
        return any(each.key == text.encode() for found in log.values() for each in found)

    def answer(self, question: str, text: str) -> bool | None:
        deed = self.pair.manual_actions.get(question)
        if deed is None:
            return None
        self.pair.trace.look("people")
        self.pair.asked[question] = text
        if question not in self.memory.answers:
            if not (self.pair.blind or self.pair.trace.aside or deed.is_so()):
                self.pair.trace.change("people", question, deed.do)
            self.memory.answers[question] = deed.is_so()
        return self.memory.answers[question]

    def run_read_only(
        self, argv: Sequence[str], env: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        self.pair.trace.look("commands")
        if argv[0] == MIRROR:
            connectors = self.pair.workers.connectors.values()
            return CommandResult(0 if all(each.state == STOPPED for each in connectors) else 1)
        return CommandResult(0 if self._site(self.source).fenced_outside else 1)

    def command_result(self, identity: str) -> CommandResult | None:
        return self.memory.ended.get(identity)

    def reversed(self) -> "MemoryReader":
        return MemoryReader(self.pair, self.target, self.source, self.memory)

    def search_result(self) -> Search:
        return self.pair.search_result(self.target)

    def search_before_rebuild(self) -> Search:
        return self.pair.search_before_rebuild()

    def reconciliation(self, request: ReconcileRequest) -> Reconciliation:
        return self.pair.reconciliation(self.target, request.result)

    def outstanding(self) -> Sequence[OutstandingAction]:
        self.pair.trace.look("journals")
        return (
            OutstandingAction(
                "r0", "fence primary", "fence-producers", "primary", "secondary", True
            ),
        )

    def _site(self, name: str) -> Site:
        return self.pair.sites[name]

    def _described(self, name: str, names: Collection[str]) -> dict[str, Any]:
        self.pair.trace.look(f"groups of {name}")
        return {each: self.pair.arrivals.groups_of[name].get(each, _ABSENT) for each in names}

    def _prove(self, name: str, rules: Collection[Any], topics: Collection[str]) -> FenceProof:
        """Read the end offsets twice and let time pass in between."""
        logs = self.cluster_reader(name)
        enforcement = self.acls(name).enforcement(rules, topics)
        places = [place for place in sorted(logs.logs) if place.topic in topics]
        first = {place: each.end for place, each in logs.offsets(places).items()}
        if not self.pair.trace.aside:
            self.pair.tick()
        last = {place: each.end for place, each in logs.offsets(places).items()}
        moved = {p: Moved(first[p], last[p]) for p in places if first[p] != last[p]}
        still = {place: end for place, end in last.items() if place not in moved}
        return FenceProof(enforcement, NoWrites(1, still, moved))

    def _counted(self, name: str) -> Counter[str]:
        self.cluster_reader(name).overview()
        return Counter(self._site(name).logs.all_keys())

    def _there(self, place: TopicPartition, offset: int) -> int:
        """The target offset after the last record before `offset` that the target also has."""
        before = {each.key for each in self._site(self.source).logs.logs[place][:offset]}
        log = self._site(self.target).logs.logs.get(place, [])
        return max((each.offset + 1 for each in log if each.key in before), default=0)


@dataclass
class MemoryWriter:
    """Implements `LinkWriter`."""

    pair: Pair
    source: str
    target: str
    memory: Memory

    def groups(self, name: str) -> Any:
        return self.pair.sites[name].positions

    def group_creator(self, name: str) -> Any:
        return SimpleNamespace(create=lambda names: {n: self._make(name, n) for n in names})

    def producer_ids(self, name: str) -> Any:
        return SimpleNamespace(advance=lambda beyond: self._advance(name, beyond))

    def transactions(self, name: str) -> Logs:
        return self.pair.sites[name].logs

    def acls(self, name: str) -> SharedRules:
        rules = self.pair.sites[name].rules
        # The writer's own reads do not count as a step's read-back.
        listed = SimpleNamespace(acls=lambda: Acls(True, tuple(rules.rules)))
        return SharedRules(rules, cast(AclReader, listed), LINK)

    def connectors(self) -> Workers:
        return self.pair.workers

    def source_workers(self, name: str) -> SourceWorkers:
        return self.pair.sources[name]

    def endpoint(self, number: int) -> Endpoint:
        return self.pair.endpoints[number]

    def probe_record(self, name: str, endpoint: int | None = None) -> Any:
        to = name if endpoint is None else self.pair.endpoints[endpoint].cluster
        return SimpleNamespace(write_probe=lambda topic, text: self._write_probe(to, topic, text))

    def run(
        self, identity: str, argv: Sequence[str], env: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        def do() -> None:
            if argv[0] == MIRROR:
                for each in self.pair.workers.connectors.values():
                    each.wanted = STOPPED if argv[1] == "stop" else RUNNING
            else:
                self.pair.sites[self.source].fenced_outside = argv[1] == "on"

        done = self.pair.trace.change("commands", argv[1], do)
        self.memory.ended[identity] = ended = CommandResult(0 if done else 1)
        return ended

    def save_evidence(self, name: str, document: Mapping[str, Any] | str) -> None:
        text = document if isinstance(document, str) else json.dumps(document)

        def put() -> None:
            self.pair.kept[name] = text

        self.pair.trace.change("evidence", f"{name} {crc32(text.encode())}", put)

    def reversed(self) -> "MemoryWriter":
        return MemoryWriter(self.pair, self.target, self.source, self.memory)

    def reconcile(self, request: ReconcileRequest) -> None:
        self.pair.reconcile(self.target, request.result)

    def _make(self, name: str, group: str) -> Unavailable | None:
        def put() -> None:
            self.pair.arrivals.groups_of[name][group] = empty(group, NEW)

        done = self.pair.trace.change(f"groups of {name}", f"make {group}", put)
        return None if done else NOT_ALLOWED

    def _advance(self, name: str, beyond: int) -> Mapping[int, Any]:
        assert name == self.target
        answers: dict[int, Any] = {}

        def put() -> None:
            answers.update(self.pair.arrivals.producer_ids(ADVANCED).advance(beyond))

        self.pair.trace.change(f"ids of {name}", f"beyond {beyond}", put)
        # Each response states the broker's current id, so it counts as a read.
        self.pair.trace.look(f"ids of {name}")
        return answers

    def _write_probe(self, name: str, topic: str, text: str) -> None:
        place, logs = TopicPartition(topic, 0), self.pair.sites[name].logs
        self.pair.trace.change(
            f"probe_record on {name}", text, lambda: logs.append(place, record(text))
        )


@dataclass
class Process:
    """A process with its own memory."""

    pair: Pair
    memory: Memory = field(default_factory=Memory)

    @property
    def reader(self) -> MemoryReader:
        return MemoryReader(self.pair, self.pair.source, self.pair.target, self.memory)

    @property
    def writer(self) -> MemoryWriter:
        return MemoryWriter(self.pair, self.pair.source, self.pair.target, self.memory)
