"""The journal on the surviving cluster, where one run at a time acquires a link and writes.

A link is acquired in this order, so that no living holder is fenced:

1. Read the committed records: the runs, and the last holder.
2. Append a claim, and watch the holder and earlier claimants for heartbeats.
3. Initialize the link's transactional id, which fences its last user.
4. Read what the fenced holder has still written; its end offset can no longer change.
5. Write `Taken`, then start heartbeats.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from drctl.engine import run_state
from drctl.formats.journal_records import (
    TOPIC,
    Beat,
    Claim,
    Sign,
    Taken,
    Withdrawn,
    encode,
    signature,
    split,
)
from drctl.host.connections import Closing
from drctl.host.processes import has_ended
from drctl.kafka import transactions
from drctl.kafka.connection import LOGGER, Connection
from drctl.kafka.deadline import PeriodicTask
from drctl.kafka.journal_log import Contention, LinkLog, held_by
from drctl.kafka.journal_reader import (
    BEAT_S,
    CONFIG,
    JournalTopicReader,
    check_settings,
    transactional_id,
)
from drctl.kafka.own_topics import JOURNAL, Change, TopicWriter, check_writable, create
from drctl.kafka.transactions import TransactionalWriter, Undecided
from drctl.model.errors import ConfigError, DrctlError, Fenced, Refused, Unknown
from drctl.model.journal import Entry, Holder
from drctl.model.text import abort_hanging, find_hanging, quote
from drctl.model.topology import TopicPartition

LIFETIME_S = 30
"""Brokers abort a transaction after this time; until then readers see nothing after it."""

_PATIENCE_S = 10.0


class JournalWriter(TransactionalWriter):
    """Writes as the holder of a link, one transaction per append; usable from two threads.

    Raises:
        transactions.Fenced: another writer was started at the same moment.
        ConfigError: this user may not write, or librdkafka rejects the properties.
        Unreachable: the cluster did not answer.
    """

    def __init__(
        self, connection: Connection, link: str, topic: str, timeout_s: float = LIFETIME_S
    ) -> None:
        name = transactional_id(link)
        super().__init__(connection, name, topic, JOURNAL, LIFETIME_S, timeout_s)

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "message.max.bytes": "1000000", "linger.ms": "0"}


@dataclass(slots=True)
class Claiming:
    """The outcome of a claim.

    Attributes:
        won: whether the link was acquired.
    """

    won: bool = False


@contextmanager
def claiming(
    connection: Connection, topic: str, link: str, claim: Claim, beat_s: float
) -> Iterator[Claiming]:
    """Claim the link while the context lasts; withdraw the claim unless it won. Fences no one.

    Raises:
        ConfigError: this user may not write.
        Unreachable: the cluster did not answer.
        Unknown: it failed otherwise.
    """
    claimed = Claiming()
    with TopicWriter(connection, topic, JOURNAL, _PATIENCE_S) as writer:

        def write(sign: Sign) -> None:
            writer.write([(link.encode(), encode(sign))])

        def repeat() -> None:
            with suppress(DrctlError):
                write(claim)

        write(claim)
        try:
            with PeriodicTask(beat_s, repeat):
                yield claimed
        finally:
            if not claimed.won:
                with suppress(DrctlError):
                    write(Withdrawn(claim.token))


_RELEASE_S = 3.0


class HeldRun(Closing):
    """Implements `drctl.model.journal.HeldJournal`; a context manager that releases the link.

    Args:
        lines: earlier lines of the run.
        rival: returns the holder of the link if its token differs from the given one.
        key: the key that signs lines; empty without signatures.

    Attributes:
        lines: earlier lines of the run, with which the local copy begins.
    """

    def __init__(
        self,
        link: str,
        where: str,
        taken: Taken,
        lines: Sequence[bytes],
        writer: JournalWriter,
        rival: Callable[[str], Holder | None],
        beat_s: float,
        key: bytes = b"",
    ) -> None:
        self._link = link
        self._where = where
        self._token = taken.token
        self._secret = key
        self._writer = writer
        self._rival = rival
        self._head = run_state.newest_head(taken.holder.run, lines)
        self._beats = PeriodicTask(beat_s, self._beat)
        self._lost = False
        self._fence: Fenced | None = None
        self._undecided = False
        self._closed = False
        self.holder = taken.holder
        self.lines = tuple(lines)

    @property
    def run(self) -> str:
        """The name of the run."""
        return self.holder.run

    @property
    def where(self) -> str:
        """The topic and its cluster."""
        return self._where

    def append(self, entries: Sequence[Entry]) -> Sequence[bytes]:
        """Write and commit all entries or none; return the sealed lines.

        Raises:
            Fenced: another run has acquired the link; nothing more is written.
            Unknown: they could not be written, or the outcome is unknown; after an unknown
                outcome every append fails.
        """
        self.check()
        if self._undecided:
            raise self._unknown(f"could not confirm an append to {self.where}")
        lines = run_state.seal(entries, self._head)
        if lines:
            self._write(lines)
            self._head = run_state.head_after(lines, self._head)
        return lines

    def check(self) -> None:
        """Check that this run still holds its link, as of the last heartbeat.

        Raises:
            Fenced: another run has acquired it.
        """
        if self._lost:
            self._fence = self._fence or self._fenced()
            raise self._fence

    def start(self) -> None:
        """Start heartbeats."""
        self._beats.start()

    def close(self) -> None:
        """Release the link; idempotent."""
        if self._closed:
            return
        self._closed = True
        if not self._beats.stop(_RELEASE_S):
            return  # the cluster does not answer; the thread ends with the process
        if not (self._lost or self._undecided):
            with suppress(DrctlError):
                self._writer.write([self._sign(last=True)], _RELEASE_S)
        self._writer.close()

    def _write(self, lines: Sequence[bytes]) -> None:
        parts = [part for line in lines for part in split(self.run, line, self._mac(line))]
        self._undecided = True
        try:
            self._writer.write([(self._key, encode(part)) for part in parts])
        except transactions.Fenced:
            self._lost = True
            self.check()
        except Undecided as undecided:
            raise self._unknown(undecided.message) from undecided
        except ConfigError as refused:
            self._undecided = False
            raise Unknown(refused.message, refused.hint) from refused
        except Unknown as failed:
            self._undecided = False
            raise self._unknown(failed.message) from failed
        self._undecided = False

    def _mac(self, line: bytes) -> str:
        return signature(self._secret, self._link, line) if self._secret else ""

    def _unknown(self, message: str) -> Unknown:
        resume = f"resume the run: drctl resume {quote(self.run)}"
        hint = f"when the cluster answers, {resume}"
        return Unknown(message, hint)

    def _beat(self) -> None:
        """Write a heartbeat, unless an append is in progress, which serves as one."""
        if self._lost or self._undecided:
            return
        try:
            # A write that times out may end the writer, so it has as much time as an append.
            self._writer.try_write([self._sign(last=False)])
        except transactions.Fenced:
            self._lost = True
        except DrctlError as failed:
            LOGGER.debug("no heartbeat written: %s", failed.message)

    @property
    def _key(self) -> bytes:
        return self._link.encode()

    def _sign(self, *, last: bool) -> Change:
        return self._key, encode(Beat(self._token, last))

    def _fenced(self) -> Fenced:
        rival = self._rival(self._token)
        if rival is None:
            return Fenced(
                f"run {self.run} has lost link {self._link}: another process is acquiring it, or a"
                f" write took longer than {LIFETIME_S} s",
                f"if no other process holds the link: drctl resume {quote(self.run)}",
            )
        if rival.run == self.run:
            message = f"run {self.run} was resumed by {rival}"
        else:
            message = f"link {self._link} was acquired by run {rival.run}: {rival}"
        return Fenced(message, "this process has stopped; follow the other process")


_PAUSE_S = 0.05
_TRANSACTIONS_S = LIFETIME_S + 15.0
"""Within this time, brokers abort a transaction that the dead holder of another link left open."""


class JournalTopic(JournalTopicReader):
    """Reads and writes the journal of one link.

    Args:
        timeout_s: how long an append may take.
        token: returns a new unique name.
    """

    def __init__(
        self,
        connection: Connection,
        link: str,
        *,
        topic: str = TOPIC,
        beat_s: float = BEAT_S,
        timeout_s: float = LIFETIME_S,
        token: Callable[[], str] = lambda: uuid4().hex,
        key: bytes = b"",
    ) -> None:
        super().__init__(connection, link, topic=topic, key=key, beat_s=beat_s)
        self._append_s = timeout_s
        self._token = token

    def warm_up(self) -> None:
        """Look up the transaction coordinator, which takes half a second on the first use.

        Raises:
            Unreachable: the cluster did not answer.
        """
        transactions.warm_up(self._connection, transactional_id(self._link))

    def acquire(self, holder: Holder, abandoning: str = "") -> HeldRun:
        """Acquire the link for a new run, or for the newest run to resume it.

        Args:
            abandoning: an unfinished run to abandon.

        Raises:
            Refused: a live process holds or claims the link, another run is unfinished, or this
                run has ended.
            ConfigError: this user may not create, read or write the topic, or its settings could
                delete journal entries.
            Unreachable: the cluster did not answer.
            Unknown: the journal is damaged, or it is unknown whether the link was acquired.
        """
        log = self._ready()
        blocker = log.blocker(holder.run, abandoning)
        if blocker is not None:
            # If the holder is alive, name it, rather than its unfinished run.
            live = self.alive()
            raise held_by(self._link, live) if live else blocker
        claim = Claim(self._token(), holder)
        connection, topic, link = self._connection, self._topic, self._link
        with claiming(connection, topic, link, claim, self._beat_s) as claimed:
            contention = Contention(log, claim.token, has_ended)
            self._checked(lambda: self._watch(contention))
            if refused := contention.refusal(link):
                raise refused
            taken = self._signed(Taken(claim.token, holder, abandoning))
            held = self._fence(taken, (log.hold, contention.hold))
            claimed.won = True
        held.start()
        return held

    def resume(self, holder: Holder) -> HeldRun:
        """Acquire the link to resume a run.

        Raises:
            UsageError: there is no such run.
            Refused, ConfigError, Unreachable, Unknown: as above.
        """
        self.lines(holder.run)
        return self.acquire(holder)

    def abandon(self, holder: Holder) -> HeldRun:
        """Acquire the link to abandon a run, even one whose journal is damaged.

        Raises:
            UsageError: there is no such run.
            Refused, ConfigError, Unreachable, Unknown: as above.
        """
        self.lines(holder.run)
        return self.acquire(holder, abandoning=holder.run)

    def _ready(self) -> LinkLog:
        """The log; creates the topic if necessary, and checks its settings and permissions."""
        self._read()
        if not self._exists:
            self._create()
        check_settings(self.where, self._log.config)
        check_writable(self._connection, self._topic, JOURNAL)
        return self._log.link

    def _create(self) -> None:
        """Create the topic, and wait until the brokers know it."""
        create(self._connection, self._topic, JOURNAL, CONFIG)
        deadline = self._connection.deadline()
        while not self._exists:
            try:
                self._read()
            except Unknown:
                self._exists = False
                if deadline.expired:
                    raise
            if deadline.expired:
                raise Unknown(
                    f"{self.where} was created, but the brokers do not report it yet",
                    "run the command again",
                )
            self._connection.wait(_PAUSE_S)

    def _fence(self, taken: Taken, dead: tuple[Taken | None, ...]) -> HeldRun:
        """Fence the last holder, and acquire the link."""
        writer = JournalWriter(self._connection, self._link, self._topic, self._append_s)
        try:
            writer.__enter__()
        except transactions.Fenced as fenced:
            raise self._overtaken(taken.token) from fenced
        try:
            lines = self._frozen(taken, dead)
            self._write(writer, taken)
        except BaseException:
            writer.close()
            raise
        given = (lines, writer, self._rival_of, self._beat_s, self._secret)
        return HeldRun(self._link, self.where, taken, *given)

    def _signed(self, taken: Taken) -> Taken:
        if not self._secret:
            return taken
        return replace(taken, mac=signature(self._secret, self._link, encode(taken)))

    def _frozen(self, taken: Taken, dead: tuple[Taken | None, ...]) -> tuple[bytes, ...]:
        """The final lines of a run whose holder is fenced."""
        if not self._checked(lambda: self._log.settle(_TRANSACTIONS_S)):
            raise Unknown(
                f"cannot read {self.where}: an open transaction blocks it",
                f"find it: {find_hanging('bootstrap', TOPIC)}; then end it:"
                f" {abort_hanging('bootstrap', TopicPartition(TOPIC, 0), 'STARTOFFSET')}",
            )
        log, run = self._log.link, taken.holder.run
        if log.hold is not None and log.hold not in dead:
            raise held_by(self._link, log.hold.holder)
        if blocker := log.blocker(run, taken.abandons):
            raise blocker
        lines = tuple(log.lines(run))
        if taken.abandons != run:
            run_state.entries_in(run, lines, self.where)
            self.must_be_signed(run)
            if log.needs_key(run):
                raise ConfigError(
                    f"run {run} is signed, but drctl.yaml has no journal.key",
                    "set journal.key to the key of that run",
                )
        return lines

    def _write(self, writer: JournalWriter, taken: Taken) -> None:
        try:
            writer.write([(self._link.encode(), encode(taken))])
        except transactions.Fenced as fenced:
            raise self._overtaken(taken.token) from fenced
        except Undecided as undecided:
            raise Unknown(
                f"cannot tell whether link {self._link} was acquired: {undecided.message}",
                "run the command again: only the journal was written",
            ) from undecided

    def _overtaken(self, token: str) -> Refused:
        rival = self._rival_of(token)
        if rival is not None:
            return held_by(self._link, rival)
        return Refused(
            f"another process has just acquired link {self._link}", "see which: drctl journal"
        )

    def _rival_of(self, token: str) -> Holder | None:
        """The current holder of the link, as far as known, if its token differs from this one."""
        with suppress(DrctlError):
            self._read()
        hold = self._log.link.hold
        return None if hold is None or hold.token == token else hold.holder
