"""What the journal's records say of one link: its runs, who holds it, and who is alive.

`LinkLog` is made of committed records, `Contest` of all that come after them; both are values.
`Signs` reads those for a contest.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Self

from confluent_kafka import KafkaError

from drctl.engine import run_state
from drctl.formats.journal_records import (
    AnotherVersion,
    Beat,
    Claim,
    JournalRecord,
    Part,
    Taken,
    Withdrawn,
    decode,
    encode,
    is_signed,
)
from drctl.formats.primitives import Undecodable
from drctl.host.connections import Closing
from drctl.kafka.connection import LOGGER, Connection
from drctl.kafka.own_topics import JOURNAL
from drctl.kafka.simple_consumer import SimpleConsumer
from drctl.model.errors import Refused, Unknown
from drctl.model.journal import ENDED, Holder
from drctl.model.text import quote
from drctl.model.topology import TopicPartition


class LinkLog:
    """Grows with each record that is taken, in the order of the log.

    Args:
        key: by which lines and takings must be signed; empty where this machine has none.

    Attributes:
        hold: the newest taking of the link by somebody who has not let go of it; he may be dead.
        claims: who wanted the link since it was last taken and has not given up, by token.
    """

    def __init__(self, link: str, key: bytes = b"") -> None:
        self._link = link
        self._key = link.encode()
        self._secret = key
        self._runs: dict[str, list[bytes]] = {}
        self._macs: dict[str, list[str]] = {}
        self._parts: dict[str, list[Part]] = {}
        self._holders: dict[str, Holder] = {}
        self._abandoned: set[str] = set()
        self._settled: set[str] = set()
        self.hold: Taken | None = None
        self.claims: dict[str, Holder] = {}

    def take(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Take keys and values; those of other links are skipped, and what drctl never wrote.

        Raises:
            AnotherVersion: a value is of a newer drctl.
        """
        for key, value in records:
            record = self.decoded(key, value)
            if record is not None:
                self._note(record)

    def decoded(self, key: bytes | None, value: bytes | None) -> JournalRecord | None:
        """A record of the link; None for any other.

        What no drctl wrote would else keep every run from its link for good: nothing is deleted.

        Raises:
            AnotherVersion: it is of a newer drctl.
        """
        if key != self._key:
            return None
        try:
            return decode(value)
        except AnotherVersion:
            raise
        except Undecodable as wrong:
            LOGGER.warning("ignoring a record that drctl did not write: %s", wrong.reason)
            return None

    @property
    def runs(self) -> tuple[str, ...]:
        """All that wrote something, the newest first."""
        return tuple(reversed(self._runs))

    def lines(self, run: str) -> Sequence[bytes]:
        """What a run wrote; nothing where it is not known."""
        return tuple(self._runs.get(run, ()))

    def unsigned(self, run: str) -> int:
        """The number of its first line that nobody with the key has written; 0 where all are."""
        if not self._secret:
            return 0
        found = zip(self.lines(run), self._macs.get(run, ()), strict=True)
        for number, (line, mac) in enumerate(found, 1):
            if not is_signed(self._secret, self._link, line, mac):
                return number
        return 0

    def needs_key(self, run: str) -> bool:
        """Whether it is signed, and this machine has no key to sign what comes after it."""
        return not self._secret and any(self._macs.get(run, ()))

    def set_aside(self, run: str) -> bool:
        """Whether somebody said that nobody continues with it."""
        return run in self._abandoned

    def holder_of(self, run: str) -> Holder | None:
        """Who ran it last."""
        return self._holders.get(run)

    def ended(self, run: str) -> bool:
        """Whether its last entry says so."""
        lines = self._runs.get(run, [])
        try:
            return any(run_state.opened(line).entry.get("entry") == ENDED for line in lines[-1:])
        except run_state.Broken:
            return False

    @property
    def unfinished(self) -> str:
        """The newest run where it has not ended; empty where it has.

        One that was set aside does not count: before it there may be one that it hid.
        """
        newest = next((run for run in self.runs if run not in self._abandoned), "")
        return "" if not newest or self.ended(newest) else newest

    def objection(self, run: str, abandoning: str = "") -> Refused | None:
        """Why this run may not have the link, even if nobody holds it."""
        unfinished = self.unfinished
        if run == unfinished or (run not in self._runs and unfinished in ("", abandoning)):
            return None
        if run in self._runs and self.ended(run):
            return Refused(f"run {run} has ended: nothing to resume")
        if run in self._runs:
            newest = self.runs[0]
            hint = f"to resume that run: drctl resume {quote(newest)}" if unfinished else ""
            after = f": run {newest} is newer" if newest != run else ""
            return Refused(f"run {run} was abandoned{after}", hint)
        holder = self._holders.get(unfinished)
        who = f" ({holder})" if holder else ""
        return Refused(
            f"unfinished run {unfinished}{who}: resume or abandon it before a new run",
            f"resume it: drctl resume {quote(unfinished)}; or abandon it: add --abandon REASON",
        )

    def _note(self, record: JournalRecord) -> None:
        match record:
            case Part():
                self._piece(record)
            case Claim(token, holder):
                if token not in self._settled:
                    self.claims[token] = holder
            case Withdrawn(token):
                self._settled.add(token)
                self.claims.pop(token, None)
            case Taken(token, holder, abandons, mac):
                # Whoever claimed before and did not get it has given up, or is dead.
                self._settled |= {token, *self.claims}
                self.claims.clear()
                self.hold = record
                self._holders[holder.run] = holder
                if abandons and self._is_signed(replace(record, mac=""), mac):
                    self._abandoned.add(abandons)
                # What a fenced holder left of a line is nothing.
                self._parts.clear()
            case Beat(token, last) if last and self.hold and self.hold.token == token:
                self.hold = None

    def _is_signed(self, record: Taken, mac: str) -> bool:
        secret = self._secret
        return not secret or is_signed(secret, self._link, encode(record), mac)

    def _piece(self, part: Part) -> None:
        """Lines whose parts are not all there do not count."""
        held = self._parts.setdefault(part.run, [])
        if part.number == 0:
            held.clear()
        if part.number == len(held):
            held.append(part)
        if len(held) == part.parts:
            self._runs.setdefault(part.run, []).append(b"".join(each.data for each in held))
            self._macs.setdefault(part.run, []).append(part.mac)
            held.clear()


class Contest:
    """Sees every record after those of the log, committed or not.

    Args:
        token: of one's own claim; empty for somebody who only looks on.
        gone: whether it is certain that somebody's process has ended.

    Attributes:
        entered: whether one's own claim was seen, or the end of the log as it was at first: what
            comes from there on shows who is alive.
        hold: who has the link, as far as is known; he may be dead.
        alive: who showed that he is.
        holds: whether that one has the link, or only claims it.
    """

    def __init__(
        self, log: LinkLog, token: str = "", gone: Callable[[Holder], bool] = lambda _: False
    ) -> None:
        self._token = token
        self._gone = gone
        # Nothing comes of a run that has ended but its farewell.
        over = log.hold is not None and log.ended(log.hold.holder.run)
        self.hold = None if over else log.hold
        self._claims = dict(log.claims)
        self._settled: set[str] = set()
        self.entered = False
        self.alive: Holder | None = None
        self.holds = False

    @property
    def claims(self) -> bool:
        """Whether one wants the link oneself."""
        return bool(self._token)

    @property
    def disputed(self) -> bool:
        """Whether somebody may be there who comes first."""
        others = [*self._claims.values(), *([self.hold.holder] if self.hold else [])]
        return not all(map(self._gone, others))

    def see(self, record: JournalRecord) -> None:
        """Take notice of the next record."""
        match record:
            case Claim(token, holder):
                self._claimed(token, holder)
            case Withdrawn(token):
                self._settled.add(token)
                self._claims.pop(token, None)
            case Taken(token, holder):
                self.hold = record
                self._settled.add(token)
                self._claims.pop(token, None)
                self._lives(holder, holds=True)
            case Beat(token, last) if self.hold and self.hold.token == token:
                if last:
                    self.hold = None
                else:
                    self._lives(self.hold.holder, holds=True)
            case Part(run) if self.hold and self.hold.holder.run == run:
                self._lives(self.hold.holder, holds=True)

    def refusal(self, link: str) -> Refused | None:
        """Why one must not continue, if somebody is alive."""
        if self.alive is None:
            return None
        if self.holds:
            return held_by(link, self.alive)
        return Refused(
            f"run {self.alive.run} is acquiring link {link}: {self.alive}",
            "wait for that run to finish",
        )

    def _claimed(self, token: str, holder: Holder) -> None:
        if token == self._token:
            self.entered = True
        elif token in self._claims:
            self._lives(holder, holds=False)
        elif not self.entered and token not in self._settled:
            self._claims[token] = holder

    def _lives(self, holder: Holder, *, holds: bool) -> None:
        if self.entered:
            self.alive, self.holds = holder, holds


def held_by(link: str, holder: Holder) -> Refused:
    """Somebody else has the link."""
    return Refused(
        f"link {link} is held by run {holder.run}: {holder}",
        "wait for it to finish, or stop it there: a run whose process has exited can be resumed",
    )


_CONNECT_S = 1.0


class Signs(Closing):
    """Reads on from an offset; a context manager.

    Attributes:
        position: the offset up to which everything was handed out.
    """

    def __init__(self, connection: Connection, topic: str, log: LinkLog, position: int) -> None:
        # Does not wait for transactions: one that a dead process left open lasts half a minute.
        self._consumer = SimpleConsumer(connection.properties, uncommitted=True)
        self._partition = TopicPartition(topic, 0)
        self._where = f"topic {topic} of {connection.name}"
        self._log = log
        self.position = position

    def __enter__(self) -> Self:
        self._consumer.__enter__()
        self._consumer.connect(_CONNECT_S)
        self._consumer.start(self._partition, self.position)
        return self

    def close(self) -> None:
        """Read no more."""
        self._consumer.close()

    def poll(self, timeout_s: float) -> list[JournalRecord]:
        """What has come; waits for something where nothing has.

        Raises:
            ConfigError: the topic may not be read any more.
            AnotherVersion: a record is of a newer drctl.
            Unknown: records were deleted before they were read.
        """
        found = []
        for _, error, rows in self._consumer.poll_rows(timeout_s):
            if error:
                self._ended(error, rows[0][0])
                continue
            self.position = rows[-1][0] + 1
            records = (self._log.decoded(row[2], row[3]) for row in rows)
            found += [record for record in records if record is not None]
        return found

    def _ended(self, error: int, offset: int) -> None:
        if error == KafkaError._PARTITION_EOF:
            # The last offsets may hold no record but the end of a transaction.
            self.position = max(self.position, offset)
        elif error == KafkaError._AUTO_OFFSET_RESET:
            raise Unknown(f"{self._where} was recreated while drctl used it", JOURNAL.recreated)
        elif error == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise JOURNAL.unreadable(self._where)
