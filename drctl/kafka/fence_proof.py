"""Proof that nothing is written to fenced topics any more.

A controller's acknowledgement of an ACL proves nothing: each broker applies the ACL on receipt, and
a stalled broker continues with the old ACLs. Requests accepted earlier may still append records for
a moment. And an end offset is the high watermark, which a slow replica holds back.
"""

from collections.abc import Collection, Mapping, Sequence

from drctl.kafka.acls import KafkaAclReader
from drctl.kafka.brokers import ClusterClient
from drctl.kafka.connection import Connection
from drctl.kafka.deadline import Deadline
from drctl.kafka.elections import LIST_OFFSETS, ReplicaEnd, read_log_ends, write_log_ends
from drctl.kafka.leaders import Question, ask_leaders
from drctl.kafka.offsets import LookUps
from drctl.model.errors import ConfigError
from drctl.model.fencing import FenceProof, LogEnd, Moved, NoWrites
from drctl.model.repairs import Acl
from drctl.model.topology import Found, Mark, TopicPartition, Unavailable

_LOG_ENDS = Question(LIST_OFFSETS, write_log_ends, read_log_ends)

_LEAST_S = 1.0

Ends = Mapping[TopicPartition, Found | Unavailable]
Reasons = Mapping[TopicPartition, Unavailable]


class KafkaFenceProver(ClusterClient):
    """Implements `FenceProver` of `drctl.model.fencing`.

    Args:
        connection: its timeout limits the wait for all brokers to apply the ACLs, and then the
            wait for unchanged end offsets; it may take twice as long if leaders hang.
        stabilize_s: how long end offsets must be unchanged.
    """

    def __init__(self, connection: Connection, *, stabilize_s: float = 1.0) -> None:
        super().__init__(connection)
        self._acls = KafkaAclReader(connection)
        self._stabilize_s = stabilize_s
        self._unasked: Unavailable | None = None

    def prove(self, rules: Collection[Acl], topics: Collection[str]) -> FenceProof:
        """Wait until every broker applies the rules and the topics' end offsets are unchanged.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        return FenceProof(self._acls.enforcement(rules, topics), self.no_writes(topics))

    def no_writes(self, topics: Collection[str]) -> NoWrites:
        """Wait until the topics' end offsets are unchanged, up to the deadline.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
        deadline = self._connection.deadline()
        places, missing = self._partitions(topics, deadline)
        before, looks = self._look(places, Mark.END), 1
        while True:
            self._wait()
            now = self._look(places, Mark.END)
            looks += 1
            found = self._compare(before, now, missing, looks)
            waiting = found.moved or found.unreplicated or found.unread.keys() - missing.keys()
            if not waiting or deadline.remaining < self._stabilize_s:
                return found
            before = now

    def close(self) -> None:
        """Release connections; idempotent."""
        self._acls.close()
        super().close()

    def _partitions(
        self, topics: Collection[str], deadline: Deadline
    ) -> tuple[list[TopicPartition], dict[TopicPartition, Unavailable]]:
        known = self._connection.metadata(deadline).topics
        places = [
            TopicPartition(name, number)
            for name in sorted(set(topics))
            if name in known
            for number in sorted(known[name].partitions)
        ]
        absent = Unavailable("the topic does not exist, or this user may not see it")
        return places, {TopicPartition(n, -1): absent for n in topics if n not in known}

    def _wait(self) -> None:
        until = Deadline.after(self._stabilize_s)
        while not until.expired:
            self._connection.wait(until.remaining)

    def _step(self) -> Deadline:
        """The deadline of one request, so that a hanging leader leaves time for the others."""
        return Deadline.after(max(_LEAST_S, self._connection.timeout_s / 2))

    def _look(self, places: Sequence[TopicPartition], mark: Mark) -> Ends:
        look_ups = self._connection.part(LookUps)
        answers = look_ups.ask([(p, mark) for p in places], self._step(), refresh=True)()
        return dict(zip(places, answers, strict=True))

    def _compare(self, before: Ends, now: Ends, missing: Reasons, looks: int) -> NoWrites:
        both = {p: (then, now[p]) for p, then in before.items()}
        read = {
            p: Moved(a.offset, b.offset)
            for p, (a, b) in both.items()
            if isinstance(a, Found) and isinstance(b, Found)
        }
        unread = {p: e for p, ab in both.items() for e in ab if isinstance(e, Unavailable)}
        still = {p: ends.after for p, ends in read.items() if ends.before == ends.after}
        logs = self._log_ends(still)
        unknown = {p: e for p, e in logs.items() if isinstance(e, Unavailable)}
        unreplicated = {
            p: LogEnd(still[p], e.offset)
            for p, e in logs.items()
            if isinstance(e, ReplicaEnd) and e.offset > still[p]
        }
        stable = self._look(tuple(still), Mark.STABLE)
        return NoWrites(
            self._stabilize_s,
            {p: end for p, end in still.items() if p not in unreplicated and p not in unknown},
            {p: ends for p, ends in read.items() if p not in still},
            {**unread, **unknown, **missing},
            unreplicated,
            self._unasked,
            tuple(p for p, e in stable.items() if isinstance(e, Found) and e.offset < still[p]),
            looks,
        )

    def _log_ends(
        self, places: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ReplicaEnd | Unavailable]:
        """The leaders' own log end offsets; empty if drctl cannot request them."""
        if self._unasked is not None:
            return {}
        step = self._step()
        try:
            return ask_leaders(self._connection, self._brokers, _LOG_ENDS, places, step)
        except ConfigError as unsupported:
            self._unasked = Unavailable(
                f"cannot read the leaders' log end offsets: {unsupported.message}"
            )
            return {}
