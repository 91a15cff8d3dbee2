"""The journal on the cluster that survives: taking a link, so that one run at a time has it.

A link is taken in this order. Who may be alive is found out before anybody is fenced:

1. what is committed says which runs there are, and who had the link last;
2. a claim is appended; whoever claimed earlier, or has the link, is watched for signs of life;
3. the transactional id of the link is taken over, which fences whoever used it before;
4. what a fenced holder still got through is read, up to an end that he cannot move any more;
5. `Taken` is written; from then on there are beats.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from uuid import uuid4

from drctl.engine import chain
from drctl.model.errors import ConfigError, DrctlError, Refused, Unknown
from drctl.model.journal import Holder
from drctl.systems.kafka import transactions
from drctl.systems.kafka.journal_claim import claiming
from drctl.systems.kafka.journal_contest import Contest, held_by
from drctl.systems.kafka.journal_held import HeldRun
from drctl.systems.kafka.journal_log import LinkLog
from drctl.systems.kafka.journal_reading import BEAT_S, JournalTopicReader
from drctl.systems.kafka.journal_settings import CONFIG, check_settings
from drctl.systems.kafka.journal_writer import LIFETIME_S, JournalWriter, Undecided
from drctl.systems.kafka.own_topics import JOURNAL
from drctl.systems.kafka.topic_creation import check_writable, create
from drctl.systems.processes import gone
from drctl.wire.journal_records import TOPIC, Claim, Taken, encode
from drctl.wire.journal_signature import signature

_PAUSE_S = 0.05
_DECIDED_S = LIFETIME_S + 15.0
"""A transaction that the dead holder of another link left open is over by then."""


class JournalTopic(JournalTopicReader):
    """The same, and lets runs write.

    Args:
        patience_s: how long an append may take before nobody waits for it any more.
        token: makes a name that nobody ever had.
    """

    def __init__(
        self,
        cluster: str,
        properties: Mapping[str, str],
        link: str,
        *,
        topic: str = TOPIC,
        timeout_s: float = 10,
        beat_s: float = BEAT_S,
        patience_s: float = LIFETIME_S,
        token: Callable[[], str] = lambda: uuid4().hex,
        key: bytes = b"",
    ) -> None:
        given = {"timeout_s": timeout_s, "beat_s": beat_s}
        super().__init__(cluster, properties, link, topic=topic, key=key, **given)
        self._patience_s = patience_s
        self._token = token

    def take(self, holder: Holder, abandoning: str = "") -> HeldRun:
        """Take the link for a run: one that nobody knows yet, or the newest one, to go on with it.

        Args:
            abandoning: a run that stopped part-way and that nobody is to go on with.

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
            contest = Contest(log, claim.token, gone)
            self._guarded(lambda: self._watch(contest))
            if refused := contest.refusal(link):
                raise refused
            taken = self._signed(Taken(claim.token, holder, abandoning))
            held = self._fencing(taken, (log.hold, contest.hold))
            claimed.won = True
        held.start()
        return held

    def go_on(self, holder: Holder) -> HeldRun:
        """Take the link to go on with a run.

        Raises:
            UsageError: there is no such run.
            Refused, ConfigError, Unreachable, Unknown: as above.
        """
        self.lines(holder.run)
        return self.take(holder)

    def leave(self, holder: Holder) -> HeldRun:
        """Take the link from a run that nobody goes on with from here on, damaged as it may be.

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
                raise Unknown(f"{self.where} was made, and is not there", "run it again")
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
            writer.__exit__(None, None, None)
            raise
        given = (lines, writer, self._rival_of, self._beat_s, self._secret)
        return HeldRun(self._link, self.where, taken, *given)

    def _signed(self, taken: Taken) -> Taken:
        if not self._secret:
            return taken
        return replace(taken, mac=signature(self._secret, self._link, encode(taken)))

    def _frozen(self, taken: Taken, dead: tuple[Taken | None, ...]) -> tuple[bytes, ...]:
        """What the run wrote, now that nobody can add to it."""
        if not self._guarded(lambda: self._log.settle(_DECIDED_S)):
            raise Unknown(
                f"{self.where}: somebody's transaction stays open; what stands behind it cannot be"
                " read",
                "kafka-transactions.sh find-hanging tells whose it is, and abort ends it",
            )
        log, run = self._log.link, taken.holder.run
        if log.hold is not None and log.hold not in dead:
            raise held_by(self._link, log.hold.holder)
        if objection := log.objection(run, taken.abandons):
            raise objection
        lines = tuple(log.lines(run))
        if taken.abandons != run:
            chain.entries_in(run, lines, self.where)
            self.must_be_signed(run)
            if log.needs_key(run):
                raise ConfigError(
                    f"run {run} is signed, and this drctl.yaml has no journal.key",
                    "set journal.key to the key that the run began with",
                )
        return lines

    def _write(self, writer: JournalWriter, taken: Taken) -> None:
        try:
            writer.write([(self._link.encode(), encode(taken))])
        except transactions.Fenced as fenced:
            raise self._overtaken(taken.token) from fenced
        except Undecided as undecided:
            raise Unknown(
                f"no answer whether link {self._link} was taken: {undecided.message}",
                "run it again: nothing but the journal was written",
            ) from undecided

    def _overtaken(self, token: str) -> Refused:
        rival = self._rival_of(token)
        if rival is not None:
            return held_by(self._link, rival)
        return Refused(
            f"somebody else has just taken link {self._link}", "`drctl journal` tells who"
        )

    def _rival_of(self, token: str) -> Holder | None:
        """Who has the link now, unless that is who asks; as far as the cluster tells."""
        with suppress(DrctlError):
            self._read()
        hold = self._log.link.hold
        return None if hold is None or hold.token == token else hold.holder
