"""The journal topic of the simulated cluster: drctl's own locking over a list of records.

`JournalTopic`, `HeldRun`, `LinkLog` and `Contention` are drctl's. Only what they send to brokers is
simulated: appended records, the fencing of a transactional id, and heartbeats.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from drctl.formats.journal_records import TOPIC, Beat
from drctl.kafka import transactions
from drctl.kafka.journal_log import Contention, LinkLog
from drctl.kafka.journal_reader import BEAT_S
from drctl.kafka.journal_topic import LIFETIME_S, HeldRun, JournalTopic
from tests.simulation.faults import Delivery, Faults, Violation
from tests.simulation.world import PASSWORD

LINK = "main"
JOURNAL = "journal"
"""Its name in the trace."""

BEFORE_ENTRY = f"before {JOURNAL}"
"""The point at which nothing is announced that is not verified."""

_FAULTY = 0.25
"""The journal has fewer faults than other parts: each of them ends a process."""

_PASSWORD = PASSWORD.encode()

Rows = Sequence[tuple[bytes, bytes]]


@dataclass
class Topic:
    """The records of the topic, and the epoch of the link's transactional id.

    Attributes:
        beating: whether the process that holds the link still sends heartbeats.
    """

    faults: Faults
    records: list[tuple[bytes, bytes]] = field(default_factory=list)
    epoch: int = 0
    beating: bool = False
    _read: "tuple[int, LinkLog] | None" = None

    def log(self, link: str) -> tuple[int, LinkLog]:
        """Return how many records there are, and a log of them; each is read only once."""
        at, known = self._read or (0, LinkLog(link))
        known.take(self.records[at:])
        self._read = len(self.records), known
        copied = LinkLog.__new__(LinkLog)
        for name, value in vars(known).items():
            found = value
            if isinstance(value, dict):
                found = {k: [*v] if isinstance(v, list) else v for k, v in value.items()}
            elif isinstance(value, set):
                found = {*value}
            vars(copied)[name] = found
        return len(self.records), copied

    @property
    def free(self) -> bool:
        """Whether the newest record ends its run or releases the link."""
        newest = self.records[-1][1] if self.records else b""
        return b'"entry":"ended"' in newest or b'"last":true' in newest


@dataclass
class Appender:
    """Stands for `TopicWriter` and `JournalWriter`: appends records, all or none.

    Attributes:
        epoch: None for a writer without a transactional id.
    """

    topic: Topic
    epoch: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        """Close nothing."""

    def write(self, rows: Rows, timeout_s: float = 0) -> None:
        """Append the records, unless a newer writer has fenced this one."""
        faults = self.topic.faults
        for _, value in rows:
            if _PASSWORD in value:
                raise Violation(f"a secret is in the journal: {value!r}")
        faults.point(BEFORE_ENTRY)
        if self.epoch is not None and self.epoch != self.topic.epoch:
            raise transactions.Fenced("another writer has started")
        delivery = Delivery.DELIVERED
        if faults.random.random() < _FAULTY:
            delivery = faults.delivery(JOURNAL)
        if delivery in (Delivery.DELIVERED, Delivery.UNANSWERED):
            self.topic.records += rows
        faults.point(f"after {JOURNAL}")
        if delivery is not Delivery.DELIVERED:
            raise transactions.Undecided("the commit was not answered")

    def try_write(self, rows: Rows) -> None:
        """Send a heartbeat; it is not kept, because nothing reads a past one."""
        if self.epoch != self.topic.epoch:
            raise transactions.Fenced("another writer has started")


class NoBeats:
    """Stands for `PeriodicTask`: the simulation sends heartbeats while drctl waits."""

    def __init__(self, *_: object) -> None:
        pass

    def start(self) -> None:
        pass

    def stop(self, timeout_s: float) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@dataclass
class _Log:
    """The records of the topic as drctl reads them."""

    topic: Topic
    link: LinkLog
    position: int = 0
    where: str = f"topic {TOPIC}"

    def catch_up(self) -> bool:
        if not self.position:
            self.position, self.link = self.topic.log(LINK)
            return True
        new, self.position = self.topic.records[self.position :], len(self.topic.records)
        self.link.take(new)
        return True

    def settle(self, seconds: float) -> bool:
        return self.catch_up()


class SimulatedJournal(JournalTopic):
    """The journal as one drctl process uses it."""

    def __init__(self, topic: Topic, token: Callable[[], str]) -> None:
        self._connection: Any = topic
        self._topic, self._link, self._beat_s, self._secret = TOPIC, LINK, BEAT_S, b""
        self._log: Any = _Log(topic, LinkLog(LINK))
        self._exists = self.settled = True
        self._append_s, self._token = LIFETIME_S, token

    def warm_up(self) -> None:
        """Do nothing: there is no coordinator to look up."""

    def _read(self) -> LinkLog:
        self._connection.faults.look(JOURNAL)
        self._log.catch_up()
        link: LinkLog = self._log.link
        return link

    def _ready(self) -> LinkLog:
        return self._read()

    def _watch(self, contention: Contention) -> None:
        topic, log = self._connection, self._log
        for key, value in topic.records[log.position :]:
            record = log.link.decoded(key, value)
            if record is not None:
                contention.observe(record)
        contention.live = True
        if topic.beating and contention.hold is not None:
            contention.observe(Beat(contention.hold.token, last=False))


def take_over(topic: Topic) -> Appender:
    """Start the only writer with the transactional id: it fences the one before."""
    topic.faults.point("before the transactional id")
    topic.epoch += 1
    return Appender(topic, topic.epoch)


def holds(held: HeldRun) -> bool:
    """Whether no other process has taken the link over."""
    writer: Any = held._writer
    return bool(writer.epoch == writer.topic.epoch)


REPLACED = {
    "drctl.kafka.journal_topic.TopicWriter": lambda topic, *_: Appender(topic),
    "drctl.kafka.journal_topic.JournalWriter": lambda topic, *_: take_over(topic),
    "drctl.kafka.journal_topic.PeriodicTask": NoBeats,
}
"""What of the journal's code sends requests, and what stands for it."""
