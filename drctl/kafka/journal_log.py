"""The journal's records of one link: its runs, who holds the link, and who is alive.

`LinkLog` is built from committed records, `Contention` from all records after them, committed or
not. `LiveRecords` reads the records for `Contention`.
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
    """The runs and the holder of one link; records are added in the order of the log.

    Args:
        key: the key that signs lines and acquisitions; empty if this host has none.

    Attributes:
        hold: the last acquisition of the link if it was not released; the holder may be dead.
        claims: by token, the processes that have claimed the link since the last acquisition and
            have not withdrawn the claim.
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
        """Add keys and values; records of other links, or not written by drctl, are skipped.

        Raises:
            AnotherVersion: a newer version of drctl wrote a value.
        """
        for key, value in records:
            record = self.decoded(key, value)
            if record is not None:
                self._add(record)

    def decoded(self, key: bytes | None, value: bytes | None) -> JournalRecord | None:
        """A record of the link; None for any other.

        A record that drctl did not write is ignored: since nothing is ever deleted, it would block
        the link forever.

        Raises:
            AnotherVersion: a newer version of drctl wrote it.
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
        """All runs with entries, newest first."""
        return tuple(reversed(self._runs))

    def lines(self, run: str) -> Sequence[bytes]:
        """The lines of a run; empty if it is unknown."""
        return tuple(self._runs.get(run, ()))

    def unsigned(self, run: str) -> int:
        """The number of the run's first line without a valid signature; 0 if all are valid."""
        if not self._secret:
            return 0
        found = zip(self.lines(run), self._macs.get(run, ()), strict=True)
        for number, (line, mac) in enumerate(found, 1):
            if not is_signed(self._secret, self._link, line, mac):
                return number
        return 0

    def _is_damaged(self, run: str) -> bool:
        """Whether a run that was not abandoned cannot be read to its end."""
        lines = self.lines(run)
        read = run_state.read_prefix(lines, run_state.verify(run, lines).lines)[1]
        return run not in self._abandoned and (read < len(lines) or bool(self.unsigned(run)))

    def needs_key(self, run: str) -> bool:
        """Whether the run is signed, but this host has no key to sign further lines."""
        return not self._secret and any(self._macs.get(run, ()))

    def is_abandoned(self, run: str) -> bool:
        """Whether the run was abandoned."""
        return run in self._abandoned

    def holder_of(self, run: str) -> Holder | None:
        """The last holder of the run."""
        return self._holders.get(run)

    def ended(self, run: str) -> bool:
        """Whether the last entry of the run is the one that ends it."""
        lines = self._runs.get(run, [])
        try:
            return any(
                run_state.parse_line(line).entry.get("entry") == ENDED for line in lines[-1:]
            )
        except run_state.DamagedLine:
            return False

    @property
    def unfinished(self) -> str:
        """The newest run that was not abandoned, if it has not ended; else empty."""
        newest = next((run for run in self.runs if run not in self._abandoned), "")
        return "" if not newest or self.ended(newest) else newest

    def blocker(self, run: str, abandoning: str = "") -> Refused | None:
        """Why this run may not acquire the link, even if it is free."""
        unfinished = self.unfinished
        is_known = run in self._runs and not (run == abandoning and self._is_damaged(run))
        if run == unfinished or (not is_known and unfinished in ("", abandoning)):
            return None
        if is_known and self.ended(run):
            return Refused(f"run {run} has ended: nothing to resume")
        if is_known:
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

    def _add(self, record: JournalRecord) -> None:
        match record:
            case Part():
                self._add_part(record)
            case Claim(token, holder):
                if token not in self._settled:
                    self.claims[token] = holder
            case Withdrawn(token):
                self._settled.add(token)
                self.claims.pop(token, None)
            case Taken(token, holder, abandons, mac):
                # Earlier claimants have given up, or are dead.
                self._settled |= {token, *self.claims}
                self.claims.clear()
                self.hold = record
                self._holders[holder.run] = holder
                if abandons and self._is_signed(replace(record, mac=""), mac):
                    self._abandoned.add(abandons)
                # Incomplete lines of a fenced holder do not count.
                self._parts.clear()
            case Beat(token, last) if last and self.hold and self.hold.token == token:
                self.hold = None

    def _is_signed(self, record: Taken, mac: str) -> bool:
        secret = self._secret
        return not secret or is_signed(secret, self._link, encode(record), mac)

    def _add_part(self, part: Part) -> None:
        """Add the line once all of its parts have been read."""
        parts = self._parts.setdefault(part.run, [])
        if part.number == 0:
            parts.clear()
        if part.number == len(parts):
            parts.append(part)
        if len(parts) == part.parts:
            self._runs.setdefault(part.run, []).append(b"".join(each.data for each in parts))
            self._macs.setdefault(part.run, []).append(part.mac)
            parts.clear()


class Contention:
    """Finds out who else is alive, from every record after those of the log.

    Args:
        token: of this process's claim; empty if this process only reads.
        ended: whether a holder's process has certainly exited.

    Attributes:
        live: whether this process's claim, or the initial end of the log, was reached: later
            records prove that their writer is alive.
        hold: the last known acquisition that was not released; its holder may be dead.
        alive: a holder or claimant that is alive.
        holds: whether the process in `alive` holds the link rather than claims it.
    """

    def __init__(
        self, log: LinkLog, token: str = "", ended: Callable[[Holder], bool] = lambda _: False
    ) -> None:
        self._token = token
        self._ended = ended
        # A run that has ended only has to release the link.
        over = log.hold is not None and log.ended(log.hold.holder.run)
        self.hold = None if over else log.hold
        self._claims = dict(log.claims)
        self._settled: set[str] = set()
        self.live = False
        self.alive: Holder | None = None
        self.holds = False

    @property
    def claims(self) -> bool:
        """Whether this process claims the link."""
        return bool(self._token)

    @property
    def contested(self) -> bool:
        """Whether another holder or claimant may be alive."""
        others = [*self._claims.values(), *([self.hold.holder] if self.hold else [])]
        return not all(map(self._ended, others))

    def observe(self, record: JournalRecord) -> None:
        """Process the next record."""
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
                self._show_alive(holder, holds=True)
            case Beat(token, last) if self.hold and self.hold.token == token:
                if last:
                    self.hold = None
                else:
                    self._show_alive(self.hold.holder, holds=True)
            case Part(run) if self.hold and self.hold.holder.run == run:
                self._show_alive(self.hold.holder, holds=True)

    def refusal(self, link: str) -> Refused | None:
        """Why this process must not acquire the link; None if no one else is alive."""
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
            self.live = True
        elif token in self._claims:
            self._show_alive(holder, holds=False)
        elif not self.live and token not in self._settled:
            self._claims[token] = holder

    def _show_alive(self, holder: Holder, *, holds: bool) -> None:
        if self.live:
            self.alive, self.holds = holder, holds


def held_by(link: str, holder: Holder) -> Refused:
    """The refusal because another run holds the link."""
    return Refused(
        f"link {link} is held by run {holder.run}: {holder}",
        "wait for it to finish, or stop its process on that host: the run can then be resumed",
    )


_CONNECT_S = 1.0


class LiveRecords(Closing):
    """Reads the journal from an offset, including uncommitted records; a context manager.

    Attributes:
        position: the offset up to which all records were returned.
    """

    def __init__(self, connection: Connection, topic: str, log: LinkLog, position: int) -> None:
        # Does not wait for transactions: a dead process may leave one open for half a minute.
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
        """Stop reading."""
        self._consumer.close()

    def poll(self, timeout_s: float) -> list[JournalRecord]:
        """The next records; waits if there are none.

        Raises:
            ConfigError: this user may no longer read the topic.
            AnotherVersion: a newer version of drctl wrote a record.
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
            # The last offsets may contain only transaction markers.
            self.position = max(self.position, offset)
        elif error == KafkaError._AUTO_OFFSET_RESET:
            raise Unknown(f"{self._where} was recreated while drctl used it", JOURNAL.recreated)
        elif error == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise JOURNAL.unreadable(self._where)
