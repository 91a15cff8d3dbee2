"""The journal on the cluster that survives: taking a link, so that one run at a time has it.

A link is taken in this order. Who may be alive is found out before anybody is fenced:

1. what is committed says which runs there are, and who had the link last;
2. a claim is appended; whoever claimed earlier, or has the link, is watched for signs of life;
3. the transactional id of the link is taken over, which fences whoever used it before;
4. what a fenced holder still got through is read, up to an end that he cannot move any more;
5. `Taken` is written; from then on there are beats.
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
from drctl.kafka.journal_log import Contest, LinkLog, held_by
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
from drctl.model.text import quote

LIFETIME_S = 30
"""Brokers abort a transaction that is older; until then readers see nothing after it."""

_PATIENCE_S = 10.0


class JournalWriter(TransactionalWriter):
    """Writes as the holder of a link, one transaction an append; may be used by two threads.

    Raises:
        Fenced: (of `transactions`) another one began in the same moment.
        ConfigError: this user may not write, or librdkafka does not take the properties.
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
    """What comes of a claim.

    Attributes:
        won: the link was taken upon it.
    """

    won: bool = False


@contextmanager
def claiming(
    connection: Connection, topic: str, link: str, claim: Claim, beat_s: float
) -> Iterator[Claiming]:
    """A claim for as long as the context lasts; its records fence nobody.

    Raises:
        ConfigError: this user may not write.
        Unreachable: the cluster did not answer.
        Unknown: it failed otherwise.
    """
    claimed = Claiming()
    with TopicWriter(connection, topic, JOURNAL, _PATIENCE_S) as writer:

        def say(sign: Sign) -> None:
            writer.write([(link.encode(), encode(sign))])

        def again() -> None:
            with suppress(DrctlError):
                say(claim)

        say(claim)
        try:
            with PeriodicTask(beat_s, again):
                yield claimed
        finally:
            if not claimed.won:
                with suppress(DrctlError):
                    say(Withdrawn(claim.token))


_FAREWELL_S = 3.0


class HeldRun(Closing):
    """Implements `drctl.model.journal.HeldJournal`; a context manager that lets go of the link.

    Args:
        lines: what the run wrote before.
        rival: tells who has the link now, if that is somebody with another token.
        key: what lines are signed with; empty where they are not.

    Attributes:
        lines: as given; the copy on this machine begins with them.
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
        self._doubt = False
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
        """Write them down, all or none; committed when this returns. Returns the sealed lines.

        Raises:
            Fenced: another run has taken the link; nothing more is written.
            Unknown: they could not be written, or nobody can say whether they were; in that case
                nothing more is taken.
        """
        self.check()
        if self._doubt:
            raise self._unknown(f"could not confirm an append to {self.where}")
        lines = run_state.seal(entries, self._head)
        if lines:
            self._written(lines)
            self._head = run_state.behind(lines, self._head)
        return lines

    def check(self) -> None:
        """See that this run has its link still, as of the last beat.

        Raises:
            Fenced: another run has taken it.
        """
        if self._lost:
            self._fence = self._fence or self._fenced()
            raise self._fence

    def start(self) -> None:
        """Show from now on that this run lives."""
        self._beats.start()

    def close(self) -> None:
        """Let go of the link; may be called again."""
        if self._closed:
            return
        self._closed = True
        if not self._beats.stop(_FAREWELL_S):
            return  # the cluster does not answer; the thread ends with the process
        if not (self._lost or self._doubt):
            with suppress(DrctlError):
                self._writer.write([self._sign(last=True)], _FAREWELL_S)
        self._writer.close()

    def _written(self, lines: Sequence[bytes]) -> None:
        parts = [part for line in lines for part in split(self.run, line, self._mac(line))]
        self._doubt = True
        try:
            self._writer.write([(self._key, encode(part)) for part in parts])
        except transactions.Fenced:
            self._lost = True
            self.check()
        except Undecided as undecided:
            raise self._unknown(undecided.message) from undecided
        except ConfigError as refused:
            self._doubt = False
            raise Unknown(refused.message, refused.hint) from refused
        except Unknown as failed:
            self._doubt = False
            raise self._unknown(failed.message) from failed
        self._doubt = False

    def _mac(self, line: bytes) -> str:
        return signature(self._secret, self._link, line) if self._secret else ""

    def _unknown(self, message: str) -> Unknown:
        resume = f"resume the run: drctl resume {quote(self.run)}"
        hint = f"when the cluster answers, {resume}"
        return Unknown(message, hint)

    def _beat(self) -> None:
        """Runs beside everything else; an append that is under way is a sign of life, too."""
        if self._lost or self._doubt:
            return
        try:
            # One that is given up early may end the writer: it has as much time as an append.
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
                f"if no other process holds it: drctl resume {quote(self.run)}",
            )
        if rival.run == self.run:
            message = f"run {self.run} was resumed by {rival}"
        else:
            message = f"link {self._link} was taken by run {rival.run}: {rival}"
        return Fenced(message, "this process has stopped; follow the other one")


_PAUSE_S = 0.05
_DECIDED_S = LIFETIME_S + 15.0
"""A transaction that the dead holder of another link left open is over by then."""


class JournalTopic(JournalTopicReader):
    """The same, and lets runs write.

    Args:
        timeout_s: how long an append may take before nobody waits for it any more.
        token: makes a name that nobody ever had.
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
        self._patience_s = timeout_s
        self._token = token

    def warm_up(self) -> None:
        """What costs half a second the first time a link is taken, done beside something else.

        Raises:
            Unreachable: the cluster did not answer.
        """
        transactions.warm_up(self._connection, transactional_id(self._link))

    def take(self, holder: Holder, abandoning: str = "") -> HeldRun:
        """Take the link for a run: one that nobody knows yet, or the newest one, to resume it.

        Args:
            abandoning: a run that stopped part-way and that nobody is to continue with.

        Raises:
            Refused: somebody who is alive has it, or wants it, too; or another run stopped
                part-way, or this one has ended.
            ConfigError: the topic may not be made, read or written, or would not keep a journal.
            Unreachable: the cluster did not answer.
            Unknown: the journal is damaged, or nobody can say whether the link was taken.
        """
        log = self._ready()
        objection = log.objection(holder.run, abandoning)
        if objection is not None:
            raise self._holding() or objection
        claim = Claim(self._token(), holder)
        connection, topic, link = self._connection, self._topic, self._link
        with claiming(connection, topic, link, claim, self._beat_s) as claimed:
            contest = Contest(log, claim.token, has_ended)
            self._guarded(lambda: self._watch(contest))
            if refused := contest.refusal(link):
                raise refused
            taken = self._signed(Taken(claim.token, holder, abandoning))
            held = self._fencing(taken, (log.hold, contest.hold))
            claimed.won = True
        held.start()
        return held

    def go_on(self, holder: Holder) -> HeldRun:
        """Take the link to resume a run.

        Raises:
            UsageError: there is no such run.
            Refused, ConfigError, Unreachable, Unknown: as above.
        """
        self.lines(holder.run)
        return self.take(holder)

    def leave(self, holder: Holder) -> HeldRun:
        """Take the link from a run that nobody continues with from here on, damaged as it may be.

        Raises:
            UsageError: there is no such run.
            Refused, ConfigError, Unreachable, Unknown: as above.
        """
        self.lines(holder.run)
        return self.take(holder, abandoning=holder.run)

    def _ready(self) -> LinkLog:
        """The log of a topic that keeps what is written, and that this user may write."""
        self._read()
        if not self._exists:
            self._create()
        check_settings(self.where, self._log.config)
        check_writable(self._connection, self._topic, JOURNAL)
        return self._log.link

    def _create(self) -> None:
        """Make the topic; brokers hear of it one after the other, its leader among them."""
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
                    f"{self.where} was created but does not exist", "run the command again"
                )
            self._connection.wait(_PAUSE_S)

    def _holding(self) -> Refused | None:
        """A living holder is a better reason than what he left unfinished."""
        holder = self.alive()
        return held_by(self._link, holder) if holder else None

    def _fencing(self, taken: Taken, dead: tuple[Taken | None, ...]) -> HeldRun:
        """Fence whoever had the link, and take it."""
        writer = JournalWriter(self._connection, self._link, self._topic, self._patience_s)
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
        """The journal of a run whose holder is fenced."""
        if not self._guarded(lambda: self._log.settle(_DECIDED_S)):
            raise Unknown(
                f"cannot read {self.where}: an open transaction blocks it",
                "find it: kafka-transactions.sh find-hanging; end it: kafka-transactions.sh abort",
            )
        log, run = self._log.link, taken.holder.run
        if log.hold is not None and log.hold not in dead:
            raise held_by(self._link, log.hold.holder)
        if objection := log.objection(run, taken.abandons):
            raise objection
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
        """Who has the link now, unless that is who asks; as far as the cluster tells."""
        with suppress(DrctlError):
            self._read()
        hold = self._log.link.hold
        return None if hold is None or hold.token == token else hold.holder
