"""What the committed records of one link say: its runs, and who holds it. Pure."""

from collections.abc import Iterable, Sequence

from drctl.engine import chain
from drctl.model.errors import Refused
from drctl.model.journal import ENDED, Holder
from drctl.wire.journal_records import (
    Beat,
    Claim,
    JournalRecord,
    Part,
    Taken,
    Withdrawn,
    decode,
)


class LinkLog:
    """Grows with each record that is taken, in the order of the log.

    Attributes:
        hold: the newest taking of the link by somebody who has not let go of it; he may be dead.
        claims: who wanted the link since it was last taken and has not given up, by token.
    """

    def __init__(self, link: str) -> None:
        self._key = link.encode()
        self._runs: dict[str, list[bytes]] = {}
        self._parts: dict[str, list[Part]] = {}
        self._holders: dict[str, Holder] = {}
        self._abandoned: set[str] = set()
        self._settled: set[str] = set()
        self.hold: Taken | None = None
        self.claims: dict[str, Holder] = {}

    def take(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Take keys and values; those of other links are passed over.

        Raises:
            Undecodable: a value is not of this drctl.
        """
        for key, value in records:
            if key == self._key:
                self._note(decode(value))

    @property
    def runs(self) -> tuple[str, ...]:
        """All that wrote something, the newest first."""
        return tuple(reversed(self._runs))

    def lines(self, run: str) -> Sequence[bytes]:
        """What a run wrote; nothing where it is not known."""
        return tuple(self._runs.get(run, ()))

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
        """The newest run where it has not ended and was not abandoned; empty where it has."""
        newest = next(iter(self.runs), "")
        return "" if not newest or newest in self._abandoned or self.ended(newest) else newest

    def objection(self, run: str, abandoning: str = "") -> Refused | None:
        """Why this run may not have the link, even if nobody holds it."""
        unfinished = self.unfinished
        if run == unfinished or (run not in self._runs and unfinished in ("", abandoning)):
            return None
        if run in self._runs and self.ended(run):
            return Refused(f"run {run} has ended: there is nothing to go on with")
        if run in self._runs:
            newest = self.runs[0]
            hint = f"`drctl resume {newest}` goes on with that one" if unfinished else ""
            after = f": run {newest} came after it" if newest != run else ""
            return Refused(f"run {run} was left behind{after}", hint)
        holder = self._holders.get(unfinished)
        told = f" ({holder})" if holder else ""
        return Refused(
            f"run {unfinished} stopped part-way{told}: no other may begin before it is at its end",
            f"`drctl resume {unfinished}` goes on with it; with --abandon REASON it is left behind",
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
            case Taken(token, holder, abandons):
                # Whoever claimed before and did not get it has given up, or is dead.
                self._settled |= {token, *self.claims}
                self.claims.clear()
                self.hold = record
                self._holders[holder.run] = holder
                self._abandoned.add(abandons)
                # What a fenced holder left of a line is nothing.
                self._parts.clear()
            case Beat(token, last) if last and self.hold and self.hold.token == token:
                self.hold = None

    def _piece(self, part: Part) -> None:
        """Lines whose parts are not all there do not count."""
        held = self._parts.setdefault(part.run, [])
        if part.number == 0:
            held.clear()
        if part.number == len(held):
            held.append(part)
        if len(held) == part.parts:
            self._runs.setdefault(part.run, []).append(b"".join(each.data for each in held))
            held.clear()
