"""Clusters in memory: records, ACLs and offsets; every read and every change is recorded."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from drctl.model.errors import Unknown, Unreachable
from drctl.model.fencing import DENY, LITERAL, Denied, Enforcement
from drctl.model.groups import Committed, Positions
from drctl.model.health import BlockingTransaction, OpenTransaction, OpenTransactions
from drctl.model.repairs import Acl, Acls, TopicShape
from drctl.model.topology import (
    Found,
    Mark,
    Overview,
    PartitionOffsets,
    Record,
    TopicPartition,
    TopicState,
    Unavailable,
)

TOPICS = ("audit", "orders")
LED_BY_FIRST = {"audit": False, "orders": True}
COPY = (("__drctl_provenance", b"{}"),)
NOT_ALLOWED = Unavailable("not allowed")

Answers = Mapping[str, Mapping[TopicPartition, Unavailable | None]]


@dataclass
class Trace:
    """All reads and changes by drctl processes, and the faults to inject.

    Attributes:
        fall: called at each point where the process may end.
        announced: called before each change with what changes.
        happened: reads and changes in order; a change also with its details.
        silent: parts that never respond.
        lost_responses: parts whose next change is applied without a response; each once.
        lost: parts whose next request is lost; each once.
        declined: parts that respond and refuse changes.
        silent_after_change: parts that stop responding after their next change.
        looking: whether a step is reading; then only people may change anything.
        aside: whether the test itself is reading; this is not recorded.
    """

    fall: Callable[[str], None] = lambda point: None
    announced: Callable[[str], None] = lambda what: None
    happened: list[tuple[str, str]] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)
    lost_responses: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    declined: set[str] = field(default_factory=set)
    silent_after_change: set[str] = field(default_factory=set)
    looking: bool = False
    aside: bool = False

    def heal(self) -> None:
        """Remove all faults."""
        for wrong in (
            self.silent,
            self.lost_responses,
            self.lost,
            self.declined,
            self.silent_after_change,
        ):
            wrong.clear()

    def look(self, what: str) -> None:
        """Record a read; raise if the part does not respond."""
        if not self.aside:
            self.fall(f"look at {what}")
            self.happened.append((what, ""))
        if what in self.silent:
            raise Unreachable(f"{what} did not answer within 3 s")

    def change(self, what: str, how: str, do: Callable[[], object]) -> bool:
        """Record and apply a change; return whether it was allowed."""
        only_looks = self.aside or (self.looking and what != "people")
        assert not only_looks, f"a read-only method changed {what}"
        self.announced(what)
        self.fall(f"before {what} {how}")
        if what in self.silent | self.lost:
            self.lost.discard(what)
            raise Unknown(f"no answer from {what}")
        if what in self.declined:
            return False
        do()
        self.happened.append((what, how))
        if what in self.silent_after_change:
            self.silent.add(what)
        unheard = what in self.lost_responses | self.silent
        self.lost_responses.discard(what)
        self.fall(f"after {what} {how}")
        if unheard:
            raise Unknown(f"no answer from {what}")
        return True

    @contextmanager
    def unrecorded_reads(self) -> Iterator[None]:
        """Read without being recorded and without ending the process."""
        self.aside, before = True, self.aside
        try:
            yield
        finally:
            self.aside = before


@dataclass
class Rules:
    """The ACLs of a cluster of two brokers; the second applies changes later."""

    cluster: str
    trace: Trace
    rules: set[Acl] = field(default_factory=set)
    second: set[Acl] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.second = set(self.rules)

    def spread(self) -> None:
        """Apply all changes on the second broker."""
        self.second = set(self.rules)

    def denies(self, operation: Denied, principal: str, topic: str) -> bool:
        """Whether the topic's leader denies a principal."""
        known = self.rules if LED_BY_FIRST[topic] else self.second
        return _denial(topic, principal, operation) in known

    def acls(self) -> Acls:
        self.trace.look(self.what)
        return Acls(True, tuple(sorted(self.rules)))

    def enforcement(self, rules: Collection[Acl], topics: Collection[str]) -> Enforcement:
        self.trace.look(self.what)
        wanted = set(rules)
        return _obedience(wanted <= self.rules, wanted <= self.second, len(wanted))

    def lifted(self, rules: Collection[Acl], topics: Collection[str]) -> Enforcement:
        self.trace.look(self.what)
        gone = set(rules)
        return _obedience(not gone & self.rules, not gone & self.second, len(gone))

    def deny(self, rules: Collection[Acl]) -> dict[Acl, Unavailable | None]:
        return {rule: self._changed("deny", rule, self.rules.add) for rule in rules}

    def restore(self, rules: Collection[Acl]) -> dict[Acl, Unavailable | None]:
        return {rule: self._changed("lift", rule, self.rules.discard) for rule in rules}

    @property
    def what(self) -> str:
        """Name in the trace."""
        return f"rules of {self.cluster}"

    def _changed(self, how: str, rule: Acl, do: Callable[[Acl], None]) -> Unavailable | None:
        change = f"{how} {rule.principal} {rule.operation} {rule.name}"
        return None if self.trace.change(self.what, change, lambda: do(rule)) else NOT_ALLOWED


@cache
def _denial(topic: str, principal: str, operation: Denied) -> Acl:
    return Acl(topic, LITERAL, principal, "*", operation.value, DENY)


def _obedience(first: bool, second: bool, number: int) -> Enforcement:
    lags = Unavailable("it has not heard of all")
    return Enforcement({1: None if first else lags, 2: None if second else lags}, number, 1)


@dataclass
class Logs:
    """The records of a cluster; implements `ClusterReader` as far as steps need it.

    Attributes:
        what: its name in the trace.
        deleted: how often each topic was deleted.
        open_: open transactions; at first none, and nobody ends them.
        hidden: offsets that consumers of committed records do not see: those of control records,
            and of records in open or aborted transactions.
    """

    name: str
    trace: Trace
    logs: dict[TopicPartition, list[Record]] = field(default_factory=dict)
    deleted: Counter[str] = field(default_factory=Counter)
    open_: dict[TopicPartition, OpenTransaction] = field(default_factory=dict)
    hidden: dict[TopicPartition, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.what = f"logs of {self.name}"

    def delete(self, topic: str) -> None:
        """Delete a topic; the next write creates it again."""
        for place in [place for place in self.logs if place.topic == topic]:
            del self.logs[place]
        self.deleted[topic] += 1

    def topic_id(self, topic: str) -> str:
        """Kafka's topic id; a recreated topic has a new one."""
        return f"{topic}-{self.deleted[topic]}"

    @property
    def dead(self) -> bool:
        """Whether the cluster is unreachable."""
        return self.what in self.trace.silent

    def append(self, place: TopicPartition, record: Record) -> None:
        """Append a record."""
        log = self.logs.setdefault(place, [])
        key, value, at = record.key, record.value, record.timestamp_ms
        log.append(Record(place.partition, len(log), at, key, value, record.headers))

    def committed(
        self, place: TopicPartition, start: int = 0, end: int | None = None
    ) -> list[Record]:
        """Return records of a partition without those that are hidden."""
        found, hidden = self.logs.get(place, [])[start:end], self.hidden.get(place)
        return [each for each in found if each.offset not in hidden] if hidden else found

    def stable_end(self, place: TopicPartition) -> int:
        """The last stable offset of a partition."""
        found = self.open_.get(place)
        return len(self.logs.get(place, ())) if found is None else found.since

    def all_keys(self, topics: Collection[str] = TOPICS) -> list[str]:
        """Return the keys of all records of these topics, partition by partition."""
        return [
            (record.key or b"").decode()
            for place in sorted(self.logs)
            if place.topic in topics
            for record in self.committed(place)
        ]

    def cluster_id(self) -> str:
        self._look()
        return f"id-of-{self.name}"

    def overview(self) -> Overview:
        self._look()
        found: dict[str, tuple[int, ...]] = {}
        for place in sorted(self.logs):
            found[place.topic] = (*found.get(place.topic, ()), place.partition)
        return Overview(f"id-of-{self.name}", found)

    def topic_names(self) -> frozenset[str]:
        return frozenset(self.overview().partitions)

    def offsets(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, PartitionOffsets | Unavailable]:
        self._look()
        ends = {place: len(self.logs.get(place, ())) for place in partitions}
        return {p: PartitionOffsets(0, self.stable_end(p), end) for p, end in ends.items()}

    def open_transactions(self, partitions: Collection[TopicPartition]) -> OpenTransactions:
        self.trace.look(f"transactions of {self.name}")
        return {place: (self.open_[place],) for place in partitions if place in self.open_}

    def abort(
        self, transactions: Collection[BlockingTransaction]
    ) -> dict[BlockingTransaction, Unavailable | None]:
        answers: dict[BlockingTransaction, Unavailable | None] = {}
        for each in transactions:
            what, how = f"transactions of {self.name}", f"abort {each.producer_id} in {each.place}"
            done = self.trace.change(what, how, partial(self.open_.pop, each.place, None))
            answers[each] = None if done else NOT_ALLOWED
        return answers

    def look_up(
        self, questions: Sequence[tuple[TopicPartition, int]]
    ) -> Callable[[], Sequence[Found | Unavailable]]:
        self._look()
        found = [
            Found(0 if mark == Mark.START else len(self.logs.get(place, ())), -1)
            for place, mark in questions
        ]
        return lambda: found

    def following(
        self, positions: Mapping[TopicPartition, int], number: int
    ) -> dict[TopicPartition, tuple[Record, ...]]:
        self._look()
        found = {p: self.committed(p, at, self.stable_end(p)) for p, at in positions.items()}
        return {place: tuple(records[:number]) for place, records in found.items()}

    def topics(self, names: Collection[str]) -> dict[str, TopicState | None]:
        there = self.overview().partitions
        return {
            name: TopicState(name, dict.fromkeys(there[name], 1), topic_id=self.topic_id(name))
            if name in there
            else None
            for name in names
        }

    def shapes(self, names: Collection[str]) -> dict[str, TopicShape]:
        there = self.overview().partitions
        return {name: TopicShape(len(there[name]), 2) for name in names}

    def _look(self) -> None:
        self.trace.look(self.what)


@dataclass
class Committing:
    """The committed offsets of a cluster's groups.

    Attributes:
        read_in: whether a group is active; the coordinator then refuses changes.
    """

    cluster: str
    trace: Trace
    read_in: Callable[[str], bool]
    positions: dict[str, dict[TopicPartition, Committed]] = field(default_factory=dict)

    def committed(self, names: Collection[str]) -> dict[str, Positions]:
        self.trace.look(self.what)
        return {name: dict(self.positions.get(name, {})) for name in names}

    def commit(self, wanted: Mapping[str, Positions]) -> Answers:
        return {
            group: {place: self._put(group, place, at) for place, at in places.items()}
            for group, places in wanted.items()
        }

    def delete(self, unwanted: Mapping[str, Collection[TopicPartition]]) -> Answers:
        return {
            group: {place: self._put(group, place, None) for place in places}
            for group, places in unwanted.items()
        }

    @property
    def what(self) -> str:
        """Name in the trace."""
        return f"positions of {self.cluster}"

    def _put(self, group: str, place: TopicPartition, at: Committed | None) -> Unavailable | None:
        if self.read_in(group):
            return Unavailable("the group has members")

        def put() -> None:
            committed = self.positions.setdefault(group, {})
            committed.pop(place, None)
            if at is not None:
                committed[place] = at

        change = f"{group} {place} {at.offset if at else None}"
        return None if self.trace.change(self.what, change, put) else NOT_ALLOWED


def record(key: str, headers: tuple[tuple[str, Any], ...] = ()) -> Record:
    """Create a record that is not stored yet."""
    return Record(0, -1, 1, key.encode(), b"", headers)
