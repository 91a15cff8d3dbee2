"""The journal on a cluster, read from any machine: its runs, their lines, and who holds a link."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from drctl.engine import run_state
from drctl.formats.journal_records import MOST_BYTES, TOPIC, AnotherVersion
from drctl.host.processes import has_ended
from drctl.kafka.brokers import ClusterClient
from drctl.kafka.connection import Connection
from drctl.kafka.deadline import Deadline
from drctl.kafka.followed_topic import FollowedTopic
from drctl.kafka.journal_log import Contest, LinkLog, Signs
from drctl.kafka.own_topics import JOURNAL, check_creatable, check_writable
from drctl.kafka.transactions import check_usable
from drctl.model.errors import ConfigError, DamagedJournal, Unreachable, UsageError
from drctl.model.journal import Entry, Holder
from drctl.model.text import quote
from drctl.model.topology import TopicState

CONFIG: Mapping[str, str] = {
    # Compaction would keep one record a link; and nothing may ever be too old.
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
}

_ROOM = 1 << 10
"""What a record needs beside a part of a line."""

_CURE = "set " + ", ".join(f"{name}={value}" for name, value in CONFIG.items()) + " on it"


def transactional_id(link: str) -> str:
    """Whoever uses it last fences all others."""
    return f"drctl.{link}"


def check_partitions(where: str, state: TopicState) -> None:
    """See that the order of all records is one.

    Raises:
        ConfigError: it is not.
    """
    if len(state.partitions) != 1:
        raise ConfigError(
            f"{where} has {len(state.partitions)} partitions: a journal must have one",
            "delete it and let drctl make it; runs that it holds are in the state_dir of whoever"
            " carried them out, too",
        )


def check_settings(where: str, config: Mapping[str, str]) -> None:
    """See that what is written stays there.

    Raises:
        ConfigError: it would not, or nobody may know.
    """
    if not config:
        raise ConfigError(
            f"this user may not read the configuration of {where}",
            "grant it DESCRIBE_CONFIGS on the topic (docs/howto/permissions.md)",
        )
    for name, wanted in CONFIG.items():
        found = config.get(name, wanted)
        if found != wanted:
            raise ConfigError(f"{where} has {name}={found}: it would lose journal entries", _CURE)
    most = int(config.get("max.message.bytes", MOST_BYTES + _ROOM))
    if most < MOST_BYTES + _ROOM:
        raise ConfigError(
            f"{where} has max.message.bytes={most}: an entry may be larger than that",
            f"set max.message.bytes to {MOST_BYTES + _ROOM} or more on it",
        )


BEAT_S = 3.0
SILENCE = 2.5
"""Beats that must be missing before somebody counts as dead."""

_DECIDED_S = 2.0
_POLL_S = 0.2

T = TypeVar("T")


class _Log(FollowedTopic):
    """The topic, read into what it says of one link."""

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
        connection: to the cluster that survives.
        beat_s: how often a living holder shows that he is; the same for all.
        key: by which lines must be signed; empty where this machine has none.

    Attributes:
        settled: whether all that had been appended was decided when it was last read. If not, a
            transaction is open: what is in it may still come to be.
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
        """All that are kept, the newest first; none where there is no such topic.

        Raises:
            ConfigError: the topic may not be read, or is none of ours.
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
        """What a run wrote down.

        Raises:
            UsageError: there is no such run.
            ConfigError, Unreachable: as above.
            Unknown: likewise, or the journal is damaged.
        """
        return run_state.entries_in(run, self.lines(run), self.where)

    def sound(self, run: str) -> int:
        """How many of its lines, from the first on, are as they were written; and signed."""
        lines = run_state.verify(run, self.lines(run)).lines
        unsigned = self._log.link.unsigned(run)
        return min(lines, unsigned - 1) if unsigned else lines

    def set_aside(self, run: str) -> bool:
        """Whether somebody said that nobody continues with it, as of the last look."""
        return self._log.link.set_aside(run)

    def must_be_signed(self, run: str) -> None:
        """See that every line was written by somebody with the key, as of the last look.

        Raises:
            DamagedJournal: one was not.
        """
        if number := self._log.link.unsigned(run):
            raise DamagedJournal(
                f"the journal of run {run} is not signed by journal.key ({self.where}): line"
                f" {number} was written without the key, or before it was set",
                f"check who may write to {self._topic}; drctl resume {quote(run)} --abandon REASON"
                " abandons the run and releases its link",
            )

    def holder_of(self, run: str) -> Holder | None:
        """Who ran it last, as of the last look."""
        return self._log.link.holder_of(run)

    def alive(self) -> Holder | None:
        """Watch for a few seconds, and tell who holds the link and lives.

        Raises:
            ConfigError, Unreachable, Unknown: as above.
        """
        log = self._read()
        contest = Contest(log, gone=has_ended)
        if self._exists and contest.disputed:
            self._guarded(lambda: self._watch(contest))
        return contest.alive if contest.holds else None

    def check(self) -> None:
        """See whether a run could write here, as far as that can be told without writing.

        Raises:
            ConfigError: the topic is not as it must be, or may not be read, written or made; or
                the transactional id of the link may not be used.
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
        """Everything that is committed, and what is just being committed."""
        self._exists = self._guarded(self._log.catch_up)
        self.settled = not self._exists or self._guarded(lambda: self._log.settle(_DECIDED_S))
        return self._log.link

    def _guarded(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except AnotherVersion as wrong:
            raise ConfigError(
                f"{self.where} contains a record not written by this version of drctl:"
                f" {wrong.reason}",
                "use the version that wrote it; only drctl's user should have write access. If no"
                " newer version exists, remove the record with kafka-delete-records.sh",
            ) from wrong

    def _watch(self, contest: Contest) -> None:
        """Look on until somebody shows that he is alive, or too long nobody has."""
        with Signs(self._connection, self._topic, self._log.link, self._log.position) as signs:
            self._enter(contest, signs)
            window = Deadline.after(self._beat_s * SILENCE)
            while contest.disputed and not (contest.alive or window.expired):
                self._see(contest, signs)
            if contest.disputed and not contest.alive:
                self._see_all(contest, signs)

    def _enter(self, contest: Contest, signs: Signs) -> None:
        """Come to one's own claim, or to the end of the log."""
        if contest.claims:
            self._see_until(lambda: contest.entered, contest, signs)
        else:
            self._see_all(contest, signs)
            contest.entered = True

    def _see_all(self, contest: Contest, signs: Signs) -> None:
        """Come to the end: silence counts only where everything was heard."""
        end = self._log.offsets().end
        self._see_until(lambda: signs.position >= end, contest, signs)

    def _see_until(self, done: Callable[[], bool], contest: Contest, signs: Signs) -> None:
        deadline = self._connection.deadline()
        while not done():
            self._see(contest, signs)
            if deadline.expired:
                waited = self._connection.timeout_s
                raise Unreachable(
                    f"{self.where} could not be read within {waited:g} s", JOURNAL.silent
                )

    def _see(self, contest: Contest, signs: Signs) -> None:
        for record in signs.poll(_POLL_S):
            contest.see(record)
