"""Read the journal on a cluster: its runs, their lines, and who holds a link."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from drctl.engine import run_state
from drctl.formats.journal_records import MAX_PART_BYTES, TOPIC, AnotherVersion
from drctl.host.processes import has_ended
from drctl.kafka.brokers import ClusterClient
from drctl.kafka.connection import Connection
from drctl.kafka.deadline import Deadline
from drctl.kafka.followed_topic import FollowedTopic
from drctl.kafka.journal_log import Contention, LinkLog, LiveRecords
from drctl.kafka.own_topics import JOURNAL, check_creatable, check_writable
from drctl.kafka.transactions import check_usable
from drctl.model.errors import ConfigError, DamagedJournal, Unreachable, UsageError
from drctl.model.journal import Entry, Holder
from drctl.model.text import plural, quote
from drctl.model.topology import TopicState

CONFIG: Mapping[str, str] = {
    # Compaction would keep one record per link, and no record may expire.
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
}

_OVERHEAD_BYTES = 1 << 10
"""Size of a record in addition to its part of a line."""

_REMEDY = "set " + ", ".join(f"{name}={value}" for name, value in CONFIG.items()) + " on it"


def transactional_id(link: str) -> str:
    """The transactional id of a link's holder; its newest user fences all others."""
    return f"drctl.{link}"


def check_partitions(where: str, state: TopicState) -> None:
    """Check that the topic has one partition, so that its records are totally ordered.

    Raises:
        ConfigError: it has several.
    """
    if len(state.partitions) != 1:
        raise ConfigError(
            f"{where} has {plural(len(state.partitions), 'partition')}: a journal must have one",
            "delete it and let drctl create it: each run's journal is also in its host's state_dir",
        )


def check_settings(where: str, config: Mapping[str, str]) -> None:
    """Check that the topic never deletes records.

    Raises:
        ConfigError: it would, or its configuration cannot be read.
    """
    if not config:
        raise ConfigError(
            f"this user may not read the configuration of {where}",
            "grant it DESCRIBE_CONFIGS on the topic (docs/howto/permissions.md)",
        )
    for name, wanted in CONFIG.items():
        found = config.get(name, wanted)
        if found != wanted:
            raise ConfigError(f"{where} has {name}={found}: it would lose journal entries", _REMEDY)
    limit = int(config.get("max.message.bytes", MAX_PART_BYTES + _OVERHEAD_BYTES))
    if limit < MAX_PART_BYTES + _OVERHEAD_BYTES:
        raise ConfigError(
            f"{where} has max.message.bytes={limit}: an entry may be larger than that",
            f"set max.message.bytes to {MAX_PART_BYTES + _OVERHEAD_BYTES} or more on it",
        )


BEAT_S = 3.0
MISSED_BEATS = 2.5
"""Heartbeats that must be missing before a holder counts as dead."""

_TRANSACTIONS_S = 2.0
_POLL_S = 0.2

T = TypeVar("T")


class _Log(FollowedTopic):
    """The topic, read into the log of one link."""

    _restarts = True

    def __init__(self, connection: Connection, topic: str, link: str, key: bytes) -> None:
        super().__init__(connection, topic, JOURNAL)
        self._new = partial(LinkLog, link, key)
        self.link = self._new()
        self.config: Mapping[str, str] = {}

    def _forget(self) -> None:
        self.link = self._new()

    def _take(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        self.link.take(records)

    def _check(self, state: TopicState) -> None:
        check_partitions(self.where, state)
        self.config = state.config


class JournalTopicReader(ClusterClient):
    """Implements `drctl.model.journal.JournalReader` for one link; writes nothing.

    Args:
        connection: to the surviving cluster.
        beat_s: heartbeat interval of holders; the same for all.
        key: the key that signs lines; empty if this host has none.

    Attributes:
        settled: whether no transaction was open when the topic was last read. An open one may
            still be committed.
    """

    def __init__(
        self,
        connection: Connection,
        link: str,
        *,
        topic: str = TOPIC,
        beat_s: float = BEAT_S,
        key: bytes = b"",
    ) -> None:
        super().__init__(connection)
        self._topic = topic
        self._link = link
        self._beat_s = beat_s
        self._secret = key
        self._log = _Log(self._connection, topic, link, key)
        self._exists = False
        self.settled = True

    @property
    def where(self) -> str:
        """The topic and its cluster."""
        return self._log.where

    def runs(self) -> Sequence[str]:
        """All runs, newest first; none if the topic does not exist.

        Raises:
            ConfigError: this user may not read the topic, or it is not a journal.
            Unreachable: the cluster did not answer.
            Unknown: the topic was recreated since it was first read.
        """
        return self._read().runs

    def lines(self, run: str) -> Sequence[bytes]:
        """The sealed lines of a run.

        Raises:
            UsageError: there is no such run.
            ConfigError, Unreachable, Unknown: as above.
        """
        log = self._read()
        found = log.lines(run)
        if not found:
            newest = ", ".join(log.runs[:3])
            hint = f"the newest: {newest}" if newest else f"{self.where} has none"
            raise UsageError(f"there is no run {run!r} of link {self._link}", hint)
        return found

    def entries(self, run: str) -> Sequence[Entry]:
        """The entries of a run.

        Raises:
            UsageError: there is no such run.
            ConfigError, Unreachable: as above.
            Unknown: as above, or the journal is damaged.
        """
        return run_state.entries_in(run, self.lines(run), self.where)

    def intact_lines(self, run: str) -> int:
        """The number of leading lines that are intact and, if there is a key, signed."""
        lines = run_state.verify(run, self.lines(run)).lines
        unsigned = self._log.link.unsigned(run)
        return min(lines, unsigned - 1) if unsigned else lines

    def is_abandoned(self, run: str) -> bool:
        """Whether the run was abandoned, as of the last read."""
        return self._log.link.is_abandoned(run)

    def must_be_signed(self, run: str) -> None:
        """Check that every line is signed with the key, as of the last read.

        Raises:
            DamagedJournal: a line is not.
        """
        if number := self._log.link.unsigned(run):
            raise DamagedJournal(
                f"the journal of run {run} is not signed by journal.key ({self.where}): line"
                f" {number} was written without the key, or before it was set",
                f"check who may write to {self._topic}; drctl resume {quote(run)} --abandon REASON"
                " abandons the run and releases its link",
            )

    def holder_of(self, run: str) -> Holder | None:
        """The last holder of the run, as of the last read."""
        return self._log.link.holder_of(run)

    def alive(self) -> Holder | None:
        """Watch for a few seconds; return the holder of the link if it is alive.

        Raises:
            ConfigError, Unreachable, Unknown: as above.
        """
        log = self._read()
        contention = Contention(log, ended=has_ended)
        if self._exists and contention.contested:
            self._checked(lambda: self._watch(contention))
        return contention.alive if contention.holds else None

    def check(self) -> None:
        """Check whether a run could write here, as far as possible without writing.

        Raises:
            ConfigError: the topic has wrong settings, or this user may not read, write or create
                it, or use the transactional id of the link.
            Unreachable: the cluster did not answer.
            Unknown: the topic was recreated since it was first read.
        """
        self._read()
        if self._exists:
            check_settings(self.where, self._log.config)
            check_writable(self._connection, self._topic, JOURNAL)
        else:
            check_creatable(self._connection, self._topic, JOURNAL, CONFIG)
        check_usable(self._connection, self.where, transactional_id(self._link), JOURNAL)

    def _read(self) -> LinkLog:
        """Read all committed records, and wait briefly for open transactions."""
        self._exists = self._checked(self._log.catch_up)
        self.settled = not self._exists or self._checked(lambda: self._log.settle(_TRANSACTIONS_S))
        return self._log.link

    def _checked(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except AnotherVersion as wrong:
            raise ConfigError(
                f"{self.where} contains a record not written by this version of drctl:"
                f" {wrong.reason}",
                "use the version that wrote it; only drctl's user should have write access. If no"
                " newer version exists, and no run is unfinished, delete all records up to it with"
                " kafka-delete-records.sh",
            ) from wrong

    def _watch(self, contention: Contention) -> None:
        """Watch until a holder or claimant proves to be alive, or the time for that is over."""
        log = self._log
        with LiveRecords(self._connection, self._topic, log.link, log.position) as records:

            def read_until(done: Callable[[], bool]) -> None:
                deadline = self._connection.deadline()
                while not done():
                    self._observe(contention, records)
                    if deadline.expired:
                        waited = self._connection.timeout_s
                        raise Unreachable(
                            f"{self.where} could not be read within {waited:g} s", JOURNAL.silent
                        )

            def read_to_end() -> None:
                end = log.offsets().end
                read_until(lambda: records.position >= end)

            if contention.claims:
                read_until(lambda: contention.live)
            else:
                read_to_end()
                contention.live = True
            window = Deadline.after(self._beat_s * MISSED_BEATS)
            while contention.contested and not (contention.alive or window.expired):
                self._observe(contention, records)
            if contention.contested and not contention.alive:
                # Missing heartbeats count only once everything was read.
                read_to_end()

    def _observe(self, contention: Contention, records: LiveRecords) -> None:
        for record in records.poll(_POLL_S):
            contention.observe(record)
