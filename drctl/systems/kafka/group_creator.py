"""Makes groups known to a cluster as groups of KIP-848, by a member that joins and leaves at once.

The member subscribes to nothing. librdkafka's consumer cannot do that: it joins with a topic, one a
group, with threads and connections of its own.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from uuid import NAMESPACE_OID, uuid5

from confluent_kafka import KafkaError

from drctl.model.topology import Unavailable
from drctl.offsets.answers import Unanswered
from drctl.systems.closing import Closing
from drctl.systems.kafka.broker_socket import Address, BrokerSocket
from drctl.systems.kafka.brokers import Brokers, Hopeless, Task
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.faults import Fault
from drctl.systems.kafka.group_batches import LANES, coordinators
from drctl.systems.kafka.group_faults import moving, reason
from drctl.systems.kafka.requests import in_chunks, pauses
from drctl.wire.group_heartbeats import (
    HEARTBEAT,
    JOIN,
    LEAVE,
    Beat,
    heartbeat,
    read_heartbeat,
)

_AT_ONCE = 20
_REBALANCE_MS = 60_000

Answers = dict[str, Fault | None]
Lane = tuple[int, int]


class KafkaGroupCreator(Closing):
    """Implements `GroupCreator` of `drctl.model.group_preparation`.

    Connects on first use. A call ends within `timeout_s` (and a moment).
    """

    def __init__(self, name: str, properties: Mapping[str, str], *, timeout_s: float = 10) -> None:
        self._connection = Connection(name, properties, timeout_s)
        self._brokers = Brokers(self._connection)

    def create(self, names: Collection[str]) -> Mapping[str, Unavailable | None]:
        """Make each known, and leave it empty; by group None where it is, or why it is not.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """
        deadline, waits = self._connection.deadline(), pauses()
        wanted = list(dict.fromkeys(names))
        answers: Answers = dict.fromkeys(wanted, _SILENT)
        pending = wanted
        while pending:
            answers |= self._round(pending, deadline)
            pending = [name for name in pending if _again(answers[name])]
            if deadline.expired:
                break
            self._connection.wait(min(next(waits), deadline.remaining) if pending else 0)
        return {name: self._told(name, answers[name]) for name in wanted}

    def close(self) -> None:
        """Release connections; may be called again."""
        self._connection.close()

    def _round(self, names: Sequence[str], deadline: Deadline) -> Answers:
        addresses = self._brokers.addresses(deadline)
        answers, coordinated = self._coordinators(names, addresses, deadline)
        lanes: dict[Lane, list[str]] = defaultdict(list)
        for node, groups in coordinated.items():
            for at, name in enumerate(groups):
                lanes[node, at % LANES].append(name)
        tasks = {lane: _visits(groups) for lane, groups in lanes.items()}
        places = {lane: addresses[lane[0]] for lane in lanes if lane[0] in addresses}
        for lane, found in self._brokers.ask(tasks, places, deadline).items():
            if isinstance(found, Unavailable):
                answers |= dict.fromkeys(lanes[lane], _lost(found))
            else:
                answers |= found
        return answers

    def _coordinators(
        self, names: Sequence[str], addresses: Mapping[int, Address], deadline: Deadline
    ) -> tuple[Answers, dict[int, list[str]]]:
        found, coordinated = coordinators(self._brokers, names, addresses, deadline)
        answers: Answers = dict.fromkeys(names, _SILENT)
        for name, why in found.items():
            answers[name] = (
                _lost(why) if isinstance(why, Unavailable) else _fault(why.error, why.text)
            )
        return answers, coordinated

    def _told(self, name: str, fault: Fault | None) -> Unavailable | None:
        if fault is None:
            return None
        text = self._connection.redacted(reason(name, fault))
        return Unanswered(text) if fault.unanswered else Unavailable(text)


def _visits(groups: Sequence[str]) -> Task[Answers]:
    def run(opened: BrokerSocket) -> Answers:
        answers: Answers = {}
        for chunk in in_chunks(groups, _AT_ONCE):
            joined = _beats(opened, chunk, JOIN)
            answers |= {name: _judged(beat) for name, beat in joined.items()}
            members = [name for name, beat in joined.items() if not beat.error]
            left = _beats(opened, members, LEAVE)
            answers |= {name: _judged(beat) for name, beat in left.items()}
        return answers

    return run


def _beats(opened: BrokerSocket, groups: Sequence[str], epoch: int) -> dict[str, Beat]:
    for name in groups:
        opened.send(HEARTBEAT, heartbeat(name, _member(name), epoch, _REBALANCE_MS))
    return {name: opened.receive(HEARTBEAT, read_heartbeat) for name in groups}


def _member(group: str) -> str:
    """Always the same: one that could not leave is not left behind by the next attempt."""
    return str(uuid5(NAMESPACE_OID, f"drctl {group}"))


def _judged(beat: Beat) -> Fault | None:
    return _fault(beat.error, beat.text) if beat.error else None


def _fault(code: int, text: str) -> Fault:
    return Fault(code, text or KafkaError(code).str())


def _lost(why: Unavailable) -> Fault:
    code = KafkaError._FAIL if isinstance(why, Hopeless) else KafkaError._TIMED_OUT
    return Fault(code, why.reason)


def _again(fault: Fault | None) -> bool:
    return fault is not None and (moving(fault) or fault.retried)


_SILENT = Fault(KafkaError._TIMED_OUT, "no answer within the deadline")
