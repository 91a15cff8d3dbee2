"""What the committed records of one link say: its runs, and who holds it. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from drctl.engine import chain
from drctl.model.errors import Refused
from drctl.model.journal import ENDED, Holder
from drctl.model.pasting import quote
from drctl.systems.kafka.connection import LOGGER
from drctl.wire.journal_records import (
    AnotherVersion,
    Beat,
    Claim,
    JournalRecord,
    Part,
    Taken,
    Withdrawn,
    decode,
    encode,
)
from drctl.wire.journal_signature import is_signed
from drctl.wire.undecodable import Undecodable


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
        """Take keys and values; those of other links are passed over, and what drctl never wrote.

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
            LOGGER.warning("a record that drctl did not write is passed over: %s", wrong.reason)
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
        """Whether it is signed, and this machine has no key to sign what comes behind it."""
        return not self._secret and any(self._macs.get(run, ()))

    def set_aside(self, run: str) -> bool:
        """Whether somebody said that nobody goes on with it."""
        return run in self._abandoned

    def holder_of(self, run: str) -> Holder | None:
        """Who carried it out last."""
        return self._holders.get(run)

    def ended(self, run: str) -> bool:
        """Whether its last entry says so."""
        lines = self._runs.get(run, [])
        try:
            return any(chain.opened(line).entry.get("entry") == ENDED for line in lines[-1:])
        except chain.Broken:
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
            return Refused(f"run {run} has ended: there is nothing to go on with")
        if run in self._runs:
            newest = self.runs[0]
            hint = f"`drctl resume {quote(newest)}` goes on with that one" if unfinished else ""
            after = f": run {newest} came after it" if newest != run else ""
            return Refused(f"run {run} was left behind{after}", hint)
        holder = self._holders.get(unfinished)
        told = f" ({holder})" if holder else ""
        return Refused(
            f"run {unfinished} stopped part-way{told}: no other may begin before it is at its end",
            f"`drctl resume {quote(unfinished)}` goes on with it; with --abandon REASON it is left"
            " behind",
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
